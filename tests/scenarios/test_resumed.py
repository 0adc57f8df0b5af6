"""The whole recorder, every stream: a session in parts is the one that a single recording would have written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import check_koyu, check_session
from tests.scenarios.everything import EVERYTHING
from tests.session.resuming import contents, listed

SETTINGS: dict[str, Any] = {
    **{name: value for name, value in EVERYTHING.items() if name != "cameras"},
    "cameras": EVERYTHING["cameras"][:2],
    "success": "terminated",
    "tasks": ["Pick up the cube"],
    "episodes_per_file": 3,
    "files_per_chunk": 2,
    "metadata_every": 2,
}


class OfItself(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that seeds itself, so that the recorder hears of no seed."""

    def __init__(self, first: int) -> None:
        super().__init__(gym.make("LuckyRecorder/PickCube-v0"))
        self._next = first

    def reset(self, **given: Any) -> Any:
        self._next += 1
        return self.env.reset(seed=self._next - 1)


def _record(settings: dict[str, Any], numbers: range, is_seeded: bool, **place: Any) -> Path:
    env = lr.RecordSession(OfItself(numbers.start), **settings, **place)
    for number in numbers:
        env.reset(seed=number if is_seeded else None)
        env.action_space.seed(number)
        for _ in range(3 + number % 3):
            env.step(env.action_space.sample())
        env.end_episode(success=number != 1)
    env.close()
    assert env.session_path is not None
    return env.session_path


@pytest.mark.parametrize("is_seeded", [True, False], ids=["seeded", "unseeded"])
def test_every_stream_goes_on(tmp_path: Path, is_seeded: bool) -> None:
    """Also the noise of sensors, which goes by the seed or else by the take: it is never drawn again."""
    bundles = lr.KoyuSettings(name="bundles", path=tmp_path / "bundles") if is_seeded else None
    fields = {"koyu": bundles} if bundles else {}
    if bundles:  # a bundle has a frame for each row
        fields["cameras"] = EVERYTHING["cameras"][:1]
    settings = {**SETTINGS, **fields}
    whole = _record(settings, range(5), is_seeded, output_dir=tmp_path / "whole")
    parts = _record(settings, range(2), is_seeded, output_dir=tmp_path / "parts")
    for numbers in (range(2, 3), range(3, 5)):
        assert _record(settings, numbers, is_seeded, resume=parts) == parts
    assert contents(parts) == contents(whole)
    assert listed(parts) == listed(whole)
    assert len(check_session(parts)) == 5
    if bundles:
        assert len(check_koyu(tmp_path / "bundles").episodes) == 10


class Still(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that begins every episode alike, so that only the noise of a sensor tells them apart."""

    def reset(self, **given: Any) -> Any:
        answer = self.env.reset(**given)
        self.unwrapped.data.qpos[:] = self.unwrapped.model.qpos0
        mujoco.mj_forward(self.unwrapped.model, self.unwrapped.data)
        return answer


def _attempt(outcomes: Sequence[bool], per_file: int, **place: Any) -> Path:
    noisy = lr.Camera("front", width=64, height=48, depth_mode="depth_only", sensor_model="ActiveStereo")
    settings = {"cameras": [noisy], "discard_and_retry_failed": True, "episodes_per_file": per_file}
    env = lr.RecordSession(Still(gym.make("LuckyRecorder/PickCube-v0")), **settings, **place)
    for outcome in outcomes:
        env.reset()
        for _ in range(3):
            env.step(np.zeros(env.action_space.shape, np.float32))
        env.end_episode(success=outcome)
    env.close()
    assert env.session_path is not None
    return env.session_path


@pytest.mark.parametrize("per_file", [1, 3])
def test_noise_is_not_drawn_again_where_attempts_were_discarded(tmp_path: Path, per_file: int) -> None:
    parts = [False, True], [False, False, True], [True]
    whole = _attempt([outcome for part in parts for outcome in part], per_file, output_dir=tmp_path / "whole")
    path = _attempt(parts[0], per_file, output_dir=tmp_path / "parts")
    for part in parts[1:]:
        _attempt(part, per_file, resume=path)
    noise = {np.stack(list(episode.depth("front").codes)).tobytes() for episode in check_session(path)}
    assert len(noise) == 3
    assert contents(path) == contents(whole)
