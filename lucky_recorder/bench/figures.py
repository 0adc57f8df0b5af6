"""Figures: what was measured, in which unit, against which goal; and runs in turns, which compare two things fairly."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Figure(NamedTuple):
    """One thing that was measured.

    Attributes:
        name: What, in a few words.
        value: How much; None where it could not be measured.
        unit: Of what, such as ``us``; empty for a ratio.
        goal: What is aimed at, None where nothing is.
        at_least: Whether the goal is the least; else it is the most.
        note: What else is to be known, or why nothing was measured.
    """

    name: str
    value: float | None
    unit: str = ""
    goal: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def verdict(self) -> str:
        """Whether the goal is reached: ``met``, ``missed``; empty without a goal, ``not measured`` without a value."""
        if self.value is None:
            return "not measured"
        if self.goal is None:
            return ""
        is_met = self.value >= self.goal if self.at_least else self.value <= self.goal
        return "met" if is_met else "missed"


def in_turns(first: Callable[[], float], second: Callable[[], float], pairs: int) -> list[tuple[float, float]]:
    """Run two jobs in turns, A B, B A, A B and so on, after one run of each that is not counted.

    Whatever slows the machine down for a while slows both.

    Args:
        first: Does one job and returns its cost.
        second: Does the other.
        pairs: How often both are done.

    Returns:
        The two costs of each pair.
    """
    first(), second()
    costs = []
    for pair in range(pairs):
        if pair % 2:
            b = second()
            costs.append((first(), b))
        else:
            a = first()
            costs.append((a, second()))
    return costs


def ratio(costs: list[tuple[float, float]]) -> float:
    """Return the second costs' sum over that of the first."""
    return sum(b for _, b in costs) / sum(a for a, _ in costs)
