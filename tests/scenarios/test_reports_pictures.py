"""What has bitten people who record simulations, by the number of the report: pictures, their sizes and rates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.envs import scene_path
from lucky_recorder.testing import CountEnv, check_session, paint_count
from tests.scenarios.moves import ZERO


def test_report_04_what_changes_at_a_reset_shows_in_its_first_frame(
    record: Any, run: Any, read_back: Any, wall: Any
) -> None:
    env = record(CountEnv(3, mujoco=True), cameras=[wall])
    run(env, episodes=2)
    env.close()
    red, blue = (e.frames["wall"][0].reshape(-1, 3).mean(0) for e in read_back(env.session_path))
    assert red[0] > 200 > 60 > red[2]
    assert blue[2] > 200 > 60 > blue[0]


def test_report_07_a_small_offscreen_buffer_is_no_limit_and_stays_as_it_is(tmp_path: Path) -> None:
    model = mujoco.MjModel.from_xml_path(str(scene_path("joint_zoo")))
    before = (model.vis.global_.offwidth, model.vis.global_.offheight)
    observer = lr.Observer(
        output_dir=tmp_path,
        data_hz=50,
        mode="full_scene",
        cameras=[lr.Camera("overview")],
        render_quality="fastest",
        model=model,
        data=mujoco.MjData(model),
    )
    observer.start_recording()
    observer.tick()
    observer.stop_recording()
    (frame,) = check_session(observer.session_path).episode(0).frames("overview")
    assert frame.shape == (480, 640, 3)
    assert frame.std() > 5
    assert before == (128, 128) == (model.vis.global_.offwidth, model.vis.global_.offheight)


def test_report_10_a_red_scene_is_red(record: Any, run: Any, read_back: Any, wall: Any) -> None:
    env = record(CountEnv(2, mujoco=True), cameras=[{**wall, "width": 160, "height": 120}])
    run(env)
    env.close()
    frame = read_back(env.session_path)[0].frames["wall"][0]
    assert frame[..., 0].min() > 200
    assert frame[..., 1].max() < 60
    assert frame[..., 2].max() < 60


@pytest.mark.parametrize("layout", ["negative", "fortran", "sliced", "readonly"])
def test_report_11_frames_of_any_layout_are_recorded_as_they_look(
    record: Any, run: Any, read_back: Any, counts: Any, layout: str
) -> None:
    class Odd(CountEnv):
        def render(self) -> Any:
            picture = paint_count(self.count, 48, 100)
            if layout == "negative":
                return np.ascontiguousarray(picture[::-1, ::-1])[::-1, ::-1]
            if layout == "fortran":
                return np.asfortranarray(picture)
            if layout == "sliced":
                return np.repeat(picture, 2, axis=1)[:, ::2]
            picture.flags.writeable = False
            return picture

    camera = {"name": "seen", "source": "render", "width": 100, "height": 48}
    env = record(Odd(12, render_mode="rgb_array"), cameras=[camera])
    run(env)
    env.close()
    (episode,) = read_back(env.session_path)
    assert episode.frames["seen"].shape == (12, 48, 100, 3)
    assert counts(episode)["seen"] == list(range(12))
    painted = np.stack([paint_count(t, 48, 100) for t in range(12)]).astype(int)
    assert np.abs(painted - episode.frames["seen"]).mean() < 10


@pytest.mark.parametrize(("width", "height", "names"), [(65, 64, "width=65"), (64, 65, "height=65")])
def test_report_12_odd_sizes_are_refused_when_settings_are_built(width: int, height: int, names: str) -> None:
    with pytest.raises(lr.SettingsError, match=rf"camera 'a': {names}: video needs an even size; use 64 or 66"):
        lr.Camera("a", width=width, height=height)


def test_report_20_a_rate_that_does_not_divide_is_refused(record: Any, tmp_path: Path, seen: Any) -> None:
    class Slow(CountEnv):
        def __init__(self) -> None:
            super().__init__(6, render_mode="rgb_array")
            self.dt = 1 / 20

    env = record(Slow(), cameras=[{**seen, "frame_rate": 30}])
    with pytest.raises(
        lr.SettingsError, match=r"camera 'seen': frame_rate='30': is above the fastest rate here; the nearest: 20 Hz"
    ):
        env.reset()
    assert list(tmp_path.iterdir()) == []
    env = record(Slow(), cameras=[{**seen, "frame_rate": 10}])
    env.reset()
    for _ in range(6):
        env.step(ZERO)
    env.close()
    episode = check_session(env.session_path).episode(0)
    info = lr.Session(env.session_path).info
    with episode.frames("seen") as frames:
        assert (len(frames), frames.info.fps) == (3, 10)
    assert (info["hz"], info["features"]["observation.images.seen"]["info"]["video.fps"]) == (20, 10)
