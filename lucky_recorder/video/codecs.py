"""The codecs: what each takes, how it stores it, and in which file (spec: Video streams). Nothing here needs av."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from lucky_recorder.errors import VideoError


class PictureFormat(NamedTuple):
    """How a picture lies in memory.

    Attributes:
        pixel_format: The library's name of it.
        dtype: The array's dtype.
        channels: Values per pixel; a single one has no axis of its own.
    """

    pixel_format: str
    dtype: str
    channels: int

    def shape(self, width: int, height: int) -> tuple[int, ...]:
        """Return the array's shape."""
        return (height, width) if self.channels == 1 else (height, width, self.channels)


class ColorTags(NamedTuple):
    """What a file says of its colours: range (1 limited, 2 full) and one number for matrix, primaries, transfer."""

    range: int
    standard: int


RGB = PictureFormat("rgb24", "uint8", 3)
DEPTH_CODES = PictureFormat("gray16le", "uint16", 1)
LABEL_IDS = PictureFormat("gray", "uint8", 1)

# Tagged, because players guess what an untagged video means, some of them by its size.
_BT601_LIMITED = ColorTags(1, 6)
_BT601_FULL = ColorTags(2, 6)
_AS_NAMED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Codec:
    """One way of turning pictures into a file: all that differs from one to another, so that nothing else asks which.

    Attributes:
        key: What settings call it.
        name: The codec's name as ``video.codec`` in ``info.json`` has it.
        encoder: The library's encoder.
        takes: The pictures it takes.
        pix_fmt: The pixel format stored, as `probe` reports it.
        container: The library's name of the file format.
        suffix: How the file's name ends.
        colors: How colours are tagged, None if they are none.
        tag: The four letters that name the codec in the file, empty for the usual ones.
        options: Encoder options besides preset and quality.
        presets: What the encoder calls the presets, named as x264 has them; a name that is absent stays.
        quality: The option that sets the quality, empty for a lossless codec.
        crf: Its value unless another is asked for.
        fastest: The highest frame rate, None for any.
        environment: Variables that the encoder's library reads, to keep it from printing.
        reproducible: Whether the same pictures give the same bytes.
    """

    key: str
    name: str
    encoder: str
    takes: PictureFormat = RGB
    pix_fmt: str = "yuv420p"
    container: str = "mp4"
    suffix: str = ".mp4"
    colors: ColorTags | None = _BT601_LIMITED
    tag: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    presets: Mapping[str, str] | None = None
    quality: str = ""
    crf: int | None = None
    fastest: Fraction | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    reproducible: bool = True

    @property
    def lossless(self) -> bool:
        """Whether every pixel comes back exactly."""
        return not self.quality

    @property
    def subsampled(self) -> bool:
        """Whether chroma has half the resolution, so that sizes must be even."""
        return "420" in self.pix_fmt

    def settings(self, preset: str, crf: int | None) -> dict[str, str]:
        """Return the encoder's options; a lossless codec has no preset to choose and no quality.

        Raises:
            VideoError: If a lossless codec is given a quality.
        """
        chosen = dict(self.options)
        if self.presets is not None:
            chosen["preset"] = self.presets.get(preset, preset)
        if self.quality:
            chosen[self.quality] = str(self.crf if crf is None else crf)
        elif crf is not None:
            raise VideoError(f"crf={crf}: {self.key} is lossless; leave crf out")
        return chosen


# A keyframe every ten frames, so any frame is at most nine steps from one. Without B-frames, frames are stored in the
# order they are shown: combining colour and depth in one file relies on it.
_SHORT_GOP = {"g": "10", "bf": "0"}
_SVT_PRESETS = {
    "ultrafast": "9",
    "superfast": "8",
    "veryfast": "7",
    "faster": "6",
    "fast": "5",
    "medium": "4",
    "slow": "3",
    "slower": "2",
    "veryslow": "1",
}
_NVENC_PRESETS = {
    "ultrafast": "p1",
    "superfast": "p2",
    "veryfast": "p3",
    "faster": "p3",
    "fast": "p4",
    "medium": "p4",
    "slow": "p5",
    "slower": "p6",
    "veryslow": "p7",
}
# Every packet leaves with its frame, and nothing but the GOP decides where a keyframe is.
_NVENC = {
    **_SHORT_GOP,
    "rc": "constqp",
    "tune": "ll",
    "delay": "0",
    "zerolatency": "1",
    "no-scenecut": "1",
    "forced-idr": "1",
}
# One thread gives the same bytes anywhere; without info, the CPU's name is not among them.
_X265 = "bframes=0:open-gop=0:pools=none:frame-threads=1:wpp=0:info=0:log-level=none"
# Low delay, no frame ahead of its time, one thread per stage, keyframes that close the GOP, none besides the GOP's.
_SVT = "pred-struct=1:lp=1:irefresh-type=2:scd=0"

_ALL = (
    Codec(
        "h264",
        "h264",
        "libx264",
        options={"tune": "zerolatency", **_SHORT_GOP},
        presets=_AS_NAMED,
        quality="crf",
        crf=20,
    ),
    Codec(
        "hevc",
        "hevc",
        "libx265",
        # Apple's players open HEVC in .mp4 under this tag only, and FFmpeg's own is hev1.
        tag="hvc1",
        options={"tune": "zerolatency", **_SHORT_GOP, "x265-params": _X265},
        presets=_AS_NAMED,
        quality="crf",
        crf=22,
    ),
    Codec(
        "av1",
        "av1",
        "libsvtav1",
        options={"g": "10", "svtav1-params": _SVT},
        presets=_SVT_PRESETS,
        quality="crf",
        crf=30,
        # SVT-AV1 refuses more.
        fastest=Fraction(240),
        environment={"SVT_LOG": "1"},
    ),
    Codec(
        "h264_nvenc",
        "h264",
        "h264_nvenc",
        options=_NVENC,
        presets=_NVENC_PRESETS,
        quality="qp",
        crf=20,
        reproducible=False,
    ),
    Codec(
        "hevc_nvenc",
        "hevc",
        "hevc_nvenc",
        tag="hvc1",
        options=_NVENC,
        presets=_NVENC_PRESETS,
        quality="qp",
        crf=22,
        reproducible=False,
    ),
    # Every frame is a keyframe, in four slices with a checksum each: without checksums, damage may go unseen.
    Codec(
        "ffv1",
        "ffv1",
        "ffv1",
        takes=DEPTH_CODES,
        pix_fmt="gray16le",
        container="matroska",
        suffix=".mkv",
        colors=None,
        options={"level": "3", "slices": "4", "slicecrc": "1", "g": "1"},
        # Matroska keeps whole milliseconds: beyond this, frames would share a time.
        fastest=Fraction(1000),
    ),
    # Ids are the Y plane as it is; qp 0 is x264's lossless mode. Tagged full range, so that a plain decode to grey, or
    # to RGB, changes no id.
    Codec(
        "mask",
        "h264",
        "libx264",
        takes=LABEL_IDS,
        pix_fmt="yuvj420p",
        colors=_BT601_FULL,
        options={"preset": "ultrafast", "tune": "zerolatency", **_SHORT_GOP, "qp": "0"},
    ),
)

LOSSLESS_PROFILE = "High 4:4:4 Predictive"
"""What H.264 calls its only lossless profile, by which `probe` knows a video of label ids.

libavcodec decodes it, and so does what is built on it (ffmpeg, mpv, VLC, OpenCV). Decoders in hardware, and players
bound to them, mostly do not.
"""

CODECS: Mapping[str, Codec] = MappingProxyType({codec.key: codec for codec in _ALL})


def known(key: str) -> Codec:
    """Look a codec up.

    Raises:
        VideoError: If there is none of that name.
    """
    if key not in CODECS:
        raise VideoError(f"codec={key!r}: unknown; known: {', '.join(sorted(CODECS))}")
    return CODECS[key]
