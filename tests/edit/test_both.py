"""One function shapes sessions and koyu datasets: the folder says which is meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from tests.edit.shaping import in_sessions
from tests.koyu.bundles import write_dataset
from tests.session.building import arm_schema


def test_datasets_are_shaped_by_the_functions_of_sessions(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "by-hand", (3, 1, 2))
    assert lr.select(dataset, tmp_path / "long", min_length=2).episodes == 2
    assert lr.delete(dataset, tmp_path / "rest", episodes="0").episodes == 2
    assert lr.delete(session=dataset, output=tmp_path / "named", episodes="0:2").episodes == 1
    parts = lr.split(dataset, {"train": 0.5, "val": 0.5}, output=tmp_path / "parts")
    assert sum(part.episodes for part in parts.values()) == 3
    merged = lr.merge([part.path for part in parts.values()], tmp_path / "merged")
    assert sorted(e.length for e in lr.koyu.Dataset(merged.path).episodes) == [1, 2, 3]
    with pytest.raises(lr.SettingsError, match="a bundle is immutable"):
        lr.trim(dataset, tmp_path / "short", start=1)


def test_commands_too(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "by-hand", (3, 1, 2))
    told = CliRunner().invoke(app, ["delete", str(dataset), "-o", str(tmp_path / "rest"), "--episodes", "1"])
    assert (told.exit_code, "2 episodes" in told.output) == (0, True)
    assert len(lr.koyu.Dataset(tmp_path / "rest").episodes) == 2


def test_the_two_are_not_mixed(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "by-hand", (3,))
    (session,) = in_sessions(tmp_path, arm_schema(), 1)
    with pytest.raises(lr.SettingsError, match=f"{dataset}.*is a koyu dataset, and {session} is none"):
        lr.merge([dataset, session], tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_whatever_way_the_folders_are_named(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "by-hand", (3, 1, 2))
    assert lr.delete(output=tmp_path / "rest", episodes="0", session=dataset).episodes == 2
    assert lr.merge((path for path in [dataset]), tmp_path / "one").episodes == 3
    (session,) = in_sessions(tmp_path, arm_schema(), 2)
    assert lr.merge(output=tmp_path / "two", sessions=iter([session])).episodes == 2
