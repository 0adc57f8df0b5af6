"""What has bitten people who record simulations, tried on this recorder. The numbers are those of the reports."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.envs import scene_path
from lucky_recorder.testing import CountEnv, MemorySink, check_session, paint_count
from lucky_recorder.video.decode import decode_all
from lucky_recorder.video.encoder import VideoEncoder

ZERO = np.zeros(1, np.float32)


def test_report_01_observations_are_paired_with_the_action_chosen_on_them(
    record: Any, run: Any, read_back: Any
) -> None:
    env = record(CountEnv(3), gym_columns=True)
    run(env, episodes=2)
    env.close()
    first, second = read_back(env.session_path)
    assert first.rows["obs"].tolist() == first.rows["gym.action"].tolist() == [0, 1, 2]
    assert second.rows["obs"].tolist() == [100, 101, 102]
    assert second.rows["gym.action"].tolist() == [0, 1, 2]


class Expected:
    """What a session should hold after any order of calls: the plainest bookkeeping there is."""

    def __init__(self, length: int, discards: bool) -> None:
        self.length, self.discards = length, discards
        self.episodes: list[tuple[list[int], bool]] = []
        self.open: list[int] | None = None
        self.number, self.t = -1, 0

    def end(self, success: bool) -> None:
        rows, self.open = self.open, None
        if rows and (success or not self.discards):
            self.episodes.append((rows, success))

    def reset(self) -> None:
        self.end(success=True)
        self.number, self.t, self.open = self.number + 1, 0, []

    def step(self) -> None:
        if self.open is not None and self.t < self.length:
            self.open.append(100 * self.number + self.t)
        self.t += 1


def play(env: Any, expected: Expected, moves: list[str]) -> None:
    """Make the moves of a game of done and reset, and keep the books."""
    for move in moves:
        if move == "reset":
            env.reset()
            expected.reset()
        elif move == "step":
            env.step(ZERO)
            expected.step()
        elif expected.open is not None:
            env.end_episode(success=move == "won")
            expected.end(move == "won")


@pytest.mark.parametrize("discards", [False, True], ids=["keeps", "discards"])
def test_report_02_two_hundred_orders_of_done_and_reset(tmp_path: Path, discards: bool) -> None:
    chance = random.Random(2)
    for game in range(100):
        length = chance.randint(1, 4)
        sink, expected = MemorySink(tmp_path), Expected(length, discards)
        env = lr.RecordSession(
            CountEnv(length),
            mode="custom",
            columns=[lr.Column("obs", "gym:obs")],
            discard_and_retry_failed=discards,
            formats=(),
            sinks=[sink],
        )
        play(env, expected, ["reset", *chance.choices(["reset", "step", "won", "lost"], [2, 5, 1, 1], k=30)])
        env.close()
        expected.end(success=expected.t >= length)
        recorded = [(r.columns["obs"].tolist(), r.outcome.success) for r in sink.records]
        assert recorded == expected.episodes, game
        assert env.observer.counts.kept == len(expected.episodes)
        assert env.observer.counts.rows == sum(len(rows) for rows, _ in expected.episodes)


@pytest.mark.parametrize("hook", ["column", "step", "render"])
def test_report_02_a_hook_that_raises_at_step_5_fails_the_episode(
    record: Any, run: Any, read_back: Any, counts: Any, seen: Any, hook: str
) -> None:
    class Hooked(CountEnv):
        def call(self, name: str) -> None:
            if name == hook and self.count == 105:
                raise ZeroDivisionError(name)

        def step(self, action: Any) -> Any:
            self.call("step")
            return super().step(action)

        def render(self) -> Any:
            self.call("render")
            return super().render()

    inner = Hooked(8, render_mode="rgb_array")
    columns = [lr.Column("obs", "gym:obs"), lr.Column("n", lambda moment: inner.call("column") or 1.0)]
    env = record(inner, columns=columns, cameras=[seen])
    run(env)
    with pytest.raises((ZeroDivisionError, lr.StreamError), match=hook):
        run(env)
    run(env, episodes=2)
    env.close()
    episodes = read_back(env.session_path)
    rows = [[100 * n + t for t in range(8 if n != 1 else 5)] for n in range(2 if hook == "render" else 4)]
    assert [e.rows["obs"].tolist() for e in episodes] == rows
    assert [counts(e)["seen"] for e in episodes] == rows
    assert [e.meta["success"] for e in episodes] == [n != 1 for n in range(len(rows))]
    info = lr.Session(env.session_path).info
    assert (info["total_episodes"], info["total_frames"]) == (len(rows), sum(map(len, rows)))


def test_report_04_what_changes_at_a_reset_shows_in_its_first_frame(
    record: Any, run: Any, read_back: Any, wall: Any
) -> None:
    env = record(CountEnv(3, mujoco=True), cameras=[wall])
    run(env, episodes=2)
    env.close()
    red, blue = (e.frames["wall"][0].reshape(-1, 3).mean(0) for e in read_back(env.session_path))
    assert red[0] > 200 > 60 > red[2]
    assert blue[2] > 200 > 60 > blue[0]


@pytest.mark.parametrize("env_id", ["LuckyRecorder/PickCube-v0", "LuckyRecorder/TwinArms-v0"])
def test_report_05_positions_are_those_of_the_stored_state(tmp_path: Path, env_id: str) -> None:
    inner = gym.make(env_id)
    model = inner.unwrapped.model
    site, body = model.site(0).name, model.body(model.nbody - 1).name
    columns = [lr.Column("site", f"site_xpos:{site}", shape=3), lr.Column("body", f"xpos:{body}", shape=3)]
    env = lr.RecordSession(inner, output_dir=tmp_path, mode="full_scene", columns=columns)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(20):
        env.step(env.action_space.sample())
    data = mujoco.MjData(model)
    env.close()
    rows = check_session(env.session_path).episode(0).rows()
    for qpos, at, where in zip(*(rows[c].to_pylist() for c in ("observation.state", "site", "body")), strict=True):
        data.qpos[:] = qpos
        mujoco.mj_forward(model, data)
        assert np.allclose(data.site(site).xpos, at, rtol=0, atol=1e-12)
        assert np.allclose(data.body(body).xpos, where, rtol=0, atol=1e-12)


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


def test_report_13_no_empty_episode(record: Any, read_back: Any) -> None:
    env = record(CountEnv(None))
    env.reset()
    env.reset()
    env.step(ZERO)
    env.reset()
    env.close()
    assert [e.meta["length"] for e in read_back(env.session_path)] == [1]


def test_report_13_ten_episodes_of_sixty_steps_without_done(record: Any, run: Any, read_back: Any) -> None:
    env = record(CountEnv(None))
    run(env, episodes=10, steps=60)
    env.reset()
    env.close()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(60, True)] * 10


def test_report_15_an_encoder_that_raises_in_close_costs_no_row_and_is_not_swallowed(
    record: Any, run: Any, read_back: Any, seen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(encoder: VideoEncoder) -> None:
        raise OSError("the muxer is broken")

    monkeypatch.setattr(VideoEncoder, "close", close)
    env = record(cameras=[seen])
    run(env)
    with pytest.raises(lr.StreamError, match=r"observation\.images\.seen.*the muxer is broken"):
        env.close()
    (episode,) = read_back(env.session_path)
    assert episode.rows["obs"].tolist() == [0, 1, 2]
    assert (episode.meta["success"], episode.frames) == (False, {})


@pytest.mark.parametrize("source", ["seen", "wall"])
def test_report_16_a_retry_is_as_long_as_the_retry(
    record: Any, run: Any, read_back: Any, counts: Any, seen: Any, wall: Any, source: str
) -> None:
    env = record(
        CountEnv([50, 10], succeeds=lambda n: n == 1, mujoco=True, render_mode="rgb_array"),
        cameras=[seen if source == "seen" else wall],
        discard_and_retry_failed=True,
        total_episodes=1,
    )
    run(env, episodes=2)
    env.close()
    (episode,) = read_back(env.session_path)
    assert counts(episode) == {"rows": list(range(100, 110)), source: list(range(100, 110))}
    assert [p.name for p in env.session_path.rglob("*.mp4*")] == ["file-000.mp4"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Return a function that makes a disk of so many MB; skips where this process may not."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = []

    def mount(megabytes: int) -> Path:
        made = hasattr(libc, "mount") and libc.mount(
            b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={megabytes}m".encode()
        )
        if made != 0:
            pytest.skip("mounting a tmpfs needs root")
        mounted.append(folder)
        return folder

    yield mount
    for path in mounted:
        libc.umount2(os.fsencode(path), 2)


class Noise(CountEnv):
    """Renders what no codec can make small."""

    def render(self) -> Any:
        return np.random.default_rng(self.count).integers(0, 256, (48, 64, 3), np.uint8)


def fill(env: Any) -> None:
    """Record until the disk is full."""
    for episode in range(500):
        env.reset(seed=episode)
        for _ in range(20):
            env.step(ZERO)
        env.end_episode(success=True)


@pytest.mark.parametrize("has_camera", [True, False], ids=["video", "rows"])
def test_report_17_a_full_disk_names_the_path_and_finished_episodes_load(
    record: Any, small_disk: Any, tmp_path: Path, seen: Any, has_camera: bool
) -> None:
    disk = small_disk(2)
    wide = [lr.Column("wide", lambda moment: np.random.default_rng(0).random(2000), shape=2000)]
    cameras = {"cameras": [seen]} if has_camera else {"columns": wide}
    env = record(Noise(None, render_mode="rgb_array"), output_dir=disk, metadata_every=1, **cameras)
    with pytest.raises(lr.LuckyRecorderError, match=rf"{disk}.*No space left on device"):
        fill(env)
    assert not env.is_recording
    env.close()
    path = Path(shutil.copytree(env.session_path, tmp_path / env.session_path.name))
    whole = sorted(path.glob("data/*/file-*.parquet"))
    assert len(whole) > 3
    assert {pq.read_table(p, partitioning=None).num_rows for p in whole[:-1]} == {20}
    for file in path.glob("meta/*.json"):
        json.loads(file.read_text())
    for file in (*whole, *path.glob("meta/**/*.parquet")):
        pq.read_table(file, partitioning=None)
    session = lr.Session(path)
    assert len(session) >= len(whole) - 1
    for episode in session:
        assert episode.rows().num_rows == episode.length
        if has_camera and episode.success:
            assert len(decode_all(episode.video_path("seen"))) == episode.length == 20


def test_report_17_a_full_disk_that_is_feigned(record: Any, seen: Any, monkeypatch: Any, read_back: Any) -> None:
    """The same without a disk of our own: from the third video on, there is no room."""
    working = VideoEncoder.close

    def close(encoder: VideoEncoder) -> Any:
        if "take-000002" in encoder.path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(encoder.path))
        return working(encoder)

    monkeypatch.setattr(VideoEncoder, "close", close)
    env = record(CountEnv(None, render_mode="rgb_array"), cameras=[seen])
    with pytest.raises(lr.StreamError, match=r"No space left on device: '.*take-000002"):
        fill(env)
    episodes = read_back(env.session_path)
    assert [(e.meta["success"], len(e.frames)) for e in episodes] == [(True, 1), (True, 1), (False, 0)]


def test_report_18_a_slow_encoder_drops_no_frame(
    record: Any, run: Any, read_back: Any, counts: Any, wall: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, fullest = threading.Event(), []
    working = VideoEncoder.write

    def write(encoder: VideoEncoder, *args: Any, **named: Any) -> None:
        jobs = env.recorder.recording._worker._jobs
        # Of sixteen scenes one is being drawn, and fifteen wait.
        while jobs.qsize() < 15 and not over.wait(0.001):
            pass
        fullest.append(jobs.qsize())
        working(encoder, *args, **named)

    monkeypatch.setattr(VideoEncoder, "write", write)
    env = record(CountEnv(500, mujoco=True), cameras=[wall])
    run(env)
    over.set()
    env.close()
    (episode,) = read_back(env.session_path)
    assert len(episode.rows["obs"]) == len(episode.frames["wall"]) == 500
    assert counts(episode)["wall"] == [t % 30 for t in range(500)]
    assert max(fullest) >= 15


def test_report_19_an_encoder_that_hangs_is_an_error_after_a_bounded_wait(
    record: Any, run: Any, seen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(VideoEncoder, "write", lambda *args, **named: go_on.wait(30))
    env = record(cameras=[seen], worker_timeout_s=0.2)
    try:
        with pytest.raises(lr.WorkerStalledError, match=r"worker_timeout_s=0\.2"):
            run(env, episodes=20)
        assert not env.is_recording
        env.close()
    finally:
        go_on.set()
        env.recorder.recording._worker._thread.join(30)


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


def test_report_23_declared_info_keys_are_null_where_they_are_absent(record: Any, run: Any) -> None:
    class Talks(CountEnv):
        def _info(self) -> dict[str, Any]:
            said = {"score": float(self.t)} if self.t != 2 else {"score": None}
            return {**super()._info(), **({} if self.t == 3 else said), "never declared": object()}

    env = record(
        Talks(4), columns=[lr.Column("score", "info:score"), lr.Column("absent", "info:absent", dtype="int64")]
    )
    run(env)
    env.close()
    session = check_session(env.session_path)
    rows = session.episode(0).rows()
    assert rows["score"].to_pylist() == [1.0, None, None, 4.0]
    assert rows["absent"].to_pylist() == [None] * 4
    assert str(rows.schema.field("absent").type) == "int64"
    assert session.stats["score"]["count"] == [2]
    assert session.stats["score"]["mean"] == [2.5]
