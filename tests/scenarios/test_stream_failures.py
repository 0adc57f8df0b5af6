"""A stream that fails takes no other with it: its episode fails, the session stops, and what is left is whole."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder import testing
from lucky_recorder.testing import check_session
from tests.scenarios.everything import record
from tests.scenarios.failing import ALL, FAILURES, FRONT, ONE_CAMERA, after


def streams_of_episode(path: Path, episode: int) -> set[str]:
    """The streams that have a file of an episode."""
    videos = {p.parts[-3] for p in path.glob(f"videos/*/*/file-{episode:03d}.m*")}
    scans = {p.name.rpartition("-")[0] for p in path.glob(f"data/*/lidar-*-{episode:03d}.*")}
    return videos | scans


@pytest.mark.parametrize("discards", [False, True], ids=["keeps", "discards"])
@pytest.mark.parametrize("what", FAILURES)
def test_a_stream_that_fails_fails_its_episode_and_stops_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, discards: bool
) -> None:
    fail, gone = FAILURES[what]
    fail(monkeypatch)
    with pytest.raises(lr.StreamError, match="failed: RuntimeError: has had enough"):
        record(tmp_path, episodes=4, discard_and_retry_failed=discards, **ONE_CAMERA)
    (path,) = (tmp_path / "DataSessions").iterdir()
    assert not list(path.rglob("*.tmp"))
    session = testing.check_session(path)
    assert streams_of_episode(path, 0) == ALL
    assert [e.success for e in session] == ([True] if discards else [True, False])
    assert streams_of_episode(path, 1) == (set() if discards else ALL - gone)
    if discards:
        return
    failed = session.episode(1)
    assert 3 < failed.length <= 6
    for key in (FRONT, f"{FRONT}_depth"):
        assert (failed.meta[f"videos/{key}/chunk_index"] is None) is (key in gone)
        if key not in gone:
            with failed.frames(key) as frames:
                assert len(frames) == failed.length
    if "observation.masks.front" not in gone:
        assert len(failed.masks("front")) == failed.length
    if "lidar-grasp" not in gone:
        assert len(failed.scans("grasp")) == failed.length


def test_a_stream_that_fails_while_a_step_is_taken_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FAILURES["colour encoder"][0](monkeypatch)
    env = lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0"), output_dir=tmp_path, data_hz=500, **ONE_CAMERA)
    action = np.zeros(env.action_space.shape, np.float32)

    def run() -> None:
        for episode in range(50):
            env.reset(seed=episode)
            for _ in range(6):
                env.step(action)
            env.end_episode(success=True)

    with pytest.raises(lr.StreamError, match="has had enough"):
        run()
    assert not env.is_recording
    env.reset(seed=0)
    env.step(action)
    env.close()
    session = check_session(env.session_path)
    assert [e.success for e in session] == [True, False]
    assert session.episode(0).length == 60


def test_scans_that_cannot_be_written_leave_no_file_of_their_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lucky_recorder.session import lidar

    working = lidar.table
    monkeypatch.setattr(lidar, "table", after(1, working))
    with pytest.raises(lr.StreamError, match="take 1 could not be written: RuntimeError: has had enough"):
        record(tmp_path, episodes=4, **ONE_CAMERA)
    (path,) = (tmp_path / "DataSessions").iterdir()
    assert [e.success for e in check_session(path)] == [True]
    assert streams_of_episode(path, 1) == set()
    assert not list(path.rglob("*.tmp"))
