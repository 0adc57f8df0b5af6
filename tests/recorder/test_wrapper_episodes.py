"""RecordSession: which episodes are recorded, how many, how long, and which attempts are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_recorder.testing import CountEnv
from tests.recorder.stepping import steps


def test_the_longest_episode_ends_as_failed_and_nothing_is_recorded_until_reset(
    record: Any, read_back: Any, counts: Any, seen: Any
) -> None:
    env = record(CountEnv(None, render_mode="rgb_array"), cameras=[seen], max_episode_length_s=0.06)
    for length in (9, 2, 5):
        env.reset()
        steps(env, length)
    env.close()
    episodes = read_back(env.session_path)
    assert [counts(e)["seen"] for e in episodes] == [[0, 1, 2], [100, 101], [200, 201, 202]]
    assert [e.rows["obs"].tolist() for e in episodes] == [[0, 1, 2], [100, 101], [200, 201, 202]]
    assert [e.meta["success"] for e in episodes] == [False, True, False]


@pytest.mark.parametrize(
    ("discards", "episodes"), [(False, [0, 100]), (True, [0, 200])], ids=["keeps failed", "discards failed"]
)
def test_after_so_many_kept_episodes_the_session_closes(
    record: Any, run: Any, read_back: Any, caplog: Any, discards: bool, episodes: list[int]
) -> None:
    env = record(CountEnv(2, succeeds=lambda n: n % 2 == 0), total_episodes=2, discard_and_retry_failed=discards)
    with caplog.at_level("WARNING", "lucky_recorder"):
        attempts = 0
        while attempts == 0 or env.is_recording:
            run(env)
            attempts += 1
        run(env, episodes=3)
    assert attempts == len(range(0, episodes[-1] + 1, 100)) + 1
    assert [r.getMessage() for r in caplog.records if r.name == "lucky_recorder"] == [
        f"total_episodes=2 reached: {env.session_path} is complete"
    ]
    path = env.session_path
    env.close()
    assert env.session_path == path
    assert [e.rows["obs"].tolist() for e in read_back(path)] == [[n, n + 1] for n in episodes]


def test_only_the_episodes_that_are_asked_for_are_recorded(record: Any, run: Any, read_back: Any) -> None:
    env = record(CountEnv(2), episode_trigger=lambda number: number in (1, 2, 5))
    env.reset()
    assert (env.session_path, env.is_recording) == (None, False)
    steps(env, 2)
    run(env, episodes=6)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[n, n + 1] for n in (100, 200, 500)]


def every_third(number: int) -> bool:
    return number % 3 == 0


def test_a_trigger_may_be_named(record: Any, run: Any, read_back: Any) -> None:
    env = record(CountEnv(1), episode_trigger=f"{__name__}:every_third")
    run(env, episodes=5)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0], [300]]


def test_an_episode_that_is_not_asked_for_stays_so_over_a_kept_reset(record: Any, read_back: Any) -> None:
    env = record(CountEnv(None), episode_trigger=lambda number: number == 1)
    env.reset()
    steps(env, 2)
    env.reset(options={"keep_episode": True})
    steps(env, 2)
    env.reset()
    steps(env, 3)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[200, 201, 202]]


def test_no_episode_asked_for_leaves_nothing(record: Any, run: Any, tmp_path: Path) -> None:
    env = record(episode_trigger=lambda number: False)
    run(env, episodes=3)
    env.close()
    assert (env.session_path, list(tmp_path.iterdir())) == (None, [])


# Discard and retry.


def test_a_discarded_attempt_leaves_nothing_and_its_index_is_used_again(
    record: Any, run: Any, read_back: Any, counts: Any, seen: Any, wall: Any
) -> None:
    env = record(
        CountEnv([12, 3, 5], succeeds=lambda n: n not in (0, 3, 4, 8), mujoco=True, render_mode="rgb_array"),
        cameras=[seen, wall],
        discard_and_retry_failed=True,
    )
    run(env, episodes=9)
    env.close()
    episodes = read_back(env.session_path)
    kept = [1, 2, 5, 6, 7]
    assert [e.meta["episode_index"] for e in episodes] == list(range(5))
    assert [counts(e)["rows"] for e in episodes] == [[100 * n + t for t in range([12, 3, 5][n % 3])] for n in kept]
    assert [counts(e)["seen"] for e in episodes] == [counts(e)["rows"] for e in episodes]
    assert np.concatenate([e.rows["index"] for e in episodes]).tolist() == list(range(3 + 5 + 5 + 12 + 3))
    videos = [p.name for p in sorted(env.session_path.glob("videos/*.wall/*/*"))]
    assert videos == [f"file-{n:03d}.mp4" for n in range(5)]


def test_failures_are_kept_unless_they_are_to_be_discarded(record: Any, run: Any, read_back: Any) -> None:
    env = record(CountEnv(2, succeeds=lambda n: n == 1))
    run(env, episodes=3)
    env.close()
    assert [e.meta["success"] for e in read_back(env.session_path)] == [False, True, False]
