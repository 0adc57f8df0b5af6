"""What becomes of each outcome of an episode in a dataset of bundles, and of one that cannot be written."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.koyu import rows
from lucky_recorder.testing import check_session
from lucky_recorder.video.encoder import VideoEncoder
from tests.koyu.making import read_manifest
from tests.koyu.recording import bundles, counted, seen_counts


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
    manifest = read_manifest(env.koyu_path)
    assert (manifest["success_rate"], manifest["mean_reward"]) == (3 / 5, (1 + 0 + 0.75 + 0.5 + 0) / 5)
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
    def full(path: Path, *given: Any) -> None:
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


@pytest.mark.parametrize("formats", [["koyu"], ["session", "koyu"]])
def test_a_retry_has_only_frames_of_its_own(film: Any, run: Any, formats: list[str]) -> None:
    env = film([50, 10], succeeds=lambda episode: episode == 1, discard_and_retry_failed=True, formats=formats)
    run(env, episodes=2)
    env.close()
    (read,) = bundles(env)
    assert seen_counts(read) == counted(read) == [100 + t for t in range(10)]
