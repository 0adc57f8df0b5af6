"""Sessions made of others: recorded in parts and merged, a session is that of one recording, to the last byte."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.edit.assemble import Pick, assemble
from lucky_recorder.session import carried
from lucky_recorder.session.check import check_session
from lucky_recorder.storage.untrusted import Folder
from tests.edit.shaping import every_stream, files, hashes, in_sessions, real, whole


@pytest.mark.parametrize(
    ("parts", "per_file", "robots"),
    [((3, 4), 1, ("arm",)), ((3, 3, 1), 3, ("left", "right")), ((6, 1), 3, ("arm",))],
)
def test_a_session_in_parts_is_merged_into_that_of_one_recording(
    tmp_path: Path, parts: tuple[int, ...], per_file: int, robots: tuple[str, ...]
) -> None:
    """Rows with nulls and texts, every stream, tasks, statistics, discarded takes: every file, to the last byte."""
    how = {"files_per_chunk": 2, "episodes_per_file": per_file}
    (one,) = in_sessions(tmp_path / "one", every_stream(robots), 7, **how)
    several = in_sessions(tmp_path / "several", every_stream(robots), *parts, **how)
    before = hashes(*several)
    made = assemble(whole(*several), tmp_path / "made")
    assert files(made) == files(one)
    assert hashes(*several) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["made", "one", "several"]


def test_what_a_simulation_records_in_parts_is_merged_into_that_of_one_recording(tmp_path: Path) -> None:
    one = real(tmp_path / "one", range(4))
    several = [real(tmp_path / "several", seeds) for seeds in (range(2), range(2, 4))]
    made = assemble(whole(*several), tmp_path / "made")
    assert files(made) == files(one)
    assert check_session(made) == []


@pytest.mark.parametrize("per_file", [1, 2])
def test_files_are_grouped_as_asked_and_rows_and_frames_stay(tmp_path: Path, per_file: int) -> None:
    several = in_sessions(tmp_path / "several", every_stream(), 3, 4, files_per_chunk=2, episodes_per_file=3)
    (one,) = in_sessions(tmp_path / "one", every_stream(), 7, files_per_chunk=5, episodes_per_file=per_file)
    made = assemble(whole(*several), tmp_path / "made", files_per_chunk=5, episodes_per_file=per_file)
    # Of the colours of a file's episodes only their sum is known: where they come into several, they are counted anew,
    # as they are stored.
    assert [name for name in files(one) if "stats" not in name and not name.startswith("data/chunk-000/file")] == [
        name for name in files(made) if "stats" not in name and not name.startswith("data/chunk-000/file")
    ]
    recorded, merged = lr.Session(one), lr.Session(made)
    assert merged.info == recorded.info
    for episode, same in zip(merged, recorded, strict=True):
        assert episode.rows() == same.rows()
        assert episode.meta == same.meta
    for name, stats in recorded.stats.items():
        if "images" not in name:
            assert merged.stats[name] == stats
        else:
            assert np.allclose(merged.stats[name]["mean"], stats["mean"], atol=0.02)
            assert merged.stats[name]["count"] == stats["count"]
    # Of each short episode one picture counts, in the file that holds it.
    for name in carried.names(Folder(made)):
        file = carried.read(Folder(made), name)
        counted = [file.carried.pixels[f"observation.images.{camera}"].frames for camera in ("Front", "Slow")]
        assert counted == [len(file.episodes)] * 2
    assert check_session(made) == []


def test_videos_are_linked_and_rows_are_not(tmp_path: Path) -> None:
    (source,) = in_sessions(tmp_path, every_stream(), 2, files_per_chunk=2)
    made = assemble([Pick(lr.Session(source), 1)], tmp_path / "made")
    for name in files(made):
        shared = (made / name).stat().st_nlink > 1
        assert shared == name.endswith((".mp4", ".mkv")), name
    video = "videos/observation.images.Front/chunk-000/file-{:03d}.mp4"
    assert os.path.samefile(made / video.format(0), source / video.format(1))


def test_where_there_are_no_links_videos_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = in_sessions(tmp_path, every_stream(), 2, files_per_chunk=2)

    def no_links(*names: object, **options: object) -> None:
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(os, "link", no_links)
    made = assemble(whole(source), tmp_path / "made")
    assert files(made) == files(source)
    assert {(made / name).stat().st_nlink for name in files(made)} == {1}
