"""What has bitten people who record simulations, by the number of the report: where episodes begin and end."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv, MemorySink
from tests.scenarios.moves import ZERO, Expected, play


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
        with expected.warned():
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
