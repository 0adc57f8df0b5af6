"""The moment: what a column's callable is given to look at, at one tick."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from lucky_recorder.errors import CaptureError

_OF_THE_STEP = ("action", "reward", "terminated", "done", "success", "info")


class Moment:
    """The simulation at one tick. One object, refilled at every tick: read it, do not keep it.

    A column that is asked before the step is given only what is known then: ``model``, ``data``, ``env``, ``robot`` and
    ``obs``. One that is asked after it (``when="after"``), and a callable that is asked for a verdict, are given all.

    Attributes:
        model: The MuJoCo model, or None where there is none.
        data: A private `MjData` with all that follows from its state computed: the state of this tick, or after the
            step the one that the step has led to. None without MuJoCo.
        env: The unwrapped environment, or None.
        robot: Name of the robot whose row is asked for.
        obs: The observation that the action is chosen on; after the step the one that it has led to. Where the
            environment has reset itself inside of the step that ended its episode, ``obs`` and ``data`` are gone, and a
            verdict that asks for one is an error, unless the info gives the last observation.
        action: What is given to ``env.step`` at this tick; None on a bare model.
        reward: What the step returned.
        terminated: Whether the environment ended the episode.
        done: ``terminated or truncated``.
        success: Whether the step's info says success.
        said: What the step's info says of success, before anybody asks whether that is a truth value.
        info: The step's info.
        task: What was said last of the task, where the setting ``task`` asks for it; None where nothing was.
        last_info: The info of the last reset or step, where a callable is asked for the task: its ``info``.
    """

    __slots__ = (
        "action",
        "data",
        "done",
        "env",
        "info",
        "last_info",
        "model",
        "obs",
        "reward",
        "robot",
        "said",
        "success",
        "task",
        "terminated",
    )

    def __init__(self, model: Any = None, data: Any = None, env: Any = None) -> None:
        self.model = model
        self.data = data
        self.env = env
        self.robot = ""
        self.task: Any = None
        self.last_info: Mapping[Any, Any] = {}
        self.clear()

    def clear(self) -> None:
        """Forget what the steps of the last episode said."""
        self.obs: Any = None
        self.action: Any = None
        self.clear_step()

    def clear_step(self) -> None:
        """Forget what the last step said."""
        self.reward: Any = 0.0
        self.terminated = False
        self.done = False
        self.success = False
        self.said: Any = None
        self.info: dict[str, Any] = {}


def entry_of(info: Mapping[str, Any], key: str) -> Any:
    """Return an entry of a step's info; None where there is none.

    Args:
        info: The info.
        key: Its key, or the keys of dicts within it, with dots between them. An entry of the very key comes first.
    """
    if key in info:
        return info[key]
    outer = key
    while "." in outer:
        outer = outer[: outer.rindex(".")]
        inner = info.get(outer)
        if isinstance(inner, Mapping):
            found = entry_of(inner, key[len(outer) + 1 :])
            if found is not None:
                return found
    return None


class MomentBefore:
    """A `Moment` as it is before the step: what only the step knows is an error there, and not what the last step said.

    Args:
        asked: What is asked for, for the error, such as ``column 'height'``.
        remedy: What the error tells to do.
        has_info: Whether ``info`` may be asked for all the same: it is that of the last reset or step then.
    """

    __slots__ = ("_asked", "_has_info", "_moment", "_remedy")

    def __init__(self, asked: str, remedy: str, has_info: bool = False) -> None:
        self._asked, self._remedy, self._has_info = asked, remedy, has_info
        self._moment: Moment

    def of(self, moment: Moment) -> MomentBefore:
        """Show a moment from here on; returns itself: to make another at every tick would take longer."""
        self._moment = moment
        return self

    # Without a function of Python's own in between: a column asks at every tick.
    model = property(operator.attrgetter("_moment.model"))
    data = property(operator.attrgetter("_moment.data"))
    env = property(operator.attrgetter("_moment.env"))
    robot = property(operator.attrgetter("_moment.robot"))
    obs = property(operator.attrgetter("_moment.obs"))

    def __getattr__(self, name: str) -> Any:
        # Called only for what is not here.
        if name == "info" and self._has_info:
            return self._moment.last_info
        if name in _OF_THE_STEP:
            raise CaptureError(
                f"{self._asked}: moment.{name} is known after the step, and this is asked before it; {self._remedy}"
            )
        raise AttributeError(f"a moment has no {name!r}")
