"""Vector environments whose observations say which row they are, and what must be recorded of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv, check_session, read_count

LENGTHS = (2, 3, 5)
PER_LANE = 20
SIZE = {"width": 64, "height": 48}
OBS = lr.Column("obs", "gym:obs", shape=(1,))


class Lane(CountEnv):
    """Counts from an episode of its own: what it shows tells its lane, its episode and its step."""

    def __init__(self, lane: int, length: Any = 3, **fields: Any) -> None:
        super().__init__(length, render_mode="rgb_array", **fields)
        self.episode = PER_LANE * lane - 1


def vector(
    lengths: Sequence[Any] = LENGTHS,
    mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    wrap: Callable[[gym.Env[Any, Any]], Any] = lambda env: env,
    **fields: Any,
) -> SyncVectorEnv:
    makers = [lambda lane=lane, n=n: wrap(Lane(lane, n, **fields)) for lane, n in enumerate(lengths)]
    return SyncVectorEnv(makers, autoreset_mode=mode)


def custom(path: Path, **fields: Any) -> dict[str, Any]:
    """Settings that need no simulator."""
    return {"output_dir": path, "mode": "custom", "columns": [OBS], "gym_columns": True, **fields}


def action(step: int, lane: int) -> float:
    return step + lane / 64


def run(env: Any, steps: int, mode: AutoresetMode = AutoresetMode.NEXT_STEP) -> None:
    """Reset, and take steps; where nobody else resets what is done, it is done here."""
    lanes = env.num_envs
    env.reset(seed=7)
    done = np.zeros(lanes, bool)
    for step in range(steps):
        if mode is AutoresetMode.DISABLED and done.any():
            env.reset(options={"reset_mask": done})
        actions = np.array([[action(step, lane)] for lane in range(lanes)], np.float32)
        *_, terminated, truncated, _ = env.step(actions)
        done = terminated | truncated


class Expected(NamedTuple):
    """An episode: its lane, its number in the environment, the steps of the run that are its rows, how it ended."""

    lane: int
    episode: int
    steps: tuple[int, ...]
    is_done: bool


def expected(lengths: Sequence[int], steps: int, mode: AutoresetMode) -> list[Expected]:
    """What a run must leave, in the order of the verdicts."""
    open_ones = [Expected(lane, PER_LANE * lane, (), False) for lane in range(len(lengths))]
    ended = []

    def reset(lane: int) -> None:
        ended.append(open_ones[lane])
        open_ones[lane] = Expected(lane, open_ones[lane].episode + 1, (), False)

    for step in range(steps):
        if mode is AutoresetMode.DISABLED:
            for lane in [one.lane for one in open_ones if one.is_done]:
                reset(lane)
        for lane, length in enumerate(lengths):
            if open_ones[lane].is_done:
                reset(lane)
                continue
            taken = (*open_ones[lane].steps, step)
            open_ones[lane] = open_ones[lane]._replace(steps=taken, is_done=len(taken) == length)
            if mode is AutoresetMode.SAME_STEP and open_ones[lane].is_done:
                reset(lane)
    return [*ended, *(one for one in open_ones if one.steps)]


def assert_recorded(path: Path, wanted: Sequence[Expected], pictures: Sequence[str] = ()) -> None:
    """Every row, flag, command, verdict and frame of a session is the expected one."""
    session = check_session(path)
    assert len(session) == len(wanted)
    for index, want in enumerate(wanted):
        count = len(want.steps)
        rows = session.episode(index).rows().to_pydict()
        counts = [100 * want.episode + t for t in range(count)]
        assert np.ravel(rows["obs"]).tolist() == counts
        sent = "action" if "action" in rows else "gym.action"
        assert np.ravel(rows[sent]).tolist() == [action(step, want.lane) for step in want.steps]
        assert rows["next.reward"] == list(range(count))
        assert rows["next.done"] == [False] * (count - 1) + [want.is_done]
        assert [flags & 2 for flags in rows["frame_flags"]] == [2] + [0] * (count - 1)
        assert rows["episode_index"] == [index] * count
        if "eye" in pictures:
            frames = list(session.episode(index).frames("observation.images.eye"))
            assert [read_count(frame) for frame in frames] == counts
        if "wall" in pictures:
            frames = list(session.episode(index).frames("observation.images.wall"))
            assert len(frames) == count
            for t, frame in enumerate(frames):
                colour = (0, 8 * t, 255) if want.episode % 2 else (255, 8 * t, 0)
                assert np.abs(frame.reshape(-1, 3).mean(0) - colour).max() < 12, (index, t, frame[0, 0])
    table = session.episodes.to_pydict()
    assert table["success"] == [one.is_done for one in wanted]
