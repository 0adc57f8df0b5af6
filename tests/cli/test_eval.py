from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lucky_recorder.cli.main import app
from lucky_recorder.testing import check_koyu, check_session

POLICY = """
class Still:
    def __init__(self, env):
        self.size = env.action_space.shape[0]
        self.asked = 0

    def __call__(self, observation):
        assert observation["observation.images.front"].shape == (48, 64, 3)
        assert observation["task_description"] == "Do nothing"
        return [list(observation["observation.state"])] * 10
"""
ARM = ["--env", "LuckyRecorder/PickCube-v0", "--config", "short.toml"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "still_policy.py").write_text(POLICY)
    (tmp_path / "short.toml").write_text("max_episode_length_s = 0.3\n")
    (tmp_path / "many.toml").write_text("episodes = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def evaluate(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["eval", *map(str, arguments)])


def test_rollouts_are_filed_and_told(here: Path) -> None:
    asked = ["--policy", "still_policy:Still", "--action", "actuators", "--episodes", 2, "--task", "Do nothing"]
    done = evaluate(*ARM, *asked, "--camera", "front:64x48", "--koyu", "rollouts", "--json", "result.json")
    assert done.exit_code == 0, done.output
    assert "0% (0% to 66%)" in done.stdout
    result = json.loads((here / "result.json").read_text())
    assert (result["policy"], result["episodes"], result["success_rate"]) == ("still_policy:Still", 2, 0.0)
    assert [r["length"] for r in result["rollouts"]] == [15, 15]
    assert [r["decisions"] for r in result["rollouts"]] == [2, 2]
    dataset = check_koyu(here / "rollouts")
    assert (dataset.manifest["type"], dataset.sidecar(0)["policy_name"]) == ("eval", "still_policy:Still")
    assert len(check_session(result["session"])) == 2
    assert "ok: 2 episodes, 30 rows, 30 frames checked" in done.stdout


def test_bundles_alone(here: Path) -> None:
    asked = ["--policy", "still_policy:Still", "--action", "gym", "--episodes", 1, "--task", "Do nothing"]
    done = evaluate(*ARM, *asked, "--camera", "front:64x48", "--koyu", "rollouts", "--no-session")
    assert done.exit_code == 0, done.output
    assert not (here / "DataSessions").exists()
    assert len(check_koyu(here / "rollouts").episodes) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "env is missing"),
        (["--env", "No/Such-v0", "--policy", "a:b", "--action", "gym"], "gymnasium cannot make it"),
        ([*ARM, "--action", "gym"], "give --policy MODULE:NAME, or --lerobot CHECKPOINT"),
        ([*ARM, "--policy", "still_policy:Still"], "action is missing: say which vector the policy speaks"),
        ([*ARM, "--policy", "nowhere:Still", "--action", "gym"], "cannot be imported"),
        ([*ARM, "--lerobot", "here", "--action", "gym"], "lerobot"),
        (["--env", "LuckyRecorder/PickCube-v0", "--config", "many.toml"], "episodes=3: unknown field"),
        ([*ARM, "--policy", "still_policy:Still", "--action", "ctrl"], "choose one of gym, actuators"),
    ],
)
def test_what_cannot_be_run(here: Path, arguments: list[str], message: str) -> None:
    done = evaluate(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert not (here / "DataSessions").exists()
