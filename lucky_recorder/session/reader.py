"""Reading a session back: rows by episode, frames by index. Needs no simulator (spec: Loading an episode)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from lucky_recorder.episode import clock
from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.session import layout
from lucky_recorder.session.episode import PREFIX, Episode, brief
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.storage.write import TEMPORARY

__all__ = ["CameraStream", "Episode", "Session", "is_video_only", "refuse_other_folders", "sessions_under"]

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
        return CameraStream(key.removeprefix(PREFIX), key, shape[1], shape[0], rate, str(details.get("video.codec")))

    def video_files(self, camera: str) -> list[Path]:
        """List a stream's video files in order, by camera name or full key; also of a video only session."""
        key = camera if camera.startswith("observation.") else PREFIX + camera
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
        name = camera.removeprefix(PREFIX)
        if name not in self.cameras:
            raise KeyError(f"no camera {camera!r}; the session has {', '.join(self.cameras) or 'none'}")
        return self.cameras[name]

    def _rate(self, field: str, value: object) -> Fraction:
        try:
            return clock.rate(value, field)
        except SettingsError as error:
            raise FormatError(f"{self.path / layout.INFO_PATH}: {error}") from error

    def _wrong(self, field: str, value: object, expected: str) -> FormatError:
        return FormatError(f"{self.path / layout.INFO_PATH}: {field}={brief(value)}: {expected}")

    def _refuse_video_only(self) -> None:
        if self.is_video_only:
            raise FormatError(f"{self.path}: {_VIDEO_ONLY}; its files: video_files(camera)")


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


def _is_picture(shape: list[Any]) -> bool:
    return len(shape) == 3 and all(type(n) is int and 0 < n <= 1 << 16 for n in shape)
