"""Robots: whose rows a recording has, and under which identity they are written."""

from __future__ import annotations

from dataclasses import dataclass

from lucky_recorder.episode.schema import entity_id


@dataclass(frozen=True)
class Driven:
    """An actuated joint and the lowest actuator that drives it."""

    joint: int
    actuator: int


@dataclass(frozen=True)
class Robot:
    """A robot: a whole model, or a subtree of one.

    Attributes:
        name: Its name.
        actuators: Ids of its actuators, in the model's order.
        driven: Its actuated joints, in the model's order.
    """

    name: str
    actuators: tuple[int, ...]
    driven: tuple[Driven, ...]

    @property
    def entity_id(self) -> int:
        """A 64-bit hash of the name, the same on every machine, stored signed."""
        return entity_id(self.name)
