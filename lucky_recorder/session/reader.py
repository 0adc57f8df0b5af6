"""Reading a session back: rows by episode, frames by index. Needs no simulator (spec: Loading an episode)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lucky_recorder import clock
from lucky_recorder.errors import FormatError, SettingsError, VideoError
from lucky_recorder.files import TEMPORARY
from lucky_recorder.session import layout
from lucky_recorder.session.untrusted import Folder, expand

if TYPE_CHECKING:
    from lucky_recorder.session.streams import DepthFrames, MaskFrames, Scans
    from lucky_recorder.video.decode import FrameReader

_PREFIX = "observation.images."
_SUPPORTED = re.compile(r"v?3(\.\d+)*")
_SCAN_FILE = re.compile(r"data/chunk-\d{3}/lidar-([A-Za-z0-9_-]+)-\d{3,}\.parquet")
_COUNTS = ("episode_index", "length", "dataset_from_index", "dataset_to_index", "chunk_index", "file_index")
_NO_META = "no meta/info.json: the recording was cut short before metadata was first written, so no episode is listed"
_VIDEO_ONLY = "a video only session: it was recorded without rows, so it has no metadata and lists no episodes"


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


class Session:
    """A recorded session, opened for reading.

    Tables and statistics are read when first asked for. The folder may come from anyone: what does not keep to the
    format raises `FormatError` and names the file, and nothing is ever written.

    Attributes:
        path: The session's folder.
        info: The content of ``meta/info.json``; empty for a video only session.
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
        """Open a session; only ``meta/info.json`` is read.

        Raises:
            FormatError: If the folder is no session, or one that this version cannot read.
        """
        self.path = Path(path)
        self._folder = Folder(self.path)
        refuse_other_folders(self.path)
        self.is_video_only = is_video_only(self.path)
        self.info: dict[str, Any] = {} if self.is_video_only else self._read_info()

    def _read_info(self) -> dict[str, Any]:
        if not self._folder.has(layout.INFO_PATH):
            raise FormatError(f"{self.path}: {_NO_META}")
        info = self._folder.json(layout.INFO_PATH)
        version = info.get("codebase_version")
        if not isinstance(version, str) or not _SUPPORTED.fullmatch(version):
            raise self._wrong("codebase_version", version, "only v3 sessions are read")
        return info

    def __len__(self) -> int:
        """Return how many episodes ``meta/episodes`` lists."""
        return 0 if self.is_video_only else len(self._numbers)

    def __iter__(self) -> Iterator[Episode]:
        """Go through the episodes in order."""
        return (self.episode(index) for index in ([] if self.is_video_only else self._numbers))

    def __repr__(self) -> str:
        return f"Session({str(self.path)!r}, episodes={len(self)})"

    def episode(self, index: int) -> Episode:
        """Return an episode by its ``episode_index``.

        Raises:
            IndexError: If the session lists no such episode.
            FormatError: If its metadata is broken.
        """
        self._refuse_video_only()
        if index not in self._numbers:
            raise IndexError(f"episode {index}: {self.path} lists {len(self)} episodes")
        return Episode(self, self.episodes.slice(self._numbers[index], 1).to_pylist()[0])

    @cached_property
    def episodes(self) -> pa.Table:
        """Every row of every file under ``meta/episodes``, in order of ``episode_index`` (spec: Episode metadata)."""
        self._refuse_video_only()
        files = [f for f in self._folder.files("meta/episodes") if f.endswith(".parquet")]
        tables = [self._folder.table(f) for f in files]
        for file, table in zip(files, tables, strict=True):
            if not table.schema.equals(tables[0].schema):
                raise FormatError(f"{self.path / file}: has other columns than {files[0]}")
            if bad := [c for c in _COUNTS if c not in table.column_names or table.schema.field(c).type != pa.int64()]:
                raise FormatError(f"{self.path / file}: has no int64 column {bad[0]!r}")
        if not tables:
            return pa.table({c: pa.array([], pa.int64()) for c in _COUNTS})
        return pa.concat_tables(tables).sort_by("episode_index")

    @cached_property
    def _numbers(self) -> dict[int, int]:
        """The row of `episodes` that is each episode's, by its index."""
        indices = self.episodes["episode_index"].to_pylist()
        numbers = {index: row for row, index in enumerate(indices)}
        if None in numbers or len(numbers) < len(indices):
            raise FormatError(f"{self.path / 'meta/episodes'}: an episode_index is missing or stands twice")
        return numbers

    @cached_property
    def tasks(self) -> list[str]:
        """The task descriptions, in order of ``task_index``."""
        self._refuse_video_only()
        table = self._folder.table(layout.TASKS_PATH)
        texts = [f.name for f in table.schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]
        if "task_index" not in table.column_names or len(texts) != 1:
            raise FormatError(
                f"{self.path / layout.TASKS_PATH}: columns {table.column_names}, expected task_index and a description"
            )
        described: list[str] = table.sort_by("task_index")[texts[0]].to_pylist()
        return described

    def tasks_path(self) -> Path:
        """Return the path of ``meta/tasks.parquet``.

        Raises:
            FormatError: If the file is missing.
        """
        return self._folder.file(layout.TASKS_PATH)

    @cached_property
    def stats(self) -> dict[str, Any]:
        """The content of ``meta/stats.json``."""
        self._refuse_video_only()
        return self._folder.json(layout.STATS_PATH)

    @property
    def features(self) -> dict[str, Any]:
        """One entry per data column and per video stream, as ``info.json`` has them."""
        features = self.info.get("features", {} if self.is_video_only else None)
        if not isinstance(features, dict) or not all(isinstance(f, dict) for f in features.values()):
            raise self._wrong("features", features, "expected an object per column")
        return features

    @cached_property
    def hz(self) -> Fraction:
        """Rows per second and robot, exact."""
        self._refuse_video_only()
        return self._rate("hz", self.info.get("hz"))

    @property
    def files_per_chunk(self) -> int:
        """Files in each ``chunk-NNN`` folder, ``chunks_size`` of ``info.json``."""
        size = self.info.get("chunks_size")
        if type(size) is not int or not 0 < size <= 1000:
            raise self._wrong("chunks_size", size, "expected 1 to 1000")
        return size

    @cached_property
    def robots(self) -> tuple[str, ...]:
        """The robots' names; each has one row per tick, in this order."""
        robots = self.info.get("robots", ["robot"])
        if not isinstance(robots, list) or not robots or not all(isinstance(r, str) for r in robots):
            raise self._wrong("robots", robots, "expected a list of names")
        return tuple(robots)

    @cached_property
    def cameras(self) -> Mapping[str, CameraStream]:
        """The video streams by camera name, ``session.cameras["Front"].rate``; of a video only session, no details."""
        if self.is_video_only:
            return {}
        video = {key: f for key, f in self.features.items() if f.get("dtype") == "video"}
        return {stream.name: stream for stream in (self._camera(key, f) for key, f in video.items())}

    def _camera(self, key: str, feature: dict[str, Any]) -> CameraStream:
        details, shape = feature.get("info"), feature.get("shape")
        if not isinstance(details, dict) or not isinstance(shape, list) or not _is_picture(shape):
            raise self._wrong(f"features[{key!r}]", feature, "expected a picture's shape and an info block")
        rate = self._rate(f"features[{key!r}] video.fps", details.get("video.fps"))
        return CameraStream(key.removeprefix(_PREFIX), key, shape[1], shape[0], rate, str(details.get("video.codec")))

    def video_files(self, camera: str) -> list[Path]:
        """List a stream's video files in order, by camera name or full key; also of a video only session."""
        key = camera if camera.startswith("observation.") else _PREFIX + camera
        names = self._folder.files(f"videos/{key}") if "/" not in key and ".." not in key else []
        return [self._folder.file(name) for name in names if name.endswith((".mp4", ".mkv"))]

    def video_keys(self) -> list[str]:
        """List the folders under ``videos/`` that hold files; of a video only session, its streams."""
        return sorted({name.split("/")[1] for name in self._folder.files("videos") if name.count("/") > 1})

    @cached_property
    def lidars(self) -> tuple[str, ...]:
        """The names of the lidars whose files lie in ``data/``."""
        found = (_SCAN_FILE.fullmatch(name) for name in self._folder.files("data"))
        return tuple(sorted({match[1] for match in found if match}))

    def bytes_on_disk(self) -> int:
        """Add up the sizes of all files in the folder; links do not count."""
        return sum((self.path / name).lstat().st_size for name in self._folder.files())

    def _stream(self, camera: str) -> CameraStream:
        name = camera.removeprefix(_PREFIX)
        if name not in self.cameras:
            raise KeyError(f"no camera {camera!r}; the session has {', '.join(self.cameras) or 'none'}")
        return self.cameras[name]

    def _rate(self, field: str, value: object) -> Fraction:
        try:
            return clock.rate(value, field)
        except SettingsError as error:
            raise FormatError(f"{self.path / layout.INFO_PATH}: {error}") from error

    def _wrong(self, field: str, value: object, expected: str) -> FormatError:
        return FormatError(f"{self.path / layout.INFO_PATH}: {field}={_short(value)}: {expected}")

    def _refuse_video_only(self) -> None:
        if self.is_video_only:
            raise FormatError(f"{self.path}: {_VIDEO_ONLY}; its files: video_files(camera)")


class Episode:
    """One episode of a session.

    Attributes:
        index: Its ``episode_index``.
        length: Rows: one per robot per tick.
        success: Whether it succeeded.
        tasks: Descriptions of the tasks that occur in it.
        meta: Its row of ``meta/episodes``.
    """

    def __init__(self, session: Session, row: Mapping[str, Any]) -> None:
        self._session = session
        self.meta = row
        self.index: int = row["episode_index"]
        self.length: int = self._count("length")
        self.success = bool(row.get("success"))
        self.tasks: tuple[str, ...] = tuple(row.get("tasks") or ())

    def __repr__(self) -> str:
        return f"Episode({self.index}, length={self.length}, success={self.success})"

    @property
    def ticks(self) -> int:
        """Data ticks: rows of one robot."""
        return self.length // len(self._session.robots)

    def rows(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the episode's rows, and only the row groups that hold them (spec: Data columns).

        Args:
            columns: Names of the columns to read; all of them by default.

        Raises:
            KeyError: If a column is unknown.
            FormatError: If the data file is missing or broken, or does not hold the rows that ``meta/episodes`` says.
        """
        name = self._data_file
        with self._session._folder.parquet(name) as file:
            known = file.schema_arrow.names
            wanted = known if columns is None else list(columns)
            if unknown := [c for c in wanted if c not in known]:
                raise KeyError(f"no column {unknown[0]!r}; {name} has {', '.join(known)}")
            groups = [g for g in range(file.num_row_groups) if _may_hold(file.metadata.row_group(g), self.index)]
            table = file.read_row_groups(groups, columns=list(dict.fromkeys([*wanted, "episode_index"])))
            rows = table.filter(pc.equal(table["episode_index"], self.index)).select(wanted)
        if rows.num_rows != self.length:
            raise FormatError(
                f"{self._session.path / name}: {rows.num_rows} rows of episode {self.index}, "
                f"meta/episodes says {self.length}"
            )
        return rows

    @property
    def _data_file(self) -> str:
        chunk, file = self._count("chunk_index"), self._count("file_index")
        return self._expand("data_path", chunk_index=chunk, file_index=file)

    def data_path(self) -> Path:
        """Return the path of the data file that holds the episode's rows.

        Raises:
            FormatError: If the file is missing, or not where a session may have it.
        """
        return self._session._folder.file(self._data_file)

    def video_path(self, camera: str) -> Path:
        """Return the path of the episode's video, by camera name or full key.

        Raises:
            KeyError: If the session has no such camera.
            VideoError: If its stream failed in this episode and left no file.
            FormatError: If the file is missing, or not where a session may have it.
        """
        stream = self._session._stream(camera)
        columns = f"videos/{stream.key}/chunk_index", f"videos/{stream.key}/file_index"
        if self.meta.get(columns[0]) is None:
            raise VideoError(f"{self._session.path}: episode {self.index} has no video of {stream.name}: it failed")
        chunk, file = (self._count(c) for c in columns)
        name = self._expand("video_path", video_key=stream.key, chunk_index=chunk, file_index=file)
        return self._session._folder.file(name.removesuffix(".mp4") + ".mkv" if stream.codec == "ffv1" else name)

    def frames(self, camera: str) -> FrameReader:
        """Open the episode's video, by camera name or full key: frames by index, ``(height, width, 3)`` uint8.

        Frame ``i`` is the picture of tick ``i`` where the camera runs at the data rate; of tick ``i * n`` where it
        runs at ``1 / n`` of it.

        Raises:
            KeyError: If the session has no such camera.
            VideoError: If there is no video, or none that can be read.
            FormatError: If the file is missing, or not where a session may have it.
        """
        from lucky_recorder.video.decode import FrameReader

        return FrameReader(self.video_path(camera))

    def depth(self, camera: str) -> DepthFrames:
        """Open the episode's depth stream of a camera: metres by frame index.

        Raises:
            KeyError: If the camera has no depth stream.
            VideoError: If there is no file, or none that can be read.
            FormatError: If the file is missing, or the session does not say what a code is.
        """
        from lucky_recorder.session.streams import DepthFrames

        name = camera.removeprefix(_PREFIX).removesuffix("_depth") + "_depth"
        frames = self.frames(name)
        scale = self._session.features[_PREFIX + name]["info"].get("depth_scale")
        if not isinstance(scale, int | float) or isinstance(scale, bool) or not 0 < scale < 1e6:
            frames.close()
            raise FormatError(f"{self._session.path / layout.INFO_PATH}: {name}: depth_scale={_short(scale)}")
        return DepthFrames(frames, float(scale))

    def masks(self, camera: str) -> MaskFrames:
        """Open the episode's mask stream of a camera: label ids by frame index.

        Raises:
            FormatError: If there is no such file, or it does not say what its ids are.
            VideoError: If it cannot be read.
        """
        from lucky_recorder.session.streams import MaskFrames
        from lucky_recorder.video.decode import FrameReader

        folder, name = self._session._folder, camera.removeprefix(_PREFIX)
        video = f"videos/observation.masks.{name}/{self._numbered('file')}.mp4"
        described = folder.json(video.removesuffix(".mp4") + ".json")
        if not all(_is_label(k) and isinstance(v, str) for k, v in described.items()):
            raise FormatError(f"{folder.path / video}: the JSON file beside it does not map ids to names")
        return MaskFrames(FrameReader(folder.file(video)), {int(k): v for k, v in described.items()})

    def rgbd_path(self, camera: str) -> Path:
        """Return the path of the episode's combined file: colour is its first track, depth its second.

        Raises:
            FormatError: If there is none.
        """
        name = camera.removeprefix(_PREFIX)
        return self._session._folder.file(f"videos/{_PREFIX}{name}_rgbd/{self._numbered('file')}.mkv")

    def scans(self, lidar: str) -> Scans:
        """Read the episode's scans of a lidar.

        Raises:
            FormatError: If there are none, or they are broken.
        """
        from lucky_recorder.session.streams import Scans

        name = f"data/{self._numbered(f'lidar-{lidar}', by_episode=True)}"
        folder = self._session._folder
        return Scans(folder.table(name + ".parquet"), folder.json(name + ".json"), folder.path / name)

    def has_masks(self, camera: str) -> bool:
        """Tell whether the episode has a mask stream of a camera."""
        name = camera.removeprefix(_PREFIX)
        return self._session._folder.has(f"videos/observation.masks.{name}/{self._numbered('file')}.mp4")

    def has_scans(self, lidar: str) -> bool:
        """Tell whether the episode has scans of a lidar."""
        return self._session._folder.has(f"data/{self._numbered(f'lidar-{lidar}', by_episode=True)}.parquet")

    def has_video(self, camera: str) -> bool:
        """Tell whether the episode has a video of a camera: a stream that failed left none.

        Raises:
            KeyError: If the session has no such camera.
        """
        return self.meta.get(f"videos/{self._session._stream(camera).key}/chunk_index") is not None

    def _numbered(self, stem: str, by_episode: bool = False) -> str:
        """Return the chunk and file name of a file that ``meta/`` does not speak of: one per episode."""
        chunk, file = divmod(self.index, self._session.files_per_chunk)
        return f"chunk-{chunk:03d}/{stem}-{self.index if by_episode else file:03d}"

    def _count(self, column: str) -> int:
        value = self.meta.get(column)
        if not isinstance(value, int) or value < 0 or (column.endswith(("chunk_index", "file_index")) and value > 999):
            raise FormatError(f"{self._session.path / 'meta/episodes'}: episode {self.index}: {column}={value}")
        return value

    def _expand(self, field: str, **values: str | int) -> str:
        try:
            return expand(self._session.info.get(field), **values)
        except FormatError as error:
            raise FormatError(f"{self._session.path / layout.INFO_PATH}: {field}: {error}") from error


def sessions_under(path: Path) -> list[Path]:
    """List the session folders in an output directory or a ``DataSessions`` folder, the latest last."""
    for parent in (path / "DataSessions", path):
        found = [p for p in parent.glob("session_*") if p.is_dir() and layout.is_session_name(p.name)]
        if found:
            return sorted(found)
    return []


def refuse_other_folders(path: Path) -> None:
    """Refuse what is no session folder.

    Raises:
        FormatError: If there is no such folder, or it is none; where it holds sessions, the latest is named.
    """
    if not path.is_dir():
        raise FormatError(f"{path}: no such folder; give the path of a session folder")
    if (path / layout.INFO_PATH).exists():
        return
    if found := sessions_under(path):
        raise FormatError(f"{path}: holds sessions ({len(found)}) and is none itself; the latest is {found[-1]}")
    if not any((path / part).is_dir() for part in ("meta", "data", "videos")):
        raise FormatError(f"{path}: is no session: it has neither meta/ nor data/ nor videos/")


def is_video_only(path: Path) -> bool:
    """Tell whether a session was recorded without rows: finished videos, and neither ``meta/`` nor ``data/``."""
    if (path / "meta").exists() or any((path / "data").rglob("file-*")):
        return False
    return any(not name.endswith(TEMPORARY) for name in Folder(path).files("videos"))


def _may_hold(group: pq.RowGroupMetaData, episode: int) -> bool:
    """Tell from a row group's statistics whether it can hold rows of an episode."""
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema == "episode_index" and column.is_stats_set and column.statistics.has_min_max:
            return bool(column.statistics.min <= episode <= column.statistics.max)
    return True


def _is_picture(shape: list[Any]) -> bool:
    return len(shape) == 3 and all(type(n) is int and 0 < n <= 1 << 16 for n in shape)


def _is_label(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) <= 3


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
