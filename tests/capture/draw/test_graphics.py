"""Rendering contexts that lanes share: as many as there are contents, and every lane drawn with its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import lucky_recorder as lr
from lucky_recorder.capture.draw import context as gl
from lucky_recorder.capture.draw.graphics import Graphics
from lucky_recorder.capture.mujoco.assets import AssetWatch, Content, apply
from lucky_recorder.testing import check_session
from tests.capture.models import scene

XML = """
<mujoco>
  <option timestep="0.02" gravity="0 0 0"/>
  <visual><headlight active="0"/><quality shadowsize="0" offsamples="0"/></visual>
  <asset>
    <texture name="paint" type="2d" builtin="flat" width="8" height="8" rgb1="0 0 0"/>
    <material name="painted" texture="paint" emission="1" specular="0" shininess="0"/>
  </asset>
  <worldbody>
    <camera name="wall" pos="0 0 1"/>
    <geom name="wall" type="box" size="4 4 .1" material="painted"/>
    <body pos="0 0 -1"><joint name="j" type="slide"/><geom size=".05" mass="1"/></body>
  </worldbody>
  <actuator><general joint="j" gainprm="0"/></actuator>
</mujoco>
"""
COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "yellow": (255, 255, 0)}


class Painted(gym.Env[Any, Any]):
    """A wall whose texture is another in every episode; it lasts as many steps as it is told."""

    def __init__(self, colours: list[str], length: int) -> None:
        self.model = mujoco.MjModel.from_xml_string(XML)
        self.data = mujoco.MjData(self.model)
        self.action_space = gym.spaces.Box(-1, 1, (1,))
        self.observation_space = gym.spaces.Box(-1, 1, (1,))
        self._colours, self._length, self.episode, self._t = colours, length, -1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.episode, self._t = self.episode + 1, 0
        self.model.tex_data[:] = np.tile(COLOURS[self._colours[self.episode % len(self._colours)]], 64)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        mujoco.mj_step(self.model, self.data)
        self._t += 1
        return np.zeros(1, np.float32), 0.0, self._t == self._length, False, {"is_success": True}


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many rendering and GL contexts were made."""
    made = {"rendering": 0, "gl": 0}

    def counted(name: str, working: Any) -> Any:
        def make(*args: Any) -> Any:
            made[name] += 1
            return working(*args)

        return make

    monkeypatch.setattr(Graphics, "_context", counted("rendering", Graphics._context))
    monkeypatch.setattr(gl, "make_context", counted("gl", gl.make_context))
    return made


def record(path: Path, lanes: list[tuple[list[str], int]], steps: int, **camera: Any) -> lr.Session:
    made = [lambda colours=colours, length=length: Painted(colours, length) for colours, length in lanes]
    env = lr.RecordSession(
        SyncVectorEnv(made, autoreset_mode=AutoresetMode.SAME_STEP),
        output_dir=path,
        cameras=[lr.Camera("wall", width=32, height=32, **camera)],
    )
    env.reset(seed=0)
    for _ in range(steps):
        env.step(np.zeros((len(lanes), 1), np.float32))
    env.close()
    return check_session(env.session_path)


def seen(session: lr.Session) -> list[tuple[int, set[str]]]:
    """Of each episode, its frames and the colours that they show."""
    found = []
    for index in range(len(session)):
        frames = list(session.episode(index).frames("observation.images.wall"))
        means = [frame.reshape(-1, 3).mean(0) for frame in frames]
        names = {min(COLOURS, key=lambda name, m=mean: np.abs(m - COLOURS[name]).sum()) for mean in means}
        assert all(min(np.abs(mean - colour).max() for colour in COLOURS.values()) < 12 for mean in means)
        found.append((len(frames), names))
    return found


def test_lanes_with_the_same_content_are_drawn_with_one_context(tmp_path: Path, contexts: dict[str, int]) -> None:
    session = record(tmp_path, [(["red"], 2)] * 16, 4)
    assert seen(session) == [(2, {"red"})] * 32
    assert contexts == {"rendering": 1, "gl": 1}


def test_depth_costs_one_context_more_and_not_one_of_each_lane(tmp_path: Path, contexts: dict[str, int]) -> None:
    session = record(tmp_path, [(["red"], 2)] * 8, 2, depth_mode="rgbd")
    assert len(session) == 8
    assert contexts["rendering"] <= 2


def test_every_lane_is_drawn_with_its_own_textures_though_they_change(tmp_path: Path, contexts: dict[str, int]) -> None:
    lanes = [(["red", "green"], 2), (["red", "blue", "yellow"], 3), (["green"], 4), (["blue", "red"], 2)]
    session = record(tmp_path, lanes, 12)
    ends = sorted((step, lane, k) for lane, (_, n) in enumerate(lanes) for k, step in enumerate(range(n, 13, n)))
    wanted = [(lanes[lane][1], {lanes[lane][0][k % len(lanes[lane][0])]}) for _, lane, k in ends]
    assert seen(session) == wanted
    assert contexts["gl"] == 1


def test_what_a_context_holds_tells_contents_apart() -> None:
    def key(change: Any = lambda model: None, name: str = "pick_cube") -> bytes:
        model = scene(name)
        change(model)
        return Content(model).key

    def poses(model: Any) -> None:
        model.geom_rgba[:], model.body_mass[:], model.geom_pos[:] = 0.5, 2.0, 1.0

    def texture(model: Any) -> None:
        model.tex_data[-1] ^= 1

    def slices(model: Any) -> None:
        model.vis.quality.numslices = 5

    def plane(model: Any) -> None:
        model.geom_size[model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE)] += 1

    def box(model: Any) -> None:
        model.geom_size[model.geom_type == int(mujoco.mjtGeom.mjGEOM_BOX)] += 1

    assert key() == key() == key(poses) == key(box)
    keys = {key(), key(texture), key(slices), key(plane, "joint_zoo"), key(name="joint_zoo")}
    assert len(keys) == 5


def test_a_change_that_is_followed_is_the_content_of_the_changed_model() -> None:
    model, other = scene("pick_cube"), scene("pick_cube")
    watch, content = AssetWatch(model), Content(other)
    model.tex_data[5] ^= 255
    model.vis.quality.numslices = 6
    change = watch.change()
    assert change is not None
    apply(other, change)
    content.follow(other, change)
    assert content.key == Content(model).key
