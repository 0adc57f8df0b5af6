"""RecordSession: what is refused at a session's beginning leaves no session."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv, MemorySink
from tests.recorder.stepping import steps, without_a_rate


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"data_hz": 40},
            r"data_hz='40': does not divide the fastest rate here, 50 Hz, evenly; nearest that do: 25 or 50 Hz",
        ),
        ({"data_hz": 100}, r"data_hz='100': is above the fastest rate here; the nearest: 50 Hz"),
        (
            {"cameras": [{"name": "a", "source": "render", "frame_rate": 30}]},
            r"camera 'a': frame_rate='30'.*25 or 50 Hz",
        ),
        ({"cameras": [{"name": "a", "source": "render", "frame_rate": 60}]}, r"camera 'a': frame_rate='60'.*50 Hz"),
        ({"cameras": [{"name": "a"}]}, r"no MuJoCo model was found; use source='render'"),
        ({"mode": "robot_arm"}, r"mode='robot_arm': needs a MuJoCo model"),
        ({"mode": "full_scene"}, r"mode='full_scene': needs a MuJoCo model"),
        ({"robots": ["arm"]}, r"robots=.*no MuJoCo model"),
        ({"columns": [{"name": "a", "source": "sensor:force"}]}, r"column 'a': source='sensor:force'.*no MuJoCo model"),
        ({"columns": [{"name": "a", "source": "gym:obs.joints"}]}, r"column 'a': source"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_the_environment_is_refused_at_the_first_reset(
    record: Any, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    env = record(**settings)
    before = threading.active_count()
    with pytest.raises(lr.SettingsError, match=message):
        env.reset()
    assert (env.is_recording, env.session_path, list(tmp_path.iterdir())) == (False, None, [])
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"camera": {"frame_rate": 40}}, r"camera 'wall': frame_rate='40': does not divide"),
        ({"camera": {"frame_rate": 25}, "koyu": {"name": "cubes"}}, "row i of a koyu bundle is frame i"),
    ],
)
def test_a_rate_that_does_not_fit_the_first_step_is_refused_and_leaves_nothing(
    record: Any, wall: Any, tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    env = record(without_a_rate(), mode="robot_arm", cameras=[{**wall, **fields.pop("camera")}], **fields)
    for _ in range(2):
        env.reset(seed=0)
        with pytest.raises(lr.SettingsError, match=message):
            steps(env, 1)
        assert (env.is_recording, env.session_path, list(tmp_path.glob("DataSessions/*"))) == (False, None, [])
        steps(env, 1)
    env.close()


class Refuses(MemorySink):
    """A sink that says no as soon as it is told what rows are."""

    def __init__(self, root: Path, error: Exception) -> None:
        super().__init__(root)
        self.error = error

    def open(self, schema: Any, tasks: Any) -> None:
        raise self.error


@pytest.mark.parametrize("states_rate", [False, True])
@pytest.mark.parametrize("error", [lr.SettingsError("not these"), lr.StreamError("no disk"), ValueError("odd")])
def test_a_sink_that_refuses_leaves_no_session(
    record: Any, tmp_path: Path, states_rate: bool, error: Exception
) -> None:
    env = CountEnv(4, mujoco=True) if states_rate else without_a_rate()
    recorded = record(env, mode="robot_arm", koyu={"name": "cubes"}, sinks=[Refuses(tmp_path / "own", error)])

    def begin() -> None:
        recorded.reset(seed=0)
        steps(recorded, 1)

    for _ in range(2):
        with pytest.raises(type(error), match=str(error)):
            begin()
        assert (recorded.is_recording, recorded.session_path) == (False, None)
        assert not (tmp_path / "DataSessions").exists()
    recorded.close()


def test_a_dataset_that_refuses_after_the_first_step_leaves_no_session(record: Any, tmp_path: Path) -> None:
    first = record(CountEnv(2, mujoco=True), mode="robot_arm", koyu={"name": "cubes"}, formats=["koyu"], data_hz=25)
    first.reset(seed=0)
    steps(first, 2)
    first.close()
    env = record(without_a_rate(), mode="robot_arm", koyu={"name": "cubes"})
    env.reset(seed=0)
    with pytest.raises(lr.SettingsError, match="fps"):
        steps(env, 1)
    assert not (tmp_path / "DataSessions").exists()
