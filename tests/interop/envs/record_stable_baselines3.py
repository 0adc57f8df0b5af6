"""Stable-Baselines3: its policy learns, acts and is evaluated in a recorded ``DummyVecEnv`` of its own."""

from __future__ import annotations

import home

# The torch that LeRobot's environment has too.
home.run_at_home("stable_baselines3", "torch==2.13.0", "stable-baselines3==2.9.2")

import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import gymnasium as gym  # noqa: E402
import numpy as np  # noqa: E402
from stable_baselines3 import PPO  # noqa: E402
from stable_baselines3.common.evaluation import evaluate_policy  # noqa: E402
from stable_baselines3.common.monitor import Monitor  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize, unwrap_vec_normalize  # noqa: E402

import lucky_recorder as lr  # noqa: E402
from lucky_recorder.session.check import inspect_session  # noqa: E402

LANES, LENGTHS, LEARNED, EVALUATED = 3, (7, 10, 13), 96, 6
SETTINGS: dict[str, Any] = {
    "gym_columns": True,
    "cameras": [lr.Camera("seen", source=lr.FreeCamera(), width=64, height=48)],
    "success": lambda episode: True,
}


def lane(number: int) -> Any:
    """Make an environment that a Monitor watches; those of each lane are of another length."""
    env = gym.make("InvertedPendulum-v5", max_episode_steps=LENGTHS[number], reset_noise_scale=0.05)
    return lambda: Monitor(env)


def vector() -> DummyVecEnv:
    return DummyVecEnv([lane(number) for number in range(LANES)])


def learned(venv: Any) -> PPO:
    model = PPO("MlpPolicy", venv, n_steps=16, batch_size=16, n_epochs=1, seed=5, device="cpu")
    return model.learn(LEARNED)


def evaluated(model: PPO, venv: Any) -> tuple[list[float], list[int]]:
    venv.seed(11)
    rewards, lengths = evaluate_policy(model, venv, n_eval_episodes=EVALUATED, return_episode_rewards=True)
    return rewards, lengths


def weights(model: PPO) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in model.policy.parameters()])


def told(path: Path) -> list[tuple[float, int]]:
    """The rewards and the rows of each episode of a session that has no fault."""
    report = inspect_session(path)
    assert not report.faults, report.faults
    assert report.frames == report.rows
    episodes = [episode.rows()["next.reward"].to_numpy() for episode in lr.Session(path)]
    return [(float(np.sum(rewards)), len(rewards)) for rewards in episodes]


def learn_and_evaluate(folder: Path) -> None:
    """Learning and evaluating is the same, bit for bit, recorded and not; what Monitor says is what is recorded."""
    plain = learned(vector())
    recorded = lr.RecordSession(vector(), output_dir=folder / "learned", **SETTINGS)
    assert isinstance(recorded, VecEnv)
    model = learned(recorded)
    assert model.get_env() is recorded
    assert np.array_equal(weights(model), weights(plain))
    recorded.close()
    steps = sum(length for _, length in told(recorded.session_path))
    assert steps == LEARNED, steps

    again = lr.RecordSession(vector(), output_dir=folder / "evaluated", **SETTINGS)
    found = evaluated(model, again)
    assert found == evaluated(plain, vector())
    again.close()
    # The lanes that had done their share have begun another when the last one ends.
    rest = told(again.session_path)
    for one in zip(*found, strict=True):
        rest.remove(next(row for row in rest if row[1] == one[1] and abs(row[0] - one[0]) < 1e-5))
    assert len(rest) <= 2 * LANES, rest
    print(f"ok  PPO learns and is evaluated in a recorded DummyVecEnv: {steps} rows, {found}", flush=True)


def wrapped_in_its_own(folder: Path) -> None:
    """Its own wrappers go around the recorder, and inside."""
    inside = lr.RecordSession(VecNormalize(vector()), output_dir=folder / "inside", **SETTINGS)
    assert unwrap_vec_normalize(inside) is inside.venv
    learned(inside)
    inside.close()
    recorder = lr.RecordSession(vector(), output_dir=folder / "around", **SETTINGS)
    around = VecNormalize(recorder)
    learned(around)
    around.close()
    for one in (inside, recorder):
        assert sum(length for _, length in told(one.session_path)) == LEARNED
    print("ok  VecNormalize inside and around", flush=True)


def policy_of_its_own(folder: Path) -> None:
    """A policy of its own collects in a single recorded environment."""
    model = learned(vector())
    env = lr.RecordSession(lane(1)(), output_dir=folder / "collected", **SETTINGS)
    summary = lr.collect(env, lambda observation: model.predict(observation, deterministic=True)[0], episodes=2)
    env.close()
    assert [length for _, length in told(summary.path)] == [10, 10]
    print("ok  model.predict collects", flush=True)


with tempfile.TemporaryDirectory() as made:
    learn_and_evaluate(Path(made))
    wrapped_in_its_own(Path(made))
    policy_of_its_own(Path(made))
print("Stable-Baselines3 records.")
