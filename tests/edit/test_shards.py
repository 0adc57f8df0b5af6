"""Shards that cannot be read: nobody knows what they hold, so they are neither left out nor removed."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.edit.shards import Shards
from lucky_recorder.edit.turns import turns
from tests.session.building import Recording, arm_schema


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    """Two shards of an episode each, the second with an info.json that is broken."""
    folder = tmp_path / "DataSessions/session_2026-10-08_14-30-05.shards"
    for lane in (0, 1):
        recording = Recording(tmp_path / f"made-{lane}", arm_schema())
        recording.keep(3)
        path = recording.close()
        shutil.copytree(path, folder / str(lane) / "DataSessions" / path.name)
    (folder / "1/DataSessions" / path.name / "meta/info.json").write_text("{")
    return Shards(lr.RecorderSettings(output_dir=tmp_path), folder)


def test_one_that_cannot_be_read_is_not_left_out(shards: Shards) -> None:
    with pytest.raises(lr.FormatError, match=r"info\.json"):
        turns(shards.sessions, 0)


@pytest.mark.parametrize("sound", [0, 1])
def test_nothing_is_removed_because_it_cannot_be_read(shards: Shards, sound: int) -> None:
    if not sound:
        shutil.rmtree(shards.folder / "0")
    there = shards.sessions
    assert shards.finished == there
    # What is told to be done can be done.
    assert shards.command().split()[:-2] == (["lucky-recorder", "merge", str(there[0])] if sound else [])
    assert shards.beside() == f"{there[-1]} cannot be read and is left out; "
    assert shards.sessions == there


def test_one_with_torn_rows_is_left_out_too(shards: Shards) -> None:
    for shard in shards.sessions:
        (shard / "meta/info.json").unlink()
    (data,) = (shards.sessions[1] / "data").rglob("*.parquet")
    os.truncate(data, 50)
    command = shlex.split(shards.command())
    assert command[2:-2] == [str(shards.sessions[0])]
    result = CliRunner().invoke(app, command[1:])
    assert result.exit_code == 0, result.output
    assert str(shards.sessions[1]) in shards.beside()
