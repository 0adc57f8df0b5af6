"""Scans: what one lidar has measured in one episode, while it is open, in the worker's thread."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode.record import FinishedScans
from lucky_recorder.episode.schema import ScanStream
from lucky_recorder.errors import StreamError
from lucky_recorder.lazy import lazy
from lucky_recorder.storage.spill import Spill
from lucky_recorder.storage.write import make_folder

if TYPE_CHECKING:
    from lucky_recorder.capture.door import simulator
    from lucky_recorder.video import encoder
else:
    encoder = lazy("lucky_recorder.video.encoder")

# In pixels. A lidar may have a single row of rays, and nobody could see a picture one pixel high.
_SMALLEST_SIDE = 64
# What the scans of an episode may take in memory; those that are more wait in a file.
MOST_HELD_BYTES = 8 << 20


class Pile:
    """The scans of an episode, one by one: some in memory, those before them in a file without a name.

    Args:
        folder: Where the file is to be.
    """

    def __init__(self, folder: Path) -> None:
        self.count = 0
        self._folder = folder
        self._held: list[simulator.Scan] = []
        self._held_bytes = 0
        self._record = np.dtype([])
        self._spill: Spill | None = None
        self._is_refused = False

    def add(self, scan: simulator.Scan) -> None:
        """Take the next scan."""
        self._held.append(scan)
        self._held_bytes += sum(part.nbytes for part in scan)
        self.count += 1
        # A disk that refuses costs memory, and no scan: that it is full, the episode's own files will say.
        if self._held_bytes > MOST_HELD_BYTES and not self._is_refused:
            try:
                self._put_away()
            except OSError:
                self._is_refused = True

    def _put_away(self) -> None:
        if self._spill is None:
            make_folder(self._folder)
            self._spill = Spill(self._folder)
        records = self._records()
        self._record = records.dtype
        self._spill.append(records)
        self._held, self._held_bytes = [], 0

    def _records(self) -> NDArray[Any]:
        """Return the scans that are held, as a structured array: one record each."""
        first = self._held[0]
        kinds = [(name, part.dtype, part.shape) for name, part in first._asdict().items()]
        records = np.empty(len(self._held), np.dtype(kinds))
        for number, name in enumerate(first._fields):
            np.stack([scan[number] for scan in self._held], out=records[name])
        return records

    def finish(self) -> FinishedScans:
        """Return all of them; at least one has been taken."""
        records = self._records() if self._held else None
        if self._spill is not None:
            records = self._all(self._spill, records)
        assert records is not None
        return FinishedScans(records["position"], records["orientation"], records["ranges"], records["geoms"])

    def _all(self, spill: Spill, held: NDArray[Any] | None) -> NDArray[Any]:
        away = spill.size // self._record.itemsize
        with contextlib.suppress(OSError):  # as above
            if held is not None:
                spill.append(held)
            return spill.whole().array(0, (self.count,), self._record)
        read = spill.read(0, (away,), self._record)
        return read if held is None else np.concatenate([read, held])


class ScanTrack:
    """Collects the scans of an episode, and films them if a video proxy is wanted."""

    def __init__(self, stream: ScanStream, path: Path, preset: str) -> None:
        self.stream = stream
        self.error: StreamError | None = None
        self._path = path
        self._preset = preset
        self._scans = Pile(path.parent)
        self._encoder: encoder.VideoEncoder | None = None

    @property
    def count(self) -> int:
        """Scans so far."""
        return self._scans.count

    def add(self, scan: simulator.Scan) -> None:
        """Take the next scan."""
        if self.stream.has_proxy:
            self._film(scan)
        self._scans.add(scan)

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
        if not self._scans.count or self.error is not None:
            self.abort()
            return None
        proxy = self._encoder.close() if self._encoder is not None else None
        self._encoder = None
        return self._scans.finish()._replace(proxy=proxy)

    def abort(self) -> None:
        """Close and remove the proxy, and let go of the scans."""
        self._scans = Pile(self._path.parent)
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
