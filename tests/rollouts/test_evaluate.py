from __future__ import annotations

import io
import json
import sys
import types
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.lerobot.policy import lerobot_policy
from lucky_recorder.rollouts.evaluate import evaluate
from lucky_recorder.rollouts.results import Evaluation, Rollout, wilson
from lucky_recorder.testing import CountEnv, check_koyu, check_session

KEY = "observation.images.wall"
WALL = {"name": "wall", "width": 64, "height": 48}


@pytest.fixture
def counting(record: Any, tmp_path: Path) -> Any:
    """Return a function that makes a recorded environment that counts, with a model, a camera and bundles."""

    def make(**fields: Any) -> lr.RecordSession:
        env = fields.pop("env", None) or CountEnv(length=(4, 3), succeeds=lambda e: e % 2 == 0, mujoco=True)
        koyu = lr.KoyuSettings(name="rollouts", collection_mode="eval", policy_name="two", source_checkpoint="step-7")
        settings = {"mode": "robot_arm", "cameras": [WALL], "tasks": ["Count up"], "koyu": koyu, **fields}
        return record(env, **settings)

    return make


def test_rollouts_are_recorded_and_counted(counting: Any, tmp_path: Path) -> None:
    env = counting()
    result = lr.evaluate(env, lambda observation: np.array([2.5]), action="gym", episodes=4)
    env.close()
    assert [(r.success, r.length, r.total_reward, r.reward) for r in result.rollouts] == [
        (True, 4, 6.0, 1.0),
        (False, 3, 3.0, 0.0),
    ] * 2
    assert [r.seed for r in result.rollouts] == [0, 1, 2, 3]
    assert (result.success_rate, result.mean_length, result.mean_return, result.policy) == (0.5, 3.5, 4.5, "two")
    dataset = check_koyu(tmp_path / "rollouts")
    assert (result.koyu_path, result.path) == (dataset.path, env.session_path)
    assert dataset.manifest["success_rate"] == 0.5 == result.mean_reward
    assert dataset.manifest["type"] == "eval"
    first = dataset.sidecar(0)
    assert (first["policy_name"], first["source_checkpoint"], first["reward"]) == ("two", "step-7", 1.0)
    assert check_session(env.session_path).episodes["success"].to_pylist() == [True, False, True, False]


def test_a_policy_sees_exactly_what_its_bundles_hold(counting: Any, tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def policy(observation: dict[str, Any]) -> Any:
        seen.append({key: np.copy(value) if hasattr(value, "shape") else value for key, value in observation.items()})
        return np.array([len(seen)])

    columns = [
        lr.Column("pose", "qpos:count"),
        lr.Column("double", lambda m: 2 * m.data.qpos[0], shape=(1,)),
        lr.Column("observation.said", lambda m: "a text, of which a bundle knows nothing", dtype="str"),
        lr.Column("later", lambda m: m.reward, when="after"),
    ]
    env = counting(columns=columns)
    with pytest.warns(UserWarning, match="koyu bundles hold numbers only, .*: observation.said$"):
        evaluate(env, policy, action="gym", seeds=[5, 3])
    env.close()
    assert all({"observation.said", "later"}.isdisjoint(one) for one in seen)
    dataset = check_koyu(tmp_path / "rollouts")
    assert len(dataset) == len(seen) == 7
    for number, (one, row) in enumerate(zip(seen, dataset, strict=True), 1):
        for key in ("observation.state", "pose", "double"):
            assert one[key].dtype == row[key].dtype == np.float32
            assert one[key].tolist() == row[key].tolist()
        assert np.abs(one[KEY].astype(int) - row[KEY]).max() <= 8
        assert (one["task"], one["task_description"]) == (row["task"], "Count up")
        assert row["action"].tolist() == [number]
        assert set(one) == {"observation.state", "pose", "double", KEY, "task", "task_description"}


@pytest.mark.parametrize(("execute", "decisions"), [(None, [0, 3]), (2, [0, 2, 4]), (1, [0, 1, 2, 3, 4])])
def test_a_chunk_is_carried_out_and_flagged(counting: Any, read_back: Any, execute: Any, decisions: list[int]) -> None:
    env = counting(env=CountEnv(length=5, mujoco=True), koyu=None)

    def policy(observation: dict[str, Any]) -> Any:
        count = observation["observation.state"][0]
        return [[count], [count + 0.25], [count + 0.5]]

    result = evaluate(env, policy, action="gym", episodes=1, execute=execute)
    env.close()
    (episode,) = read_back(env.session_path)
    new = np.flatnonzero(episode.rows["frame_flags"] & 1).tolist()
    assert new == decisions
    assert result.rollouts[0].decisions == len(decisions)
    asked = [max(d for d in decisions if d <= k) for k in range(5)]
    expected = [decision + 0.25 * (k - decision) for k, decision in enumerate(asked)]
    assert episode.rows["action"][:, 0].tolist() == expected


def test_actuators_go_through_the_joints_scale(tmp_path: Path) -> None:
    """What is recorded in ``action`` must be what the policy said."""
    koyu = lr.KoyuSettings(name="rollouts", collection_mode="eval")
    env = lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0"), output_dir=tmp_path, koyu=koyu, formats=("koyu",))
    said = []

    def policy(observation: dict[str, Any]) -> Any:
        said.append(observation["observation.state"] * 0.5)
        return said[-1]

    env.env = gym.wrappers.TimeLimit(env.env, 5)
    with env:
        result = evaluate(env, policy, action="actuators", episodes=1)
    rows = check_koyu(tmp_path / "rollouts").columns(0)
    np.testing.assert_allclose(rows["action"], said[: len(rows["action"])], atol=1e-5)
    assert (result.path, result.koyu_path) == (None, tmp_path / "rollouts")


def test_actuators_are_refused_where_the_action_is_another(record: Any) -> None:
    rescaled = gym.wrappers.RescaleAction(gym.make("LuckyRecorder/PickCube-v0"), np.float32(-1), np.float32(1))
    env = record(rescaled, mode="robot_arm")
    with pytest.raises(lr.SettingsError, match=r"action='actuators': the environment's action space is not"):
        evaluate(env, lambda o: [0.0] * 6, action="actuators", episodes=1)
    env = record(CountEnv())
    with pytest.raises(lr.SettingsError, match="there is no action column here; use action='gym'"):
        evaluate(env, lambda o: [0.0], action="actuators", episodes=1)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ([1.0, 2.0], r"returned shape \(2,\); expected an action, shape \(1,\)"),
        ([[[1.0]]], r"returned shape \(1, 1, 1\)"),
        ([np.nan], "is not finite"),
        ("go", "returned what is no action"),
        (np.zeros((0, 1)), r"returned shape \(0, 1\)"),
        (1.0, r"returned shape \(\)"),
    ],
)
def test_what_is_no_action(counting: Any, said: Any, message: str) -> None:
    env = counting()
    with pytest.raises(lr.SettingsError, match=message):
        evaluate(env, lambda o: said, action="gym", episodes=1)


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ({}, {"action": "ctrl"}, "action='ctrl': choose one of gym, actuators"),
        ({}, {"episodes": 0}, "episodes=0"),
        ({}, {"episodes": None}, "episodes and seeds: give one of them"),
        ({}, {"episodes": 2, "seeds": [1]}, r"seeds=\[1\]: give one for each of the 2"),
        ({}, {"episodes": None, "seeds": []}, "seeds="),
        ({}, {"episodes": None, "seeds": [-1]}, "seeds"),
        ({}, {"execute": 0}, "execute=0"),
        (
            {"resume": "DataSessions/a", "output_dir": "."},
            {},
            "resume='.*/DataSessions/a': an evaluation has a session of its own",
        ),
        ({"discard_and_retry_failed": True}, {}, "discard_and_retry_failed=True: an evaluation keeps its failures"),
        ({"koyu": lr.KoyuSettings(name="x")}, {}, "koyu.collection_mode='synthetic': choose one of eval"),
    ],
)
def test_what_makes_no_sense(counting: Any, settings: Any, arguments: Any, message: str) -> None:
    env = counting(**settings)
    with pytest.raises(lr.SettingsError, match=message):
        evaluate(env, lambda o: [0.0], **{"action": "gym", "episodes": 1, **arguments})
    assert env.session_path is None


def test_the_action_is_never_guessed(counting: Any) -> None:
    with pytest.raises(TypeError, match="action"):
        lr.evaluate(counting(), lambda o: [0.0], episodes=1)  # type: ignore[call-arg]


def test_the_time_limit_ends_a_rollout_at_its_last_row(counting: Any, read_back: Any) -> None:
    env = counting(env=CountEnv(length=None, mujoco=True), max_episode_length_s=0.1)
    asked = []
    result = evaluate(env, lambda o: asked.append(1) or [[0.0]] * 3, action="gym", episodes=2)  # type: ignore[func-returns-value]
    env.close()
    assert [(r.reason, r.length, r.success, r.reward) for r in result.rollouts] == [("time_limit", 5, False, 0.0)] * 2
    assert len(asked) == 4
    assert [len(e.rows["index"]) for e in read_back(env.session_path)] == [5, 5]


def test_without_a_signal_nothing_is_judged(counting: Any) -> None:
    env = counting(env=CountEnv(length=2, succeeds=None, mujoco=True))
    with pytest.warns(UserWarning, match="says nothing about success"):
        result = evaluate(env, lambda o: [0.0], action="gym", episodes=2)
    assert (result.success_rate, result.interval, result.mean_reward) == (None, None, None)
    assert [r.reason for r in result.rollouts] == ["no_verdict"] * 2
    assert result.to_dict()["success_rate_95"] is None


def test_a_policy_is_reset_before_each_episode(counting: Any) -> None:
    class Policy:
        resets = 0

        def reset(self) -> None:
            self.resets += 1

        def __call__(self, observation: dict[str, Any]) -> Any:
            return [float(self.resets)]

    env, policy = counting(koyu=None), Policy()
    told: list[Rollout] = []
    result = evaluate(env, policy, action="gym", episodes=3, on_episode=told.append)
    assert policy.resets == 3
    assert tuple(told) == result.rollouts
    assert result.policy == "Policy"


def test_a_session_that_has_ended(counting: Any) -> None:
    env = counting(total_episodes=1)
    with pytest.raises(lr.StateError, match="has ended; make another RecordSession"):
        evaluate(env, lambda o: [0.0], action="gym", episodes=2)


def test_an_environment_of_whole_numbers(record: Any) -> None:
    class Choosing(CountEnv):
        def __init__(self) -> None:
            super().__init__(length=2)
            self.action_space = gym.spaces.Discrete(3)  # type: ignore[assignment]
            self.taken: list[Any] = []

        def step(self, action: Any) -> Any:
            self.taken.append(action)
            return super().step(np.zeros(1, np.float32))

    inner = Choosing()
    evaluate(record(inner), lambda o: 2, action="gym", episodes=1)
    assert inner.taken == [2, 2]
    assert inner.taken[0].dtype == np.int64
    with pytest.raises(lr.SettingsError, match="whole numbers"):
        evaluate(record(Choosing()), lambda o: 1.5, action="gym", episodes=1)


# The result.


def rollouts(*verdicts: bool | None) -> Evaluation:
    made = [
        Rollout(seed, said, "verdict", 10 + seed, 2.0, None if said is None else float(said), 5, 0.1)
        for seed, said in enumerate(verdicts)
    ]
    return Evaluation(tuple(made), "mine", "gym", Path("here"))


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    [(0, 10, 0.0, 0.27753), (10, 10, 0.72247, 1.0), (5, 10, 0.23659, 0.76341), (81, 263, 0.25527, 0.36624)],
)
def test_the_wilson_interval(successes: int, count: int, low: float, high: float) -> None:
    assert wilson(successes, count) == pytest.approx((low, high), abs=1e-4)


def test_a_result_as_json_and_as_a_table(tmp_path: Path) -> None:
    from rich.console import Console

    result = rollouts(True, False, None)
    result.save(tmp_path / "result.json")
    saved = json.loads((tmp_path / "result.json").read_text())
    assert saved == json.loads(result.to_json()) == result.to_dict()
    assert (saved["success_rate"], saved["judged"], saved["episodes"], saved["session"]) == (0.5, 2, 3, "here")
    assert saved["rollouts"][1]["success"] is False
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(result.table())
    shown = console.export_text()
    assert "50% (9% to 91%)" in shown
    assert "mine, action=gym" in shown


def test_a_result_without_rollouts() -> None:
    assert rollouts().to_dict()["mean_length"] is None
    assert rollouts().table().row_count == 0


# LeRobot.


def test_without_lerobot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(lr.SettingsError, match=r"checkpoint='here': lerobot 0\.4 or later is needed"):
        lerobot_policy("here")


class Tensor:
    """As much of a torch tensor as the adapter needs."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def float(self) -> Tensor:
        return Tensor(self.array.astype(np.float32))

    def __truediv__(self, by: float) -> Tensor:
        return Tensor(self.array / by)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self.array


@pytest.fixture
def lerobot(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stand-ins for torch and lerobot; returns what the policy has been given."""
    import contextlib

    given: dict[str, Any] = {"resets": 0}

    class Policy:
        config = types.SimpleNamespace(type="act", device="cpu")

        @classmethod
        def from_pretrained(cls, path: str, config: Any = None) -> Policy:
            given["path"], given["device"] = path, config.device
            return cls()

        def to(self, device: str) -> Policy:
            return self

        def eval(self) -> None:
            given["evaluates"] = True

        def reset(self) -> None:
            given["resets"] += 1

        def select_action(self, batch: dict[str, Any]) -> Tensor:
            given["batch"] = batch
            return Tensor(np.full((1, 1), 0.5, np.float32))

    torch = types.ModuleType("torch")
    torch.from_numpy = Tensor  # type: ignore[attr-defined]
    torch.inference_mode = contextlib.nullcontext  # type: ignore[attr-defined]
    policies = types.ModuleType("lerobot.configs.policies")
    policies.PreTrainedConfig = types.SimpleNamespace(from_pretrained=lambda path: Policy.config)  # type: ignore[attr-defined]
    factory = types.ModuleType("lerobot.policies.factory")
    factory.get_policy_class = lambda kind: {"act": Policy}[kind]  # type: ignore[attr-defined]
    factory.make_pre_post_processors = (  # type: ignore[attr-defined]
        lambda config, pretrained_path, preprocessor_overrides: (lambda batch: batch, lambda action: action)
    )
    for module in (torch, policies, factory):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return given


def test_a_lerobot_policy_is_given_what_lerobot_s_data_sets_give(counting: Any, lerobot: dict[str, Any]) -> None:
    env = counting()
    evaluate(env, lerobot_policy("a/b", device="cuda"), action="actuators", episodes=2)
    env.close()
    batch = lerobot["batch"]
    assert (lerobot["path"], lerobot["device"], lerobot["resets"], lerobot["evaluates"]) == ("a/b", "cuda", 2, True)
    assert set(batch) == {"task", "observation.state", KEY}
    assert batch["task"] == ["Count up"]
    assert batch[KEY].array.shape == (1, 3, 48, 64)
    assert 0.9 < batch[KEY].array.max() <= 1
    assert batch["observation.state"].array.shape == (1, 1)


def test_a_checkpoint_that_cannot_be_loaded(lerobot: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(kind: str) -> Any:
        raise KeyError(kind)

    monkeypatch.setattr(sys.modules["lerobot.policies.factory"], "get_policy_class", fail)
    with pytest.raises(lr.SettingsError, match=r"lerobot cannot load it \(KeyError: 'act'\)"):
        lerobot_policy("here")


def test_a_lerobot_policy_is_given_every_number_that_is_called_an_observation(lerobot: dict[str, Any]) -> None:
    observation = {"observation_height": np.float64(2), "observation.note": "q", "height": 3.0}
    lerobot_policy("a/b")({**observation, "task_description": "Count up"})
    assert set(lerobot["batch"]) == {"task", "observation_height"}
    assert lerobot["batch"]["observation_height"].array == [2]
