from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from lucky_recorder.cli.main import app
from lucky_recorder.errors import StateError
from lucky_recorder.viewer import rerun as view
from tests.session.building import Recording, arm_schema, camera


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recording = Recording(tmp_path_factory.mktemp("s") / "session_2026-10-08_14-30-05", arm_schema([camera("Front")]))
    for ticks in (3, 5):
        recording.keep(ticks)
    return recording.close()


@pytest.fixture
def rerun(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A viewer that only remembers what it was started with; it ends with status 3."""
    started: list[list[str]] = []
    monkeypatch.setattr(view, "_require_rerun", lambda: None)

    def run(command: list[str], check: bool) -> SimpleNamespace:
        assert not check
        started.append(command)
        return SimpleNamespace(returncode=3)

    monkeypatch.setattr(subprocess, "run", run)
    return started


def run(*arguments: object):
    return CliRunner().invoke(app, ["view", *map(str, arguments)])


def test_the_folder_is_handed_to_the_viewer(session: Path, rerun: list[list[str]], monkeypatch) -> None:
    monkeypatch.chdir(session.parent)
    assert run(session.name).exit_code == 3
    assert rerun == [[sys.executable, "-m", "rerun", str(session)]]


def test_a_recording_is_saved_without_a_display(session: Path, tmp_path: Path) -> None:
    chunk = pytest.importorskip("rerun.chunk", reason="pip install 'lucky-recorder[view]'")
    result = run(session, "--save", tmp_path / "out.rrd")
    assert result.exit_code == 0, result.output
    reader = chunk.RrdReader(tmp_path / "out.rrd")
    assert [store.recording_id for store in reader.recordings()] == ["episode_0", "episode_1"]
    batches = [c.to_record_batch() for c in reader.stream(store=reader.recordings()[1])]
    assert [len(b) for b in batches if "VideoStream:sample" in b.schema.names] == [5]


def test_without_the_viewer_it_says_how_to_install_it(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for arguments in ((), ("--save", "out.rrd")):
        result = run(session, *arguments)
        assert result.exit_code == 2
        assert "the Rerun viewer is not installed: pip install 'lucky-recorder[view]'" in result.stderr
    with pytest.raises(StateError):
        view.show(session)


def test_a_viewer_that_is_too_old_is_not_started(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    monkeypatch.setattr("importlib.import_module", lambda name: SimpleNamespace(__version__="0.37.2"))
    result = run(session)
    assert result.exit_code == 2
    assert "Rerun 0.37.2 cannot show a session, 0.38 and later can" in result.stderr


def test_a_folder_that_is_no_session_starts_nothing(tmp_path: Path, rerun: list[list[str]]) -> None:
    result = run(tmp_path)
    assert result.exit_code == 2
    assert "is no session" in result.stderr
    assert rerun == []


def test_a_session_with_nothing_to_show_says_so(tmp_path: Path, rerun: list[list[str]]) -> None:
    empty = Recording(tmp_path / "session_2026-10-08_14-30-06", arm_schema()).close()
    assert "lists no episode" in run(empty).stderr
    video = tmp_path / "session_2026-10-08_14-30-07/videos/observation.images.Front/chunk-000/file-000.mp4"
    video.parent.mkdir(parents=True)
    video.touch()
    assert "video only" in run(video.parents[3]).stderr
    assert rerun == []


def test_a_recording_needs_a_folder(session: Path, tmp_path: Path, rerun: list[list[str]]) -> None:
    result = run(session, "--save", tmp_path / "none/out.rrd")
    assert result.exit_code == 2
    assert "there is no folder" in result.stderr
