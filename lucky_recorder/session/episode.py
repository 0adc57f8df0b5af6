"""One episode of a session that is read back: its rows, frames and other streams (spec: Loading an episode)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lucky_recorder.episode import keys, limits
from lucky_recorder.errors import FormatError, VideoError, shown
from lucky_recorder.lazy import lazy
from lucky_recorder.session import layout, stored
from lucky_recorder.session.about import Told
from lucky_recorder.session.features import STATES_COLUMNS, STATES_PATH, sizes_of
from lucky_recorder.session.folder import SessionFolder
from lucky_recorder.session.kept_states import States
from lucky_recorder.session.opened import DepthFrames, MaskFrames, Scans, channel_of, labels_of, scale_of

if TYPE_CHECKING:
    from lucky_recorder.video import decode
    from lucky_recorder.video.decode import FrameReader
else:
    # Only pictures need av: whoever reads rows alone does not wait for it.
    decode = lazy("lucky_recorder.video.decode")


class Episode(Told):
    """One episode of a session.

    Attributes:
        index: Its ``episode_index``.
        length: Rows: one per robot per tick.
        success: Whether it succeeded.
        meta: Its row of ``meta/episodes``.
    """

    def __init__(self, folder: SessionFolder, row: Mapping[str, Any]) -> None:
        self._folder = folder
        self.meta = row
        self.index: int = row[keys.EPISODE_INDEX]
        self.length: int = folder.count(row, "length")
        self.success = bool(row.get("success"))

    def __repr__(self) -> str:
        return f"Episode({self.index}, length={self.length}, success={self.success})"

    @property
    def hz(self) -> Fraction:
        """Data ticks per second, exact."""
        return self._folder.hz

    @property
    def data_ticks(self) -> int:
        """Data ticks: rows of one robot."""
        return self.length // len(self._folder.robots)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """Descriptions of the tasks that occur in it.

        Raises:
            FormatError: If they are no texts, or its rows have to be asked, and cannot be read.
        """
        said = self.meta.get("tasks")
        if said is not None:
            if not isinstance(said, list) or not all(isinstance(task, str) for task in said):
                raise FormatError(
                    f"{self._folder.path}: episode {self.index}: tasks is {shown(said)}, expected a list of texts"
                )
            return tuple(said)
        # A column of ours: without it, the rows say the same.
        try:
            tables = self.batches([keys.TASK_INDEX])
            indices = list({index for table in tables for index in table[keys.TASK_INDEX].unique().to_pylist()})
        except KeyError as error:
            raise FormatError(f"{self._folder.path}: episode {self.index}: {error.args[0]}") from error
        described = self._folder.tasks
        if not all(type(i) is int and 0 <= i < len(described) for i in indices):
            raise FormatError(
                f"{self._folder.path}: episode {self.index}: task_index {indices}: {len(described)} tasks"
            )
        return tuple(described[i] for i in sorted(indices))

    def rows(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the episode's rows, and only the row groups that hold them (spec: Data columns).

        Args:
            columns: Names of the columns to read; all of them by default.

        Returns:
            The table. It takes 8 bytes for each value, or as many as its type has: 100 MB for 500,000 rows of two
            vectors of seven. Of a file that is much smaller itself, up to 420 MB are read at once; `batches` has no
            such bound.

        Raises:
            KeyError: If a column is unknown.
            FormatError: If the data file is missing or broken, does not hold the rows that ``meta/episodes`` says, or
                would take more memory than that.
        """
        return self._folder.read_data(self.meta, lambda name: self._rows_of(name, columns))

    def _rows_of(self, name: str, columns: Sequence[str] | None) -> pa.Table:
        expected = stored.Expected(self.length, sizes_of(self._folder.info.get("features")))
        rows = stored.read_rows(self._folder.files, name, self.index, columns, expected)
        self._refuse_other_length(rows.num_rows, name)
        return rows

    def _refuse_other_length(self, rows: int, name: str) -> None:
        if rows != self.length:
            raise FormatError(
                f"{self._folder.path / name}: {rows} rows of episode {self.index}, meta/episodes says {self.length}"
            )

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Go through the episode's rows in their order, some at a time: however long it is, it takes the same memory.

        Each table has the columns that `rows` gives, and up to some ten thousand rows: in files of other recorders as
        many as they wrote together.

        Args:
            columns: Names of the columns to read; all of them by default.

        Returns:
            The tables, read as they are asked for.

        Raises:
            KeyError: If a column is unknown; errors are raised as the tables are asked for.
            FormatError: If the data file is missing or broken, or does not hold the rows that ``meta/episodes`` says,
                which is known only at its end.

        Example:
            ```python
            total = sum(len(table) for table in episode.batches(["timestamp"]))
            ```
        """
        # Only the first read can find that a spool has become a data file: what is open stays readable.
        name, first, others = self._folder.read_data(self.meta, lambda name: self._opened(name, columns))
        count = first.num_rows
        yield first
        for table in others:
            count += table.num_rows
            yield table
        self._refuse_other_length(count, name)

    def _opened(self, name: str, columns: Sequence[str] | None) -> tuple[str, pa.Table, Iterator[pa.Table]]:
        tables = stored.rows_in_batches(self._folder.files, name, self.index, columns)
        return name, next(tables), tables

    def rows_by_tick(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the episode's rows, those of each tick in the order of the session's robots.

        That is the order in which lucky_recorder stores them. Others may store them in another.

        Args:
            columns: Names of the columns to read; all of them by default.

        Raises:
            KeyError: If a column is unknown.
            FormatError: As for `rows`, or if a tick has not one row of each robot.
        """
        folder, name = self._folder, self._folder.data_file(self.meta)
        where = f"{folder.path / name}: episode {self.index}"
        if len(folder.entity_ids) != len(folder.robots):
            raise FormatError(f"{where}: {len(folder.entity_ids)} robots, info.json names {len(folder.robots)}")
        column = folder.read_data(self.meta, lambda name: stored.entity_column(folder.files, name))
        if columns is None:
            return stored.by_tick(self.rows(), column, folder.entity_ids, where)
        rows = self.rows(list(dict.fromkeys([*columns, column, keys.FRAME_INDEX])))
        return stored.by_tick(rows, column, folder.entity_ids, where).select(list(columns))

    def missing(self, robot: int | None = None) -> dict[str, int]:
        """Count the rows in which a column has no value; columns without a gap are left out.

        Args:
            robot: The id of the robot whose rows are counted, one of `Session.entity_ids`; None for all of them.

        Raises:
            FormatError: If the data file is missing or broken.
        """
        return self._folder.read_data(
            self.meta, lambda name: stored.missing(self._folder.files, name, self.index, robot)
        )

    def data_path(self) -> Path:
        """Return the path of the file that holds the episode's rows: its data file, or its spool until that is there.

        Raises:
            FormatError: If the file is missing, or not where a session may have it.
        """
        return self._folder.read_data(self.meta, self._folder.files.file)

    def video_path(self, camera: str) -> Path:
        """Return the path of the episode's video, by camera name or full key.

        Raises:
            KeyError: If the session has no such camera.
            VideoError: If its stream failed in this episode and left no file.
            FormatError: If the file is missing, or not where a session may have it.
        """
        stream = self._folder.camera(camera)
        if not self.has_video(camera):
            raise VideoError(f"{self._folder.path}: episode {self.index} has no video of {stream.name}: it failed")
        place = self.video_place(camera)
        name = self._folder.expand("video_path", video_key=stream.key, **place._asdict())
        is_depth = stream.codec == keys.DEPTH_CODEC
        return self._folder.files.file(name.removesuffix(".mp4") + ".mkv" if is_depth else name)

    def video_place(self, camera: str) -> layout.Place:
        """Return the place of the episode's video within its stream, by camera name or full key.

        Raises:
            KeyError: If the session has no such camera.
            FormatError: If ``meta/episodes`` names none.
        """
        key = self._folder.camera(camera).key
        return layout.Place(
            *(self._folder.count(self.meta, keys.video_column(key, part)) for part in layout.Place._fields)
        )

    def frames(self, camera: str) -> FrameReader:
        """Open the episode's video, by camera name or full key: frames by index, ``(height, width, 3)`` uint8.

        Frame ``i`` is the picture of tick ``i`` where the camera runs at the data rate; of tick ``i * n`` where it
        runs at ``1 / n`` of it.

        Raises:
            KeyError: If the session has no such camera.
            VideoError: If there is no video, or none that can be read.
            FormatError: If the file is missing, or not where a session may have it.
        """
        is_depth = self._folder.camera(camera).codec == keys.DEPTH_CODEC
        return decode.FrameReader(self.video_path(camera), pixel_format="gray16le" if is_depth else "rgb24")

    def depth(self, camera: str) -> DepthFrames:
        """Open the episode's depth stream of a camera: metres by frame index.

        Raises:
            KeyError: If the camera has no depth stream.
            VideoError: If there is no file, or none that can be read.
            FormatError: If the file is missing, the session does not say what a code is, or the stream is a diagnostic
                channel: its codes are no depth. `frames` reads them.
        """
        name = camera.removeprefix(keys.IMAGES).removesuffix(keys.DEPTH_SUFFIX) + keys.DEPTH_SUFFIX
        stream = self._folder.camera(name)
        feature = self._folder.features[stream.key]
        if (channel := channel_of(feature)) is not None:
            meant = "; ".join(f"{field}: {shown(feature['info'].get(field))}" for field in ("NOTE", "zero_means"))
            raise FormatError(
                f"{self._folder.path}: {name} holds the diagnostic channel {shown(channel)}, and no depth; "
                f"read its codes with frames({name!r}), uint16. {meant}"
            )
        frames = self.frames(name)
        scale = scale_of(feature)
        if scale is None:
            frames.close()
            said = shown(feature["info"].get("depth_scale"))
            raise FormatError(f"{self._folder.path / layout.INFO_PATH}: {name}: depth_scale={said}")
        return DepthFrames(frames, scale)

    def masks(self, camera: str) -> MaskFrames:
        """Open the episode's mask stream of a camera: label ids by frame index.

        Raises:
            FormatError: If there is no such file, or it does not say what its ids are.
            VideoError: If it cannot be read.
        """
        files, video = self._folder.files, self._mask_file(camera, ".mp4")
        if files.has(video) and not files.has(self._mask_file(camera, ".json")):
            # The file is ours. What other recorders' masks show, the format leaves open.
            raise FormatError(f"{files.path / video}: no JSON file beside it says what its ids are; read it as a video")
        labels = labels_of(files.json(self._mask_file(camera, ".json")))
        if labels is None:
            raise FormatError(f"{files.path / video}: the JSON file beside it does not map ids to names")
        return MaskFrames(decode.FrameReader(files.file(video), pixel_format="gray"), labels)

    def rgbd_path(self, camera: str) -> Path:
        """Return the path of the episode's combined file: colour is its first track, depth its second.

        Raises:
            FormatError: If there is none.
        """
        key = keys.image_key(camera.removeprefix(keys.IMAGES)) + keys.RGBD_SUFFIX
        return self._folder.files.file(layout.video_file(key, self._place, ".mkv"))

    def scans(self, lidar: str) -> Scans:
        """Read the episode's scans of a lidar.

        Raises:
            FormatError: If there are none, or they are broken.
        """
        files, name = self._folder.files, self._scan_file(lidar)
        return Scans(files, name)

    def states(self) -> States:
        """Open the full states of the episode's simulation, and its commands, tick by tick.

        Raises:
            FormatError: If there are none, or they are broken.
        """
        if not self.has_states:
            raise FormatError(f"{self._folder.path}: episode {self.index} has no states: record with keep_states=True")
        return States(self._folder.files, self._states_file)

    def model(self) -> bytes:
        """Return the MuJoCo model that the states are of, as the bytes of an MJB file.

        MuJoCo of the version that ``states().about`` names reads it. It trusts such a file: read those of people whom
        you trust.

        Raises:
            FormatError: If there is none, or it is another than the states say.
        """
        digits = self.states().about["model"]
        content = self._folder.files.bytes(layout.states_model_file(digits), limits.LARGEST_MODEL)
        if hashlib.sha256(content).hexdigest() != digits:
            path = self._folder.path / layout.states_model_file(digits)
            raise FormatError(f"{path}: holds another model than its name says (its sha256 differs)")
        return content

    def states_path(self) -> Path:
        """Return the path of the file that `states` reads.

        Raises:
            FormatError: If there is none.
        """
        return self._folder.files.file(self._states_file)

    @property
    def has_states(self) -> bool:
        """Whether its simulation's states are kept."""
        return self._folder.has_states and self.meta.get(STATES_COLUMNS[0][0]) is not None

    @property
    def _states_file(self) -> str:
        place = layout.Place(*(self._folder.count(self.meta, column) for column, _ in STATES_COLUMNS))
        return self._folder.expand(STATES_PATH, **place._asdict())

    def has_masks(self, camera: str) -> bool:
        """Tell whether the episode has a mask stream of a camera."""
        return self._folder.files.has(self._mask_file(camera, ".mp4"))

    def has_scans(self, lidar: str) -> bool:
        """Tell whether the episode has scans of a lidar."""
        return self._folder.files.has(f"{self._scan_file(lidar)}.parquet")

    def has_video(self, camera: str) -> bool:
        """Tell whether the episode has a video of a camera: a stream that failed left none.

        Raises:
            KeyError: If the session has no such camera.
        """
        return self.meta.get(keys.video_column(self._folder.camera(camera).key, "chunk_index")) is not None

    # Masks, combined files and scans are not in ``meta/``: where they lie follows from the episode's number.

    @property
    def _place(self) -> layout.Place:
        return layout.Chunking(self._folder.files_per_chunk).video(self.index)

    def _mask_file(self, camera: str, suffix: str) -> str:
        return layout.video_file(keys.mask_key(camera.removeprefix(keys.IMAGES)), self._place, suffix)

    def _scan_file(self, lidar: str) -> str:
        return layout.scan_file(lidar, self.index, self._folder.files_per_chunk, "")
