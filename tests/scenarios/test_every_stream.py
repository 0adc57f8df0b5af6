"""Every stream of the format at once: what is on the disk, the same bytes again, and a run that is not disturbed."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import check_session
from lucky_recorder.video import remux
from lucky_recorder.video.decode import decode_all
from tests.capture.models import contents
from tests.same import bytes_of
from tests.scenarios.everything import EVERYTHING, record

_ARENA = ("timer", "efc_", "iefc_", "contact", "island", "map_", "iM_", "iLD", "dof_island", "tendon_efcadr")
_MEASURED = ("narena", "maxuse_arena", "maxuse_stack", "maxuse_threadstack", "threadpool", "signature")


def test_everything_at_once_is_the_same_bytes_again(tmp_path: Path) -> None:
    first, second = (record(tmp_path / str(k)) for k in range(2))
    check_session(first)
    known, again = bytes_of(first), bytes_of(second)
    assert known.keys() == again.keys()
    assert [name for name in known if known[name] != again[name]] == []
    assert json.loads(known["meta/info.json"])["bit_reproducible"] is True
    streams = {name.rpartition("/chunk")[0] for name in known if name.startswith("videos/")}
    front = {f"videos/observation.images.front{end}" for end in ("", "_depth", "_rgbd")}
    assert streams == front | {
        "videos/observation.images.wrist_depth", "videos/observation.images.fast",
        "videos/observation.images.fast_depth",
        "videos/observation.masks.front",
    }  # fmt: skip
    assert {n for n in known if n.startswith("data/chunk-000/lidar")} == {
        f"data/chunk-000/lidar-grasp-00{e}.{end}" for e in range(2) for end in ("json", "mp4", "parquet")
    }
    episode = check_session(first).episode(1)
    counts = {"front": 6, "wrist_depth": 3, "fast": 12, "fast_depth": 12, "front_depth": 6}
    for name, count in counts.items():
        with episode.frames(name) as frames:
            assert len(frames) == count, name
        rate = {"front": 50, "wrist": 25, "fast": 100}[name.removesuffix("_depth")]
        assert episode.meta[f"videos/observation.images.{name}/to_timestamp"] == count / rate
    assert (len(episode.scans("grasp")), len(episode.masks("front"))) == (3, 6)


def test_another_seed_of_the_session_is_another_noise_and_the_same_picture(tmp_path: Path) -> None:
    first, second = (bytes_of(record(tmp_path / str(seed), episodes=1, seed=seed)) for seed in range(2))
    differ = {name for name in first if first[name] != second[name]}
    assert differ == {
        "videos/observation.images.wrist_depth/chunk-000/file-000.mkv",
        "data/chunk-000/lidar-grasp-000.parquet", "data/chunk-000/lidar-grasp-000.mp4",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("video_format", "in_hardware"), [("h264", True), ("hevc", False), ("hevc", True), ("av1", False)]
)
def test_every_video_format_holds_the_same_session(tmp_path: Path, video_format: str, in_hardware: bool) -> None:
    path = record(tmp_path, episodes=1, video_format=video_format, hardware_encoder=in_hardware)
    session = check_session(path)
    info = {key: f["info"] for key, f in session.features.items() if f["dtype"] == "video"}
    assert info["observation.images.front"]["video.codec"] == video_format
    assert info["observation.images.front_depth"]["video.codec"] == "ffv1"
    # There is no graphics card that encodes where these tests run; where there is, the bytes are not promised.
    from lucky_recorder.video.available import available

    is_card = in_hardware and available(f"{video_format}_nvenc", width=64, height=48) is not None
    assert session.info["bit_reproducible"] is not is_card
    episode = session.episode(0)
    whole = decode_all(episode.video_path("front"))
    assert len(whole) == 6
    with episode.frames("front") as frames:
        for k in (5, 0, 3):
            assert np.array_equal(frames[k], whole[k])
    known = decode_all(session.video_files("front")[0])
    assert np.abs(known.astype(int) - whole).max() == 0
    assert remux.first_difference(episode.rgbd_path("front"), remux.COLOR_TRACK, episode.video_path("front")) is None
    assert (
        remux.first_difference(episode.rgbd_path("front"), remux.DEPTH_TRACK, episode.video_path("front_depth")) is None
    )


def test_a_run_with_every_stream_is_the_run_without_a_recorder(tmp_path: Path) -> None:
    plain = gym.make("LuckyRecorder/PickCube-v0")
    env = lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0"), output_dir=tmp_path, **EVERYTHING)
    for seed in (3, None):
        starts = [e.reset(seed=seed)[0] for e in (plain, env)]
        assert np.array_equal(*starts)
        for k in range(5):
            action = np.sin(np.arange(plain.action_space.shape[0]) + k).astype(np.float32)
            known, got = plain.step(action), env.step(action)
            assert np.array_equal(known[0], got[0])
            assert known[1:4] == got[1:4]
        before, after = contents(plain.unwrapped.data), contents(env.unwrapped.data)
        # What MuJoCo measures of itself is never the same, nor what it never wrote of its arena.
        same = {k for k in before if not k.startswith(_ARENA) and k not in _MEASURED}
        assert [k for k in sorted(same) if before[k] != after[k]] == []
        assert contents(plain.unwrapped.model) == contents(env.unwrapped.model)
    env.close()
    plain.close()
    check_session(env.session_path)
