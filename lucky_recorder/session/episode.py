"""One episode of a session that is read back: its rows, frames and other streams (spec: Loading an episode)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lucky_recorder.errors import FormatError, VideoError
from lucky_recorder.session import layout
from lucky_recorder.storage.untrusted import expand

if TYPE_CHECKING:
    from lucky_recorder.session.opened import DepthFrames, MaskFrames, Scans
    from lucky_recorder.session.reader import Session
    from lucky_recorder.video.decode import FrameReader

PREFIX = "observation.images."


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

        is_depth = self._session._stream(camera).codec == "ffv1"
        return FrameReader(self.video_path(camera), pixel_format="gray16le" if is_depth else "rgb24")

    def depth(self, camera: str) -> DepthFrames:
        """Open the episode's depth stream of a camera: metres by frame index.

        Raises:
            KeyError: If the camera has no depth stream.
            VideoError: If there is no file, or none that can be read.
            FormatError: If the file is missing, or the session does not say what a code is.
        """
        from lucky_recorder.session.opened import DepthFrames

        name = camera.removeprefix(PREFIX).removesuffix("_depth") + "_depth"
        frames = self.frames(name)
        scale = self._session.features[PREFIX + name]["info"].get("depth_scale")
        if not isinstance(scale, int | float) or isinstance(scale, bool) or not 0 < scale < 1e6:
            frames.close()
            raise FormatError(f"{self._session.path / layout.INFO_PATH}: {name}: depth_scale={brief(scale)}")
        return DepthFrames(frames, float(scale))

    def masks(self, camera: str) -> MaskFrames:
        """Open the episode's mask stream of a camera: label ids by frame index.

        Raises:
            FormatError: If there is no such file, or it does not say what its ids are.
            VideoError: If it cannot be read.
        """
        from lucky_recorder.session.opened import MaskFrames
        from lucky_recorder.video.decode import FrameReader

        folder, name = self._session._folder, camera.removeprefix(PREFIX)
        video = f"videos/observation.masks.{name}/{self._numbered('file')}.mp4"
        described = folder.json(video.removesuffix(".mp4") + ".json")
        if not all(_is_label(k) and isinstance(v, str) for k, v in described.items()):
            raise FormatError(f"{folder.path / video}: the JSON file beside it does not map ids to names")
        labels = {int(k): v for k, v in described.items()}
        return MaskFrames(FrameReader(folder.file(video), pixel_format="gray"), labels)

    def rgbd_path(self, camera: str) -> Path:
        """Return the path of the episode's combined file: colour is its first track, depth its second.

        Raises:
            FormatError: If there is none.
        """
        name = camera.removeprefix(PREFIX)
        return self._session._folder.file(f"videos/{PREFIX}{name}_rgbd/{self._numbered('file')}.mkv")

    def scans(self, lidar: str) -> Scans:
        """Read the episode's scans of a lidar.

        Raises:
            FormatError: If there are none, or they are broken.
        """
        from lucky_recorder.session.opened import Scans

        name = f"data/{self._numbered(f'lidar-{lidar}', by_episode=True)}"
        folder = self._session._folder
        return Scans(folder.table(name + ".parquet"), folder.json(name + ".json"), folder.path / name)

    def has_masks(self, camera: str) -> bool:
        """Tell whether the episode has a mask stream of a camera."""
        name = camera.removeprefix(PREFIX)
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


def _may_hold(group: pq.RowGroupMetaData, episode: int) -> bool:
    """Tell from a row group's statistics whether it can hold rows of an episode."""
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema == "episode_index" and column.is_stats_set and column.statistics.has_min_max:
            return bool(column.statistics.min <= episode <= column.statistics.max)
    return True


def _is_label(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) <= 3


def brief(value: object) -> str:
    """Write a value so that it fits an error."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
