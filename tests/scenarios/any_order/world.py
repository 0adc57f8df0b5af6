"""A simulation that shows numbers, and goes wrong where it is told to."""

from __future__ import annotations

from typing import NamedTuple

import mujoco

from lucky_recorder.testing import CountEnv

ROUND = 30


class Seen(NamedTuple):
    """What shows how a simulation was stepped: MuJoCo sets all of it back to 0 where it resets the data.

    Attributes:
        time: Its time, seconds.
        steps: Physics steps since it was reset.
        resets: How often MuJoCo has reset it since somebody else did, or 1 where it has done so twice.
    """

    time: float
    steps: int
    resets: int


class World(CountEnv):
    """A bare model that shows a number which never comes again: as its joint's position, and as a colour."""

    def __init__(self) -> None:
        super().__init__(None, mujoco=True)
        self.show(0)

    def show(self, number: int) -> None:
        """Show a number."""
        self.episode, self.t = divmod(number, ROUND)
        self._show()

    @property
    def number(self) -> int:
        """The number that it shows."""
        return ROUND * self.episode + self.t

    def move(self) -> None:
        """Step the physics on by a tick."""
        mujoco.mj_step(self.model, self.data, 10)
        self.show(self.number + 1)

    def restart(self) -> None:
        """Set time back to 0."""
        mujoco.mj_resetData(self.model, self.data)
        self.show(self.number + 1)

    @property
    def seen(self) -> Seen:
        """What can be seen of it."""
        counts, bad = self.data.timer.number, self.data.warning.number
        step, bad_velocity = int(mujoco.mjtTimer.mjTIMER_STEP), int(mujoco.mjtWarning.mjWARN_BADQVEL)
        return Seen(self.data.time, int(counts[step]), int(bad[bad_velocity]))

    def nudge(self) -> None:
        """Step the physics on by less than a tick."""
        mujoco.mj_step(self.model, self.data)
        self.show(self.number)

    def explode(self) -> None:
        """Have MuJoCo find a bad state, and reset itself."""
        self.data.qvel[0] = 1e30
        mujoco.mj_step(self.model, self.data, 9)
        self.show(self.number + 1)
