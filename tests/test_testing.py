"""What is shipped for the tests of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder import testing


@pytest.mark.parametrize("size", [(48, 64), (48, 100), (240, 320), (16, 16)], ids=str)
def test_a_painted_count_can_be_read(size: tuple[int, int]) -> None:
    counts = [0, 1, 99, 100, 65535]
    pictures = [testing.paint_count(c, *size) for c in counts]
    assert [testing.read_count(p) for p in pictures] == counts
    assert {(p.shape, p.dtype) for p in pictures} == {((*size, 3), np.dtype(np.uint8))}


@pytest.mark.parametrize("mujoco", [False, True])
def test_the_environment_counts(mujoco: bool) -> None:
    env = testing.CountEnv([2, 1], succeeds=lambda n: n == 1, mujoco=mujoco, render_mode="rgb_array")
    seen = []
    for _ in range(2):
        observation, info = env.reset()
        done = False
        while not done:
            assert testing.read_count(env.render()) == observation[0]
            assert not mujoco or env.data.qpos[0] == observation[0]
            before = observation[0]
            observation, reward, done, truncated, info = env.step(np.zeros(1))
            seen.append((before, reward, observation[0], done, truncated, info["is_success"]))
    assert seen == [(0, 0, 1, False, False, False), (1, 1, 2, True, False, False), (100, 0, 101, True, False, True)]


def test_without_a_render_mode_or_a_verdict_it_is_silent() -> None:
    env = testing.CountEnv(succeeds=None)
    env.reset()
    assert env.step(np.zeros(1))[4] == {}
    assert env.render() is None


def test_a_good_session_is_opened_and_a_broken_one_raises_with_every_fault(record: Any, run: Any) -> None:
    env = record()
    run(env)
    env.close()
    assert len(testing.check_session(env.session_path)) == 1
    (env.session_path / "meta/stats.json").unlink()
    (env.session_path / "data/chunk-000/file-001.parquet.tmp").touch()
    with pytest.raises(AssertionError, match=r"2 faults(.|\n)*stats\.json: is missing(.|\n)*file-001\.parquet\.tmp: "):
        testing.check_session(env.session_path)


def test_there_is_nothing_to_check_where_nothing_was_recorded(record: Any, tmp_path: Path) -> None:
    with pytest.raises(lr.SettingsError, match="path=None: nothing was recorded"):
        testing.check_session(record().session_path)
    with pytest.raises(lr.FormatError):
        testing.check_session(tmp_path / "nowhere")


def test_a_discarded_episode_is_not_in_memory(record: Any, run: Any, tmp_path: Path) -> None:
    sink = testing.MemorySink(tmp_path)
    env = record(
        testing.CountEnv(2, succeeds=lambda n: n == 1), discard_and_retry_failed=True, formats=(), sinks=[sink]
    )
    run(env, episodes=2)
    env.close()
    assert [r.columns["obs"].tolist() for r in sink.records] == [[100, 101]]
    assert sink.schema.entity_label == "custom"
    assert sink.is_closed
