"""Sessions that are still to be drawn: made into others, gone on with, cut short, and written by strangers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import pytest

import lucky_recorder as lr
from lucky_recorder.edit.convert import session_to_koyu
from lucky_recorder.rollouts.drawing import noise_key
from lucky_recorder.session.check import check_session as faults_of
from lucky_recorder.testing import check_session
from lucky_recorder.video import encoder
from tests.recorder.physics import Cart, push
from tests.rollouts.test_render import CAMERAS, LIDARS, XML, carts


def recorded(folder: Path, seeds: range, steps: int = 6, **settings: Any) -> Path:
    asked = {"cameras": CAMERAS, "record_masks": True, **settings}
    env = lr.RecordSession(Cart(xml=XML), **({} if "resume" in settings else {"output_dir": folder}), **asked)
    for seed in seeds:
        env.reset(seed=seed)
        push(env, steps)
        env.end_episode(success=True)
    env.close()
    assert env.session_path is not None
    return env.session_path


def test_parts_are_made_into_one_and_drawn_as_one(tmp_path: Path) -> None:
    first = recorded(tmp_path / "first", range(2), render="deferred")
    recorded(tmp_path, range(2, 3), render="deferred", resume=first)
    second = recorded(tmp_path / "second", range(3, 5), render="deferred")
    lr.merge([first, second], tmp_path / "both")
    lr.select(tmp_path / "both", tmp_path / "some", episodes=[1, 2, 4])
    assert check_session(tmp_path / "some").to_draw is not None
    lr.render(tmp_path / "some", tmp_path / "drawn")
    live = recorded(tmp_path / "live", range(5), keep_states=True)
    lr.select(live, tmp_path / "chosen", episodes=[1, 2, 4])
    drawn, known = check_session(tmp_path / "drawn"), check_session(tmp_path / "chosen")
    for one, other in zip(drawn, known, strict=True):
        for name in known.cameras:
            assert one.video_path(name).read_bytes() == other.video_path(name).read_bytes()
    names = ["meta/stats.json", "meta/info.json"]
    assert [(drawn.path / n).read_bytes() == (known.path / n).read_bytes() for n in names] == [True, True]


def test_sessions_of_other_plans_do_not_fit(tmp_path: Path) -> None:
    first = recorded(tmp_path / "first", range(1), render="deferred")
    other = recorded(tmp_path / "other", range(1), render="deferred", lidars=LIDARS)
    with pytest.raises(lr.FormatError, match="to_draw"):
        lr.merge([first, other], tmp_path / "both")
    with pytest.raises(lr.SettingsError, match="to_draw"):
        recorded(tmp_path, range(1), render="deferred", lidars=LIDARS, resume=first)
    with pytest.raises(lr.SettingsError, match="only this recording has it"):
        recorded(tmp_path, range(1), keep_states=True, resume=first)


def test_a_session_that_was_cut_short_is_recovered_with_what_is_to_be_drawn(tmp_path: Path) -> None:
    path = recorded(tmp_path / "later", range(2), render="deferred")
    for file in (path / "meta").rglob("*"):
        if file.is_file() and file.name != "provenance.json" and "models" not in file.parts:
            file.unlink()
    lr.recover(path)
    lr.render(path, tmp_path / "drawn")
    live = recorded(tmp_path / "live", range(2), keep_states=True)
    episodes = zip(check_session(tmp_path / "drawn"), lr.Session(live), strict=True)
    assert all(one.video_path("side").read_bytes() == two.video_path("side").read_bytes() for one, two in episodes)


BROKEN: dict[str, tuple[Any, str]] = {
    "no object": (7, "to_draw=7"),
    "no settings": ({"policy_period": 3}, "does not say what is to be drawn"),
    "code": ({"cameras": [{"name": "side", "width": "os:system"}]}, "width"),
    "a camera of the environment's": ({"cameras": [{"name": "a", "source": "render"}]}, "no state brings that back"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_plan_of_a_stranger_is_read_with_care(tmp_path: Path, name: str) -> None:
    path = carts(tmp_path / "later", episodes=1, render="deferred")
    plan, told = BROKEN[name]
    info = json.loads((path / "meta/info.json").read_text())
    (path / "meta/info.json").write_text(json.dumps({**info, "to_draw": plan}))
    with pytest.raises(lr.LuckyRecorderError, match=told):
        lr.render(path, tmp_path / "drawn")
    assert not (tmp_path / "drawn.shards").exists()


def test_states_that_are_not_of_the_rows_are_not_drawn(tmp_path: Path) -> None:
    path, longer = (recorded(tmp_path / str(k), range(2), render="deferred", steps=k) for k in (3, 5))
    name = "states/chunk-000/file-001.parquet"
    (path / name).write_bytes((longer / name).read_bytes())
    with pytest.raises(lr.FormatError, match=r"file-001\.parquet: its 5 ticks, 50 a second, are not those of 3 ticks"):
        lr.render(path, tmp_path / "drawn")
    # What was drawn before it waits, and is gone on with.
    assert [*(tmp_path / "drawn.shards").rglob("*.mp4")]


def test_copies_without_pictures_say_that_they_are_still_to_be_drawn(tmp_path: Path) -> None:
    path = recorded(tmp_path / "later", range(1), render="deferred")
    with pytest.warns(RuntimeWarning, match="its pictures are still to be drawn"):
        session_to_koyu(path, lr.KoyuSettings("bundles", path=tmp_path / "bundles"))
    assert "pictures that are still to be drawn" in lr.lerobot_view(path, tmp_path / "copy").left_out
    assert lr.Session(tmp_path / "copy").to_draw is None


def test_what_is_asked_for_is_drawn_instead_of_what_the_session_says(tmp_path: Path) -> None:
    path = recorded(tmp_path / "later", range(1), render="deferred", lidars=LIDARS, seed=3)
    lr.render(path, tmp_path / "drawn", cameras=[{"name": "ride", "width": 32, "height": 32}])
    session = check_session(tmp_path / "drawn")
    assert ([*session.cameras], session.lidars, session.to_draw) == (["ride"], (), None)
    assert not (tmp_path / "drawn/videos/observation.masks.side").exists()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"to_draw": 7}, "to_draw is 7, expected settings"),
        ({"to_draw_calibration": []}, "to_draw_calibration beside"),
        ({"states_path": None}, "and no states that it could be drawn of"),
    ],
)
def test_check_says_what_is_wrong_with_a_plan(tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    path = carts(tmp_path / "later", episodes=1, render="deferred")
    info = {**json.loads((path / "meta/info.json").read_text()), **changed}
    (path / "meta/info.json").write_text(json.dumps({name: said for name, said in info.items() if said is not None}))
    assert any(told in fault.message for fault in faults_of(path))


def test_a_stream_that_fails_costs_its_episode_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorded(tmp_path / "later", range(3), render="deferred")
    written = 0
    write = encoder.VideoEncoder.write

    def fails(self: encoder.VideoEncoder, *given: Any, **named: Any) -> None:
        nonlocal written
        written += 1
        if written == 30:
            raise OSError("the disk is gone")
        write(self, *given, **named)

    monkeypatch.setattr(encoder.VideoEncoder, "write", fails)
    told = "the disk is gone; 1 of 3 episodes are drawn, .*; the same call draws the others"
    with pytest.raises(lr.StreamError, match=told):
        lr.render(path, tmp_path / "drawn")
    shards = tmp_path / "drawn.shards"
    assert not [*shards.rglob("*.tmp")]
    assert not (tmp_path / "drawn").exists()
    lr.render(path, tmp_path / "drawn")
    assert len(check_session(tmp_path / "drawn")) == 3
    assert not shards.exists()


def test_what_was_trimmed_is_drawn(tmp_path: Path) -> None:
    path = recorded(tmp_path / "later", range(2), render="deferred", lidars=LIDARS)
    lr.trim(path, tmp_path / "short", start=1, end=2)
    lr.render(tmp_path / "short", tmp_path / "drawn")
    session = check_session(tmp_path / "drawn")
    assert [e.length for e in session] == [3, 3]
    with session.episode(1).frames("side") as frames:
        assert len(frames) == 3


def ticking(folder: Path, control_hz: int, **settings: Any) -> Path:
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    observer = lr.Observer(
        model=model, data=data, output_dir=folder, data_hz=50, control_hz=control_hz, cameras=CAMERAS,
        record_masks=True, **settings,
    )  # fmt: skip
    observer.start_recording()
    for _ in range(4 * control_hz // 50):
        observer.tick()
        mujoco.mj_step(model, data, 200 // control_hz)
    observer.end_current_episode(True)
    observer.stop_recording()
    assert observer.session_path is not None
    return observer.session_path


def test_episodes_of_other_ticks_are_drawn_each_at_its_own(tmp_path: Path) -> None:
    parts = [ticking(tmp_path / str(hz), hz, render="deferred") for hz in (50, 100)]
    lr.merge(parts, tmp_path / "all")
    lr.render(tmp_path / "all", tmp_path / "drawn")
    known = [lr.Session(ticking(tmp_path / f"live{hz}", hz, keep_states=True)) for hz in (50, 100)]
    for one, other in zip(check_session(tmp_path / "drawn"), known, strict=True):
        for name in ("side", "side_depth", "ride"):
            assert one.video_path(name).read_bytes() == other.episode(0).video_path(name).read_bytes()


@pytest.mark.parametrize(("seed", "key"), [(None, "attempt 2"), ("7", "seed 7")])
def test_states_of_earlier_versions_do_not_say_what_noise_is_keyed_by(seed: str | None, key: str) -> None:
    episode = SimpleNamespace(index=2, seed=seed, states_path=lambda: Path("file"))
    assert noise_key(episode, SimpleNamespace(about={})) == key  # type: ignore[arg-type]
    for said in (7, "", "a" * 2000):
        with pytest.raises(lr.FormatError, match="its footer says noise="):
            noise_key(episode, SimpleNamespace(about={"noise": said}))  # type: ignore[arg-type]
