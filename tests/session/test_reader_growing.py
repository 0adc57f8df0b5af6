"""A session that is opened while it is recorded: all that it says is of the episodes that it lists."""

from __future__ import annotations

import shutil
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.episode.statistics import PixelHistogram
from lucky_recorder.session import layout, metadata
from lucky_recorder.session.reader import Session
from tests.session.building import Recording, arm_schema, camera, lidar

FRONT = "observation.images.Front"


def begun(root: Path, per_file: int, episodes: int) -> Recording:
    schema = arm_schema([camera("Front")], lidars=[lidar("top")])
    recording = Recording(root, schema, episodes_per_file=per_file, metadata_every=1)
    for _ in range(episodes):
        recording.keep(4)
    return recording


def assert_is_of(session: Session, recording: Recording, count: int) -> None:
    """Compare all that is counted with the first episodes as they were recorded."""
    records = recording.committed[:count]
    rows = sum(record.rows for record in records)
    assert (len(session), session.info["total_episodes"], session.info["total_frames"]) == (count, count, rows)
    assert session.scan_count("top") == count
    stats = session.stats
    for name in ("action", "observation.state"):
        values = np.concatenate([record.columns[name] for record in records])
        assert stats[name]["count"] == [rows]
        np.testing.assert_array_equal(stats[name]["min"], values.min(axis=0))
        np.testing.assert_array_equal(stats[name]["max"], values.max(axis=0))
        np.testing.assert_allclose(stats[name]["mean"], values.mean(axis=0), rtol=1e-9)
    pictures = sum(-(-len(episode.frames("Front")) // PixelHistogram.every) for episode in session)
    assert stats[FRONT]["count"] == [pictures]


@pytest.mark.parametrize("later", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("before", [1, 2, 4])
@pytest.mark.parametrize("per_file", [1, 3])
def test_what_is_counted_is_what_is_listed_whatever_came_later(
    tmp_path: Path, per_file: int, before: int, later: int
) -> None:
    recording = begun(tmp_path, per_file, before)
    session = Session(tmp_path)
    assert len(session) == before
    for _ in range(later):
        recording.keep(5)
    assert_is_of(session, recording, before)
    recording.close()
    assert_is_of(Session(tmp_path), recording, before + later)


def test_between_the_two_files_that_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = begun(tmp_path, 1, 2)
    session = Session(tmp_path)
    assert session.is_current
    original = metadata.write_json

    def stop_before_info(path: Path, content: object) -> None:
        if path.name != Path(layout.INFO_PATH).name:
            original(path, content)

    monkeypatch.setattr(metadata, "write_json", stop_before_info)
    recording.keep(5)
    assert_is_of(session, recording, 2)
    assert_is_of(Session(tmp_path), recording, 3)


def test_while_a_simulation_is_recorded(tmp_path: Path) -> None:
    settings = lr.RecorderSettings(output_dir=tmp_path, metadata_every=1)
    env = lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0"), settings)
    opened: list[Session] = []
    with env:
        for seed in range(4):
            env.reset(seed=seed)
            for _ in range(3 + seed):
                env.step(env.action_space.sample())
            env.end_episode(success=True)
            env.observer.flush()
            opened.append(Session(env.session_path))
            assert len(opened[-1]) == seed + 1
    for session in opened:
        rows = sum(episode.length for episode in session)
        assert session.info["total_frames"] == rows
        assert session.stats["action"]["count"] == [rows]


def test_the_state_is_that_of_now_whatever_was_read_before(tmp_path: Path) -> None:
    """Asked of objects that have read different things at different moments."""
    recording = begun(tmp_path, 3, 1)
    looked: list[Session] = []
    for _ in range(6):
        for reads in ("", "episodes", "info", "stats", "unlisted", "is_current"):
            looked.append(Session(tmp_path))
            if reads:
                getattr(looked[-1], reads)
        assert {session.state for session in looked} == {"in progress"}
        recording.keep(3)
    recording.close()
    assert {session.state for session in looked} == {"complete"}
    (tmp_path / layout.INFO_PATH).unlink()
    assert {session.state for session in looked} == {"cut short"}
    shutil.rmtree(tmp_path)
    with pytest.raises(lr.FormatError, match="no such folder"):
        _ = looked[0].state
