"""Available encoders: which one works on this machine, found by encoding one frame, once per process and size."""

from __future__ import annotations

import functools
import io
from fractions import Fraction

import av

from lucky_recorder.episode.keys import VIDEO_FORMATS
from lucky_recorder.errors import VideoError
from lucky_recorder.video.codecs import CODECS, Codec, known
from lucky_recorder.video.encoder import add_stream
from lucky_recorder.video.frames import Frame

_PRESET = "ultrafast"
_HARDWARE = "_nvenc"


def available(codec: str, *, width: int = 256, height: int = 256) -> str | None:
    """Name the library's encoder behind a codec if it encodes a frame of this size here, else None.

    An encoder that is compiled in says nothing of the driver and the device that it needs, or of the sizes that
    the device takes.

    Args:
        codec: A key of `lucky_recorder.video.codecs.CODECS`.
        width: Picture width in pixels.
        height: Picture height in pixels.

    Raises:
        VideoError: If there is no such codec.
    """
    chosen = known(codec)
    return chosen.encoder if _encodes(codec, width, height) else None


def resolve(video_format: str, hardware: bool = False, *, width: int = 256, height: int = 256) -> Codec:
    """Choose the codec for colour video of a format: in hardware where that is asked for and works.

    Args:
        video_format: One of `lucky_recorder.episode.keys.VIDEO_FORMATS`; more than one codec may encode it.
        hardware: Whether to try the graphics card first. Its bytes are not reproducible.
        width: Picture width in pixels.
        height: Picture height in pixels.

    Returns:
        The codec; its ``name`` is what ``video.codec`` says, its ``key`` what `VideoEncoder` takes.

    Raises:
        VideoError: If the format is unknown or nothing here encodes it.
    """
    if video_format not in VIDEO_FORMATS:
        raise VideoError(f"video_format={video_format!r}: unknown; known: {', '.join(VIDEO_FORMATS)}")
    in_hardware = [video_format + _HARDWARE] if hardware and video_format + _HARDWARE in CODECS else []
    for key in (*in_hardware, video_format):
        if available(key, width=width, height=height):
            return CODECS[key]
    raise VideoError(
        f"video_format={video_format!r}: {CODECS[video_format].encoder} of av {av.__version__} does not encode "
        f"{width}x{height} pictures; choose another size or one of {', '.join(VIDEO_FORMATS)}"
    )


@functools.cache
def _encodes(key: str, width: int, height: int) -> bool:
    try:
        return _packets_of_one_frame(CODECS[key], width, height) == 1
    except (av.FFmpegError, OSError, ValueError, RuntimeError):
        # A missing driver, a device in use and a size that is refused each raise something else.
        return False


def _packets_of_one_frame(codec: Codec, width: int, height: int) -> int:
    """Encode a picture as a recording would, into memory, and count what comes out."""
    rate = Fraction(50)
    with av.open(io.BytesIO(), "w", format=codec.container) as container:
        stream = add_stream(container, codec, width, height, rate, codec.settings(_PRESET, None))
        frame = Frame(codec, width, height).at(0, 1 / rate)
        return sum(packet.size > 0 for packet in (*stream.encode(frame), *stream.encode(None)))
