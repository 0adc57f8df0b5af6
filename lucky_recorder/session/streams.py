"""Reading an episode's other streams: depth in metres, masks with their labels, lidar scans as points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lucky_recorder import clock
from lucky_recorder.bindings import ray_directions
from lucky_recorder.errors import FormatError
from lucky_recorder.session.lidar import to_points

if TYPE_CHECKING:
    from lucky_recorder.video.decode import FrameReader

_MOST_RAYS = 10_000_000


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
    """A lidar's scans of one episode.

    Attributes:
        table: One row per scan (spec: Lidar files).
        description: What the JSON file beside it says of the sensor.
        directions: The rays' unit vectors in the sensor's frame, shape ``(rays, 3)``.
        rate: Scans per second, exact.
    """

    def __init__(self, table: pa.Table, description: Mapping[str, Any], name: str) -> None:
        self.table = table
        self.description = dict(description)
        try:
            azimuths, elevations = (np.asarray(description[k], np.float64) for k in ("azimuth_deg", "elevation_deg"))
            self.rate = clock.rate(description["rate"], "rate")
            if azimuths.ndim != 1 or elevations.ndim != 1 or azimuths.size * elevations.size > _MOST_RAYS:
                raise ValueError("no lists of angles")
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{name}: rate, azimuth_deg, elevation_deg: {error}") from error
        self.directions = ray_directions(azimuths, elevations)

    def __len__(self) -> int:
        """Return how many scans there are."""
        return int(self.table.num_rows)

    def ranges(self, index: int) -> NDArray[np.float32]:
        """Return the ranges of scan ``index``, metres, float32, shape ``(rays,)``; infinity where nothing came back."""
        return np.asarray(self.table["range"][index].as_py(), np.float32)

    def to_points(self, index: int) -> NDArray[np.float64]:
        """Return the points of scan ``index`` in the world, metres, shape ``(returns, 3)``."""
        row = self.table.slice(index, 1).to_pylist()[0]
        ranges = np.asarray(row["range"], np.float32)
        return to_points(ranges, self.directions, row["sensor_position"], row["sensor_orientation"])
