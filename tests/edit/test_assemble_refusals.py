"""Sessions that do not become one: refused with every difference, and nothing is left, whatever happens."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.edit.assemble import Pick, assemble, plan
from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError, SettingsError, StorageError, VideoError
from lucky_recorder.session.check import check_session
from lucky_recorder.storage.lock import hold
from tests.edit.shaping import Part, every_stream, files, hashes, in_sessions, keep_some, whole
from tests.session.building import Recording, arm_schema, camera
from tests.session.resuming import schema
from tests.session.test_resume_refusals import OTHERS

BROKEN = (FormatError, VideoError, StorageError)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("session") / "one", schema())


def recorded(root: Path, schema: Any, episodes: int = 1, **episode: Any) -> Path:
    recording = Recording(root, schema, files_per_chunk=2)
    for _ in range(episodes):
        recording.keep(3, **episode)
    return recording.close()


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize(("other", "message"), OTHERS.values(), ids=OTHERS)
def test_sessions_that_differ_are_refused(session: Path, tmp_path: Path, other: Any, message: str) -> None:
    # Colours of another size or rate go into no file with the depth: that stream has failed there.
    lost = {"success": False, "failed_stream": "observation.images.Front_rgbd"} if "color" in str(other) else {}
    another = recorded(tmp_path / "two", other, **lost)
    with pytest.raises(FormatError, match="do not fit into one session") as raised:
        assemble(whole(session, another), tmp_path / "made")
    told = message.replace("this recording", str(another)).replace("the session", str(session))
    assert told in str(raised.value)
    assert names(tmp_path) == ["two"]


def test_every_difference_is_listed_and_the_pair_is_named(session: Path, tmp_path: Path) -> None:
    paths = [session, recorded(tmp_path / "same", schema()), recorded(tmp_path / "two", arm_schema(hz=25))]
    with pytest.raises(FormatError) as raised:
        plan(whole(*paths), tmp_path / "made")
    told = str(raised.value)
    assert told.startswith(f"{session} and {paths[2]} do not fit")
    for part in ("hz: ", "'observation.images.Front': only", "'observation.masks.Front': only", "'lidar-top': only"):
        assert part in told


# Where it is to be.


def test_there_must_be_nothing_of_its_name(session: Path, tmp_path: Path) -> None:
    for target in (tmp_path / "file", tmp_path / "folder", tmp_path / "link"):
        {"file": target.touch, "folder": target.mkdir, "link": lambda t=target: t.symlink_to("nowhere")}[target.name]()
        with pytest.raises(SettingsError, match="is there already"):
            assemble(whole(session), target)


def test_it_is_not_made_within_a_source(session: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(session)
    for target in (session / "made", session / "data/made", tmp_path / "link" / "made"):
        with pytest.raises(SettingsError, match="lies inside"):
            assemble(whole(session), target)


def test_chunk_numbers_that_would_pass_their_end_are_refused(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = recorded(tmp_path / "several", schema(), 5)
    monkeypatch.setattr(keys, "LARGEST_CHUNK", 2)
    with pytest.raises(SettingsError, match="files_per_chunk=1: chunk numbers end at 2, so 5 episodes need 2 or more"):
        assemble(whole(several), tmp_path / "made", files_per_chunk=1)
    assert len(lr.Session(assemble(whole(several), tmp_path / "made", files_per_chunk=2))) == 5


@pytest.mark.parametrize(
    ("pick", "message"),
    [
        (lambda s: [], "no episode is left"),
        (lambda s: [Pick(s, 7)], "episode=7: "),
        (lambda s: [Pick(s, 0), Pick(s, 0)], "is picked twice"),
        (lambda s: [Pick(s, 0, 3)], "nothing is left of it"),
        (lambda s: [Pick(s, 0, 0, 4)], "has 3"),
    ],
)
def test_picks_that_are_none(session: Path, tmp_path: Path, pick: Callable[..., Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        assemble(pick(lr.Session(session)), tmp_path / "made")


# What nothing can be taken from.


def test_a_session_that_is_written_is_refused(tmp_path: Path) -> None:
    path = recorded(tmp_path / "one", schema())
    held = hold(path)
    with pytest.raises(StorageError, match="this process is writing it"):
        lr.merge([path], tmp_path / "made")
    with pytest.raises(StorageError, match="this process is writing it"):
        assemble(whole(path), tmp_path / "made")
    held.release()


def test_what_has_no_rows_or_is_a_view_is_refused(tmp_path: Path, session: Path) -> None:
    without = recorded(tmp_path / "without", dataclasses.replace(arm_schema([camera("Front")]), has_rows=False))
    view = lr.lerobot_view(session, tmp_path / "view").path
    for path, why in ((without, "recorded without rows"), (view, "a copy for LeRobot")):
        with pytest.raises(FormatError, match=why):
            lr.merge([session, path], tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_one_that_was_cut_short_is_taken_as_it_is_read(tmp_path: Path) -> None:
    (one,) = in_sessions(tmp_path / "one", every_stream(), 5, files_per_chunk=2, episodes_per_file=3)
    recording = Part(tmp_path / "cut", None, every_stream(), files_per_chunk=2, episodes_per_file=3)
    keep_some(recording, range(5))
    recording.sink._lock.release()
    assert lr.Session(recording.root).state == "cut short"
    made = assemble(whole(recording.root), tmp_path / "made")
    assert files(made) == files(one)


# Whatever happens, there is a whole session or none.


def damage(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:8] + bytes(byte ^ 0xFF for byte in content[8:200]) + content[200:])


def shorter(path: Path) -> None:
    path.write_bytes(path.with_name("file-000.mp4").read_bytes())


VIDEO = "videos/observation.images.Front/chunk-000/file-001.mp4"


@pytest.mark.parametrize(
    ("file", "spoil"),
    [
        ("data/chunk-000/file-001.parquet", damage),
        ("data/chunk-000/file-001.parquet", Path.unlink),
        ("data/chunk-000/lidar-top-001.parquet", damage),
        (VIDEO, Path.unlink),
        (VIDEO, shorter),
        ("videos/observation.masks.Front/chunk-000/file-001.json", lambda p: p.write_text('{"0": "other"}')),
        ("data/chunk-000/lidar-top-001.json", lambda p: p.write_text("{}")),
    ],
)
def test_a_source_with_faults_leaves_nothing(tmp_path: Path, file: str, spoil: Callable[[Path], Any]) -> None:
    recording = Recording(tmp_path / "one", schema())
    recording.keep(3)
    recording.keep(5)
    recording.close()
    spoil(recording.root / file)
    before = hashes(recording.root)
    with pytest.raises(BROKEN) as raised:
        assemble(whole(recording.root), tmp_path / "made")
    assert str(tmp_path) in str(raised.value)
    assert (names(tmp_path), hashes(recording.root)) == (["one"], before)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("a disk of somebody's")])
def test_an_interrupt_leaves_nothing(session: Path, tmp_path: Path, error: Any) -> None:
    def interrupt(done: int, total: int) -> None:
        raise error

    with pytest.raises(type(error) if isinstance(error, OSError) else error):
        assemble(whole(session), tmp_path / "made", on_episode=interrupt)
    assert names(tmp_path) == []


DYING = """
import os, sys
import lucky_recorder as lr
lr.merge([sys.argv[1]], sys.argv[2], on_episode=lambda done, total: os._exit(9))
"""


def test_what_a_killed_one_leaves_is_no_session_and_goes_with_the_next(session: Path, tmp_path: Path) -> None:
    target = tmp_path / "session_2026-10-08_14-30-05"
    done = subprocess.run([sys.executable, "-c", DYING, str(session), str(target)], check=False)
    assert (done.returncode, names(tmp_path)) == (9, ["session_2026-10-08_14-30-05.partial"])
    assert check_session(assemble(whole(session), target)) == []
    assert names(tmp_path) == [target.name]


@pytest.mark.parametrize("kind", ["somebody's", "held"])
def test_what_another_has_put_there_stays(session: Path, tmp_path: Path, kind: str) -> None:
    partial = tmp_path / "made.partial"
    partial.mkdir()
    held = hold(partial) if kind == "held" else None
    if held is None:
        (partial / "diary.txt").write_text("mine")
    with pytest.raises(StorageError, match=r"made\.partial: is there already"):
        assemble(whole(session), tmp_path / "made")
    assert names(tmp_path) == ["made.partial"]
    if held is not None:
        held.release()


def test_a_name_that_is_taken_meanwhile_stays(session: Path, tmp_path: Path) -> None:
    def take(done: int, total: int) -> None:
        (tmp_path / "made").mkdir()

    with pytest.raises(StorageError, match="is there by now"):
        assemble(whole(session), tmp_path / "made", on_episode=take)
    assert (names(tmp_path), names(tmp_path / "made")) == (["made"], [])


def test_columns_that_cannot_be_written_exactly_are_refused(tmp_path: Path) -> None:
    path = recorded(tmp_path / "one", schema())
    file = path / "data/chunk-000/file-000.parquet"
    table = pq.ParquetFile(file).read()
    pq.write_table(table.append_column("when", table["index"].cast("timestamp[us]")), file)
    with pytest.raises(FormatError, match=r"column 'when' holds timestamp\[us\], which cannot be written anew exactly"):
        assemble(whole(path), tmp_path / "made")


def test_scans_with_a_column_that_stands_twice_are_refused(tmp_path: Path) -> None:
    (path,) = in_sessions(tmp_path, every_stream(), 2)
    scans = sorted(path.glob("data/*/lidar-top-*.parquet"))[1]
    table = pq.ParquetFile(scans).read()
    pq.write_table(table.append_column("frame_index", table["frame_index"]), scans)
    with pytest.raises(FormatError, match=r"lidar-top-001\.parquet: columns"):
        assemble(whole(path), tmp_path / "made")
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.relative_to(tmp_path).parts[0]]
