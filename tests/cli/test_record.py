from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.session import check as checks
from lucky_recorder.testing import CountEnv, check_session

COUNT = "Count-v0"
POLICIES = """
import numpy as np

class Interrupting:
    def __init__(self, env):
        self.steps = 0
    def __call__(self, observation):
        self.steps += 1
        if self.steps == 6:
            raise KeyboardInterrupt
        return np.zeros(1, np.float32)

def still(observation):
    return np.zeros(1, np.float32)

def broken(observation):
    return {}["no such thing"]

class Blinding:
    def __init__(self, env):
        self.env = env.unwrapped
    def __call__(self, observation):
        self.env.render = lambda: None
        return np.zeros(1, np.float32)

def talking(observation):
    print("step", flush=True)
    return np.zeros(6, np.float32)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to record in, with a module of policies, and a counting environment that gymnasium knows."""
    (tmp_path / "policies.py").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    gym.register(COUNT, CountEnv, disable_env_checker=True)
    yield tmp_path
    del gym.registry[COUNT]
    sys.modules.pop("policies", None)


@pytest.fixture
def record() -> Callable[..., Any]:
    return lambda *arguments: CliRunner().invoke(app, ["record", *map(str, arguments)])


@pytest.fixture
def only_session(place: Path) -> Callable[[], lr.Session]:
    """Return the one session there is, which has no fault."""

    def only_session() -> lr.Session:
        (path,) = place.glob("DataSessions/session_*")
        return check_session(path)

    return only_session


def custom(place: Path, *lines: str) -> Path:
    """Write a settings file that records the counting environment."""
    file = place / "settings.toml"
    file.write_text("\n".join(['mode = "custom"', "gym_columns = true", f'env = "{COUNT}"', *lines]))
    return file


# What it records.


def test_records_an_environment_by_its_id(record, only_session, place):
    result = record(
        *("--env", "LuckyRecorder/PickCube-v0", "--episodes", 2, "--seed", 5, "--mode", "full_scene"),
        *("--camera", "front:64x48", "--camera", "wrist:32x32", "--task", "Pick it up", "--task", "Wait"),
    )
    assert result.exit_code == 0, result.output
    session = only_session()
    assert f"session: {session.path}" in result.output
    rows = session.info["total_frames"]
    assert f"ok: 2 episodes, {rows} rows, {2 * rows} frames" in result.output
    assert "2 episodes kept, 2 succeeded, 0 discarded" in result.output
    assert {c.name: (c.width, c.height) for c in session.cameras.values()} == {"front": (64, 48), "wrist": (32, 32)}
    assert session.tasks == ["Pick it up", "Wait"]
    assert "sim_type" in session.info
    assert session.episodes["success"].to_pylist() == [True, True]


def test_records_the_tasks_that_something_says(record, only_session, place):
    file = custom(place, 'tasks = ["Wait"]')
    result = record("--config", file, "--episodes", 1, "--task-from", "tests.recorder.saying:by_count")
    assert result.exit_code == 0, result.output
    assert only_session().tasks == ["Wait", "Low", "High"]


def test_records_every_stream(record, only_session):
    result = record(
        *("--env", "LuckyRecorder/PickCube-v0", "--episodes", 1, "--camera", "front:64x48", "--video-format", "av1"),
        *("--depth", "rgbd", "--mask", "cube", "--mask", "hand", "--lidar", "grasp:10", "--lidar", "grasp"),
    )
    assert result.exit_code == 2
    assert "lidars" in result.stderr
    result = record(
        *("--env", "LuckyRecorder/PickCube-v0", "--episodes", 1, "--camera", "front:64x48", "--video-format", "av1"),
        *("--depth", "rgbd", "--mask", "cube", "--mask", "hand", "--lidar", "grasp:50/4"),
    )
    assert result.exit_code == 0, result.output
    session = only_session()
    assert {c.name: c.codec for c in session.cameras.values()} == {"front": "av1", "front_depth": "ffv1"}
    assert session.episode(0).masks("front").labels == {0: "background", 1: "cube", 2: "hand"}
    assert session.episode(0).scans("grasp").rate == Fraction(25, 2)
    assert session.episode(0).rgbd_path("front").exists()


def test_shows_how_it_goes(record, place):
    result = record("--config", custom(place), "--episodes", 3, "--policy", "policies:still")
    assert "3/3 episodes" in result.output
    assert "0 discarded" in result.output
    assert "0.0 MB" in result.output


def test_ten_episodes_unless_it_is_said(record, only_session, place):
    record("--config", custom(place), "--policy", "policies:still")
    assert len(only_session()) == 10


def test_a_settings_file_says_it_all(record, only_session, place):
    folder = place / "elsewhere"
    file = custom(
        place,
        "episodes = 4",
        'policy = "policies:still"',
        f'output_dir = "{folder}"',
        "files_per_chunk = 3",
        "seed = 9",
        '[[columns]]\nname = "count"\nsource = "gym:obs"',
    )
    refused = record("--config", file)
    assert refused.exit_code == 2
    assert "policy='policies:still': a settings file names code" in refused.output.replace("\n", " ")
    assert record("--config", file, "--allow-code").exit_code == 0
    (path,) = folder.glob("DataSessions/session_*")
    session = check_session(path)
    assert len(session) == 4
    assert session.info["chunks_size"] == 3
    assert session.episode(1).rows(["count"]).to_pydict() == {"count": [100, 101, 102]}


def test_what_is_said_wins_over_the_file(record, only_session, place):
    file = custom(place, "episodes = 4", 'policy = "policies:broken"', 'tasks = ["of the file"]')
    assert record("--config", file, "--episodes", 1, "--policy", "policies:still", "--task", "of mine").exit_code == 0
    session = only_session()
    assert (len(session), session.tasks) == (1, ["of mine"])


def test_failed_episodes_are_kept_or_tried_again(record, place):
    always = ("--env", "LuckyRecorder/PickCube-v0", "--episodes", 2, "--seed", 1, "--fail", 0.5)
    kept = record(*always, "--keep-failed", "--output-dir", "kept")
    tried = record(*always, "--discard", "--output-dir", "tried")
    assert "2 episodes kept, 1 succeeded, 0 discarded" in kept.output
    assert "2 episodes kept, 2 succeeded" in tried.output
    assert "succeeded, 0 discarded" not in tried.output


def test_records_what_render_gives(record, only_session, place):
    result = record(
        *("--config", custom(place), "--camera", "render:64x48", "--episodes", 1, "--policy", "policies:still"),
    )
    assert result.exit_code == 0, result.output
    assert len(only_session().episode(0).frames("render")) == 3


# Without OpenGL.


@pytest.fixture
def no_gl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lucky_recorder.capture.draw.context._candidates", list)


@pytest.mark.usefixtures("no_gl")
def test_without_gl_it_records_no_pictures_and_says_why(record, only_session):
    result = record("--env", "LuckyRecorder/PickCube-v0", "--episodes", 1, "--camera", "front:64x48")
    assert result.exit_code == 0, result.output
    assert "no pictures will be recorded: no OpenGL context can be made here" in result.stderr
    assert "apt-get install libegl1 libgl1-mesa-dri libopengl0" in result.stderr
    session = only_session()
    assert len(session) == 1
    assert not session.cameras


@pytest.mark.usefixtures("no_gl")
def test_without_gl_a_recording_of_nothing_but_pictures_is_an_error(record, place):
    (place / "settings.toml").write_text("record_data = false")
    result = record("--config", "settings.toml", "--env", "LuckyRecorder/PickCube-v0", "--camera", "front:64x48")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: no OpenGL context can be made here")
    assert not (place / "DataSessions").exists()


def test_a_recording_of_pictures_alone_is_checked_too(record, place):
    (place / "settings.toml").write_text("record_data = false")
    result = record(
        *("--config", "settings.toml", "--env", "LuckyRecorder/PickCube-v0", "--camera", "front:64x48", "--episodes", 1)
    )
    assert result.exit_code == 0, result.output
    assert "ok: video only" in result.output


# What goes wrong.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: env is missing: give --env ID, or env in the settings file"),
        (["--env", "NoSuchEnv-v0"], "error: env='NoSuchEnv-v0': gymnasium cannot make it: "),
        (["--env", "no_such_module:Env-v0"], "error: env='no_such_module:Env-v0': gymnasium cannot make it: "),
        (["--env", COUNT, "--camera", "front:64"], "error: camera='front:64': give NAME or NAME:WIDTHxHEIGHT"),
        (["--env", COUNT, "--camera", "front:65x48"], "error: camera 'front': width=65: video needs an even size"),
        (["--env", COUNT, "--render-quality", "slow"], "error: render_quality='slow': choose one of model"),
        (["--env", COUNT, "--depth", "rgbd"], "error: depth='rgbd': goes with the cameras that --camera names"),
        (["--env", COUNT, "--mask", "cube"], "error: mask=['cube']: goes with the cameras that --camera names"),
        (["--env", COUNT, "--camera", "wall", "--depth", "deep"], "error: camera 'wall': depth_mode='deep'"),
        (["--env", COUNT, "--lidar", "eye:fast"], "error: lidar='eye:fast': give SITE or SITE:RATE"),
        (["--env", COUNT, "--lidar", "eye:0"], "error: lidar 'eye': rate="),
        (["--env", COUNT, "--video-format", "gif"], "error: video_format='gif': choose one of h264"),
        (["--env", COUNT, "--mode", "drone"], "error: mode='drone': the Drone recorder mode"),
        (["--env", COUNT], "error: mode='robot_arm': needs a MuJoCo model"),
        (["--env", COUNT, "--policy", "policies:none"], "error: policy='policies:none': cannot be imported"),
        (["--env", COUNT, "--fail", "0.5"], "error: fail=0.5: only an environment's own expert"),
        (["--config", "missing.toml"], "error: config='missing.toml': cannot be read as TOML"),
        (["--config", "policies.py"], "error: config='policies.py': cannot be read as TOML"),
        (["--config", "wrong.toml"], "error: files_per_chunks=4: unknown field; did you mean 'files_per_chunk'?"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(record, place, arguments, message):
    (place / "wrong.toml").write_text("files_per_chunks = 4")
    result = record(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1
    assert not (place / "DataSessions").exists()


def test_an_error_on_a_terminal_is_red():
    result = CliRunner().invoke(app, ["record"], color=True)
    assert result.stderr.startswith("\x1b[31merror: ")


@pytest.mark.parametrize("line", ["episodes = 0", 'episodes = "many"', "fail = true", "policy = 3"])
def test_the_file_s_own_fields_are_checked(record, place, line):
    result = record("--config", custom(place, line))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {line.split()[0]}=")


def test_a_stream_that_fails_is_an_error_and_the_session_is_named(record, only_session, place):
    file = custom(place, '[[cameras]]\nname = "seen"\nsource = "render"\nwidth = 64\nheight = 48')
    result = record("--config", file, "--policy", "policies:Blinding")
    assert result.exit_code == 2
    assert "error: camera 'seen': env.render() gives None; make the environment with render_mode=" in result.stderr
    assert f"session: {only_session().path}" in result.output


def test_pictures_that_no_camera_takes_are_refused_before_there_is_a_session(record, place):
    file = custom(place, '[[cameras]]\nname = "seen"\nsource = "render"\nwidth = 128\nheight = 48')
    result = record("--config", file, "--policy", "policies:still")
    assert result.exit_code == 2
    assert "camera 'seen': env.render() gives 64x48 pixels, and the camera is 128x48; set width=64" in result.stderr
    assert not list(place.glob("DataSessions/*"))


def test_an_error_of_the_policy_shows_as_what_it_is(record, only_session, place):
    result = record("--config", custom(place), "--policy", "policies:broken")
    assert isinstance(result.exception, KeyError)
    assert f"session: {only_session().path}" in result.output


def test_faults_of_the_session_are_told(record, place, monkeypatch):
    fault = checks.Fault("meta/info.json", None, "is not as it should be")
    report = checks.Report([fault], 1, 3, 0, False)
    monkeypatch.setattr("lucky_recorder.cli.check.inspect_session", lambda *arguments: report)
    result = record("--config", custom(place), "--episodes", 1, "--policy", "policies:still")
    assert result.exit_code == 1
    assert "meta/info.json: is not as it should be" in result.output


# Ctrl-C.


def test_an_interrupt_closes_the_session(record, only_session, place):
    result = record("--config", custom(place), "--policy", "policies:Interrupting")
    assert result.exit_code == 130
    assert "interrupted: the open episode was ended as failed" in result.stderr
    session = only_session()
    assert f"session: {session.path}" in result.output
    assert session.episodes["length"].to_pylist() == [3, 2]
    assert session.episodes["success"].to_pylist() == [True, False]


def test_ctrl_c_in_a_terminal(place, only_session):
    arguments = "record --env LuckyRecorder/PickCube-v0 --policy policies:talking --episodes 1000 --camera front:32x32"
    command = [sys.executable, "-c", "from lucky_recorder.cli.main import app; app()", *arguments.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place) as process:
        assert process.stdout is not None
        for _ in range(5):
            assert process.stdout.readline() == "step\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "interrupted: the open episode was ended as failed\n"
    session = only_session()
    assert session.episodes["success"].to_pylist()[-1] is False
    assert session.info["total_frames"] >= 4


def test_an_interrupt_before_the_first_episode_leaves_nothing(record, place, monkeypatch):
    def interrupt(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(CountEnv, "reset", interrupt)
    result = record("--config", custom(place))
    assert result.exit_code == 130
    assert "session:" not in result.output
    assert result.stderr == "interrupted: no step was recorded yet, and nothing is on the disk\n"
    assert not (place / "DataSessions").exists()


@pytest.mark.parametrize("lines", [[], ["control_hz = 50"]])
def test_an_interrupt_before_the_first_step_speaks_of_no_episode(record, place, monkeypatch, lines):
    """Whether there is a session by then, or not before the first step has shown how long one lasts."""

    def interrupt(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(CountEnv, "step", interrupt)
    result = record("--config", custom(place, *lines), "--episodes", 3)
    assert result.exit_code == 130
    assert "interrupted: no step was recorded yet" in result.stderr
    assert ("nothing is on the disk" in result.stderr) == (not (place / "DataSessions").exists())


def test_an_interrupt_before_there_is_an_environment(record, place, monkeypatch):
    def interrupt(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gym, "make", interrupt)
    result = record("--config", custom(place))
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")
    assert not (place / "DataSessions").exists()


# A session that is gone on with.


def test_adds_episodes_to_a_session(record, only_session, place):
    given = ["--config", custom(place, 'tasks = ["Count"]'), "--episodes"]
    assert record(*given, 2).exit_code == 0
    path = only_session().path
    result = record(*given, 4, "--resume", path, "--seed", 2)
    assert (result.exit_code, len(only_session())) == (0, 4), result.output
    assert f"session: {path}" in result.output
    assert "2 episodes kept, 2 succeeded, 0 discarded" in result.output
    assert "; the session has 4 episodes" in result.output
    assert "0 episodes kept, 0 succeeded, 0 discarded" in record(*given, 3, "--resume", path, "--seed", 9).output


def test_seeds_that_a_session_has_had_are_not_guessed(record, only_session, place):
    given = ["--config", custom(place, "provenance = false"), "--episodes"]
    assert record(*given, 1).exit_code == 0
    result = record(*given, 2, "--resume", only_session().path)
    assert (result.exit_code, len(only_session())) == (2, 1)
    assert "seed=None: where a session is gone on with that does not say which seeds were tried" in result.output


def test_other_settings_than_those_of_the_session_are_refused(record, only_session, place):
    given = ["--config", custom(place), "--episodes"]
    assert record(*given, 1).exit_code == 0
    result = record(*given, 2, "--resume", only_session().path, "--seed", 1, "--camera", "render:64x48")
    assert (result.exit_code, len(only_session())) == (2, 1)
    assert "'observation.images.render': only this recording has it" in result.output.replace("\n", " ")
