"""Folders of strangers: nothing outside is touched, every error is ours, and nobody waits."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.edit.convert import koyu_to_session, session_to_koyu
from lucky_recorder.koyu.manifest import rebuild
from lucky_recorder.koyu.overlays import write_overlay
from lucky_recorder.settings.koyu import KoyuSettings
from tests.soak.hostile import attack, good_folders
from tests.soak.readers import record_into

SEED, COUNT = 20_260_731, 6
FRONT = "observation.images.Front"
NAMES = ["manifest.json.tmp", ".lock", "episodes", "overlays", "manifest.json", "overlays/new"]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    return good_folders(tmp_path_factory.mktemp("good"))


@pytest.fixture
def place(bases: dict[str, list[Path]], tmp_path: Path) -> Path:
    """A folder that holds copies of a session and of a dataset, and a file that is nobody's business."""
    shutil.copytree(bases["session"][0], tmp_path / "in/session")
    shutil.copytree(bases["koyu"][0], tmp_path / "in/dataset")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("as it was")
    return tmp_path


def outside(place: Path) -> dict[str, str]:
    return {str(p.relative_to(place)): p.read_text() for p in (place / "outside").rglob("*") if p.is_file()}


def test_spoilt_folders_are_read_or_refused(bases: dict[str, list[Path]]) -> None:
    assert list(attack(bases, SEED, range(COUNT))) == []


@pytest.mark.parametrize("key", ["{out}/x", "../../outside/x", f"{FRONT}/../../../../outside/x", "a/b", "a\\b", "x\0"])
def test_a_stream_that_is_called_like_a_path(place: Path, key: str) -> None:
    key, session = key.format(out=place / "outside"), place / "in/session"
    info = json.loads((session / "meta/info.json").read_text())
    info["features"] = {key if k == FRONT else k: feature for k, feature in info["features"].items()}
    (session / "meta/info.json").write_text(json.dumps(info))
    for path in session.glob("meta/episodes/*/*.parquet"):
        table = pq.read_table(path, partitioning=None)
        pq.write_table(table.rename_columns([n.replace(f"{FRONT}/", f"{key}/") for n in table.column_names]), path)
    with pytest.raises(lr.FormatError, match=r"may lead outside|lies outside"):
        session_to_koyu(session, KoyuSettings("made", path=place / "in/made"))
    with pytest.raises(lr.FormatError, match=r"may lead outside|lies outside"):
        lr.lerobot_view(session, place / "in/view")
    assert outside(place) == {"outside/file": "as it was"}


@pytest.mark.parametrize("write", [rebuild, lambda d: record_into(d, d), lambda d: annotate(d)])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", ["file", "made", "."])
def test_a_dataset_that_leads_elsewhere(place: Path, write: Callable[[Path], object], name: str, target: str) -> None:
    dataset = place / "in/dataset"
    if (dataset / name).is_dir():
        shutil.rmtree(dataset / name)
    (dataset / name).unlink(missing_ok=True)
    (dataset / name).symlink_to(place / "outside" / target)
    try:
        write(dataset)
    except lr.LuckyRecorderError as error:
        assert str(dataset) in str(error)  # noqa: PT017, it may also go well
    assert outside(place) == {"outside/file": "as it was"}
    assert sorted(os.listdir(place / "outside")) == ["file"]


def annotate(dataset: Path) -> None:
    write_overlay(
        dataset, "new", "dense", {entry.id: [0.0] * entry.length for entry in lr.koyu.Dataset(dataset).episodes}
    )


@pytest.mark.parametrize("name", ["manifest.json.tmp", ".lock"])
def test_nobody_waits_for_a_pipe_in_a_dataset(place: Path, name: str) -> None:
    dataset = place / "in/dataset"
    (dataset / name).unlink(missing_ok=True)
    os.mkfifo(dataset / name)
    try:
        rebuild(dataset)
    except lr.StorageError as error:
        assert name in str(error)  # noqa: PT017, only the lock is refused


def test_an_episode_that_is_called_like_a_path(place: Path) -> None:
    dataset = place / "in/dataset"
    manifest = json.loads((dataset / "manifest.json").read_text())
    manifest["episodes"][0]["id"] = "../../../outside/x"
    (dataset / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(lr.FormatError, match="may lead outside"):
        write_overlay(dataset, "new", "dense", {"../../../outside/x": [0.0] * manifest["episodes"][0]["length"]})
    assert outside(place) == {"outside/file": "as it was"}


def test_what_is_converted_stays_as_it_is(place: Path) -> None:
    session, dataset = place / "in/session", place / "in/dataset"
    before = sorted(p for p in (place / "in").rglob("*"))
    for target in (session, session / "made"):
        with pytest.raises(lr.SettingsError, match="lies inside what is converted"):
            session_to_koyu(session, KoyuSettings("made", path=target))
        with pytest.raises(lr.SettingsError):
            lr.lerobot_view(session, target)
    with pytest.raises(lr.SettingsError, match="lies inside what is converted"):
        koyu_to_session(dataset, dataset / "made")
    assert sorted(p for p in (place / "in").rglob("*")) == before
