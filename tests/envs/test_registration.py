"""gymnasium finds the sample environments, whichever is imported first."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import gymnasium
import pytest

from lucky_recorder.envs import register, register_when_imported
from lucky_recorder.envs.registration import ENTRY_POINTS, MAX_EPISODE_STEPS


@pytest.fixture
def unregistered(monkeypatch: pytest.MonkeyPatch) -> None:
    for env_id in ENTRY_POINTS:
        monkeypatch.delitem(gymnasium.registry, env_id)


@pytest.fixture
def gymnasium_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gymnasium")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))


@pytest.mark.usefixtures("unregistered")
def test_register_is_idempotent() -> None:
    register()
    specs = {env_id: gymnasium.registry[env_id] for env_id in ENTRY_POINTS}
    register()
    assert all(gymnasium.registry[env_id] is spec for env_id, spec in specs.items())
    assert {spec.max_episode_steps for spec in specs.values()} == {MAX_EPISODE_STEPS}


@pytest.mark.usefixtures("unregistered")
def test_registers_at_once_when_gymnasium_is_there() -> None:
    register_when_imported()
    assert ENTRY_POINTS.keys() <= gymnasium.registry.keys()


@pytest.mark.usefixtures("unregistered", "gymnasium_not_imported")
def test_registers_when_gymnasium_is_imported_later() -> None:
    finders = list(sys.meta_path)
    register_when_imported()
    register_when_imported()
    assert len(sys.meta_path) == len(finders) + 1
    assert importlib.util.find_spec("gymnasium") is not None
    assert not ENTRY_POINTS.keys() & gymnasium.registry.keys()
    module = importlib.import_module("gymnasium")
    assert ENTRY_POINTS.keys() <= module.registry.keys()
    assert sys.meta_path == finders
    assert module.__loader__ is module.__spec__.loader
    assert type(module.__loader__) is type(gymnasium.__loader__)


@pytest.mark.usefixtures("unregistered", "gymnasium_not_imported")
def test_a_machine_without_gymnasium_is_told_the_ordinary_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [])
    register_when_imported()
    assert importlib.util.find_spec("gymnasium") is None
    with pytest.raises(ModuleNotFoundError, match="gymnasium"):
        importlib.import_module("gymnasium")


def test_importing_the_package_imports_no_simulator() -> None:
    code = """
import sys
import lucky_recorder.envs
assert not {"gymnasium", "mujoco"} & set(sys.modules), "imported eagerly"
import gymnasium
env = gymnasium.make("LuckyRecorder/PickCube-v0")
print(env.spec.id)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("LuckyRecorder/PickCube-v0\n", "")


def test_a_package_that_was_imported_twice_still_registers() -> None:
    code = """
import sys
import lucky_recorder
for name in [n for n in sys.modules if n.startswith("lucky_recorder")]:
    del sys.modules[name]
import lucky_recorder
import gymnasium
print(gymnasium.make("LuckyRecorder/PickCube-v0").spec.id)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("LuckyRecorder/PickCube-v0\n", "")
