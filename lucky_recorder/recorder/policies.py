"""Whose policy has run at a tick, robot by robot: what the flag ``new_policy_step`` of its rows says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lucky_recorder.errors import SettingsError

Ran = bool | frozenset[int]
"""Everybody's policy (True), nobody's (False), or those of some robots, by their index."""


def ran_of(said: bool | Mapping[str, bool], robots: Sequence[str]) -> Ran:
    """Return whose policy has run, as somebody has said it for all robots or by the names of some.

    Args:
        said: A truth value for all robots; or a mapping from a robot's name to whether its policy has run, in which a
            robot that is not named has held its last action.
        robots: The names of the recorded robots.

    Raises:
        SettingsError: If it is neither, or a robot is unknown.
    """
    if said is True or said is False:
        return said
    if not isinstance(said, Mapping):
        return _truth("new_policy_step", said)
    ran = {index_of(name, robots): _truth(f"new_policy_step[{name!r}]", value) for name, value in said.items()}
    return frozenset(robot for robot, has_run in ran.items() if has_run)


def without(ran: Ran, robot: str | None, robots: Sequence[str]) -> Ran:
    """Return whose policy has run if one robot, or with None every robot, holds its last action.

    Raises:
        SettingsError: If there is no such robot.
    """
    if robot is None:
        return False
    everybody = frozenset(range(len(robots))) if ran is True else frozenset(ran or ())
    return everybody - {index_of(robot, robots)}


def index_of(robot: str, robots: Sequence[str]) -> int:
    """Return a robot's index.

    Raises:
        SettingsError: If there is no such robot; names those there are.
    """
    if robot not in robots:
        raise SettingsError.of("robot", robot, f"is not recorded; known: {', '.join(robots) or 'none yet'}")
    return robots.index(robot)


def _truth(field: str, value: object) -> bool:
    # A string or a list would be true as well, and flag every robot without a word.
    if not isinstance(value, bool | int | np.bool_) or value not in (0, 1):
        raise SettingsError.of(field, value, "give True or False, or a mapping of robots' names to True or False")
    return bool(value)
