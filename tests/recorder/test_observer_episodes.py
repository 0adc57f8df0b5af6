"""Observer: which ticks are an episode's, when it ends by itself, and which episodes are kept."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from tests.recorder.states import IDLE, IN


def test_a_tick_after_an_end_begins_the_next_episode(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    for ticks, success in ((3, True), (1, False), (2, True)):
        advance(ticks)
        observer.end_current_episode(success)
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    assert [e.rows["observation.state"][:, 0].tolist() for e in episodes] == [[0, 1, 2], [3], [4, 5]]
    assert [e.rows["action"][:, 0].tolist() for e in episodes] == [[0, 1, 2], [3], [4, 5]]
    assert [e.meta["success"] for e in episodes] == [True, False, True]
    assert [e.rows["timestamp"].tolist() for e in episodes] == [[0, 0.02, 0.04], [0], [0, 0.02]]


def test_end_and_begin_next_loses_no_tick(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    for _ in range(3):
        advance(2)
        observer.end_current_episode_begin_next(success=True)
        assert observer.state is IN
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    assert [e.rows["observation.state"][:, 0].tolist() for e in episodes] == [[0, 1], [2, 3], [4, 5]]


def test_an_episode_without_a_row_takes_no_index(bare: Any, read_back: Any) -> None:
    observer, advance = bare(total_episodes=2)
    observer.start_recording()
    for _ in range(3):
        observer.end_current_episode_begin_next(success=True)
    advance(2)
    observer.end_current_episode(success=True)
    observer.begin_episode()
    observer.end_current_episode(success=True)
    assert observer.is_recording
    observer.stop_recording()
    assert [(e.meta["episode_index"], e.meta["length"]) for e in read_back(observer.session_path)] == [(0, 2)]


@pytest.mark.parametrize("discards", [False, True])
def test_a_stop_while_open_fails_the_episode(bare: Any, read_back: Any, discards: bool) -> None:
    observer, advance = bare(discard_and_retry_failed=discards)
    observer.start_recording()
    advance(2)
    observer.end_current_episode(success=True)
    advance(3)
    observer.stop_recording()
    kept = [(2, True)] if discards else [(2, True), (3, False)]
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == kept


@pytest.mark.parametrize("discards", [False, True])
def test_the_longest_episode_ends_as_failed_and_the_next_tick_begins_another(
    bare: Any, read_back: Any, discards: bool
) -> None:
    observer, advance = bare(max_episode_length_s=0.06, discard_and_retry_failed=discards)
    observer.start_recording()
    advance(8)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    rows = [(e.meta["success"], e.rows["observation.state"][:, 0].tolist()) for e in episodes]
    last = (True, [6, 7])
    assert rows == ([last] if discards else [(False, [0, 1, 2]), (False, [3, 4, 5]), last])


def test_an_episode_exactly_as_long_as_allowed_keeps_its_verdict(bare: Any, read_back: Any) -> None:
    observer, advance = bare(max_episode_length_s=0.06)
    observer.start_recording()
    advance(3)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(3, True)]


def test_the_session_stops_by_itself_with_one_notice(
    bare: Any, read_back: Any, caplog: pytest.LogCaptureFixture
) -> None:
    observer, advance = bare(total_episodes=2)
    observer.start_recording()
    with caplog.at_level(logging.WARNING, "lucky_recorder"):
        for _ in range(2):
            assert observer.is_recording
            advance(2)
            observer.end_current_episode_begin_next(success=False)
    assert observer.state is IDLE
    assert [r.getMessage() for r in caplog.records] == [
        f"total_episodes=2 reached: {observer.session_path} is complete"
    ]
    with pytest.raises(lr.StateError, match=r"tick\(\) needs .* it is Idle: .* by itself after total_episodes=2"):
        advance()
    assert [e.meta["length"] for e in read_back(observer.session_path)] == [2, 2]


def test_a_loop_while_recording_ends_without_an_error(bare: Any, read_back: Any) -> None:
    observer, advance = bare(total_episodes=2, max_episode_length_s=0.04)
    observer.start_recording()
    while observer.is_recording:
        advance()
    assert [e.rows["observation.state"][:, 0].tolist() for e in read_back(observer.session_path)] == [[0, 1], [2, 3]]


def test_discarded_episodes_do_not_count_towards_the_total(bare: Any, read_back: Any) -> None:
    observer, advance = bare(total_episodes=2, discard_and_retry_failed=True)
    observer.start_recording()
    for success in (False, True, False, False):
        advance(2)
        observer.end_current_episode(success)
        assert observer.is_recording
    advance(1)
    observer.end_current_episode(success=True)
    assert not observer.is_recording
    assert (observer.counts.kept, observer.counts.discarded, observer.counts.rows) == (2, 3, 3)
    episodes = read_back(observer.session_path)
    assert [e.rows["observation.state"][:, 0].tolist() for e in episodes] == [[2, 3], [8]]
    assert [e.meta["episode_index"] for e in episodes] == [0, 1]


@pytest.mark.parametrize("is_seeded", [False, True])
def test_only_seeded_episodes_are_reproducible(bare: Any, is_seeded: bool) -> None:
    observer, advance = bare()
    observer.start_recording()
    observer.end_current_episode(success=True)
    for _ in range(2):
        observer.begin_episode(7 if is_seeded else None)
        advance()
        observer.end_current_episode(success=True)
    observer.stop_recording()
    assert lr.Session(observer.session_path).info["bit_reproducible"] is is_seeded


def test_an_episode_longer_than_a_block_is_whole(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(2500)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    (episode,) = read_back(observer.session_path)
    assert episode.rows["observation.state"][:, 0].tolist() == list(range(2500))
    assert episode.rows["action"][:, 0].tolist() == list(range(2500))
    assert np.array_equal(episode.rows["timestamp"], np.round(np.arange(2500) * 20_000_000) / 1e9)
