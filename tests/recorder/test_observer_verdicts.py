"""Observer: the verdict and the reward that an episode ends with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import MemorySink
from tests.recorder.states import IN


@pytest.mark.parametrize("success", [None, "yes", 2, 0.5, "True", np.array([True, False])], ids=repr)
def test_a_verdict_that_is_no_truth_value_is_refused(bare: Any, success: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance()
    for verb in (observer.end_current_episode, observer.end_current_episode_begin_next):
        with pytest.raises(lr.SettingsError, match=r"success=.*give True or False"):
            verb(success)
    assert observer.state is IN


@pytest.mark.parametrize("reward", [-0.1, 1.1, np.nan, np.inf, "high"], ids=repr)
def test_a_reward_outside_0_to_1_is_refused(bare: Any, reward: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance()
    with pytest.raises(lr.SettingsError, match=r"reward=.*give a number from 0 to 1"):
        observer.end_current_episode(success=True, reward=reward)
    assert observer.state is IN


@pytest.mark.parametrize(("success", "kept"), [(np.True_, True), (1, True), (np.False_, False), (0, False)], ids=repr)
def test_verdict_and_reward_travel_with_the_episode(bare: Any, tmp_path: Path, success: Any, kept: bool) -> None:
    sink = MemorySink(tmp_path)
    observer, advance = bare(formats=(), sinks=[sink])
    observer.start_recording()
    advance()
    observer.end_current_episode(success, reward=0.75)
    observer.stop_recording()
    (record,) = sink.records
    assert (record.outcome.success, record.outcome.reward, record.outcome.reason) == (kept, 0.75, "verdict")
    assert record.outcome.success is kept
    assert sink.is_closed
