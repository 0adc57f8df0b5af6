"""Scans: what one lidar has measured in one episode, while it is open, in the worker's thread."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode.record import FinishedScans
from lucky_recorder.episode.schema import ScanStream
from lucky_recorder.errors import StreamError
from lucky_recorder.lazy import lazy
from lucky_recorder.storage.write import make_folder

if TYPE_CHECKING:
    from lucky_recorder.capture.door import simulator
    from lucky_recorder.video import encoder
else:
    encoder = lazy("lucky_recorder.video.encoder")

# In pixels. A lidar may have a single row of rays, and nobody could see a picture one pixel high.
_SMALLEST_SIDE = 64


class ScanTrack:
    """Collects the scans of an episode, and films them if a video proxy is wanted."""

    def __init__(self, stream: ScanStream, path: Path, preset: str) -> None:
        self.stream = stream
        self.error: StreamError | None = None
        self._path = path
        self._preset = preset
        self._scans: list[simulator.Scan] = []
        self._encoder: encoder.VideoEncoder | None = None

    @property
    def count(self) -> int:
        """Scans so far."""
        return len(self._scans)

    def add(self, scan: simulator.Scan) -> None:
        """Take the next scan."""
        if self.stream.has_proxy:
            self._film(scan)
        self._scans.append(scan)

    def _film(self, scan: simulator.Scan) -> None:
        picture = range_picture(scan.ranges.reshape(-1, self.stream.columns), self.stream.description["max_range_m"])
        if self._encoder is None:
            make_folder(self._path.parent)
            height, width = picture.shape[:2]
            self._encoder = encoder.VideoEncoder(
                self._path, width=width, height=height, fps=self.stream.rate, preset=self._preset
            )
        self._encoder.write(picture)

    def finish(self) -> FinishedScans | None:
        """Close the proxy and return the scans; None if it has none or has failed."""
        if not self._scans or self.error is not None:
            self.abort()
            return None
        proxy = self._encoder.close() if self._encoder is not None else None
        self._encoder = None
        return FinishedScans(
            positions=np.stack([s.position for s in self._scans]),
            orientations=np.stack([s.orientation for s in self._scans]),
            ranges=np.stack([s.ranges for s in self._scans]),
            geoms=np.stack([s.geoms for s in self._scans]),
            proxy=proxy,
        )

    def abort(self) -> None:
        """Close and remove the proxy."""
        opened, self._encoder = self._encoder, None
        if opened is not None:
            opened.abort()


def range_picture(ranges: NDArray[np.float32], most: float) -> NDArray[np.uint8]:
    """Draw a scan for people: near is bright, farther is darker and bluer, nothing is black; the highest row on top.

    Args:
        ranges: Metres, shape ``(elevations, azimuths)``, infinity where nothing came back.
        most: Metres that are drawn darkest.

    Returns:
        uint8, shape ``(height, width, 3)``; both even, every ray at least a pixel.
    """
    near = 1 - np.clip(np.sqrt(np.minimum(ranges, most) / most), 0, 1)
    shades = np.stack([55 + 200 * near, 40 + 180 * near**2, 120 - 90 * near], axis=-1)
    shades[np.isinf(ranges)] = 0
    # Azimuth grows to the left, as seen from the sensor.
    picture = shades[::-1, ::-1].astype(np.uint8)
    rows, columns = (max(2, -(-_SMALLEST_SIDE // length)) for length in picture.shape[:2])
    # An even factor makes an even side, which 4:2:0 video needs.
    rows, columns = rows + rows % 2, columns + columns % 2
    return picture.repeat(rows, axis=0).repeat(columns, axis=1)
