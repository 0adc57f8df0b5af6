"""A session's folder, and what its ``meta/info.json`` says of the files in it. All of it may come from a stranger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from lucky_recorder.episode import clock, keys, limits
from lucky_recorder.errors import FormatError, SettingsError, shown
from lucky_recorder.session import layout, stored
from lucky_recorder.session.carried import Carried, Row
from lucky_recorder.session.features import STATES_PATH, episodes_schema, has_about, streams_of
from lucky_recorder.session.found import Found, find
from lucky_recorder.session.rowless import is_video_only
from lucky_recorder.session.state import State
from lucky_recorder.storage import reserve
from lucky_recorder.storage.lock import is_held, is_new
from lucky_recorder.storage.untrusted import Folder, expand, format_errors

# LeRobot before version 3: one file per episode, listed in a text file.
_EARLIER = "meta/episodes.jsonl"
_NO_META = (
    "no meta/info.json: the recording was cut short before metadata was first written, and {why}; "
    "`lucky-recorder recover` says what is there"
)
_NONE_YET = "it is being recorded, and no episode is finished yet; look again when one is"
_JUST_MADE = "it was made a moment ago, and there is nothing in it yet; look again in some seconds"
NONE_EVER = (
    "its recording was cut short before an episode was finished; record into it with resume, or remove it "
    "(without rows, record_data=False, only that)"
)
_VIDEO_ONLY = "a session without rows (video only, lidar only): it has no metadata and lists no episodes"


T = TypeVar("T")


class CameraStream(NamedTuple):
    """What a session says of one of its video streams.

    Attributes:
        name: The camera's Output Name (with ``_depth`` for a depth stream).
        key: The stream's feature key and folder, ``observation.images.<name>``.
        width: Pixels.
        height: Pixels.
        rate: Frames per second, exact.
        codec: The codec, such as ``h264``.
    """

    name: str
    key: str
    width: int
    height: int
    rate: Fraction
    codec: str


class SessionFolder:
    """What a session and its episodes share: the folder, and what ``info.json`` says.

    Attributes:
        path: The session's folder.
        files: The files in it.
        is_video_only: Whether it was recorded without rows.
        info: The content of ``meta/info.json``; empty for a session without rows.
    """

    def __init__(self, path: Path) -> None:
        """Read ``meta/info.json``.

        Raises:
            FormatError: If the folder is no session, or one that this version cannot read.
        """
        self.path = path
        self.files = Folder(path)
        refuse_other_folders(path)
        self.is_video_only = is_video_only(path)
        self.info: dict[str, Any] = {} if self.is_video_only else self._read_info()

    def _read_info(self) -> dict[str, Any]:
        info = self.files.json(layout.INFO_PATH) if self.files.has(layout.INFO_PATH) else self._carried_info()
        # Any version, since each writer counts its own (spec: info.json): what counts is whether the layout fits.
        version = info.get("codebase_version")
        if not isinstance(version, str) or not version:
            raise self._wrong("codebase_version", version, "expected the version of what wrote it, a text")
        if self.files.has(_EARLIER) and not self.files.has(layout.EPISODES):
            raise self._wrong("codebase_version", version, f"lists its episodes in {_EARLIER}; convert it to v3.0")
        return info

    def _carried_info(self) -> dict[str, Any]:
        """Return what the data files carry of ``info.json``, of a session that has none."""
        found = find(self.files, (), None)
        if found.carried is not None:
            return dict(found.carried.info)
        if not found.rows and is_held(self.path):
            raise FormatError(f"{self.path}: {_NONE_YET}")
        why = "its data files do not say what it would have said" if found.rows else "no data file is whole"
        raise FormatError(f"{self.path}: {_NO_META.format(why=why)}")

    @property
    def state(self) -> State:
        """How the session stands now, whatever was read of it before.

        Where a file system has no locks, one in progress looks as if cut short.

        Raises:
            FormatError: If it cannot be read any more.
        """
        if is_held(self.path):
            return State.IN_PROGRESS
        # Read anew: what was read at several moments says nothing of one.
        if SessionFolder(self.path)._is_complete():
            return State.COMPLETE
        # Somebody may have begun to go on with it meanwhile.
        return State.IN_PROGRESS if is_held(self.path) else State.CUT_SHORT

    def _is_complete(self) -> bool:
        parts = (keys.DATA, keys.VIDEOS, keys.STATES, layout.META)
        names = [name for part in parts for name in self.files.files(part)]
        has_left = bool(reserve.left_in(self.path)) or any(map(layout.is_left_over, names))
        return not has_left and (self.is_video_only or self.is_current)

    @property
    def is_current(self) -> bool:
        """Whether ``info.json``, as it was read, and ``stats.json`` count every episode of `episodes`."""
        if not all(self.files.has(name) for name in (layout.INFO_PATH, layout.STATS_PATH, layout.TASKS_PATH)):
            return False
        # Of others it is not known how they write: what they count is theirs.
        is_counted = not self.is_ours or self.info.get("total_episodes") == self.listed.num_rows
        return is_counted and not self.found.rows

    @property
    def is_ours(self) -> bool:
        """Whether this recorder wrote it. What the format's page leaves open, only such a session promises."""
        return "recorder_version" in self.info

    @cached_property
    def listed(self) -> pa.Table:
        """Every row of every file under ``meta/episodes``, in order of ``episode_index``."""
        self.refuse_video_only()
        return stored.read_episodes(self.files)

    @cached_property
    def found(self) -> Found:
        """The episodes that are whole on the disk and not listed; other recorders' files say nothing of theirs."""
        if not self.is_ours:
            return Found()
        # Listed first: what is listed meanwhile is found then.
        listed = self.listed.select([keys.EPISODE_INDEX, "chunk_index", "file_index"]).to_pylist()
        per_file = self.info.get("episodes_per_file") if self.files.has(layout.INFO_PATH) else None
        return find(self.files, listed, per_file if type(per_file) is int else None)

    @cached_property
    def episodes(self) -> pa.Table:
        """A row for every episode, listed or found, in order of ``episode_index``."""
        if not self.found.rows:
            return self.listed
        found = self.table_of(self.found.rows)
        with format_errors(self.path / keys.DATA):
            tables = [self.listed, found] if self.listed.num_rows else [found]
            return pa.concat_tables(tables, promote_options="default").sort_by(keys.EPISODE_INDEX)

    @property
    def has_states(self) -> bool:
        """Whether it keeps the simulation's states."""
        return STATES_PATH in self.info

    def table_of(self, rows: Sequence[Row]) -> pa.Table:
        """Return rows that data files carry as the table that ``meta/episodes`` will hold.

        Raises:
            FormatError: If a value is of another type, or there are absurdly many.
        """
        schema = episodes_schema(streams_of(self.features), has_about(self.listed, rows), has_states=self.has_states)
        with format_errors(self.path / keys.DATA):
            if len(rows) * len(schema) > limits.MOST_CELLS:
                raise ValueError(f"{len(rows)} episodes of {len(schema)} columns; at most {limits.MOST_CELLS} values")
            return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)

    def count(self, row: Mapping[str, Any], column: str) -> int:
        """Return a number that a row of `episodes` has.

        Raises:
            FormatError: If it has none, or one that is absurd.
        """
        value = row.get(column)
        is_place = column.endswith(("chunk_index", "file_index"))
        if not isinstance(value, int) or value < 0 or (is_place and value > keys.LARGEST_CHUNK):
            episode = row[keys.EPISODE_INDEX]
            raise FormatError(f"{self.path / layout.EPISODES}: episode {episode}: {column}={value}")
        return value

    def data_file(self, row: Mapping[str, Any]) -> str:
        """Return the name of the data file of an episode, by its row of `episodes`."""
        chunk, file = (self.count(row, part) for part in ("chunk_index", "file_index"))
        name = self.expand("data_path", chunk_index=chunk, file_index=file)
        spool = layout.spool_file(name, row[keys.EPISODE_INDEX])
        is_spooled = not self.files.has(name) or row[keys.EPISODE_INDEX] in self.found.spooled
        return spool if is_spooled and self.files.has(spool) else name

    def read_data(self, row: Mapping[str, Any], read: Callable[[str], T]) -> T:
        """Read the file that holds an episode's rows, by its row of `episodes`.

        Raises:
            FormatError: If it cannot be read.
        """
        name = self.data_file(row)
        try:
            return read(name)
        except FormatError:
            # The session may be being recorded: a spool goes when its data file is there.
            if self.files.has(name):
                raise
            return read(self.data_file(row))

    @cached_property
    def tasks(self) -> list[str]:
        """The task descriptions, in order of ``task_index``."""
        self.refuse_video_only()
        carried = self.found.carried
        if carried is None and self.is_ours and not self.files.has(layout.TASKS_PATH):
            carried = find(self.files, (), None).carried
        return self.tasks_with(carried)

    def tasks_with(self, carried: Carried | None) -> list[str]:
        """Return the listed task descriptions, and those after them that a data file carries.

        Tasks are only ever added: those of the latest episode are all, and a list that is longer was written for
        episodes that came after it.
        """
        known = [] if carried is None else list(carried.tasks) or [keys.DEFAULT_TASK]
        if known and not self.files.has(layout.TASKS_PATH):
            return known
        return [*self.listed_tasks, *known[len(self.listed_tasks) :]]

    @cached_property
    def listed_tasks(self) -> list[str]:
        """The task descriptions that ``tasks.parquet`` has, in order of ``task_index``; nothing else is looked at."""
        table = self.files.table(layout.TASKS_PATH, limits.MOST_LISTED)
        # By its type: the format does not say what the column of descriptions is called.
        texts = [f.name for f in table.schema if pa.types.is_string(f.type)]
        if [table.column_names.count(name) for name in (keys.TASK_INDEX, *texts)] != [1, 1]:
            raise FormatError(
                f"{self.path / layout.TASKS_PATH}: columns {table.column_names}, expected task_index and a description"
            )
        with format_errors(self.path / layout.TASKS_PATH):
            described: list[str] = table.sort_by(keys.TASK_INDEX)[texts[0]].to_pylist()
        if None in described:
            raise FormatError(f"{self.path / layout.TASKS_PATH}: a description is missing")
        return described

    @property
    def features(self) -> dict[str, Any]:
        """One entry per data column and per video stream."""
        features = self.info.get("features", {} if self.is_video_only else None)
        if not isinstance(features, dict) or not all(isinstance(f, dict) for f in features.values()):
            raise self._wrong("features", features, "expected an object per column")
        return features

    @cached_property
    def hz(self) -> Fraction:
        """Rows per second and robot, exact."""
        self.refuse_video_only()
        return self._rate("hz", self.info.get("hz"))

    @property
    def files_per_chunk(self) -> int:
        """Files in each ``chunk-NNN`` folder, ``chunks_size``."""
        size = self.info.get("chunks_size")
        if type(size) is not int or not 0 < size <= keys.LARGEST_CHUNK + 1:
            raise self._wrong("chunks_size", size, f"expected 1 to {keys.LARGEST_CHUNK + 1}")
        return size

    @cached_property
    def robots(self) -> tuple[str, ...]:
        """The robots' names; each has one row per tick, in this order. Without names, their ids."""
        # A field of ours: a session that another recorder wrote does not have it.
        if "robots" not in self.info:
            return tuple(map(str, self.entity_ids))
        robots = self.info["robots"]
        if not isinstance(robots, list) or not robots or not all(isinstance(r, str) for r in robots):
            raise self._wrong("robots", robots, "expected a list of names")
        return tuple(robots)

    @cached_property
    def entity_ids(self) -> tuple[int, ...]:
        """The robots' ids, as the entity column has them in the first tick; none of a session without rows."""
        row = next((row for row in self.episodes.to_pylist() if row["length"]), None) if self.info else None
        if row is None:
            return ()
        return self.read_data(row, lambda name: stored.entities(self.files, name, row[keys.EPISODE_INDEX]))

    @cached_property
    def cameras(self) -> Mapping[str, CameraStream]:
        """The video streams by camera name; none of a session without rows, of which there are no details."""
        if self.is_video_only:
            return {}
        video = {key: f for key, f in self.features.items() if f.get("dtype") == "video"}
        return {stream.name: stream for stream in (self._camera(key, f) for key, f in video.items())}

    def _camera(self, key: str, feature: Mapping[str, Any]) -> CameraStream:
        details, shape = feature.get("info"), feature.get("shape")
        if not isinstance(details, dict) or not isinstance(shape, list) or not _is_picture(shape):
            raise self._wrong(f"features[{key!r}]", feature, "expected a picture's shape and an info block")
        rate = self._rate(f"features[{key!r}] video.fps", details.get("video.fps"))
        name = key.removeprefix(keys.IMAGES)
        return CameraStream(name, key, shape[1], shape[0], rate, str(details.get("video.codec")))

    def camera(self, name: str) -> CameraStream:
        """Return a video stream, by camera name or full key.

        Raises:
            KeyError: If the session has no such camera.
        """
        found = self.cameras.get(name.removeprefix(keys.IMAGES))
        if found is None:
            raise KeyError(f"no camera {name!r}; the session has {', '.join(self.cameras) or 'none'}")
        return found

    def expand(self, field: str, **values: str | int) -> str:
        """Fill in one of the path templates that ``info.json`` has.

        Raises:
            FormatError: If it is none.
        """
        try:
            return expand(self.info.get(field), **values)
        except FormatError as error:
            raise FormatError(f"{self.path / layout.INFO_PATH}: {field}: {error}") from error

    def refuse_video_only(self) -> None:
        """Refuse what cannot be known of a session without ``meta/``.

        Raises:
            FormatError: If this is one.
        """
        if self.is_video_only:
            raise FormatError(f"{self.path}: {_VIDEO_ONLY}; its files: video_files(camera), and lidars' in {keys.DATA}")

    def _rate(self, field: str, value: object) -> Fraction:
        try:
            return clock.rate(value, field)
        except SettingsError as error:
            raise FormatError(f"{self.path / layout.INFO_PATH}: {error}") from error

    def _wrong(self, field: str, value: object, expected: str) -> FormatError:
        return FormatError(f"{self.path / layout.INFO_PATH}: {field}={shown(value)}: {expected}")


def sessions_under(path: Path) -> list[Path]:
    """List the session folders in an output directory or a ``DataSessions`` folder, the latest last."""
    for parent in (path / keys.SESSIONS, path):
        found = [p for p in parent.glob("session_*") if p.is_dir() and layout.is_session_name(p.name)]
        if found:
            return sorted(found)
    return []


def refuse_other_folders(path: Path) -> None:
    """Refuse what is no session folder.

    Raises:
        FormatError: If there is no such folder, or it is none; where it holds sessions, the latest is named.
    """
    with format_errors(path):
        _refuse_other(path)


def _refuse_other(path: Path) -> None:
    if not path.is_dir():
        raise FormatError(f"{path}: no such folder; give the path of a session folder")
    if (path / layout.INFO_PATH).exists():
        return
    if found := sessions_under(path):
        raise FormatError(f"{path}: holds sessions ({len(found)}) and is none itself; the latest is {found[-1]}")
    if not any((path / part).is_dir() for part in ("meta", "data", "videos")):
        if is_held(path):
            raise FormatError(f"{path}: {_NONE_YET}")
        has_begun = bool(reserve.left_in(path))
        if layout.is_session_name(path.name) and not has_begun and is_new(path):
            raise FormatError(f"{path}: {_JUST_MADE}")
        if layout.is_session_name(path.name) or has_begun:
            raise FormatError(f"{path}: {NONE_EVER}")
        raise FormatError(f"{path}: is no session: it has neither meta/ nor data/ nor videos/")


def _is_picture(shape: list[Any]) -> bool:
    return len(shape) == 3 and all(type(n) is int and 0 < n <= 1 << 16 for n in shape)
