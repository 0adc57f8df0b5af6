"""A bundle: one episode of one robot, as the files of a folder (spec: The format)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lucky_recorder.koyu import layout, rows
from lucky_recorder.koyu.rows import Parts
from lucky_recorder.storage.write import link, make_folder, storage_errors, sync_file, sync_folder, write_json


@dataclass(frozen=True)
class Bundle:
    """Everything that becomes the files of one bundle.

    Attributes:
        capture_id: 32 hexadecimal digits; the bundle's id is ``ep_`` and these.
        timestamps: Nanoseconds since 1970, int64, shape ``(rows,)``.
        vectors: The other columns by feature key, float32, shape ``(rows, …)``; in the order they are written.
        sidecar: The content of ``episode.json``.
        videos: Finished video files by feature key; they are linked, or copied where links fail.
    """

    capture_id: str
    timestamps: Parts
    vectors: Mapping[str, Parts]
    sidecar: Mapping[str, Any]
    videos: Mapping[str, Path] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The bundle's id, and its folder's name."""
        return layout.bundle_name(self.capture_id)


@dataclass(frozen=True)
class Whole:
    """A bundle that is committed elsewhere, and is to stand in another dataset.

    Attributes:
        files: Its files, by their name in it.
        sidecar: The content of ``episode.json`` as it is to be.
        later_ns: By how much its rows are to be later, nanoseconds; below 0 for earlier.
    """

    files: Mapping[str, Path]
    sidecar: Mapping[str, Any]
    later_ns: int = 0

    @property
    def capture_id(self) -> str:
        """The id that it is to have: 32 hexadecimal digits."""
        capture_id: str = self.sidecar["capture_id"]
        return capture_id

    @property
    def id(self) -> str:
        """The bundle's id, and its folder's name."""
        return layout.bundle_name(self.capture_id)


def write(folder: Path, bundle: Bundle) -> None:
    """Write a bundle's files into a new folder, durably.

    Raises:
        StorageError: If the file system refuses, or a file is not whole afterwards.
    """
    with storage_errors(folder):
        folder.mkdir()
    # Videos are linked while they still have their temporary names: the session's sink renames them when it commits,
    # and a link stays with the file.
    for key, source in bundle.videos.items():
        link_video(source, folder / layout.video_name(key))
    values = bundle.timestamps, bundle.vectors
    rows.write(folder / layout.DATA, rows.tables(*values), len(bundle.timestamps), rows.largest(*values))
    write_json(folder / layout.SIDECAR, dict(bundle.sidecar))
    with storage_errors(folder):
        sync_folder(folder)


def link_files(folder: Path, files: Mapping[str, Path], sidecar: Mapping[str, Any] | None = None) -> None:
    """Make a new folder of the files of a bundle that is committed, durably: linked, or copied where links fail.

    Args:
        folder: The new folder.
        files: The bundle's files by their name in it.
        sidecar: The content of ``episode.json`` where it is to be another: that file is written anew, and not linked.

    Raises:
        StorageError: If the file system refuses.
    """
    with storage_errors(folder):
        folder.mkdir()
    folders = {folder}
    for name, source in files.items():
        if sidecar is not None and name == layout.SIDECAR:
            continue
        target = folder / name
        make_folder(target.parent)
        folders.add(target.parent)
        link_video(source, target)
    if sidecar is not None:
        write_json(folder / layout.SIDECAR, dict(sidecar))
    with storage_errors(folder):
        for one in sorted(folders, reverse=True):
            sync_folder(one)


def take_over(folder: Path, bundle: Whole) -> None:
    """Make a new folder of a bundle that is committed elsewhere, durably: what stays as it was is linked.

    Raises:
        FormatError: If its rows cannot be read.
        StorageError: If the file system refuses, or a file is not whole afterwards.
    """
    files = dict(bundle.files)
    moved = files.pop(layout.DATA) if bundle.later_ns else None
    link_files(folder, files, bundle.sidecar)
    if moved is not None:
        rows.write(folder / layout.DATA, rows.later(moved, bundle.later_ns), bundle.sidecar["length"])
        with storage_errors(folder):
            sync_folder(folder)


def link_video(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where that fails; its bytes are safe on the disk then.

    Raises:
        StorageError: If the file system refuses.
    """
    link(source, target)
    with storage_errors(target):
        sync_file(target)
