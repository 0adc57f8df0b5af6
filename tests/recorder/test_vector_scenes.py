"""Lanes of a sample scene with every kind of stream: each gives what its environment gives when it is alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import lucky_recorder as lr
from lucky_recorder.testing import check_session
from tests.recorder.lanes import custom, vector

SEEDS = (7, 8, 9)
STEPS = 4


XML = """
<mujoco>
  <option timestep="0.02"/>
  <visual><quality shadowsize="0" offsamples="0"/></visual>
  <worldbody>
    <light pos="0 0 3"/>
    <camera name="front" pos="0 -2 1" xyaxes="1 0 0 0 .5 1"/>
    <site name="scan" pos="0 -1 .3"/>
    <geom type="plane" size="3 3 .1" rgba=".4 .5 .4 1"/>
    <body name="cube" pos="0 0 .3">
      <joint name="x" type="slide" axis="1 0 0"/><joint name="turn" type="hinge" axis="0 0 1"/>
      <geom type="box" size=".2 .2 .2" rgba=".8 .2 .2 1"/>
    </body>
  </worldbody>
  <actuator><motor joint="x" gear="5"/><motor joint="turn" gear="2"/></actuator>
</mujoco>
"""


class Turning(gym.Env[Any, Any]):
    """A cube that is turned and pushed; a seed says how it begins."""

    def __init__(self) -> None:
        self.model = mujoco.MjModel.from_xml_string(XML)
        self.data = mujoco.MjData(self.model)
        self.action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = self.np_random.uniform(-0.5, 0.5, 2)
        return self.data.qpos.copy(), {}

    def step(self, action: Any) -> Any:
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data)
        return self.data.qpos.copy(), 0.0, False, False, {"success": True}


def settings(path: Path) -> dict[str, Any]:
    return {
        "output_dir": path,
        "record_masks": True,
        "cameras": [
            lr.Camera("front", width=64, height=48, depth_mode="rgbd", sensor_model="ActiveStereo", masks=["cube"]),
            lr.Camera("other", source="front", width=32, height=32),
        ],
        "lidars": [lr.Lidar("scan", azimuth=(-60, 60, 12), elevation=(-10, 10, 3), noise_m=0.01)],
        "gym_columns": True,
    }


def actions(seed: int) -> list[Any]:
    return list(np.random.default_rng(seed).uniform(-1, 1, (STEPS, 2)).astype(np.float32))


def files(root: Path, suffixes: tuple[str, ...]) -> dict[str, list[bytes]]:
    """The content of a session's files by their streams, in the order of the episodes."""
    found: dict[str, list[bytes]] = {}
    for path in sorted(root.rglob("*")):
        if path.suffix in suffixes:
            key = next(part for part in path.relative_to(root).parts if part not in ("data", "videos"))
            found.setdefault(key, []).append(path.read_bytes())
    return found


def test_lanes_give_what_each_environment_gives_alone(tmp_path: Path) -> None:
    chosen = {seed: actions(seed) for seed in SEEDS}
    envs = lr.RecordSession(SyncVectorEnv([Turning] * len(SEEDS)), **settings(tmp_path / "many"))
    envs.reset(seed=SEEDS[0])
    for step in range(STEPS):
        envs.step(np.stack([chosen[seed][step] for seed in SEEDS]))
    envs.close()
    many = check_session(envs.session_path)
    alone = []
    for seed in SEEDS:
        env = lr.RecordSession(Turning(), **settings(tmp_path / f"alone{seed}"))
        env.reset(seed=seed)
        for action in chosen[seed]:
            env.step(action)
        env.close()
        alone.append(check_session(env.session_path))
    kinds = [key for key in many.info["features"] if key.startswith("observation.images")]
    assert len(kinds) >= 3
    for index, one in enumerate(alone):
        drop = ["episode_index", "index"]
        assert many.episode(index).rows().drop(drop).equals(one.episode(0).rows().drop(drop))
        for key in kinds:
            pairs = zip(many.episode(index).frames(key), one.episode(0).frames(key), strict=True)
            assert all(np.array_equal(a, b) for a, b in pairs), key
        scans = [session.episode(number).scans("scan") for session, number in ((many, index), (one, 0))]
        assert len(scans[0]) == STEPS
        assert all(np.array_equal(*(one.ranges(k) for one in scans)) for k in range(STEPS))


def test_the_same_run_gives_the_same_session(tmp_path: Path) -> None:
    def record(path: Path) -> Path:
        env = lr.RecordSession(
            vector((2, 3), AutoresetMode.SAME_STEP, mujoco=True),
            **custom(
                path,
                cameras=[lr.Camera("wall", width=64, height=48, depth_mode="separate", sensor_model="ActiveStereo")],
            ),
        )
        env.reset(seed=3)
        for step in range(9):
            env.step(np.full((2, 1), step, np.float32))
        env.close()
        check_session(env.session_path)
        return env.session_path

    one, other = (files(record(tmp_path / name), (".mp4", ".mkv", ".parquet")) for name in "ab")
    assert one.keys() == other.keys()
    assert len(one) >= 3
    for key in one:
        if key != "meta":
            assert one[key] == other[key], key


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_session_is_gone_on_with_by_lanes(tmp_path: Path, mode: AutoresetMode) -> None:
    def record(**fields: Any) -> Path:
        env = lr.RecordSession(vector((2, 2), mode), **fields)
        env.reset()
        for _ in range(2):
            env.step(np.zeros((2, 1), np.float32))
        env.close()
        return env.session_path

    path = record(**custom(tmp_path))
    again = custom(tmp_path)
    del again["output_dir"]
    assert record(**again, resume=path) == path
    session = check_session(path)
    counted = [np.ravel(session.episode(i).rows()["obs"].to_pylist()).tolist() for i in range(len(session))]
    assert counted == [[0, 1], [2000, 2001]] * 2
