"""The recorder writes bundles: what a simulation did is read back from the dataset's files alone."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.koyu import rows
from lucky_recorder.rollouts.collect import collect
from lucky_recorder.testing import CountEnv, check_session, read_count
from lucky_recorder.video.encoder import VideoEncoder
from tests.koyu.making import Read, read_dataset, read_manifest, snapshot

KOYU = {"name": "cubes"}
PAIR = [lr.Column("observation.state", "gym:obs"), lr.Column("action", "gym:action")]
SMALL = {"width": 64, "height": 48}


@pytest.fixture
def film(record: Any, seen: Any) -> Callable[..., lr.RecordSession]:
    """Return a function that records a counting environment as bundles, through its own ``render()``."""

    def make(length: Any = 3, succeeds: Any = True, **settings: Any) -> lr.RecordSession:
        env = CountEnv(length, succeeds, render_mode="rgb_array")
        return record(env, **{"columns": PAIR, "cameras": [seen], "koyu": KOYU, **settings})

    return make


def seen_counts(read: Read) -> list[int]:
    return [read_count(frame) for frame in read.frames["observation.images.seen"]]


def counted(read: Read, name: str = "observation.state") -> list[float]:
    return read.rows[name][:, 0].tolist()


def bundles(env: lr.RecordSession) -> list[Read]:
    assert env.koyu_path is not None
    return read_dataset(env.koyu_path)


# Both formats in one run.


def test_one_run_writes_both_formats_from_the_same_rows_and_files(tmp_path: Path) -> None:
    env = lr.RecordSession(
        gym.make("LuckyRecorder/PickCube-v0"),
        output_dir=tmp_path,
        cameras=[{"name": "front", **SMALL}, {"name": "wrist", **SMALL}],
        tasks=["Pick up the cube"],
        gym_columns=True,
        koyu=lr.KoyuSettings(name="pick-cube", collection_mode="synthetic"),
    )
    collect(env, env.unwrapped.expert(fail=0.5, seed=1), episodes=3)
    env.close()
    assert env.koyu_path == tmp_path / "pick-cube"
    session = check_session(env.session_path)
    both = list(zip(session, bundles(env), strict=True))
    assert len(both) == 3
    for episode, bundle in both:
        rows = episode.rows()
        for name in ("observation.state", "action", "gym.action", "next.reward"):
            values = np.array(rows[name].to_pylist()).astype(np.float32).reshape(len(bundle.rows["step"]), -1)
            assert np.array_equal(bundle.rows[name], values)
        times = np.array(rows["timestamp"].to_pylist())
        assert np.array_equal(bundle.rows["timestamp"] - bundle.rows["timestamp"][0], np.round(times * 1e9))
        assert bundle.sidecar["reward"] == float(episode.success)
        assert bundle.sidecar["task_description"] == "Pick up the cube"
        for camera in ("front", "wrist"):
            key = f"observation.images.{camera}"
            mine = env.koyu_path / "episodes" / f"ep_{bundle.sidecar['capture_id']}" / f"{key}.mp4"
            assert mine.stat().st_ino == episode.video_path(key).stat().st_ino
            assert np.array_equal(bundle.frames[key], [*episode.frames(key)])
    rewards = [bundle.sidecar["reward"] for _, bundle in both]
    assert set(rewards) == {0.0, 1.0}
    manifest = read_manifest(env.koyu_path)
    assert manifest["success_rate"] == sum(rewards) / 3
    assert (manifest["type"], manifest["fps"]) == ("synthetic", 50.0)


def test_where_links_fail_the_videos_are_copied(film: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    env = film()
    run(env, episodes=2)
    env.close()
    assert [seen_counts(read) for read in bundles(env)] == [[0, 1, 2], [100, 101, 102]]
    check_session(env.session_path)


@pytest.mark.parametrize("formats", [None, ["session", "koyu"], ["koyu", "session"]])
def test_the_session_comes_first(film: Any, run: Any, tmp_path: Path, formats: Any) -> None:
    env = film(formats=formats, output_dir=tmp_path)
    assert env.session_path is None
    assert env.koyu_path is None
    run(env)
    env.close()
    assert check_session(env.session_path).episode(0).success
    assert env.session_path.parent == tmp_path / "DataSessions"
    assert [counted(read) for read in bundles(env)] == [[0, 1, 2]]


def test_bundles_alone_make_no_session(film: Any, run: Any, tmp_path: Path) -> None:
    env = film(formats=["koyu"])
    run(env, episodes=3)
    env.close()
    assert env.session_path == env.koyu_path == tmp_path / "cubes"
    assert [p.name for p in tmp_path.iterdir()] == ["cubes"]
    assert [seen_counts(read) for read in bundles(env)] == [[100 * e + t for t in range(3)] for e in range(3)]
    assert env.observer.counts.kept == 3


def test_koyu_may_be_left_out_of_the_formats(film: Any, run: Any, tmp_path: Path) -> None:
    env = film(formats=["session"])
    run(env)
    env.close()
    assert env.koyu_path is None
    assert not (tmp_path / "cubes").exists()
    check_session(env.session_path)


def test_the_folder_may_be_said(film: Any, run: Any, tmp_path: Path) -> None:
    env = film(koyu={"name": "cubes", "path": tmp_path / "elsewhere/mine"}, formats=["koyu"])
    run(env)
    env.close()
    assert env.koyu_path == tmp_path / "elsewhere/mine"
    assert len(bundles(env)) == 1


def test_a_bare_model_is_recorded_too(bare: Any) -> None:
    observer, advance = bare(koyu=KOYU, formats=["koyu"], cameras=[{"name": "wall", **SMALL}])
    observer.register_task("Count")
    observer.start_recording()
    advance(2)
    observer.mark_event("takeover", by="Kim", pose=[1.5, 2])
    advance()
    observer.end_current_episode(success=False, reward=0.25)
    observer.stop_recording()
    (read,) = read_dataset(observer.koyu_path)
    assert len(read.frames["observation.images.wall"]) == 3
    assert counted(read) == [0.0, 1.0, 2.0]
    assert read.sidecar["events"] == [{"step": 2, "type": "takeover", "by": "Kim", "pose": [1.5, 2]}]
    assert (read.sidecar["reward"], read.sidecar["task"]) == (0.25, "count")


def test_events_are_checked(film: Any) -> None:
    env = film()
    with pytest.raises(lr.StateError, match=r"mark_event\(\) needs the observer to be InEpisode"):
        env.mark_event("takeover")
    env.reset()
    for kind, fields, message in [
        ("", {}, "kind='': give a text"),
        ("x", {"step": 1}, "step=1: every event has a field of this name"),
        ("x", {"by": object()}, "by=<object .*give plain JSON values"),
        ("x", {"by": float("nan")}, "by=nan: give plain JSON values"),
    ]:
        with pytest.raises(lr.SettingsError, match=message):
            env.mark_event(kind, **fields)
    env.step(np.zeros(1))
    env.mark_event("done")
    env.close()
    (read,) = bundles(env)
    assert read.sidecar["events"] == [{"step": 1, "type": "done"}]


def test_two_runs_append_and_a_third_of_another_kind_is_refused(film: Any, run: Any, tmp_path: Path) -> None:
    for _ in range(2):
        env = film(formats=["koyu"])
        run(env, episodes=2)
        env.close()
    assert len(bundles(env)) == 4
    before = snapshot(tmp_path)
    other = film(columns=[*PAIR, lr.Column("reward", "gym:reward")])
    with pytest.raises(lr.SettingsError, match=r"features\['reward'\] is None in this dataset"):
        other.reset()
    assert snapshot(tmp_path) == before
    assert not other.is_recording


def test_the_same_seeded_run_gives_the_same_bytes(film: Any, run: Any, tmp_path: Path) -> None:
    koyu = {"name": "cubes", "id_seed": 5, "time_origin_ns": 10**18}
    for folder in ("one", "other"):
        env = film(output_dir=tmp_path / folder, koyu=koyu)
        run(env, episodes=3)
        env.close()
    assert snapshot(tmp_path / "one/cubes") == snapshot(tmp_path / "other/cubes")
    times = [int(read.rows["timestamp"][0]) - 10**18 for read in bundles(env)]
    assert times == [0, 60_000_000, 120_000_000]


def test_several_robots_have_a_bundle_each(tmp_path: Path) -> None:
    env = lr.RecordSession(
        gym.make("LuckyRecorder/TwinArms-v0"),
        output_dir=tmp_path,
        robots=["left_base", "right_base"],
        cameras=[{"name": "front", **SMALL}],
        koyu=KOYU,
    )
    env.reset(seed=0)
    for _ in range(4):
        env.step(env.action_space.sample())
    env.end_episode(success=True)
    env.close()
    both = bundles(env)
    rows = check_session(env.session_path).episode(0).rows()
    for robot, read in enumerate(both):
        assert read.sidecar["robot"] == ("left_base", "right_base")[robot]
        assert all(name.startswith(("left", "right")[robot]) for name in read.sidecar["names"]["action"])
        for name in ("observation.state", "action"):
            mine = np.array(rows[name].to_pylist())[robot::2].astype(np.float32)
            assert np.array_equal(read.rows[name], mine)
        assert len(read.frames["observation.images.front"]) == read.sidecar["length"] == 4
    assert not np.array_equal(both[0].rows["action"], both[1].rows["action"])
    videos = {*env.koyu_path.rglob("*.mp4"), *env.session_path.rglob("*.mp4")}
    assert len(videos) == 3
    assert len({path.stat().st_ino for path in videos}) == 1


# What the bundle's action is.


@pytest.mark.parametrize("action", ["actuators", "gym"])
def test_which_vector_is_the_action_is_said(record: Any, run: Any, action: str) -> None:
    class Scaled(gym.ActionWrapper):
        def action(self, action: Any) -> Any:
            return action * 10

    env = record(
        Scaled(CountEnv(3, mujoco=True)), mode="robot_arm", gym_columns=True, koyu={"name": "cubes", "action": action}
    )
    run(env)
    env.close()
    (read,) = bundles(env)
    assert read.sidecar["action_source"] == read_manifest(env.koyu_path)["action_source"] == action
    sent, driven = [0, 1, 2], [0, 10, 20]
    if action == "gym":
        assert (counted(read, "action"), counted(read, "action.actuators")) == (sent, driven)
        assert "gym.action" not in read.rows
    else:
        assert (counted(read, "action"), counted(read, "gym.action")) == (driven, sent)


# What becomes of each outcome.


def test_what_becomes_of_each_outcome(film: Any) -> None:
    env = film(3, succeeds=None, max_episode_length_s=0.1)

    class Ends(Exception):
        pass

    def begin(steps: int) -> None:
        env.reset()
        for _ in range(steps):
            env.step(np.zeros(1, np.float32))

    begin(2)
    env.end_episode(success=True)
    begin(2)
    env.end_episode(success=False)
    begin(2)
    with pytest.warns(UserWarning, match="says nothing about success"):
        env.end_episode(reward=0.75)
    begin(1)
    env.end_episode(success=True, reward=0.5)
    begin(1)
    env.recorder.fail(Ends())
    begin(3)
    env.unwrapped._lengths = [None]
    begin(6)
    begin(1)
    env.close()
    read = bundles(env)
    assert [(r.sidecar["length"], r.sidecar["reward"]) for r in read] == [
        (2, 1.0),
        (2, 0.0),
        (2, 0.75),
        (1, 0.5),
        (1, None),
        (3, None),
        (5, 0.0),
        (1, None),
    ]
    assert read_manifest(env.koyu_path)["success_rate"] == (1 + 0 + 0.75 + 0.5 + 0) / 5
    assert len(check_session(env.session_path)) == 8


@pytest.mark.parametrize("formats", [["koyu"], ["session", "koyu"]])
def test_a_discarded_attempt_leaves_nothing(film: Any, run: Any, formats: list[str]) -> None:
    env = film(3, succeeds=lambda episode: episode % 2 == 1, discard_and_retry_failed=True, formats=formats)
    run(env, episodes=6)
    env.observer.flush()
    hidden = [p for p in (env.koyu_path / "episodes").glob(".tmp-*/*") if "ep_" in p.name]
    assert hidden == []
    env.close()
    assert [counted(read) for read in bundles(env)] == [[100 * e + t for t in range(3)] for e in (1, 3, 5)]


@pytest.mark.parametrize("formats", [["koyu"], ["session", "koyu"]])
def test_an_episode_whose_stream_fails_is_no_bundle(
    film: Any, run: Any, monkeypatch: pytest.MonkeyPatch, formats: list[str]
) -> None:
    working = VideoEncoder.write

    def broken(encoder: VideoEncoder, *picture: Any, **named: Any) -> Any:
        if "take-000002" in encoder.path.name and encoder.frames == 2:
            raise RuntimeError("the encoder has had enough")
        return working(encoder, *picture, **named)

    monkeypatch.setattr(VideoEncoder, "write", broken)
    env = film(3, formats=formats)
    run(env, episodes=3)
    with pytest.raises(lr.StreamError, match="had enough"):
        env.close()
    assert [counted(read) for read in bundles(env)] == [[0, 1, 2], [100, 101, 102]]
    assert env.observer.counts.kept == 2 + ("session" in formats)
    if "session" in formats:
        assert [episode.success for episode in check_session(env.session_path)] == [True, True, False]


@pytest.mark.parametrize("formats", [["koyu"], ["session", "koyu"]])
def test_a_value_that_overflows_float32_stops_the_recording(film: Any, formats: list[str]) -> None:
    env = film(4, formats=formats)
    env.reset()
    for action in (0, 1, 2, 3):
        env.step(np.array([action], np.float64))
    env.reset()
    for action in (0, 1, 1e39, 3):
        env.step(np.array([action], np.float64))
    with pytest.raises(lr.CaptureError, match=r"take 1, row 2, column 'action': 1e\+39 does"):
        env.close()
    assert [counted(read) for read in bundles(env)] == [[0, 1, 2, 3]]
    assert not [*env.koyu_path.rglob("*.tmp"), *env.session_path.rglob("*.tmp")]
    if "session" in formats:
        assert len(check_session(env.session_path)) == 1


@pytest.mark.parametrize("formats", [["koyu"], ["session", "koyu"]])
def test_a_disk_that_refuses_the_bundle_leaves_neither(
    film: Any, run: Any, monkeypatch: pytest.MonkeyPatch, formats: list[str]
) -> None:
    def full(path: Path, table: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    env = film(3, formats=formats)
    run(env)
    env.end_episode()
    env.observer.flush()
    monkeypatch.setattr(rows, "write", full)
    env.reset()
    env.step(np.zeros(1))
    with pytest.raises(lr.LuckyRecorderError, match="No space left on device"):
        env.close()
    monkeypatch.undo()
    assert [counted(read) for read in bundles(env)] == [[0, 1, 2]]
    if "session" in formats:
        assert len(check_session(env.session_path)) == 1


# Refused at set-up.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"video_format": "hevc"}, "video_format='hevc': a koyu bundle's videos are H.264"),
        ({"video_format": "av1"}, "video_format='av1'"),
        ({"record_data": False, "cameras": [{"name": "a"}]}, "record_data=False: a koyu bundle is made of rows"),
        ({"koyu": {"name": "a/b"}}, "koyu.name='a/b': use letters"),
        ({"koyu": {}}, "koyu.name is missing"),
        ({"koyu": {"name": "x", "collection_mode": "demo"}}, "koyu.collection_mode='demo': choose one of teleop, eval"),
        ({"koyu": {"name": "x", "time_origin_ns": 1}}, "koyu.time_origin_ns=1: give whole microseconds"),
        ({"koyu": {"name": "x", "id_seed": -1}}, "koyu.id_seed=-1: give a whole number"),
        ({"koyu": {"name": "x", "action": "gym"}}, "koyu.action='gym': what the policy sent is"),
        ({"koyu": None, "formats": ["koyu"]}, "formats=.*: bundles need a name: give koyu=KoyuSettings"),
        ({"formats": ["zarr"]}, "'zarr': choose one of session, koyu"),
        ({"formats": ["koyu", "koyu"]}, "formats='koyu': stands twice"),
        (
            {"formats": ["koyu"], "cameras": [{"name": "a", "depth_mode": "rgbd"}]},
            "camera 'a': its depth stream is written into a session only; add 'session' to formats",
        ),
        ({"formats": ["koyu"], "lidars": [{"name": "top"}]}, "lidar 'top' is written into a session only"),
    ],
)
def test_settings_that_no_bundle_is_made_of_are_refused_when_they_are_built(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(lr.SettingsError, match=message):
        lr.RecorderSettings(**{"output_dir": tmp_path, "koyu": KOYU, **settings})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"columns": PAIR[:1]}, "a bundle needs a column 'action', and the columns here are observation.state"),
        ({"columns": PAIR[1:]}, "a bundle needs a column 'observation.state'"),
        ({"columns": [*PAIR, lr.Column("n", "gym:reward", dtype="int64")]}, "column 'n': dtype='int64': .*float32"),
        ({"cameras": [{"name": "seen", "source": "render", "frame_rate": 25, **SMALL}]}, "frame_rate='25'"),
    ],
)
def test_a_recording_that_is_no_bundle_is_refused_at_its_first_reset(
    film: Any, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    env = film(**settings)
    with pytest.raises(lr.SettingsError, match=message):
        env.reset()
    assert list(tmp_path.iterdir()) == []
    assert not env.is_recording
    env.close()


def test_a_camera_at_the_data_rate_is_not_off_it(film: Any, run: Any) -> None:
    env = film(cameras=[{"name": "seen", "source": "render", "frame_rate": 50, **SMALL}], data_hz=Fraction(50))
    run(env)
    env.close()
    assert [seen_counts(read) for read in bundles(env)] == [[0, 1, 2]]


def test_settings_come_back_from_a_file(tmp_path: Path) -> None:
    settings = lr.RecorderSettings(koyu=lr.KoyuSettings("cubes", path=tmp_path, id_seed=5), formats=("koyu",))
    (tmp_path / "recorder.toml").write_text(settings.to_toml())
    assert lr.RecorderSettings.from_toml(tmp_path / "recorder.toml") == settings
    assert lr.RecorderSettings.from_dict(settings.to_dict()) == settings


# What others were bitten by.


def test_rows_pair_what_was_seen_with_what_was_done(film: Any, run: Any) -> None:
    env = film(3)
    run(env, episodes=2)
    env.close()
    first, second = bundles(env)
    assert (counted(first), counted(first, "action"), seen_counts(first)) == ([0, 1, 2], [0, 1, 2], [0, 1, 2])
    assert counted(second) == seen_counts(second) == [100, 101, 102]


def test_the_first_frame_of_an_episode_is_its_own(record: Any, run: Any, wall: Any) -> None:
    env = record(CountEnv(3, mujoco=True), mode="robot_arm", cameras=[wall], koyu=KOYU)
    run(env, episodes=2)
    env.close()
    colors = [read.frames["observation.images.wall"][0].reshape(-1, 3).mean(0) for read in bundles(env)]
    (red, _, no_blue), (no_red, _, blue) = colors
    assert min(red, blue) > 200
    assert max(no_red, no_blue) < 60


@pytest.mark.parametrize("formats", [["koyu"], ["session", "koyu"]])
def test_a_retry_has_only_frames_of_its_own(film: Any, run: Any, formats: list[str]) -> None:
    env = film([50, 10], succeeds=lambda episode: episode == 1, discard_and_retry_failed=True, formats=formats)
    run(env, episodes=2)
    env.close()
    (read,) = bundles(env)
    assert seen_counts(read) == counted(read) == [100 + t for t in range(10)]


KILLED = """
import os, signal, sys
import numpy as np
import lucky_recorder as lr
from lucky_recorder.testing import CountEnv
env = lr.RecordSession(
    CountEnv(3, mujoco=True), output_dir=sys.argv[1], formats=sys.argv[2].split(","), koyu={"name": "cubes"},
    cameras=[{"name": "wall", "width": 64, "height": 48}],
)
for _ in range(2):
    env.reset()
    for _ in range(3):
        env.step(np.zeros(1))
env.reset()
env.step(np.zeros(1))
env.observer.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("formats", ["koyu", "session,koyu"])
def test_a_killed_recorder_loses_no_bundle_and_leaves_only_what_is_swept(tmp_path: Path, formats: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), formats], check=False)
    assert done.returncode == -signal.SIGKILL
    names = sorted(p.name for p in (tmp_path / "cubes/episodes").iterdir())
    assert [name[:3] for name in names] == [".tm", "ep_", "ep_"]
    assert read_manifest(tmp_path / "cubes")["episodes"] == []
    env = lr.RecordSession(
        CountEnv(3, mujoco=True), output_dir=tmp_path, koyu=KOYU, cameras=[{"name": "wall", **SMALL}]
    )
    env.reset()
    env.close()
    assert [len(read.frames["observation.images.wall"]) for read in bundles(env)] == [3, 3]
