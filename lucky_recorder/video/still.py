"""Still pictures as PNG files, written with av, so that no imaging library is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.errors import VideoError
from lucky_recorder.storage.write import stage


def write_png(path: Path, picture: NDArray[np.uint8]) -> None:
    """Write a picture, uint8, shape ``(height, width, 3)``, as a PNG file.

    Raises:
        VideoError: If it is no such picture.
        StorageError: If the file system refuses.
    """
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise VideoError(f"{path}: {picture.dtype} {picture.shape} is no picture; give uint8 (height, width, 3)")
    stage(path, lambda temporary: _write(temporary, encode_png(picture))).commit()


def encode_png(picture: NDArray[np.uint8]) -> bytes:
    """Return a picture, uint8, shape ``(height, width, 3)``, as the bytes of a PNG file."""
    codec: Any = av.CodecContext.create("png", "w")
    codec.height, codec.width = picture.shape[:2]
    codec.pix_fmt = "rgb24"
    codec.time_base = 1
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
    packets = [*codec.encode(frame), *codec.encode(None)]
    return b"".join(bytes(packet) for packet in packets)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
