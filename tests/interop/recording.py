"""Sessions that other people's readers are given, made by the recorder from real environments."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

import lucky_recorder as lr

BITS = 16
BLOCK = 8
PENDULUM = """
<mujoco>
  <option timestep="0.003"/>
  <worldbody>
    <light pos="0 0 3"/>
    <camera name="side" pos="0 -2 0" xyaxes="1 0 0 0 0 1"/>
    <body><joint name="hinge" axis="0 1 0"/><geom type="capsule" size=".1" fromto="0 0 0 0 0 .7" rgba="1 .2 .1 1"/>
      <body pos="0 0 .7"><joint name="tip" axis="0 1 0"/><geom type="box" size=".2 .1 .1" rgba=".1 .3 1 1"/></body>
    </body>
  </worldbody>
  <actuator><motor name="hinge" joint="hinge"/><motor name="tip" joint="tip"/></actuator>
</mujoco>
"""


class NumberedPendulum(gym.Env[Any, Any]):
    """A double pendulum at 200/3 Hz whose ``render()`` draws the number of the step, so that any frame names itself."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    render_mode = "rgb_array"
    action_space = Box(-1, 1, (2,), np.float64)
    observation_space = Box(-np.inf, np.inf, (2,), np.float64)
    dt = 0.015

    def __init__(self) -> None:
        self.model = mujoco.MjModel.from_xml_string(PENDULUM)
        self.data = mujoco.MjData(self.model)
        self.number = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = self.np_random.uniform(-2, 2, 2)
        mujoco.mj_forward(self.model, self.data)
        return self.data.qpos.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, 5)
        self.number += 1
        return self.data.qpos.copy(), 0.0, False, False, {"is_success": bool(self.data.qpos[0] > 0)}

    def render(self) -> NDArray[np.uint8]:  # type: ignore[override]
        return picture_of(self.number)


def picture_of(number: int) -> NDArray[np.uint8]:
    """Draw a number as a row of black and white blocks, ``(BLOCK * 2, BITS * BLOCK, 3)`` uint8."""
    bits = (number >> np.arange(BITS)) & 1
    return np.tile(np.repeat(bits.astype(np.uint8) * 255, BLOCK)[None, :, None], (2 * BLOCK, 1, 3))


def number_on(picture: NDArray[np.uint8]) -> int:
    """Read the number that `picture_of` has drawn."""
    bits = picture[BLOCK, BLOCK // 2 :: BLOCK, 1] > 127
    return int((bits << np.arange(BITS)).sum())


def record_cubes(output_dir: Path, *, killed: bool = False) -> Path:
    """A default session: an arm, two small cameras, 32 short episodes in three files of metadata, every fourth failed.

    ``killed``: the process does not live to write the second one.
    """
    env = lr.RecordSession(
        gym.make("LuckyRecorder/PickCube-v0"),
        output_dir=output_dir,
        cameras=[lr.Camera("front", width=96, height=72), lr.Camera("wrist", width=64, height=48)],
        tasks=["Pick up the cube", "Put it down"],
    )
    policy = env.unwrapped.expert()
    for episode in range(32):
        obs, _ = env.reset(seed=episode)
        for step in range(6 + episode % 3):
            # Every fifth episode changes its task on the way.
            env.set_task((episode + (episode % 5 == 0 and step > 2)) % 2)
            obs, *_ = env.step(policy(obs))
        env.end_episode(success=episode % 4 != 3)
    if killed:
        env.observer.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    env.close()
    return env.session_path


def record_pendulum(output_dir: Path) -> Path:
    """A session at 200/3 Hz with columns of the user's own, and a camera whose frames name themselves."""
    env = lr.RecordSession(
        NumberedPendulum(),
        output_dir=output_dir,
        episodes_per_file=3,
        columns=[
            lr.Column("speed", lambda moment: moment.data.qvel, "float32", (2,), names=("hinge", "tip")),
            lr.Column("upright", lambda moment: moment.data.qpos[0] > 0, "bool"),
            lr.Column("said", lambda moment: f"frame {moment.env.unwrapped.number}", "str"),
            lr.Column("grid", lambda moment: np.arange(6).reshape(2, 3) + moment.env.unwrapped.number, "int32", (2, 3)),
        ],
        cameras=[
            lr.Camera("number", source="render", width=BITS * BLOCK, height=2 * BLOCK),
            lr.Camera("side", width=64, height=64),
        ],
        tasks=["Swing"],
    )
    for episode in range(31):
        env.reset(seed=episode)
        for _ in range(40 if episode == 0 else 5 + episode % 4):
            env.step(env.np_random.uniform(-1, 1, 2))
    env.close()
    return env.session_path


if __name__ == "__main__":
    record_cubes(Path(sys.argv[1]), killed=True)
