"""Episodes that are made again: the same rows, the first that differs, or a refusal that says why."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.rollouts.remake import Difference
from lucky_recorder.testing import CountEnv
from tests.session.breaking import rewrite

PROVENANCE = "meta/provenance.json"
DATA = "data/chunk-000/file-000.parquet"


class Goal(CountEnv):
    """Counts from where the options say, plus what chance says, in a Dict of actions."""

    def __init__(self, **given: Any) -> None:
        super().__init__(length=4, **given)
        self.action_space = gym.spaces.Dict(
            {"move": gym.spaces.Box(-1, 1, (2,), np.float32), "mode": gym.spaces.Discrete(3)}
        )
        self._start = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        goal = (options or {}).get("goal", np.zeros(2))
        assert isinstance(goal, np.ndarray)
        self._start = float(self.np_random.normal() + goal.sum())
        return np.array([self._start]), {}

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(np.zeros(1))
        assert isinstance(action["mode"], np.integer)
        return observation, self._start + float(action["move"].sum()) + int(action["mode"]), *rest


class Worth(CountEnv):
    """Gives a reward that an argument says, whose name is like a secret's; 7 where it is no number."""

    def __init__(self, goal_token: Any = 0.0, scale: Any = (), render_mode: str | None = None) -> None:
        super().__init__(length=4, render_mode=render_mode)
        self._worth = goal_token if isinstance(goal_token, float) else 7.0

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, self._worth, *rest


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    ids = {
        "Goal-v0": f"{__name__}:Goal",
        "Worth-v0": f"{__name__}:Worth",
        "Count-v0": "lucky_recorder.testing:CountEnv",
    }
    for name, entry_point in ids.items():
        gym.register(name, entry_point)
    yield
    for name in ids:
        gym.registry.pop(name, None)


def recorded(env: Any, tmp_path: Path, seeds: Any = (3, 4), options: Any = None, **settings: Any) -> Path:
    env = lr.RecordSession(env, output_dir=tmp_path, **settings)
    env.action_space.seed(1)
    for seed in seeds:
        env.reset(seed=seed, options=options)
        for _ in range(4):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                break
        env.end_episode(success=True)
    env.close()
    assert env.session_path is not None
    return env.session_path


@pytest.mark.parametrize("env_id", ["LuckyRecorder/PickCube-v0", "Ant-v5", "Humanoid-v5"])
@pytest.mark.parametrize("has_gym", [True, False])
def test_the_same_rows_come_again(tmp_path: Path, env_id: str, has_gym: bool) -> None:
    path = recorded(gym.make(env_id), tmp_path, mode="full_scene", gym_columns=has_gym)
    for episode in range(2):
        found = lr.remake(path, episode)
        assert (found.is_same, found.difference, found.rows, found.changed, found.left_out) == (True, None, 4, (), ())
        assert {"observation.state", "action"} <= set(found.columns)
        assert ("next.reward" in found.columns) is has_gym


def test_options_and_actions_of_any_space_come_back(tmp_path: Path) -> None:
    path = recorded(
        gym.make("Goal-v0"), tmp_path, options={"goal": np.array([1.5, 2])}, mode="custom", gym_columns=True
    )
    assert lr.Session(path).episode(0).options == {"goal": [1.5, 2.0], "lucky_recorder.arrays": {"goal": "<f8"}}
    found = lr.remake(lr.Session(path), 1)
    assert found.is_same
    assert {"gym.action.move", "gym.action.mode", "next.reward"} <= set(found.columns)


def test_several_robots_and_wrappers(tmp_path: Path) -> None:
    env = gym.wrappers.ClipReward(gym.make("LuckyRecorder/TwinArms-v0"), -1, 1)
    path = recorded(env, tmp_path, robots=["left_base", "right_base"], gym_columns=True)
    found = lr.remake(path, 1)
    assert (found.is_same, found.rows) == (True, 8)


def test_columns_of_ones_own_are_left_out_and_said(tmp_path: Path) -> None:
    columns = [lr.Column("height", lambda moment: moment.data.xpos[1, 2])]
    path = recorded(gym.make("LuckyRecorder/PickCube-v0"), tmp_path, columns=columns)
    assert lr.remake(path, 0).left_out == ("height",)


def _changed(path: Path, column: str, row: int, change: Callable[[Any], Any]) -> None:
    def edit(table: pa.Table) -> pa.Table:
        number, values = table.column_names.index(column), table[column].to_pylist()
        values[row] = change(values[row])
        return table.set_column(number, table.schema.field(column), pa.array(values, table.schema.field(column).type))

    rewrite(path / DATA, edit)


def test_the_first_row_that_differs_is_told(tmp_path: Path) -> None:
    path = recorded(gym.make("LuckyRecorder/PickCube-v0"), tmp_path, gym_columns=True)
    before = lr.Session(path).episode(0).rows()["next.reward"][2].as_py()
    _changed(path, "next.reward", 2, lambda value: np.nextafter(value, 9))
    found = lr.remake(path, 0)
    assert not found.is_same
    assert found.difference == Difference(2, "next.reward", float(np.nextafter(before, 9)), before)
    result = CliRunner().invoke(app, ["remake", str(path), "0"])
    assert result.exit_code == 1
    assert "episode 0: row 2, next.reward: recorded" in result.output
    assert CliRunner().invoke(app, ["remake", str(path), "1"]).exit_code == 0
    # Another action leads elsewhere, from the row after it on at the latest.
    _changed(path, "next.reward", 2, lambda value: before)
    _changed(path, "gym.action", 1, lambda value: [-x for x in value])
    told = lr.remake(path, 0).difference
    assert told is not None
    assert told.row == 1


def test_an_episode_that_ends_elsewhere_is_another(tmp_path: Path) -> None:
    path = recorded(gym.make("Count-v0", length=4), tmp_path, mode="custom", gym_columns=True)
    edited = json.loads((path / PROVENANCE).read_text())
    edited["recordings"][0]["env"]["kwargs"]["length"] = 3
    (path / PROVENANCE).write_text(json.dumps(edited))
    found = lr.remake(path, 0)
    assert found.difference == Difference(2, "next.done", False, True)


def test_other_versions_and_another_model_are_told(tmp_path: Path) -> None:
    path = recorded(gym.make("LuckyRecorder/PickCube-v0"), tmp_path)
    edited = json.loads((path / PROVENANCE).read_text())
    (entry,) = edited["recordings"]
    entry["packages"]["mujoco"] = "1.0"
    entry["model"]["sha256"] = "0" * 64
    (path / PROVENANCE).write_text(json.dumps(edited))
    found = lr.remake(path, 0)
    assert found.is_same
    assert [one.split(",")[0] for one in found.changed[:1]] == ["mujoco '1.0'"]
    assert found.changed[1].startswith("the model: its sum was '000")


def test_arguments_that_became_others_are_named(tmp_path: Path) -> None:
    env = gym.make("Worth-v0", goal_token=2.0, scale=(1, 2))
    path = recorded(env, tmp_path, mode="custom", gym_columns=True)
    found = lr.remake(path, 0)
    assert found.difference == Difference(0, "next.reward", 2.0, 7.0)
    masked = "the argument kwargs.goal_token: it was masked as a secret, and is '***' now"
    assert found.changed == (
        "the environment's arguments: 'kwargs.scale is a tuple, and is read back as a list'",
        masked,
    )
    # Where it cannot be built with the mask, too.
    edited = json.loads((path / PROVENANCE).read_text())
    edited["recordings"][0]["env"]["kwargs"]["unknown"] = 3
    (path / PROVENANCE).write_text(json.dumps(edited))
    with pytest.raises(lr.SettingsError, match=rf"cannot be built here: TypeError: .*; {re.escape(masked)}"):
        lr.remake(path, 0)


# What cannot be made again.


def test_what_is_not_recorded_is_refused_with_the_remedy(tmp_path: Path) -> None:
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (gym.make("Count-v0"), {"seeds": [None]}, r"had no seed; record with reset\(seed=\.\.\.\)"),
        (gym.make("Count-v0"), {"options": {"f": len}}, "the options of its reset were no JSON"),
        (gym.make("Count-v0"), {"provenance": False}, "nothing in the session says where it comes from"),
        (CountEnv(), {}, "its environment is not known: it has no spec"),
    ]
    for env, how, message in refused:
        path = recorded(env, tmp_path, mode="custom", gym_columns=True, **how)
        with pytest.raises(lr.SettingsError, match=rf"^episode=0: cannot be made again: .*{message}"):
            lr.remake(path, 0)
    with pytest.raises(IndexError):
        lr.remake(path, 9)
    result = CliRunner().invoke(app, ["remake", str(path), "9"])
    assert (result.exit_code, "EPISODE=9" in result.output) == (2, True)


def test_without_actions_or_with_some_only_it_is_refused(tmp_path: Path) -> None:
    columns = [lr.Column("obs", "gym:obs")]
    path = recorded(gym.make("Count-v0"), tmp_path, mode="custom", columns=columns)
    with pytest.raises(lr.SettingsError, match=r"no action is recorded: record with gym_columns=True"):
        lr.remake(path, 0)
    path = recorded(gym.make("LuckyRecorder/PickCube-v0"), tmp_path, data_hz=25, gym_columns=True)
    with pytest.raises(
        lr.SettingsError,
        match=r"a step of the environment lasts 1/50 s, and its rows are 1/25 s apart: not every action",
    ):
        lr.remake(path, 0)


def test_an_episode_whose_beginning_was_cut_off_is_refused(tmp_path: Path) -> None:
    path = recorded(gym.make("LuckyRecorder/PickCube-v0"), tmp_path, gym_columns=True)
    cut = lr.trim(path, tmp_path / "cut", start=1).path
    with pytest.raises(lr.SettingsError, match="its first row is not the first after a reset"):
        lr.remake(cut, 0)
    # Cut at its end it is the same as far as it goes.
    assert lr.remake(lr.trim(path, tmp_path / "shorter", end=1).path, 0).is_same


def test_a_reset_within_an_episode_is_refused(tmp_path: Path) -> None:
    env = lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0"), output_dir=tmp_path, gym_columns=True)
    env.reset(seed=1)
    env.step(env.action_space.sample())
    env.reset(seed=2, options={"keep_episode": True})
    env.step(env.action_space.sample())
    env.close()
    assert env.session_path is not None
    with pytest.raises(lr.SettingsError, match="it was reset within, before tick 1"):
        lr.remake(env.session_path, 0)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("gym.action", [0.0] * 5, "does not take what is recorded: ValueError"),
        ("gym.action", None, "does not take what is recorded: ValueError"),
        ("frame_flags", None, "a row has no frame_flags"),
    ],
)
def test_rows_that_are_none_are_an_error_of_ours(tmp_path: Path, column: str, value: Any, message: str) -> None:
    path = recorded(gym.make("LuckyRecorder/PickCube-v0"), tmp_path, gym_columns=True)
    _changed(path, column, 1, lambda had: value)
    with pytest.raises(lr.LuckyRecorderError, match=message):
        lr.remake(path, 0)


@pytest.mark.parametrize("packages", [[], 3, {"mujoco": []}, None])
def test_what_an_entry_says_otherwise_may_be_anything(tmp_path: Path, packages: Any) -> None:
    path = recorded(gym.make("Count-v0"), tmp_path, mode="custom", gym_columns=True)
    edited = json.loads((path / PROVENANCE).read_text())
    edited["recordings"][0] |= {"packages": packages, "model": [], "python": {}}
    (path / PROVENANCE).write_text(json.dumps(edited))
    assert lr.remake(path, 0).is_same


# Sessions of strangers.

RAN: list[str] = []


class Spy(CountEnv):
    """Leaves a trace when it is made."""

    def __init__(self, **given: Any) -> None:
        RAN.append("made")
        super().__init__(**given)


class Wrapping(gym.Wrapper[Any, Any, Any, Any]):
    """Leaves a trace when it is put around an environment."""

    def __init__(self, env: Any, **given: Any) -> None:
        RAN.append("wrapped")
        super().__init__(env)


HERE = __name__
STRANGE: list[tuple[dict[str, Any], str]] = [
    ({"id": "Unknown-v0", "entry_point": f"{HERE}:Spy"}, "is not registered here"),
    ({"entry_point": f"{HERE}:Spy"}, "is another here"),
    ({"id": f"{HERE}:Count-v0", "entry_point": f"{HERE}:Spy"}, "cannot be made again"),
    ({"additional_wrappers": [{"name": "W", "entry_point": f"{HERE}:Wrapping", "kwargs": {}}]}, "it was wrapped in"),
    ({"additional_wrappers": [{"name": "W", "entry_point": "gymnasium.wrappers_:W", "kwargs": {}}]}, "it was wrapped"),
    ({"kwargs": {"length": {"a": ["os.path:join"]}}}, "an argument of its environment is 'os.path:join'"),
    ({"kwargs": 3}, "spec is none"),
    ({"additional_wrappers": [3]}, "spec is none"),
    ({"id": 3}, "spec is none"),
]


@pytest.mark.parametrize(("strange", "message"), STRANGE, ids=[message for _, message in STRANGE])
def test_code_that_a_session_names_is_not_run_unless_it_may(
    tmp_path: Path, strange: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recorded(gym.make("Count-v0"), tmp_path, mode="custom", gym_columns=True)
    edited = json.loads((path / PROVENANCE).read_text())
    edited["recordings"][0]["env"] |= strange
    (path / PROVENANCE).write_text(json.dumps(edited))
    RAN.clear()
    with pytest.raises(lr.SettingsError, match=message):
        lr.remake(path, 0)
    result = CliRunner().invoke(app, ["remake", str(path), "0"])
    assert (result.exit_code, message in result.output.replace("\n", " ")) == (2, True)
    assert RAN == []


def test_code_that_is_trusted_runs(tmp_path: Path) -> None:
    gym.register("Spy-v0", f"{HERE}:Spy")
    try:
        path = recorded(Wrapping(gym.make("Spy-v0")), tmp_path, mode="custom", gym_columns=True)
    finally:
        del gym.registry["Spy-v0"]
    RAN.clear()
    with pytest.raises(lr.SettingsError, match=r"cannot be built here: ValueError: .*cannot be recreated"):
        lr.remake(path, 0, allow_code=True)
    gym.register("Spy-v0", f"{HERE}:Spy")
    try:
        path = recorded(gym.make("Spy-v0"), tmp_path, mode="custom", gym_columns=True)
    finally:
        del gym.registry["Spy-v0"]
    RAN.clear()
    assert lr.remake(path, 0, allow_code=True).is_same
    assert RAN == ["made"]


def test_what_films_is_left_out(tmp_path: Path) -> None:
    filmed = tmp_path / "filmed"
    path = recorded(gym.make("Count-v0"), tmp_path, mode="custom", gym_columns=True)
    edited = json.loads((path / PROVENANCE).read_text())
    video = {"name": "RecordVideo", "entry_point": "gymnasium.wrappers.rendering:RecordVideo"}
    edited["recordings"][0]["env"]["additional_wrappers"] = [{**video, "kwargs": {"video_folder": str(filmed)}}]
    edited["recordings"][0]["env"]["kwargs"]["render_mode"] = "human"
    (path / PROVENANCE).write_text(json.dumps(edited))
    assert lr.remake(path, 0).is_same
    assert not filmed.exists()
    assert "moviepy" not in sys.modules
