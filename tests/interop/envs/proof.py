"""What every environment must show: it records without a fault, and runs, bit for bit, as it does unrecorded."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np

import lucky_recorder as lr
from lucky_recorder.capture.find import find_simulation
from lucky_recorder.session.check import inspect_session

EPISODES, STEPS = 2, 12
STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
Make = Callable[[], Any]


class Step(NamedTuple):
    """The whole state before a step, and what the step returned."""

    state: np.ndarray
    obs: np.ndarray
    reward: float
    done: bool


def prove(name: str, make: Make, before_last: Callable[[Any], None] | None = None, **fields: Any) -> lr.Session:
    """Record an environment, compare it with its unrecorded run, check the session, and say so.

    Args:
        name: What to call it.
        make: Makes the environment, the same one every time.
        before_last: Called with the environment before the last step of an episode.
        fields: Settings of the recorder.
    """
    env = make()
    cameras = [lr.Camera("seen", source=lr.FreeCamera(), width=64, height=48)]
    with tempfile.TemporaryDirectory() as folder:
        wrapped = lr.RecordSession(env, output_dir=folder, cameras=cameras, **fields)
        ours = run(wrapped, before_last)
        compare(ours, run(make(), before_last))
        report, session = inspect_session(wrapped.session_path), lr.Session(wrapped.session_path)
        rows = sum(len(steps) for steps in ours)
        assert not report.faults, report.faults
        assert (report.episodes, report.rows, report.frames) == (EPISODES, rows, rows), report
        if wrapped.settings.mode == "full_scene":
            compare_joints(session, ours)
        verdicts = [episode.success for episode in session]
        print(
            f"ok  {name}: {wrapped.settings.mode}, {session.hz} Hz, {rows} rows and frames, success {verdicts}, "
            f"{_sizes(session)}, bit-equal to the unrecorded run",
            flush=True,
        )
    return session


def run(env: Any, before_last: Callable[[Any], None] | None = None) -> list[list[Step]]:
    """Run short episodes of random actions; a reset breaks off what has not ended by itself."""
    actions = np.random.default_rng(5)
    space = env.action_space
    episodes = []
    for seed in range(EPISODES):
        env.reset(seed=seed)
        steps: list[Step] = []
        while len(steps) < STEPS and not (steps and steps[-1].done):
            if before_last is not None and len(steps) == STEPS - 1:
                before_last(env)
            state = whole_state(env)
            action = actions.uniform(space.low, space.high).astype(space.dtype)
            obs, reward, terminated, truncated, _ = env.step(action)
            steps.append(Step(state, flat(obs), float(reward), bool(terminated or truncated)))
        episodes.append(steps)
    env.close()
    return episodes


def whole_state(env: Any) -> np.ndarray:
    """Read the simulation's state for integration; some environments make a new simulation at every reset."""
    found = find_simulation(env)
    assert found is not None, f"no simulation found in {env}"
    state = np.empty(mujoco.mj_stateSize(found.model, STATE))
    mujoco.mj_getState(found.model, found.data, state, STATE)
    return state


def flat(obs: Any) -> np.ndarray:
    """Return every number of an observation, in the order of its keys."""
    if isinstance(obs, dict):
        return np.concatenate([flat(obs[key]) for key in sorted(obs)])
    return np.array(obs, np.float64).ravel()


def compare(ours: list[list[Step]], theirs: list[list[Step]]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        for a, b in zip(mine, other, strict=True):
            for value, expected in zip(a, b, strict=True):
                np.testing.assert_array_equal(value, expected)


def compare_joints(session: lr.Session, episodes: list[list[Step]]) -> None:
    for episode, steps in zip(session, episodes, strict=True):
        qpos = np.array(episode.rows()["observation.state"].to_pylist())
        np.testing.assert_array_equal(qpos, [s.state[1 : 1 + qpos.shape[1]] for s in steps])


def refuse(name: str, make: Make, *words: str, **fields: Any) -> None:
    """Show that settings are refused in words that lead on, before anything is on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        wrapped = lr.RecordSession(make(), output_dir=folder, **fields)
        said = _refusal(wrapped)
        wrapped.close()
        assert said, f"{name}: {fields} were not refused"
        missing = [word for word in words if word not in said]
        assert not missing, f"{said} does not say {missing}"
        assert not list(Path(folder).iterdir())
        print(f"ok  {name}: refused: {said}", flush=True)


def _refusal(wrapped: lr.RecordSession) -> str:
    try:
        wrapped.reset(seed=0)
    except lr.SettingsError as error:
        return str(error)
    return ""


def _sizes(session: lr.Session) -> str:
    names = ("action", "observation.state", "gym.action")
    return ", ".join(f"{name} {session.features[name]['shape']}" for name in names if name in session.features)
