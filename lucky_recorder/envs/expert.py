"""The scripted policy of the sample environments: approach, descend, close, lift."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.envs.arms import Arm, Floats, pointing_down, reach
from lucky_recorder.errors import SettingsError

OPEN, CLOSED = 0.75, 0.1
"""Gripper commands in radians: fingers wide apart, fingers pressing on the cube."""

# Metres.
_HOVER = 0.05
_LIFT = 0.1
_GRASP_ABOVE_CENTRE = 0.003
_MISS = 0.045
_APPROACH_RADIANS_PER_TICK = 0.05


class Phase(NamedTuple):
    """One leg of the plan: how many ticks it takes and the six joint targets it ends at."""

    ticks: int
    target: Floats


class Lifting(Protocol):
    """What the policy reads of an environment."""

    @property
    def model(self) -> mujoco.MjModel:
        """The model."""

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms, each with its cube."""

    @property
    def tick(self) -> int:
        """Control steps since the episode began."""


class LiftingExpert:
    """Lifts every cube of an environment, except in the episodes in which it is told to miss.

    At the first call of an episode it plans the whole motion from the observation; after that it plays the plan
    back by the simulation's clock. It notices a new episode by itself, because time is back at zero. Inverse
    kinematics runs on a private ``MjData``; the environment's own is only read.

    What it does is a function of the observations, the seed and nothing else. A pickled copy carries a copy of
    its environment along.
    """

    def __init__(self, env: Lifting, fail: float = 0.0, seed: int | None = None) -> None:
        """Bind the policy to an environment.

        Args:
            env: The unwrapped environment whose clock and model it reads.
            fail: Probability, per episode, that it grasps beside the cube.
            seed: Keys which episodes fail, together with where the cubes lie; None counts as 0.

        Raises:
            SettingsError: ``fail`` is not a probability, or ``seed`` is negative.
        """
        if not 0.0 <= fail <= 1.0:
            raise SettingsError.of("fail", fail, "give a probability from 0 to 1")
        if seed is not None and seed < 0:
            raise SettingsError.of("seed", seed, "give an integer of 0 or more")
        self._env = env
        self._fail = fail
        self._seed = seed or 0
        self._scratch = mujoco.MjData(env.model)
        self._plan: Floats | None = None
        self._first_tick = 0
        self._last_tick = 0

    def reset(self) -> None:
        """Forget the plan: the next call makes a new one from what it observes."""
        self._plan = None

    def __call__(self, obs: Floats) -> NDArray[np.float32]:
        """Give the action for an observation: joint targets in radians, (nu,), float32."""
        tick = self._env.tick
        if self._plan is None or tick == 0 or tick < self._last_tick:
            self._plan = self._plan_motion(obs)
            self._first_tick = tick
        self._last_tick = tick
        row = min(tick - self._first_tick, len(self._plan) - 1)
        action: NDArray[np.float32] = self._plan[row].astype(np.float32)
        return action

    def _plan_motion(self, obs: Floats) -> Floats:
        """The commands of every tick to come, (ticks, nu); the last one is held for ever."""
        model, arms = self._env.model, self._env.arms
        qpos = np.asarray(obs[: model.nq], dtype=np.float64)
        motions = [self._plan_arm(arm, qpos, self._misses(qpos)) for arm in arms]
        ticks = max(len(motion) for motion in motions)
        plan = np.empty((ticks, model.nu))
        for arm, motion in zip(arms, motions, strict=True):
            plan[:, arm.ctrl] = np.pad(motion, ((0, ticks - len(motion)), (0, 0)), mode="edge")
        return plan

    def _misses(self, qpos: Floats) -> bool:
        # Keyed by where the cubes lie and not by a count of episodes: in another order, or spread over several
        # processes, the same episodes miss.
        cubes = np.concatenate([qpos[arm.cube_qpos] for arm in self._env.arms])
        rng = np.random.default_rng([self._seed, *cubes.view(np.uint32).tolist()])
        return bool(rng.random() < self._fail)

    def _plan_arm(self, arm: Arm, qpos: Floats, miss: bool) -> Floats:
        position, closing = grasp_pose(arm, qpos)
        rotation = pointing_down(closing)
        if miss:
            position = position + _beside(arm, position, rotation)
        self._scratch.qpos[:] = qpos
        hover, grasp, lifted = (
            reach(self._env.model, self._scratch, arm, position + np.array([0.0, 0.0, height]), rotation)
            for height in (_HOVER, 0.0, _LIFT)
        )
        home = qpos[arm.qpos]
        phases = (
            Phase(_approach_ticks(home[:5], hover), np.append(hover, OPEN)),
            Phase(14, np.append(grasp, OPEN)),
            Phase(8, np.append(grasp, CLOSED)),
            Phase(18, np.append(lifted, CLOSED)),
        )
        return smooth_path(home, phases)


def grasp_pose(arm: Arm, qpos: Floats) -> tuple[Floats, float]:
    """Say where to grasp a cube: the position (3,), and the closing direction nearest to a straight wrist."""
    x, y, z, w, i, j, k = qpos[arm.cube_qpos]
    yaw = np.arctan2(2 * (w * k + i * j), 1 - 2 * (j * j + k * k))
    straight = np.arctan2(y - arm.base[1], x - arm.base[0]) + np.pi / 2
    # A cube looks the same after every quarter of a turn.
    quarter = np.pi / 2
    closing = straight + (yaw - straight + quarter / 2) % quarter - quarter / 2
    return np.array([x, y, z + _GRASP_ABOVE_CENTRE]), float(closing)


def _approach_ticks(here: Floats, there: Floats) -> int:
    """How many ticks the joint that has farthest to go needs at the approach's speed."""
    return max(1, int(np.ceil(np.abs(there - here).max() / _APPROACH_RADIANS_PER_TICK)))


def _beside(arm: Arm, position: Floats, rotation: Floats) -> Floats:
    """An offset past the cube's open side, towards the middle of the arm's reach."""
    outwards = rotation[:, 2]
    far = np.hypot(*(position - arm.base)[:2]) > 0.2
    return -_MISS * outwards if far else _MISS * outwards


def smooth_path(start: Floats, phases: tuple[Phase, ...]) -> Floats:
    """Join joint targets with minimum-jerk legs.

    Args:
        start: The joints at the first tick, (6,), radians.
        phases: The legs, in order.

    Returns:
        One row of joint targets per tick, (sum of ticks, 6).
    """
    legs = []
    for ticks, target in phases:
        s = np.arange(1, ticks + 1)[:, None] / ticks
        legs.append(start + (target - start) * s**3 * (10 - 15 * s + 6 * s**2))
        start = target
    return np.concatenate(legs)
