"""Sessions that are drawn afterwards are those that would have been drawn at once, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.draw import context
from lucky_recorder.testing import check_session
from tests.recorder.physics import Cart, push
from tests.same import bytes_of
from tests.scenarios import everything

XML = """<mujoco><option timestep="0.005"/><visual><quality shadowsize="256" offsamples="0"/></visual>
<asset><texture name="t" type="2d" builtin="checker" rgb1="1 0 0" rgb2="0 0 1" width="8" height="8"/>
<material name="m" texture="t"/></asset>
<worldbody><light pos="0 0 3"/><geom name="floor" type="plane" size="2 2 .1" material="m"/>
<site name="eye" pos="0 -1 .5"/><camera name="side" pos="0 -1.5 .8" xyaxes="1 0 0 0 .4 1"/>
<body name="cart" pos="0 0 .2"><joint name="x" type="slide" axis="1 0 0" damping="0.3"/>
<geom size=".1" mass="1"/><camera name="ride" pos="0 -.5 .3" xyaxes="1 0 0 0 .4 1"/><body pos="0 0 .2">
<joint name="swing" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .4" size=".02" contype="0"/></body></body>
<body name="hand" mocap="true" pos="0 .3 .4"><geom name="hand" size=".06" contype="0" rgba="0 1 0 1"/></body>
</worldbody>
<actuator><motor name="push" joint="x" ctrlrange="-5 5"/></actuator></mujoco>"""
SMALL = {"width": 48, "height": 32}
CAMERAS: list[dict[str, Any]] = [
    {"name": "side", "depth_mode": "separate", "sensor_model": "ActiveStereo", "masks": ["hand"], **SMALL},
    {"name": "ride", "frame_rate": 25, **SMALL},
]
LIDARS = [{"name": "eye", "rate": 10, "noise_m": 0.02, "azimuth": (-180, 180, 6), "elevation": (-30, 0, 2)}]


def assert_same(live: Path | None, drawn: Path) -> None:
    assert live is not None
    check_session(drawn)
    known, made = bytes_of(live), bytes_of(drawn)
    assert made.keys() == known.keys()
    assert [name for name in known if known[name] != made[name]] == []


def test_every_stream_of_an_environment_is_the_same(tmp_path: Path) -> None:
    live = everything.record(tmp_path / "live", keep_states=True)
    later = everything.record(tmp_path / "later", render="deferred")
    session = check_session(later)
    assert not session.cameras
    assert not session.lidars
    assert not (later / "videos").exists()
    assert session.to_draw is not None
    assert lr.render(later, tmp_path / "drawn").episodes == 2
    assert_same(live, tmp_path / "drawn")
    assert not (tmp_path / "drawn.shards").exists()


def observed(folder: Path, mode: str = "tick", **settings: Any) -> Path | None:
    """Takes without seeds, one of them discarded; resets within; a hand that is moved; ticks faster than rows."""
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    asked = {"cameras": CAMERAS, "lidars": LIDARS, "record_masks": True, "mode": "full_scene", **settings}
    observer = lr.Observer(
        model=model, data=data, output_dir=folder, data_hz=50, control_hz=100, discard_and_retry_failed=True, **asked
    )
    observer.start_recording()
    for take in range(4):
        mujoco.mj_resetData(model, data)
        # Live, textures are looked at when a take begins, and the first begins with the session.
        model.tex_data[:6] = 60 * take if take else model.tex_data[:6]
        model.geom_rgba[-1, 2] = take / 4
        # Metadata says how a camera projected when the session began.
        model.cam_fovy[:] = 50 + take
        observer.mark_reset()
        for k in range(7 + take):
            if k == 5:
                mujoco.mj_resetData(model, data)
                observer.mark_reset()
            data.ctrl[0] = np.sin(k + take)
            data.mocap_pos[0, 0] = 0.05 * k
            if mode == "tick":
                observer.tick(new_policy_step=k % 2 == 0)
                mujoco.mj_step(model, data, 2)
            else:
                with observer.step():
                    mujoco.mj_step(model, data, 2)
        observer.end_current_episode(take != 1)
    observer.stop_recording()
    return observer.session_path


@pytest.mark.parametrize("mode", ["tick", "step"])
def test_what_an_observer_records_is_the_same(tmp_path: Path, mode: str) -> None:
    live = observed(tmp_path / "live", mode, keep_states=True)
    later = observed(tmp_path / "later", mode, render="deferred")
    assert later is not None
    lr.render(later, tmp_path / "drawn")
    assert_same(live, tmp_path / "drawn")
    assert len({e.states().about["model"] for e in lr.Session(tmp_path / "drawn")}) == 3


def carts(folder: Path, episodes: int = 3, **settings: Any) -> Path:
    env = lr.RecordSession(Cart(xml=XML), output_dir=folder, cameras=CAMERAS, record_masks=True, **settings)
    for seed in range(episodes):
        env.reset(seed=seed)
        push(env, 6)
        env.end_episode(success=True)
    env.close()
    assert env.session_path is not None
    return env.session_path


def test_no_opengl_is_made_where_it_is_drawn_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: Any) -> Any:
        raise lr.GLError("none here")

    monkeypatch.setattr(context, "make_context", refused)
    later = carts(tmp_path / "later", render="deferred")
    with pytest.raises(lr.GLError, match="none here"):
        lr.render(later, tmp_path / "drawn")
    assert [path.name for path in tmp_path.iterdir()] == ["later"]


class Struck(Exception):
    pass


@pytest.mark.parametrize(("error", "workers"), [(KeyboardInterrupt, 1), (Struck, 1), (KeyboardInterrupt, 2)])
def test_what_was_interrupted_goes_on_and_draws_nothing_twice(
    tmp_path: Path, error: type[BaseException], workers: int
) -> None:
    later = carts(tmp_path / "later", episodes=4, render="deferred")
    target = tmp_path / "drawn"

    def strike(done: int, total: int) -> None:
        assert total == 4
        if done == 1:
            raise error

    with pytest.raises(error):
        lr.render(later, target, workers=workers, on_episode=strike)
    assert not target.exists()
    first = {file.stat().st_ino for file in (tmp_path / "drawn.shards").rglob("*.mp4")}
    # Three files each; another worker may have ended one more.
    done = len(first) // 3
    assert 0 < done <= workers + 1
    with pytest.raises(lr.SettingsError, match="holds what another call has drawn"):
        lr.render(later, target, render_quality="fast")
    told: list[int] = []
    lr.render(later, target, workers=workers, on_episode=lambda done, total: told.append(done))
    assert told == [*range(done + 1, 5)]
    assert first < {file.stat().st_ino for file in target.rglob("*.mp4")}
    assert_same(carts(tmp_path / "live", episodes=4, keep_states=True), target)


def test_workers_draw_the_same_and_one_that_dies_is_replaced(tmp_path: Path) -> None:
    later = carts(tmp_path / "later", episodes=4, render="deferred")
    struck: list[int] = []

    def kill(done: int, total: int) -> None:
        if not struck:
            struck.append(done)
            os.kill(max(int(pid) for pid in children()), 9)

    lr.render(later, tmp_path / "drawn", workers=2, on_episode=kill)
    assert struck == [1]
    assert_same(carts(tmp_path / "live", episodes=4, keep_states=True), tmp_path / "drawn")


def children() -> list[str]:
    me = os.getpid()
    return Path(f"/proc/{me}/task/{me}/children").read_text().split()


def test_other_cameras_are_joined_and_those_of_a_name_take_its_place(tmp_path: Path) -> None:
    path = carts(tmp_path / "live", keep_states=True)
    cameras = [{"name": "ride", "width": 32, "height": 32}, {"name": "top", "source": {"distance": 2}, **SMALL}]
    lr.render(path, tmp_path / "drawn", cameras=cameras, lidars=LIDARS)
    session = check_session(tmp_path / "drawn")
    assert [*session.cameras] == ["side", "side_depth", "ride", "top"]
    assert (session.cameras["ride"].width, session.cameras["ride"].rate) == (32, 50)
    assert session.lidars == ("eye",)
    known = check_session(path).episode(1)
    for name in ("side", "side_depth"):
        assert session.episode(1).video_path(name).samefile(known.video_path(name))
    assert session.episode(1).rows().equals(known.rows())
    # As they would have been recorded.
    env = lr.RecordSession(Cart(xml=XML), output_dir=tmp_path / "again", cameras=cameras, lidars=LIDARS)
    for seed in range(3):
        env.reset(seed=seed)
        push(env, 6)
        env.end_episode(success=True)
    env.close()
    again = lr.Session(env.session_path)
    for index in range(3):
        one, other = again.episode(index), session.episode(index)
        for name in ("ride", "top"):
            assert one.video_path(name).read_bytes() == other.video_path(name).read_bytes()
        assert one.scans("eye").table.equals(other.scans("eye").table)


def test_a_model_that_was_changed_within_an_episode_is_not_drawn_unless_that_is_asked(tmp_path: Path) -> None:
    def lighter(env: Cart) -> None:
        env.model.geom_rgba[0, 0] *= 0.9

    env = lr.RecordSession(Cart(before=lighter, xml=XML), output_dir=tmp_path, cameras=CAMERAS, render="deferred")
    env.reset(seed=1)
    push(env, 4)
    env.end_episode(success=True)
    env.close()
    assert env.session_path is not None
    with pytest.raises(lr.FormatError, match=r"episode 0: the model was changed within the episode.*allow_inexact"):
        lr.render(env.session_path, tmp_path / "drawn")
    with pytest.warns(RuntimeWarning, match="drawn with the model of the first tick"):
        lr.render(env.session_path, tmp_path / "drawn", allow_inexact=True)
    check_session(tmp_path / "drawn")


Asked = Callable[[Path], Any]
NOT_NOW: dict[str, tuple[Asked, str]] = {
    "render()": (
        lambda path: lr.RecorderSettings(cameras=[{"name": "a", "source": "render"}], render="deferred"),
        "no state brings that back; name a camera of the model",
    ),
    "no rows": (
        lambda path: lr.RecorderSettings(cameras=CAMERAS, record_data=False, render="deferred"),
        "need rows: record_data is off",
    ),
    "bundles": (
        lambda path: lr.RecorderSettings(cameras=CAMERAS, koyu={"name": "b"}, render="deferred"),
        "leave koyu out, and make bundles of the session once it is drawn",
    ),
    "bundles alone": (
        lambda path: lr.RecorderSettings(koyu={"name": "b"}, formats=["koyu"], render="deferred"),
        "states are kept in a session; add 'session' to formats",
    ),
    "another word": (lambda path: lr.RecorderSettings(render="later"), "render='later'"),
    "no model": (lambda path: without_a_model(path), "render='deferred': no MuJoCo model was found"),
    "sinks": (lambda path: with_a_sink(path), "has no pictures and scans then; record live"),
    "a camera that is not there": (lambda path: carts(path, render="deferred", lidars=[{"name": "x"}]), "site"),
}


def without_a_model(path: Path) -> None:
    import gymnasium as gym

    env = lr.RecordSession(gym.make("CartPole-v1"), output_dir=path, mode="custom", gym_columns=True, render="deferred")
    env.reset()


def with_a_sink(path: Path) -> None:
    class Taking:
        root, keeps_broken = path, False

        def open(self, schema: Any, tasks: Any) -> None: ...
        def stream_path(self, key: str, take: int, suffix: str) -> Path: ...
        def prepare(self, record: Any) -> Any: ...
        def close(self) -> None: ...

    lr.RecordSession(Cart(), output_dir=path, cameras=CAMERAS, render="deferred", sinks=[Taking()])


@pytest.mark.parametrize("name", NOT_NOW)
def test_what_cannot_be_drawn_later_is_refused_at_once(tmp_path: Path, name: str) -> None:
    asked, told = NOT_NOW[name]
    with pytest.raises(lr.SettingsError, match=told):
        asked(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_pictures_that_are_drawn_later_cannot_be_observed(tmp_path: Path) -> None:
    env = lr.RecordSession(Cart(xml=XML), output_dir=tmp_path, cameras=CAMERAS, render="deferred")
    env.reset(seed=1)
    with pytest.raises(lr.StateError, match="with render='deferred' there are none yet"):
        env.observer.observe()
    push(env, 2)
    env.end_episode(success=True)
    env.close()
    assert check_session(env.session_path).episode(0).length == 2


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"cameras": [], "lidars": []}, "say what is to be drawn"),
    "render()": ({"cameras": [{"name": "a", "source": "render"}]}, "no state brings that back"),
    "unknown": ({"cameras": [{"name": "nobody"}]}, "nobody"),
    "rate": ({"cameras": [{"name": "side", "frame_rate": 30}]}, "there are 50 states a second"),
    "pose": ({"cameras": [{"name": "side", "record_pose": True}]}, "rows are as they were recorded"),
    "a field": ({"mode": "custom"}, "is no field of what is drawn"),
}


def test_what_cannot_be_drawn_is_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    plain = carts(tmp_path / "plain", episodes=1)
    with pytest.raises(lr.FormatError, match="no states are kept of episode 0: record with keep_states=True"):
        lr.render(plain, tmp_path / "drawn", cameras=CAMERAS)
    kept = carts(tmp_path / "kept", episodes=1, keep_states=True)
    with pytest.raises(lr.SettingsError, match="say what is to be drawn"):
        lr.render(kept, tmp_path / "drawn")
    for fields, told in REFUSED.values():
        with pytest.raises(lr.SettingsError, match=told):
            lr.render(kept, tmp_path / "drawn", **fields)
    somebodys = tmp_path / "drawn.shards"
    somebodys.mkdir()
    (somebodys / "mine").touch()
    with pytest.raises(lr.StorageError, match="nothing says what is drawn in it"):
        lr.render(kept, tmp_path / "drawn", cameras=CAMERAS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drawn.shards", "kept", "plain"]
    assert (somebodys / "mine").exists()
