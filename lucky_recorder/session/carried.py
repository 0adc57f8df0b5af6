"""What a data file carries in its footer: all that ``meta/`` says of its episodes, and of the session as it stood then.

So a data file needs no ``meta/``: whoever has the files has the session. A file that others made may say anything, and
is believed only where its footer goes with its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from lucky_recorder.episode import keys, limits
from lucky_recorder.episode.schema import Schema
from lucky_recorder.episode.statistics import PixelHistogram
from lucky_recorder.errors import FormatError
from lucky_recorder.session import layout, rows
from lucky_recorder.storage.untrusted import Folder, format_errors, json_cost, parsed
from lucky_recorder.storage.write import Staged, stage

Row = Mapping[str, Any]


class Carried(NamedTuple):
    """What ``meta/`` says of a session beside its episodes, as a data file carries it.

    Attributes:
        info: The content of ``info.json``, with nothing counted yet.
        tasks: Every task description that is known by the file's last episode, in index order.
        reproducible: Whether every episode of the file is.
        pixels: What was counted of the colour streams in the file's episodes, by key.
        takes: Takes up to the file's last episode, those that were discarded included; None in files of versions that
            did not write it.
        beside: What `unlisted` says of the streams that ``info.json`` does not speak of; None as above.
    """

    info: Mapping[str, Any]
    tasks: Sequence[str]
    reproducible: bool
    pixels: Mapping[str, PixelHistogram]
    takes: int | None = None
    beside: Mapping[str, Mapping[str, Any]] | None = None

    def plain(self) -> dict[str, Any]:
        """Return it as plain JSON values, for `rows.write`."""
        pixels = {key: one.dump() for key, one in self.pixels.items()}
        said = {"info": self.info, "tasks": list(self.tasks), "reproducible": self.reproducible, "pixels": pixels}
        later = {"takes": self.takes, "streams": self.beside}
        return said | {key: value for key, value in later.items() if value is not None}

    def followed_by(self, later: Carried) -> Carried:
        """Return what a file carries that holds the episodes of both."""
        pixels = dict(self.pixels)
        for key, one in later.pixels.items():
            pixels[key] = pixels[key].merge(one) if key in pixels else one
        return later._replace(reproducible=self.reproducible and later.reproducible, pixels=pixels)


def unlisted(schema: Schema) -> dict[str, dict[str, Any]]:
    """Say what ``info.json`` does not: what the masks, combined files and lidars of a recording are, by their keys."""
    said: dict[str, dict[str, Any]] = {}
    for stream in schema.streams:
        if not stream.is_described:
            said[stream.key] = {"width": stream.width, "height": stream.height, "fps": str(stream.rate)}
            if "labels" in stream.info:
                said[stream.key]["labels"] = stream.info["labels"]
    for scan in schema.scans:
        said[keys.lidar_key(scan.name)] = {**scan.description, "video proxy": scan.has_proxy}
    return said


class DataFile(NamedTuple):
    """A data file, or the spool of one episode, whose rows are whole.

    Attributes:
        name: The file's name within the session.
        episodes: Its episodes' rows of ``meta/episodes``, in order.
        carried: What else it carries; None in files of versions that did not write it.
        cost: Bytes of memory that its episodes' rows take, about.
    """

    name: str
    episodes: tuple[Row, ...]
    carried: Carried | None
    cost: int


def names(files: Folder) -> list[str]:
    """List the data files of a session, and the spools of those that were not assembled, by their names alone."""
    return [n for n in files.files(keys.DATA) if layout.DATA_FILE.fullmatch(n) or layout.SPOOL.fullmatch(n)]


def read(files: Folder, name: str) -> DataFile:
    """Read what a data file or a spool carries; of its rows only the number is looked at.

    Raises:
        FormatError: If the file is not whole, or its footer does not go with its rows.
    """
    path = files.path / name
    with files.parquet(name) as parquet:
        notes = parquet.schema_arrow.metadata or {}
        count = parquet.metadata.num_rows
    with format_errors(path):
        said = notes.get(keys.FOOTER, b"null")
        episodes, cost = parsed(said), json_cost(said)
        carried = _carried(parsed(notes[keys.SESSION_FOOTER])) if keys.SESSION_FOOTER in notes else None
    if not isinstance(episodes, list) or not all(_is_row(row, name) for row in episodes):
        raise FormatError(f"{path}: its footer does not say which episodes it holds")
    spool = layout.SPOOL.fullmatch(name)
    numbers = [row[keys.EPISODE_INDEX] for row in episodes]
    if spool and numbers != [int(spool["episode"])]:
        raise FormatError(f"{path}: its footer says that it holds the episodes {numbers}")
    if count != sum(row["length"] for row in episodes) or len(set(numbers)) < len(numbers):
        raise FormatError(f"{path}: {count} rows are not those of the episodes that its footer names")
    return DataFile(name, tuple(episodes), carried, cost)


class Budget:
    """What the footers of many files may come to together: each may be as large as one may be.

    Args:
        files: The files, for the message.
    """

    def __init__(self, files: Folder) -> None:
        self._path = files.path / keys.DATA
        self._cost = self._episodes = 0

    def take(self, one: DataFile) -> None:
        """Count one more.

        Raises:
            FormatError: If they come to an absurd amount of memory, or an absurd number of episodes.
        """
        self._cost += one.cost
        self._episodes += len(one.episodes)
        if self._cost > limits.MOST_JSON_BYTES or self._episodes > limits.MOST_LISTED:
            megabytes = self._cost // limits.MEGABYTE
            raise FormatError(
                f"{self._path}: footers of {self._episodes} episodes, which become {megabytes} MB in memory; at most "
                f"{limits.MOST_LISTED} and {limits.MOST_JSON_BYTES // limits.MEGABYTE} MB are read"
            )


def _is_row(row: object, name: str) -> bool:
    """Tell whether a footer's entry is an episode of this very file."""
    if not isinstance(row, dict) or not isinstance(row.get("success"), bool):
        return False
    counts = [row.get(key) for key in (keys.EPISODE_INDEX, "length", "dataset_from_index", "dataset_to_index")]
    if not all(type(n) is int and 0 <= n < 1 << 62 for n in counts):
        return False
    tasks = row.get("tasks")
    says_tasks = isinstance(tasks, list) and all(isinstance(task, str) for task in tasks)
    place = tuple(row.get(key) for key in ("chunk_index", "file_index"))
    own = layout.place_of(Path(name))
    return says_tasks and counts[1] > 0 and counts[2] + counts[1] == counts[3] and place == own  # type: ignore[operator]


def _carried(session: Any) -> Carried:
    """Take a footer's note of the session.

    Raises:
        ValueError: If it is none.
    """
    info, tasks, reproducible, pixels = (
        session.get(key) if isinstance(session, dict) else None for key in ("info", "tasks", "reproducible", "pixels")
    )
    if not isinstance(info, dict) or not isinstance(info.get("recorder_version"), str):
        raise ValueError(f"the note {keys.SESSION_FOOTER.decode()} has no info")
    if not isinstance(tasks, list) or not all(isinstance(task, str) for task in tasks):
        raise ValueError(f"the note {keys.SESSION_FOOTER.decode()} has no tasks")
    if not isinstance(reproducible, bool) or not isinstance(pixels, dict):
        raise ValueError(f"the note {keys.SESSION_FOOTER.decode()} has no pixels")
    # Versions before did not write these two.
    takes, beside = session.get("takes"), session.get("streams")
    if takes is not None and not (type(takes) is int and 0 <= takes < 1 << 62):
        raise ValueError(f"the note {keys.SESSION_FOOTER.decode()} has no number of takes")
    if beside is not None and not (isinstance(beside, dict) and all(isinstance(one, dict) for one in beside.values())):
        raise ValueError(f"the note {keys.SESSION_FOOTER.decode()} has no streams")
    counted = {key: PixelHistogram.load(one) for key, one in pixels.items()}
    return Carried(info, tasks, reproducible, counted, takes, beside)


def stage_assembled(
    files: Folder, name: str, parts: Sequence[str], read_rows: Callable[[str], Iterator[pa.Table]] | None = None
) -> Staged:
    """Write a data file of the files that hold its episodes, in their order, under its temporary name.

    Args:
        files: The session's files.
        name: The data file.
        parts: Names of spools, or of the data file itself as it was before; they stay.
        read_rows: Reads the row groups of a part; by default as those of a folder that anyone may have made, within
            bounds each.

    Raises:
        FormatError: If a part cannot be read.
        StorageError: If the file system refuses.
    """
    budget = Budget(files)
    lengths: list[list[int]] = []
    episodes: list[Row] = []
    carried: Carried | None = None
    for part in parts:
        one = read(files, part)
        budget.take(one)
        with format_errors(files.path / part):
            if not episodes:
                carried = one.carried
            else:
                # What one of them does not carry, the file cannot carry for all.
                carried = carried.followed_by(one.carried) if carried and one.carried else None
        episodes += one.episodes
        lengths.append([row["length"] for row in one.episodes])
    count = sum(row["length"] for row in episodes)
    tables = _tables(read_rows or files.tables, parts, lengths)
    return stage(
        files.path / name,
        lambda path: rows.write(path, tables, episodes, carried.plain() if carried else None),
        lambda path: rows.verify(path, count),
        # Its rows are those of its parts, a column after the other.
        sum((files.path / part).stat().st_size for part in parts),
    )


def _tables(
    read_rows: Callable[[str], Iterator[pa.Table]], parts: Sequence[str], lengths: Sequence[Sequence[int]]
) -> Iterator[pa.Table]:
    """Go through the rows of all parts: each table is of one episode, a long one has several."""
    for part, rows_of in zip(parts, lengths, strict=True):
        remaining = iter(rows_of)
        left = 0
        for table in read_rows(part):
            first = 0
            # Rows that no episode has are left out: then there are others than the footer says, which is found out.
            while first < table.num_rows and (left := left or next(remaining, 0)):
                cut = table.slice(first, left)
                yield cut
                first, left = first + cut.num_rows, left - cut.num_rows
