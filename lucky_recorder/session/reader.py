"""Reading a session back: rows by episode, frames by index. Needs no simulator (spec: Loading an episode)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError
from lucky_recorder.session import later, layout, metadata, provenance, rebuilt, stored
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.folder import CameraStream, SessionFolder
from lucky_recorder.session.found import find
from lucky_recorder.session.metadata import Totals
from lucky_recorder.session.state import State
from lucky_recorder.storage.names import is_part

__all__ = ["Episode", "Session"]

_AT_ONCE = 1000


class Session:
    """A recorded session, opened for reading (spec: Loading an episode).

    Tables and statistics are read when first asked for. The folder may come from anyone: what does not keep to the
    format raises `FormatError` and names the file, and nothing is ever written.

    Every episode that is whole on the disk is there, whether ``meta/`` lists it yet or not: also while the session is
    being recorded, and after a recording that was cut short (`state`). What is finished later, a new `Session` has.

    It has more methods than most, all of a few lines: one for each thing that a session says.

    Attributes:
        path: The session's folder.
        is_video_only: Whether it was recorded without rows (``record_data=False``).

    Example:
        ```python
        session = lr.Session("DataSessions/session_2026-10-08_14-30-05")
        episode = session.episode(3)
        state = episode.rows()["observation.state"]
        picture = episode.frames("Front")[0]
        ```
    """

    def __init__(self, path: str | Path) -> None:
        """Open a session; only ``meta/info.json`` is read, or what the data files carry of it where it is missing.

        Raises:
            FormatError: If the folder is no session, or one that this version cannot read.
        """
        self.path = Path(path)
        self._folder = SessionFolder(self.path)
        self._files = self._folder.files
        self.is_video_only = self._folder.is_video_only

    @cached_property
    def info(self) -> dict[str, Any]:
        """The content of ``meta/info.json``, or what it will say of the episodes found; of a video only session, {}."""
        folder = self._folder
        if self.is_video_only or not folder.is_ours or folder.is_current:
            return folder.info
        counted = Totals()
        lengths = self.episodes.select([keys.EPISODE_INDEX, "length"]).to_pylist()
        counted.episodes, counted.rows = len(self), sum(folder.count(row, "length") for row in lengths)
        # What info.json says of it, if it is there, is of fewer episodes.
        counted.reproducible = find(self._files, (), None).reproducible
        return metadata.counted(folder.info, len(self.tasks), counted)

    @property
    def state(self) -> State:
        """Whether it is complete, was cut short, or is in progress; asked anew each time."""
        return self._folder.state

    @property
    def is_current(self) -> bool:
        """Whether ``meta/`` lists and counts every episode; where not, `info` and `stats` are made from the files."""
        return self._folder.is_current

    @property
    def unlisted(self) -> tuple[int, ...]:
        """The episodes that are whole and that ``meta/episodes`` does not list."""
        found = () if self.is_video_only else self._folder.found.rows
        return tuple(row[keys.EPISODE_INDEX] for row in found)

    @property
    def spooled(self) -> frozenset[int]:
        """The episodes whose rows wait in a file of their own for their data file to be assembled."""
        return frozenset() if self.is_video_only else self._folder.found.spooled

    def __len__(self) -> int:
        """Return how many episodes there are."""
        return 0 if self.is_video_only else len(self._numbers)

    def __iter__(self) -> Iterator[Episode]:
        """Go through the episodes in order."""
        if self.is_video_only:
            return
        # Asked for one by one, a row takes five times as long.
        for first in range(0, len(self), _AT_ONCE):
            yield from (Episode(self._folder, row) for row in self.episodes.slice(first, _AT_ONCE).to_pylist())

    def __repr__(self) -> str:
        return f"Session({str(self.path)!r}, episodes={len(self)})"

    def episode(self, index: int) -> Episode:
        """Return an episode by its ``episode_index``.

        Raises:
            IndexError: If the session lists no such episode.
            FormatError: If its metadata is broken.
        """
        self._folder.refuse_video_only()
        if index not in self._numbers:
            raise IndexError(f"episode {index}: {self.path} lists {len(self)} episodes")
        return Episode(self._folder, self.episodes.slice(self._numbers[index], 1).to_pylist()[0])

    @property
    def episodes(self) -> pa.Table:
        """What ``meta/episodes`` says, or will say, of each episode, by ``episode_index`` (spec: Episode metadata)."""
        return self._folder.episodes

    @cached_property
    def _numbers(self) -> dict[int, int]:
        """The row of `episodes` that is each episode's, by its index."""
        indices = self.episodes[keys.EPISODE_INDEX].to_pylist()
        numbers = {index: row for row, index in enumerate(indices)}
        if None in numbers or len(numbers) < len(indices):
            raise FormatError(f"{self.path / 'meta/episodes'}: an episode_index is missing or stands twice")
        return numbers

    @property
    def tasks(self) -> list[str]:
        """The task descriptions, in order of ``task_index``."""
        return self._folder.tasks

    @cached_property
    def provenance(self) -> tuple[dict[str, Any], ...]:
        """Where it comes from, recording by recording, as ``meta/provenance.json`` says; empty where nothing does.

        Raises:
            FormatError: If that cannot be read.
        """
        return provenance.read(self._files)

    def tasks_path(self) -> Path:
        """Return the path of ``meta/tasks.parquet``.

        Raises:
            FormatError: If the file is missing.
        """
        return self._files.file(layout.TASKS_PATH)

    @cached_property
    def stats(self) -> dict[str, Any]:
        """What ``meta/stats.json`` says of the episodes listed; where it counts others, all their rows are read."""
        self._folder.refuse_video_only()
        if self._folder.is_current:
            stats = self._files.json(layout.STATS_PATH)
            if not self._lists_more_by_now():
                return stats
        return rebuilt.totals(self._folder, list(self)).stats()

    def _lists_more_by_now(self) -> bool:
        """Tell whether ``meta/`` was written since this was opened: ``stats.json`` is of its episodes then.

        A recording lists episodes before it counts them in ``stats.json``. So what was counted when that was read is
        listed when this looks. Others write in ways of their own.
        """
        return self.is_ours and stored.read_episodes(self._files).num_rows != self._folder.listed.num_rows

    @property
    def features(self) -> dict[str, Any]:
        """One entry per data column and per video stream, as ``info.json`` has them."""
        return self._folder.features

    @property
    def hz(self) -> Fraction:
        """Rows per second and robot, exact."""
        return self._folder.hz

    @property
    def files_per_chunk(self) -> int:
        """Files in each ``chunk-NNN`` folder, ``chunks_size`` of ``info.json``."""
        return self._folder.files_per_chunk

    @property
    def robots(self) -> tuple[str, ...]:
        """The robots' names; each has one row per tick, in this order. Where the session has no names, their ids."""
        return self._folder.robots

    @property
    def entity_ids(self) -> tuple[int, ...]:
        """The robots' ids in the rows (``robot_id``, ``sim_id`` or ``entity_id``), in the order of `robots`."""
        return self._folder.entity_ids

    @property
    def is_ours(self) -> bool:
        """Whether lucky_recorder wrote it. Of other writers' sessions less is certain: see the page on readers."""
        return self._folder.is_ours

    @property
    def cameras(self) -> Mapping[str, CameraStream]:
        """The video streams by camera name, ``session.cameras["Front"].rate``; of a video only session, no details."""
        return self._folder.cameras

    def video_files(self, camera: str) -> list[Path]:
        """List a stream's video files in order, by camera name or full key; also of a video only session."""
        key = camera if camera.startswith(keys.OBSERVATION) else keys.IMAGES + camera
        names = self._files.files(f"{keys.VIDEOS}{key}") if is_part(key) else []
        return [self._files.file(name) for name in names if name.endswith((".mp4", ".mkv"))]

    def video_keys(self) -> list[str]:
        """List the folders under ``videos/`` that hold files; of a video only session, its streams."""
        return sorted({name.split("/")[1] for name in self._files.files(keys.VIDEOS) if name.count("/") > 1})

    @property
    def has_states(self) -> bool:
        """Whether it was recorded to keep the simulation's states: see `Episode.states`."""
        return self._folder.has_states

    @property
    def to_draw(self) -> Mapping[str, Any] | None:
        """The settings of what is to be drawn of its states: see `lucky_recorder.render`; None where nothing is.

        Raises:
            FormatError: If ``info.json`` does not say it as it should.
        """
        found = None if self.is_video_only else later.read(self.info, self.path / layout.INFO_PATH)
        return None if found is None else found.settings

    @cached_property
    def lidars(self) -> tuple[str, ...]:
        """The names of the lidars whose files lie in ``data/``."""
        found = (layout.SCAN_FILE.fullmatch(name) for name in self._files.files(keys.DATA))
        return tuple(sorted({match[1] for match in found if match}))

    def scan_count(self, lidar: str) -> int:
        """Count the episodes of which a lidar has a file; also of a video only session."""
        found = (layout.SCAN_FILE.fullmatch(name) for name in self._files.files(keys.DATA))
        of = [match[2] for match in found if match and match[1] == lidar]
        # One that is being written, or was finished later, is none of the episodes here.
        return len(of) if self.is_video_only else sum(int(episode) in self._numbers for episode in of)

    def bytes_on_disk(self) -> int:
        """Add up the sizes of all files in the folder; links do not count."""
        return sum((self.path / name).lstat().st_size for name in self._files.files())
