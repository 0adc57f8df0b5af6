"""Datasets that hold nothing, being written or not: every command says the same of them, and its remedy works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.koyu import recovery
from lucky_recorder.koyu.check import check_koyu
from lucky_recorder.koyu.manifest import rebuild
from lucky_recorder.koyu.writer import DatasetWriter
from lucky_recorder.storage import lock as locks
from lucky_recorder.storage.lock import locked
from tests.koyu.making import snapshot
from tests.koyu.test_manifest import CUBES, make

USES: list[Callable[[Path], Any]] = [check_koyu, rebuild, lr.koyu.Dataset, lr.checksum]
COMMANDS = (("koyu", "check"), ("koyu", "index"), ("koyu", "info"), ("check",), ("checksum",))
REMEDY = "record into it again, or remove it"


@pytest.mark.parametrize("files", [(), (".lock",), (".lock", "manifest.json.tmp")])
def test_one_that_was_begun_and_no_more(tmp_path: Path, files: tuple[str, ...]) -> None:
    dataset = tmp_path / "cubes"
    (dataset / "episodes").mkdir(parents=True)
    for name in files:
        (dataset / name).touch()
    before = snapshot(tmp_path)
    for use in USES:
        with pytest.raises(lr.FormatError, match=REMEDY):
            use(dataset)
    for command in COMMANDS:
        result = CliRunner().invoke(app, [*command, str(dataset)])
        assert (result.exit_code, REMEDY in result.output) == (2, True), (command, result.output)
    for path in (dataset, tmp_path):
        (done,) = lr.recover(path)
        assert (done.path, done.verdict, REMEDY in done.why) == (dataset, "no episode", True)
    assert snapshot(tmp_path) == before
    # What the message says works.
    writer = DatasetWriter(dataset, CUBES)
    writer.prepare(make(1)).commit()
    writer.close()
    assert check_koyu(dataset) == []


def test_one_that_is_being_begun(tmp_path: Path) -> None:
    (tmp_path / "episodes").mkdir()
    with locked(tmp_path / ".lock"):
        for use in USES:
            with pytest.raises(lr.FormatError, match="look again when an episode is finished"):
                use(tmp_path)
        (done,) = lr.recover(tmp_path)
        assert done.verdict == "in progress"


@pytest.mark.parametrize("file", ["notes.txt", "episodes/one.mp3"])
def test_another_program_s_folder_is_none(tmp_path: Path, file: str) -> None:
    (tmp_path / "episodes").mkdir()
    (tmp_path / file).touch()
    for use in (lr.recover, lr.checksum):
        with pytest.raises(lr.FormatError, match="is no session"):
            use(tmp_path)


def half_done(dataset: Path) -> DatasetWriter:
    """A dataset with a writer that lives, of whose bundles one is not listed yet, and what a dead one has left."""
    writer = DatasetWriter(dataset, CUBES)
    writer.prepare(make(1)).commit()
    (dataset / "episodes/.tmp-1-0123/ep_half").mkdir(parents=True)
    return writer


def test_one_that_is_written_is_left_alone(tmp_path: Path) -> None:
    writer = half_done(tmp_path)
    before = snapshot(tmp_path)
    for how in ({"dry_run": True}, {}, {"force": True}):
        (done,) = lr.recover(tmp_path, **how)
        assert (done.verdict, done.why) == ("in progress", "it was left alone")
    assert snapshot(tmp_path) == before
    writer.prepare(make(2)).commit()
    writer.close()
    (done,) = lr.recover(tmp_path)
    assert (done.verdict, done.episodes, check_koyu(tmp_path)) == ("recovered", 2, [])


def test_a_writer_that_comes_while_it_is_looked_at_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_done(tmp_path)._lock.release()
    planned, writers = recovery.plan, []

    def plan(dataset: Path) -> Any:
        found = planned(dataset)
        writers.append(DatasetWriter(dataset, CUBES))
        return found

    monkeypatch.setattr(recovery, "plan", plan)
    (done,) = lr.recover(tmp_path)
    assert done.verdict == "in progress"
    writers[0].close()


def test_without_locks_a_writer_s_folder_asks_for_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half_done(tmp_path)._lock.release()
    monkeypatch.setattr(locks.Lock, "_ask", lambda lock, kind: None)
    before = snapshot(tmp_path)
    (done,) = lr.recover(tmp_path)
    assert (done.verdict, "--force" in done.why) == ("refused", True)
    assert snapshot(tmp_path) == before
    (done,) = lr.recover(tmp_path, force=True)
    assert (done.verdict, done.episodes, check_koyu(tmp_path)) == ("recovered", 1, [])
    # No writer is without its folder: of what has none, nothing has to be known.
    assert lr.recover(tmp_path)[0].verdict == "complete"
