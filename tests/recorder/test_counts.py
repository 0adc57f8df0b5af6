"""What became of the episodes: the counts of a session, and a sink in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lucky_recorder.testing import CountEnv, MemorySink


def test_counts_say_what_became_of_the_episodes(record: Any, run: Any, seen: Any) -> None:
    env = record(
        CountEnv([2, 5], succeeds=lambda n: n % 2 == 0, render_mode="rgb_array"),
        cameras=[seen],
        discard_and_retry_failed=True,
    )
    run(env, episodes=5)
    env.close()
    counts = env.observer.counts
    assert (counts.kept, counts.discarded, counts.rows) == (3, 2, 6)
    assert counts.bytes == sum(p.stat().st_size for p in env.session_path.rglob("*.mp4"))


def test_a_sink_in_memory_takes_the_same_episodes(record: Any, run: Any, seen: Any, tmp_path: Path) -> None:
    sink = MemorySink(tmp_path / "memory")
    env = record(CountEnv([2, 3], render_mode="rgb_array"), cameras=[seen], formats=(), sinks=[sink])
    run(env, episodes=2)
    env.close()
    assert [r.columns["obs"].tolist() for r in sink.records] == [[0, 1], [100, 101, 102]]
    assert [r.videos["observation.images.seen"].file.frames for r in sink.records] == [2, 3]
    assert (env.session_path, sink.is_closed) == (tmp_path / "memory", True)
    assert not (tmp_path / "DataSessions").exists()
