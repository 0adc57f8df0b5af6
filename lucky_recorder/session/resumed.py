"""Going on with a session: what a recording must have in common with it, and what it has to begin with.

A session that was cut short is completed first, as `recover` does it. Then every number goes on from where it stands,
so that a session recorded in parts is the one that a single recording would have written.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lucky_recorder.episode import keys
from lucky_recorder.episode.record import EpisodeRecord
from lucky_recorder.episode.schema import Schema
from lucky_recorder.errors import FormatError, SettingsError, shown
from lucky_recorder.notices import tell
from lucky_recorder.session import carried as footers
from lucky_recorder.session import layout, likeness, lists, noted, rebuilt, recovery
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.features import ABOUT_COLUMNS, has_about
from lucky_recorder.session.folder import SessionFolder
from lucky_recorder.session.metadata import VIEW, Before
from lucky_recorder.storage import checksums
from lucky_recorder.storage.lock import refuse_held


def refuse(root: Path, schema: Schema | None, chunking: layout.Chunking, *, is_ours: bool = False) -> None:
    """Refuse to go on with a session that a recording does not fit; nothing is touched.

    Args:
        root: The session's folder.
        schema: What the rows and frames of the recording are; None where they were compared already.
        chunking: How it groups files.
        is_ours: Whether the caller holds the session's lock.

    Raises:
        SettingsError: If it would write other rows, streams or files; lists every difference.
        FormatError: If the folder is no session that can be gone on with.
        StorageError: If it is being written.
    """
    if not root.is_dir():
        raise SettingsError.of("resume", str(root), "there is no such folder; give the folder of a session")
    if not is_ours:
        refuse_held(root)
    folder = _folder(root)
    if folder is None:
        return
    if folder.is_video_only:
        raise FormatError(f"{root}: a session without rows says nothing of itself, so nothing can be added to it")
    if folder.info.get(VIEW) is True:
        raise FormatError(f"{root}: a copy for LeRobot; go on with the session it was made of, and make it anew")
    if not folder.is_ours:
        raise FormatError(f"{root}: another recorder wrote it, and how it goes on is not known; record a new session")
    noted.refuse_mixed(folder.files)
    _refuse_earlier(folder)
    differences = [] if schema is None else [*likeness.differences(folder, schema, chunking)]
    if differences:
        remedy = "it goes on with the settings it was recorded with only; change these, or leave resume out"
        raise SettingsError.of("resume", str(root), f"{remedy}. {'; '.join(differences)}")


def _folder(root: Path) -> SessionFolder | None:
    """Return the session; None where no episode was finished and nothing says what it was to be."""
    return None if recovery.is_blank(root) else SessionFolder(root)


def _refuse_earlier(folder: SessionFolder) -> None:
    """Refuse data files of versions that did not write all that is needed to count exactly."""
    for name in footers.names(folder.files):
        with contextlib.suppress(FormatError):  # one that is torn is set aside, or refused, when all are looked into
            if footers.read(folder.files, name).carried is None:
                version = shown(folder.info.get("recorder_version"))
                raise SettingsError.of(
                    "resume",
                    str(folder.path),
                    f"version {version} of lucky_recorder wrote it, and {name} does not carry what its episodes come "
                    "to; record a new session",
                )


def takes(root: Path) -> int:
    """Count the takes up to the last episode that is there; in a session that was cut short, all that may be.

    Those that were discarded count too. Where an earlier version wrote the session they are not known, and the
    episodes are counted.

    Raises:
        FormatError: If the file of the last episode cannot be read.
    """
    folder = _folder(root)
    if folder is None:
        return 0
    said = likeness.last_carried(folder)
    count: int = folder.episodes.num_rows
    return count if said is None or said.takes is None else max(count, said.takes)


def tasks(root: Path) -> list[str]:
    """Return the tasks of a session's rows, in index order; none of one without an episode."""
    folder = _folder(root)
    return folder.tasks if folder is not None and folder.episodes.num_rows else []


def complete(root: Path, schema: Schema | None) -> Before:
    """Complete a session whose lock is held, and return what it has; every row of it is read.

    Args:
        root: The session's folder.
        schema: What the recording is that fits it; None where they were compared already.

    Raises:
        FormatError: If it is damaged; it is as it was then.
        StorageError: If the file system refuses.
    """
    planned = recovery.plan(root)
    checksums.drop(root, layout.CHECKSUMS_PATH)
    if not planned.is_empty:
        recovery.carry_out(root, planned)
    folder = _folder(root)
    if folder is None:
        return Before.nothing()
    features = folder.features if schema is None else likeness.recording(schema, layout.Chunking(1)).info["features"]
    if moved := likeness.moved(folder.features, features):
        tell(
            f"{root}: {', '.join(moved)}: the camera is calibrated otherwise than when the session was begun; "
            "info.json goes on to say how it was then"
        )
    totals = rebuilt.totals(folder, [Episode(folder, row) for row in planned.episodes])
    writes = len(lists.names(folder.files))
    is_told = has_about(folder.listed)
    if not is_told:
        named = ", ".join(name for name, _ in ABOUT_COLUMNS)
        tell(
            f"{root}: an earlier version has begun it, and its meta/episodes has no {named}: the new episodes get none"
        )
    return Before(folder.info, folder.tasks if planned.episodes else (), totals, writes, is_told)


def numbered(record: EpisodeRecord, known: Sequence[str]) -> EpisodeRecord:
    """Give the tasks of an episode the indices that a session has for them; new ones follow.

    Args:
        record: The episode, with the recording's own indices.
        known: The session's task descriptions, in index order.
    """
    described = list(dict.fromkeys((*known, *record.tasks.values())))
    indices = {index: described.index(task) for index, task in record.tasks.items()}
    if all(index == own for own, index in indices.items()):
        return record
    table = np.zeros(max(indices) + 1, np.int64)
    table[list(indices)] = list(indices.values())
    columns = {**record.columns, keys.TASK_INDEX: table[record.columns[keys.TASK_INDEX]]}
    named = {index: described[index] for index in sorted(indices.values())}
    return dataclasses.replace(record, columns=columns, tasks=named)
