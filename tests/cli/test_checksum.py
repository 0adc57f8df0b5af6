from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lucky_recorder.cli.main import app
from tests.koyu.bundles import write_dataset
from tests.session.building import Recording, arm_schema, camera, small_session

NAME = "session_2026-10-08_14-30-05"
VIDEO = "videos/observation.images.Front/chunk-002/file-001.mp4"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return small_session(tmp_path / "DataSessions" / NAME).root


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "by-hand", (4, 3))


def test_sums_are_written_told_and_compared(session: Path) -> None:
    assert "none" in next(line for line in run("info", session).stdout.splitlines() if "checksums" in line)
    count = sum(p.is_file() for p in session.rglob("*"))
    size = sum(p.stat().st_size for p in session.rglob("*") if p.is_file())
    result = run("checksum", session)
    assert (result.exit_code, result.stdout) == (0, f"{session}: sums of {count} files, {size / 1e6:.1f} MB\n")
    assert f"of {count} files" in run("info", session).stdout
    for options, verb in (((), "checked"), (("--no-decode",), "counted"), (("--deep",), "checked")):
        result = run("check", session, *options)
        said = f"ok: 7 episodes, 68 rows, 52 frames {verb}, {count} files as their sums say\n"
        assert (result.exit_code, result.stdout, result.stderr) == (0, said, "")


def test_a_fault_of_the_sums_is_a_line(session: Path) -> None:
    run("checksum", session)
    (session / VIDEO).write_bytes((session / VIDEO).read_bytes() + b"\0")
    result = run("check", "--no-decode", session)
    assert result.exit_code == 1
    assert f"{VIDEO}: holds" in result.stdout
    assert "bring it back from a copy" in result.stdout


def test_a_list_that_cannot_be_read_is_told_and_does_not_hide_the_session(session: Path) -> None:
    (session / "meta/checksums.json").write_text("[]")
    assert "cannot be read; `lucky-recorder check` says why" in run("info", session).stdout
    result = run("check", session)
    assert (result.exit_code, "meta/checksums.json: holds a list" in result.stdout) == (1, True)


def test_sessions_and_datasets_are_checked_one_after_the_other(session: Path, dataset: Path) -> None:
    assert run("checksum", session.parent, dataset).exit_code == 0
    result = run("check", "--deep", session, dataset)
    assert result.exit_code == 0
    first, ok, second, also_ok = result.stdout.splitlines()
    assert (first, second) == (f"{session}:", f"{dataset}:")
    assert ok.startswith("ok: 7 episodes")
    assert also_ok.startswith("ok: 2 episodes, 7 rows, 14 frames checked, ")
    assert "of 9 files" in run("koyu", "info", dataset).stdout
    (session / VIDEO).unlink()
    result = run("check", session, dataset)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == also_ok


def test_a_dataset_alone_is_checked_as_by_its_own_command(dataset: Path) -> None:
    (dataset / "manifest.json").unlink()
    first, second = run("check", dataset), run("koyu", "check", dataset)
    assert first.exit_code == second.exit_code == 1
    assert first.stdout == second.stdout != ""
    assert run("koyu", "check", "--deep", dataset).stdout == second.stdout


def test_deep_without_decoding_is_refused(session: Path, dataset: Path) -> None:
    for arguments in (("check", session), ("koyu", "check", dataset)):
        result = run(*arguments, "--deep", "--no-decode")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "leave --no-decode out" in result.stderr


def test_several_sessions_for_lerobot(session: Path) -> None:
    second = shutil.copytree(session, f"{str(session)[:-1]}6")
    result = run("check", "--lerobot", session, second)
    assert result.exit_code == 1
    assert f"LeRobot does not open {session} as it is" in result.stderr
    assert f"LeRobot does not open {second} as it is" in result.stderr


def test_what_cannot_be_summed(tmp_path: Path) -> None:
    recording = Recording(tmp_path / NAME, arm_schema([camera("Front")]))
    recording.keep(2)
    result = run("checksum", tmp_path / NAME)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is being recorded" in result.stderr
    recording.close()
    assert run("checksum", tmp_path / "nowhere").exit_code == 2


def test_recovering_says_that_sums_are_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recording = Recording(tmp_path / NAME, arm_schema([camera("Front")]))
    for _ in range(3):
        recording.keep(2)
    recording.sink._lock.release()
    assert run("checksum", tmp_path / NAME).exit_code == 0
    result = run("recover", tmp_path / NAME)
    assert result.exit_code == 0
    assert "checksums.json: removed: the files it lists are about to change" in caplog.text
