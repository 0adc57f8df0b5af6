"""Reading an episode's other streams: depth in metres, masks with their labels, lidar scans as points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lucky_recorder.episode import clock
from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.session.lidar import to_points
from lucky_recorder.settings.lidar import ray_directions
from lucky_recorder.storage.untrusted import Folder

if TYPE_CHECKING:
    from lucky_recorder.video.decode import FrameReader

_MOST_RAYS = 1_000_000
_LARGEST_SCALE = 1e6
_POSE = {"sensor_position": 3, "sensor_orientation": 4}


def scale_of(feature: Mapping[str, Any]) -> float | None:
    """Return the metres of one code of a depth stream, by its feature; None where it says no such number."""
    scale = feature["info"].get("depth_scale")
    return float(scale) if type(scale) in (int, float) and 0 < scale < _LARGEST_SCALE else None


def channel_of(feature: Mapping[str, Any]) -> object:
    """Return the diagnostic channel that a depth stream holds in place of depth, by its feature; None for depth."""
    return feature["info"].get("debug_channel")


def labels_of(described: Mapping[str, Any]) -> dict[int, str] | None:
    """Return the object each id of a mask stands for, by the JSON file beside it; None where it does not say so."""
    if not all(_is_label(key) and isinstance(name, str) for key, name in described.items()):
        return None
    return {int(key): name for key, name in described.items()}


def _is_label(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) <= 3


class DepthFrames:
    """A depth stream of one episode, by frame index.

    Attributes:
        codes: The stored codes: ``codes[i]`` is uint16, shape ``(height, width)``; 0 is no measurement.
        scale: Metres per code.
    """

    def __init__(self, codes: FrameReader, scale: float) -> None:
        self.codes = codes
        self.scale = scale

    def __len__(self) -> int:
        """Return how many frames there are."""
        return len(self.codes)

    def __getitem__(self, index: int) -> NDArray[np.float32]:
        """Return frame ``index`` in metres, float32, shape ``(height, width)``; 0 where nothing was measured."""
        return (self.codes[index] * np.float64(self.scale)).astype(np.float32)

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        """Go through the frames in order."""
        return ((codes * np.float64(self.scale)).astype(np.float32) for codes in self.codes)

    def close(self) -> None:
        """Close the file."""
        self.codes.close()


class MaskFrames:
    """A mask stream of one episode, by frame index.

    Attributes:
        ids: ``ids[i]`` is uint8, shape ``(height, width)``.
        labels: The object each id stands for; 0 is the background.
    """

    def __init__(self, ids: FrameReader, labels: Mapping[int, str]) -> None:
        self.ids = ids
        self.labels = dict(labels)

    def __len__(self) -> int:
        """Return how many frames there are."""
        return len(self.ids)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        """Return the label ids of frame ``index``, uint8, shape ``(height, width)``."""
        return self.ids[index]

    def of(self, index: int, name: str) -> NDArray[np.bool_]:
        """Return the pixels of frame ``index`` that show an object, bool, shape ``(height, width)``.

        Raises:
            KeyError: If no id stands for it.
        """
        for label, known in self.labels.items():
            if known == name:
                pixels: NDArray[np.bool_] = self.ids[index] == label
                return pixels
        raise KeyError(f"no label {name!r}; the mask has {', '.join(self.labels.values())}")

    def close(self) -> None:
        """Close the file."""
        self.ids.close()


class Scans:
    """A lidar's scans of one episode. Of very many scans, those that are asked for are read.

    Attributes:
        description: What the JSON file beside it says of the sensor.
        rate: Scans per second, exact.
        shape: Elevations and azimuths of the ray grid.
    """

    def __init__(self, files: Folder, name: str) -> None:
        """Read what the two files hold.

        Args:
            files: The session's files.
            name: Their names within it, without the ending.

        Raises:
            FormatError: If the grid of rays is none, or a scan is not of it. Where there are very many scans, it is the
                methods that raise this.
        """
        self._files = files
        self._file = f"{name}.parquet"
        self._path = path = files.path / name
        # Where each row group ends.
        self._ends = np.cumsum(files.row_groups(self._file), dtype=np.int64)
        self.description = files.json(f"{name}.json")
        try:
            self.rate = clock.rate(self.description.get("rate"), "rate")
        except SettingsError as error:
            raise FormatError(f"{path}.json: {error}") from error
        self._azimuths, self._elevations = (
            _angles(self.description.get(field), f"{path}.json: {field}") for field in ("azimuth_deg", "elevation_deg")
        )
        self.shape = (len(self._elevations), len(self._azimuths))
        _check_grid(self.shape, path)
        # The first ones are looked at here: what is none is refused as soon as it is opened.
        self._latest = (0, self._group(0)) if len(self._ends) > 1 else (0, self.table)

    def __len__(self) -> int:
        """Return how many scans there are."""
        return int(self._ends[-1]) if len(self._ends) else 0

    @cached_property
    def table(self) -> pa.Table:
        """One row per scan (spec: Lidar files).

        Raises:
            FormatError: If a scan is not of the grid, or all together would take an absurd amount of memory.
        """
        return self._checked(self._files.table(self._file), len(self))

    def _group(self, number: int) -> pa.Table:
        before = int(self._ends[number - 1]) if number else 0
        return self._checked(self._files.row_group(self._file, number), int(self._ends[number]) - before)

    def _checked(self, table: pa.Table, rows: int) -> pa.Table:
        if table.num_rows != rows:
            raise FormatError(f"{self._path}.parquet: {table.num_rows} scans where its footer says {rows}")
        _check_lists(table, self.shape[0] * self.shape[1], self._path)
        return table

    def _scan(self, index: int) -> pa.Table:
        """Return the row of a scan; the row group that it is in is kept, for those beside it."""
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"scan {index} of {count}")
        index %= count
        number = int(np.searchsorted(self._ends, index, "right"))
        if self._latest[0] != number:
            self._latest = number, self._group(number)
        group = self._latest[1]
        return group.slice(index - (int(self._ends[number]) - group.num_rows), 1)

    @cached_property
    def directions(self) -> NDArray[np.float64]:
        """The rays' unit vectors in the sensor's frame, shape ``(rays, 3)``, elevation by elevation."""
        return ray_directions(self._azimuths, self._elevations)

    def ranges(self, index: int) -> NDArray[np.float32]:
        """Return the ranges of scan ``index``, metres, float32, shape ``(rays,)``; infinity where nothing came back.

        Raises:
            IndexError: If there is no such scan.
        """
        return np.asarray(self._scan(index)["range"][0].values, np.float32)

    def to_points(self, index: int) -> NDArray[np.float64]:
        """Return the points of scan ``index`` in the world, metres, shape ``(returns, 3)``.

        Raises:
            IndexError: If there is no such scan.
        """
        scan = self._scan(index)
        position, orientation = (scan[name][0].as_py() for name in _POSE)
        return to_points(self.ranges(index), self.directions, position, orientation)


def _angles(value: object, name: str) -> NDArray[np.float64]:
    try:
        angles = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"{name}: no list of angles ({error})") from error
    if angles.ndim != 1 or not angles.size or not np.isfinite(angles).all():
        raise FormatError(f"{name}: no list of angles in degrees")
    return angles


def _check_grid(shape: tuple[int, int], path: Path) -> None:
    if shape[0] * shape[1] > _MOST_RAYS:
        raise FormatError(f"{path}.json: {shape[0]} x {shape[1]} rays a scan; at most {_MOST_RAYS} are read")


def _check_lists(table: pa.Table, rays: int, path: Path) -> None:
    """Check that every scan has a pose and a range for each ray."""
    for name, length in {**_POSE, "range": rays}.items():
        wanted = pa.list_(pa.float32() if name == "range" else pa.float64())
        if table.column_names.count(name) != 1 or table.schema.field(name).type != wanted:
            raise FormatError(f"{path}.parquet: has no column {name} of {wanted}")
        column = table[name]
        whole = pc.all(pc.equal(pc.list_value_length(column), length), min_count=0, skip_nulls=False).as_py()
        if not whole or pc.list_flatten(column).null_count:
            raise FormatError(f"{path}.parquet: {name}: a scan has not {length} values")
