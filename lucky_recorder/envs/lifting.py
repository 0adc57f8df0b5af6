"""What the sample environments share: desktop arms, each with a loose cube to lift."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from gymnasium.envs.mujoco import MujocoEnv
from gymnasium.spaces import Box
from numpy.typing import NDArray

from lucky_recorder.envs.arms import Arm, Floats, arm_named, is_held
from lucky_recorder.envs.expert import LiftingExpert
from lucky_recorder.envs.scenes import scene_path

SUBSTEPS = 10
"""Physics steps of 2 ms per control step: 50 Hz."""

LIFT_HEIGHT = 0.05
"""How far above where it lay a held cube counts as lifted, in metres."""

HOLD_TICKS = 5
"""For how many ticks in a row every cube must stay lifted for the episode to terminate."""


class LiftingEnv(MujocoEnv):
    """Arms that each lift a cube, at 50 Hz.

    Action: ``Box(nu,)``, float32: the position target of every actuator in radians, in the model's order.
    Observation: ``Box(nq + nv,)``, float64: ``qpos`` then ``qvel`` (radians and metres, and per second; a cube
    is x, y, z and a quaternion, w first).
    Info: ``is_success``, a bool: every cube is held by both fingers, ``LIFT_HEIGHT`` above where it lay.
    The episode terminates once that has held for ``HOLD_TICKS`` ticks.
    Reward: the mean over the arms of nearness (0..1), grasp (0 or 1) and height of a held cube (0..1).
    """

    metadata: dict[str, Any] = {  # noqa: RUF012, gymnasium declares it so
        "render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"],
        "render_fps": 50,
    }

    def __init__(
        self,
        scene: str,
        prefixes: tuple[str, ...],
        cube_azimuth: float,
        render_mode: str | None = None,
        width: int = 640,
        height: int = 480,
        camera_name: str = "front",
    ) -> None:
        """Load a scene.

        Args:
            scene: Name of the packaged scene.
            prefixes: What the names of each arm begin with.
            cube_azimuth: How far to either side of straight ahead a cube may lie, in radians.
            render_mode: As in ``gymnasium.make``.
            width: Width of rendered pictures in pixels.
            height: Height of rendered pictures in pixels.
            camera_name: The camera that ``render()`` looks through.
        """
        super().__init__(
            str(scene_path(scene)),
            SUBSTEPS,
            # Set below: its size is the model's, which this call loads.
            observation_space=None,
            render_mode=render_mode,
            width=width,
            height=height,
            camera_name=camera_name,
        )
        numbers = self.model.nq + self.model.nv
        self.observation_space = Box(-np.inf, np.inf, (numbers,), np.float64)
        self.arms: tuple[Arm, ...] = tuple(arm_named(self.model, prefix) for prefix in prefixes)
        self._cube_azimuth = cube_azimuth
        self._rest_heights = np.zeros(len(self.arms))
        self._ticks_lifted = 0

    @property
    def tick(self) -> int:
        """Control steps since the episode began."""
        return round(float(self.data.time) / float(self.dt))

    def expert(self, fail: float = 0.0, seed: int | None = None) -> LiftingExpert:
        """Make a scripted policy, ``policy(obs) -> action``, that lifts the cubes.

        Args:
            fail: Probability, per episode, that it deliberately misses.
            seed: Keys which episodes it misses; None counts as 0.

        Raises:
            SettingsError: ``fail`` is not a probability, or ``seed`` is negative.
        """
        return LiftingExpert(self, fail, seed)

    def step(self, action: NDArray[np.float32]) -> tuple[Floats, float, bool, bool, dict[str, Any]]:  # type: ignore[override]
        """Hold the position targets for one control step."""
        self.do_simulation(action, self.frame_skip)
        held = np.array([is_held(self.data, arm) for arm in self.arms])
        rise = self._cube_heights() - self._rest_heights
        success = bool((held & (rise >= LIFT_HEIGHT)).all())
        self._ticks_lifted = self._ticks_lifted + 1 if success else 0
        reward = float(np.mean(self._nearness() + held * (1 + np.clip(rise / LIFT_HEIGHT, 0, 1))))
        return self.state_vector(), reward, self._ticks_lifted >= HOLD_TICKS, False, {"is_success": success}

    def reset_model(self) -> Floats:
        """Put the arms at home, and each cube at a random place and angle within its arm's reach."""
        home = self.model.key("home")
        qpos = home.qpos.copy()
        for arm in self.arms:
            self._place_cube(qpos, arm)
        self.data.qpos[:] = qpos
        self.data.qvel[:] = 0
        self.data.ctrl[:] = home.ctrl
        mujoco.mj_forward(self.model, self.data)
        self._rest_heights = self._cube_heights()
        self._ticks_lifted = 0
        return self.state_vector()

    def _get_reset_info(self) -> dict[str, Any]:
        return {"is_success": False}

    def _place_cube(self, qpos: Floats, arm: Arm) -> None:
        distance = self.np_random.uniform(0.16, 0.24)
        azimuth = self.np_random.uniform(-self._cube_azimuth, self._cube_azimuth)
        half_yaw = self.np_random.uniform(-np.pi, np.pi) / 2
        cube = qpos[arm.cube_qpos]
        cube[:2] = arm.base[:2] + distance * np.array([np.cos(azimuth), np.sin(azimuth)])
        cube[3:] = np.cos(half_yaw), 0.0, 0.0, np.sin(half_yaw)

    def _cube_heights(self) -> Floats:
        return np.array([self.data.qpos[arm.cube_qpos][2] for arm in self.arms])

    def _nearness(self) -> Floats:
        """How near each grasp site is to its cube: 1 there, 0 far away."""
        grasps = self.data.site_xpos[[arm.grasp for arm in self.arms]]
        cubes = self.data.geom_xpos[[arm.cube for arm in self.arms]]
        distance: Floats = np.linalg.norm(grasps - cubes, axis=1)
        return 1 - np.tanh(8 * distance)
