"""The moment: what a column's callable is given to look at, at one tick."""

from __future__ import annotations

from typing import Any


class Moment:
    """The simulation at one tick. One object, refilled at every tick: read it, do not keep it.

    Attributes:
        model: The MuJoCo model, or None where there is none.
        data: A private `MjData` in the state of this tick, with all that follows from it computed; None without MuJoCo.
        env: The unwrapped environment, or None.
        robot: Name of the robot whose row is asked for.
        obs: The observation that the action is chosen on. When a callable is asked for a verdict, ``obs`` and ``data``
            are those after the step; where the environment has reset itself inside of it, they are gone, and asking for
            one is an error, unless its info gives the last observation.
        action: What is given to ``env.step`` at this tick; None on a bare model.
        reward: What the step returned.
        terminated: Whether the environment ended the episode.
        done: ``terminated or truncated``.
        success: Whether the step's info says success.
        said: What the step's info says of success, by its key, as it was given; None if nothing.
        info: The step's info.
    """

    __slots__ = (
        "action",
        "data",
        "done",
        "env",
        "info",
        "model",
        "obs",
        "reward",
        "robot",
        "said",
        "success",
        "terminated",
    )

    def __init__(self, model: Any = None, data: Any = None, env: Any = None) -> None:
        self.model = model
        self.data = data
        self.env = env
        self.robot = ""
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
        self.said: tuple[str, Any] | None = None
        self.info: dict[str, Any] = {}
