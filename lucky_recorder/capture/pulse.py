"""The pulse of a simulation: its time and the physics steps it has counted, which tell a reset from a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

# Times that differ by less are the same: a physics step is never that short.
_INSTANT = 1e-9


class Beat(NamedTuple):
    """A simulation at one moment.

    Attributes:
        time: Its own time, seconds.
        steps: Physics steps since it was made or reset.
    """

    time: float
    steps: int


class Pulse(NamedTuple):
    """Where a simulation's time and its count of steps are read.

    Attributes:
        data: An object whose ``time`` is the simulation's.
        steps: Returns the physics steps since it was made or reset.
    """

    data: Any
    steps: Callable[[], int]

    def beat(self) -> Beat:
        """Return how it stands now."""
        return Beat(self.data.time, self.steps())


def is_reset(before: Beat, after: Beat, period: float | None, is_done: bool, is_first: bool) -> bool:
    """Tell whether a simulation was reset inside a step, by how it stood before the step and after it.

    Args:
        before: How it stood before.
        after: How it stands now.
        period: How long a step lasts, seconds; None while that is unknown, 0 where steps take no time.
        is_done: Whether the environment says that the step ended its episode.
        is_first: Whether the step is the first of its episode.
    """
    lasted = after.time - before.time
    if lasted < -_INSTANT:
        return True
    is_even = period is not None and abs(lasted - period) <= max(_INSTANT, 1e-5 * period)
    if after.steps < before.steps:
        # Somebody may set the count back by hand, to measure time. So where the time is right, more is asked.
        return is_done or not is_even
    # The first step of an episode, reset inside, leads from one beginning to another: no time seems to pass.
    return is_done and is_first and period != 0 and lasted <= _INSTANT
