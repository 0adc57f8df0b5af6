"""What has bitten people who record simulations, by the number of the report: encoders and disks that fail."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv
from lucky_recorder.video.decode import decode_all
from lucky_recorder.video.encoder import VideoEncoder
from tests.scenarios.moves import fill


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


@pytest.mark.filterwarnings("ignore:.*the disk is nearly full:RuntimeWarning")
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
    env = record(cameras=[seen], worker_timeout_s=1.0)
    try:
        with pytest.raises(lr.WorkerStalledError, match=r"worker_timeout_s=1"):
            run(env, episodes=20)
        assert not env.is_recording
        env.close()
    finally:
        go_on.set()
        env.recorder.recording._worker._thread.join(30)
