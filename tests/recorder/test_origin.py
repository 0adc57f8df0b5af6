"""Where a session comes from, as its recording notes it; and that nothing of it can fail a recording."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

import lucky_recorder as lr
from lucky_recorder.recorder import origin
from lucky_recorder.session import provenance
from lucky_recorder.testing import CountEnv, check_session

PROVENANCE = "meta/provenance.json"


def pick_cube(tmp_path: Path, **settings: Any) -> lr.RecordSession:
    return lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0"), output_dir=tmp_path, **settings)


def recorded(env: lr.RecordSession, seeds: Any = (0,)) -> lr.Session:
    for seed in seeds:
        env.reset(seed=seed)
        env.step(env.action_space.sample())
    env.close()
    return check_session(env.session_path)


def entry(session: lr.Session) -> dict[str, Any]:
    (one,) = session.provenance
    return one


def test_environment_versions_command_and_model_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["collect.py", "--token", "-hidden", "--lr=3"])
    inner = gym.wrappers.TransformReward(gym.make("LuckyRecorder/PickCube-v0"), lambda reward: reward)
    env = lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0", max_episode_steps=7), output_dir=tmp_path)
    model = mujoco.MjModel.__copy__(env.unwrapped.model)
    session = recorded(env, range(3))
    said = entry(session)
    assert gym.envs.registration.EnvSpec.from_json(json.dumps(said["env"])).max_episode_steps == 7
    assert said["episodes"] == "0:3"
    assert said["command"] == ["collect.py", "--token", "***", "--lr=3"]
    assert said["packages"] | {"mujoco": mujoco.__version__, "numpy": np.__version__} == said["packages"]
    assert set(said["packages"]) == {"lucky_recorder", "mujoco", "gymnasium", "numpy", "pyarrow", "av"}
    assert said["python"] == ".".join(map(str, sys.version_info[:3]))
    kept = session.path / said["model"]["file"]
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == said["model"]["sha256"] == kept.stem
    again = mujoco.MjModel.from_binary_path(str(kept))
    assert np.array_equal(again.geom_pos, model.geom_pos)
    assert (said["model"]["bytes"], said["model"]["others"]) == (kept.stat().st_size, 0)
    assert said["discarded_seeds"] == []
    why = entry(recorded(lr.RecordSession(inner, output_dir=tmp_path)))
    assert why["env"] is None
    assert why["env_error"].startswith("TypeError: ")


def test_the_model_or_all_of_it_can_be_left_out(tmp_path: Path) -> None:
    whole = entry(recorded(pick_cube(tmp_path)))["model"]
    session = recorded(pick_cube(tmp_path, save_model=False))
    assert entry(session)["model"] == {**whole, "file": None}
    assert not (session.path / "meta/models").exists()
    without = recorded(pick_cube(tmp_path, provenance=False))
    assert without.provenance == ()
    assert not (without.path / PROVENANCE).exists()


def test_sessions_without_rows_or_without_environment(
    tmp_path: Path, record: Any, run: Any, seen: Any, bare: Any
) -> None:
    env = record(CountEnv(render_mode="rgb_array"), record_data=False, cameras=[seen])
    run(env)
    env.close()
    assert sorted(p.name for p in env.session_path.iterdir()) == ["videos"]
    own = record(CountEnv())
    said = entry(recorded(own))
    assert (said["env"], said["model"]) == (None, None)
    assert said["env_error"] == "it has no spec: it was not made with gymnasium.make"
    observer, _ = bare()
    path = observer.start_recording()
    observer.tick()
    observer.stop_recording()
    said = entry(check_session(path))
    assert said["env"] is None
    assert "env_error" not in said
    assert said["model"]["bytes"] > 0


def test_seeds_of_discarded_attempts_are_noted_in_order(record: Any, run: Any) -> None:
    env = record(CountEnv(2, succeeds=lambda n: n in (1, 4)), discard_and_retry_failed=True)
    for seed in (10, 11, None, 13, 14, 15):
        run(env, seed=seed)
    env.close()
    said = entry(check_session(env.session_path))
    assert (said["episodes"], said["discarded_seeds"]) == ("0:2", ["10", None, "13", "15"])
    nothing = record(CountEnv(2, succeeds=False), discard_and_retry_failed=True)
    run(nothing, episodes=2, seed=3)
    nothing.close()
    assert entry(lr.Session(nothing.session_path))["discarded_seeds"] == ["3", "4"]


class Remodels(gym.Wrapper[Any, Any, Any, Any]):
    """Compiles a model of its own at every reset, by turns the same and another."""

    def reset(self, **given: Any) -> Any:
        done = self.env.reset(**given)
        inner = self.env.unwrapped
        spec = mujoco.MjSpec.from_string(_XML)
        spec.geom("wall").rgba[0] = 0.25 if inner.episode in (2, 5) else 0.5
        inner.model = spec.compile()
        inner.data = mujoco.MjData(inner.model)
        return done


_XML = """<mujoco model="count"><option timestep="0.002" gravity="0 0 0"/><worldbody>
<geom name="wall" type="box" size="4 4 .1" contype="0" conaffinity="0"/>
<body name="counter" pos="0 0 -1"><joint name="count" type="slide" axis="0 0 -1"/><geom size=".05" mass="1"/></body>
</worldbody><actuator><general name="push" joint="count" gainprm="0"/></actuator></mujoco>"""


def test_models_that_take_the_place_of_the_first_are_counted_by_their_content(record: Any) -> None:
    env = record(Remodels(CountEnv(mujoco=True)), mode="robot_arm")
    session = recorded(env, range(6))
    said = entry(session)["model"]
    assert said["others"] == 2
    assert len(list(session.path.glob("meta/models/*"))) == 1
    first = mujoco.MjModel.from_binary_path(str(session.path / said["file"]))
    assert first.geom("wall").rgba[0] == np.float32(0.5)


# Git.


def git(folder: Path, *words: str) -> str:
    named = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", *named, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_commit_of_the_callers_folder_is_noted(record: Any, run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    monkeypatch.chdir(work)
    assert entry(recorded(record()))["git"] is None
    git(work, "init", "-q")
    assert entry(recorded(record()))["git"] is None  # no commit yet
    (work / "a").write_text("a")
    git(work, "add", "a")
    git(work, "commit", "-qm", "a")
    commit = git(work, "rev-parse", "HEAD")
    assert entry(recorded(record()))["git"] == {"commit": commit, "dirty": False}
    (work / "a").write_text("b")
    assert entry(recorded(record()))["git"] == {"commit": commit, "dirty": True}


@pytest.mark.parametrize("raised", [FileNotFoundError("git"), subprocess.TimeoutExpired("git", 1), RuntimeError("no")])
def test_a_git_that_hangs_or_is_missing_costs_nothing(record: Any, monkeypatch: Any, raised: Exception) -> None:
    def run(*words: Any, **named: Any) -> None:
        assert 0 < named["timeout"] <= 1
        raise raised

    monkeypatch.setattr(origin.subprocess, "run", run)
    assert entry(recorded(record()))["git"] is None


# Whatever fails.


def refuses(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A disk that refuses to give a file of a name its name."""
    replace = os.replace

    def strike(source: Any, target: Any) -> None:
        if name in str(target):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", strike)


def test_a_disk_that_refuses_it_costs_no_episode(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    refuses(monkeypatch, "provenance.json")
    with caplog.at_level(logging.WARNING):
        session = recorded(pick_cube(tmp_path, metadata_every=1), range(3))
    assert len(session) == 3
    assert session.provenance == ()
    told = [r.getMessage() for r in caplog.records if "where the session comes from is not noted" in r.getMessage()]
    assert len(told) == 1
    assert not list(session.path.rglob("*.tmp"))


def test_what_was_refused_once_is_written_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = pick_cube(tmp_path, metadata_every=1)
    with monkeypatch.context() as patch:
        refuses(patch, "provenance.json")
        env.reset(seed=0)
        env.step(env.action_space.sample())
        env.end_episode(success=True)
        env.observer.flush()
    said = entry(recorded(env, [1]))
    assert (said["episodes"], said["model"]["bytes"] > 0) == ("0:2", True)


def test_a_model_that_cannot_be_kept_is_told_and_its_sum_stays(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    refuses(monkeypatch, ".mjb")
    with caplog.at_level(logging.WARNING):
        said = entry(recorded(pick_cube(tmp_path)))
    assert said["model"]["file"] is None
    assert len(said["model"]["sha256"]) == 64
    assert "the model is not kept" in caplog.text


def test_what_raises_when_it_is_asked_costs_no_episode(record: Any, run: Any, monkeypatch: Any, caplog: Any) -> None:
    class Broken(CountEnv):
        @property
        def spec(self) -> Any:
            raise RuntimeError("no spec today")

        @spec.setter
        def spec(self, value: Any) -> None:
            pass

    env = record(Broken())
    run(env)
    assert entry(recorded(env))["env_error"].startswith("RuntimeError: ")
    monkeypatch.setattr(origin.platform, "python_version", lambda: 1 / 0)
    with caplog.at_level(logging.WARNING):
        said = entry(recorded(record()))
    # What cannot be said costs itself alone.
    assert (said["episodes"], said["python"], said["packages"]["numpy"]) == ("0:1", None, np.__version__)
    assert "python is not noted: division by zero" in caplog.text


def _nested(depth: int) -> list[Any]:
    return [_nested(depth - 1)] if depth else []


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ((0.7, math.inf), "kwargs.argument.1: ValueError: "),
        ({"a": math.nan}, "kwargs.argument.a: ValueError: "),
        (10**5000, "ValueError: "),
        (_nested(70), "objects in objects, more than 64 deep"),
        ("\udcff", "kwargs.argument: UnicodeEncodeError: "),
        ([0] * 100_000, "it takes more than 4194304 bytes of memory"),
    ],
    ids=["inf", "nan", "digits", "deep", "bytes", "long"],
)
def test_an_argument_that_cannot_be_written_costs_nothing_else(
    record: Any, monkeypatch: pytest.MonkeyPatch, argument: Any, why: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["collect.py", "caf\udce9.toml"])
    said = entry(recorded(record(Described(argument))))
    assert said["env"] is None
    assert why in said["env_error"]
    # Nor does a file's name whose bytes are no text.
    assert said["command"] == ["collect.py", "caf\\udce9.toml"]
    assert said["packages"]["numpy"] == np.__version__


@pytest.mark.parametrize(
    ("argument", "written", "why"),
    [
        ({"a": [(1, 2)]}, {"a": [[1, 2]]}, "kwargs.argument.a.0 is a tuple, and is read back as a list"),
        ({1: 2}, {"1": 2}, "kwargs.argument has a name of type int, and it is read back as a text"),
        ({"a": [1, 2.5, None, "é"]}, {"a": [1, 2.5, None, "é"]}, None),
    ],
)
def test_an_argument_that_is_read_back_as_another_is_named(
    record: Any, argument: Any, written: Any, why: str | None
) -> None:
    said = entry(recorded(record(Described(argument))))
    assert (said["env"]["kwargs"], said.get("env_error")) == ({"argument": written}, why)


class Described(CountEnv):
    """Says that it was made with an argument."""

    def __init__(self, argument: Any) -> None:
        super().__init__()
        self.spec = EnvSpec("Count-v0", "lucky_recorder.testing:CountEnv", kwargs={"argument": argument})


def test_a_recording_that_goes_on_adds_its_own(record: Any, run: Any, monkeypatch: Any) -> None:
    env = record()
    run(env, episodes=2)
    env.close()
    monkeypatch.setattr(sys, "argv", ["again"])
    more = record(resume=env.session_path)
    run(more, episodes=3, seed=2)
    more.close()
    session = check_session(env.session_path)
    assert [e["episodes"] for e in session.provenance] == ["0:2", "2:5"]
    assert provenance.of_episode(session.provenance, 3)["command"] == ["again"]  # type: ignore[index]
    # One that keeps nothing adds nothing.
    before = (session.path / PROVENANCE).read_bytes()
    third = record(resume=env.session_path)
    third.reset()
    third.close()
    assert (session.path / PROVENANCE).read_bytes() == before
