"""Pictures out of a video file, by frame index and never by time."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import av
import numpy as np
from av.container import InputContainer
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from lucky_recorder.episode.keys import DEPTH_CODEC
from lucky_recorder.errors import VideoError
from lucky_recorder.video.codecs import DEPTH_CODES, LABEL_IDS, RGB
from lucky_recorder.video.ffv1 import is_intact
from lucky_recorder.video.probe import (
    ONE_THREAD,
    Contents,
    VideoInfo,
    describe,
    index_frames,
    open_video,
    probe,
    video_errors,
)

__all__ = ["FrameReader", "VideoInfo", "decode_all", "probe"]


class FrameReader:
    """The frames of a video file by index: ``reader[3]``, ``reader[-1]``, ``len(reader)``, ``for f in reader``.

    A frame just ahead of the last one read is decoded onwards, any other from the keyframe before it.
    One reader belongs to one thread and one process.

    Attributes:
        path: The file.
        info: What `probe` says of it.
        contents: What was found in it, for those who open it again.
    """

    def __init__(
        self, path: Path, *, track: int = 0, pixel_format: str | None = None, contents: Contents | None = None
    ) -> None:
        """Open a file and index its frames; nothing is decoded yet.

        Args:
            path: The file to read.
            track: Which of its video tracks; a combined file has colour in 0 and depth in 1.
            pixel_format: What frames are returned in: ``rgb24`` gives ``(height, width, 3)`` uint8 with the
                colours as the file tags them, ``gray16le`` gives ``(height, width)`` uint16, ``gray``
                ``(height, width)`` uint8. None is the one of what the file holds: colours, depth codes, label ids.
            contents: The ``contents`` of an earlier reader of the same track: the file is not read through again.

        Raises:
            VideoError: If there is no such file or track, it is no video that can be read, or it holds no frame.
        """
        self.path = path
        self._reformatter = VideoReformatter()
        container, self._stream = open_video(path, track)
        self._container: InputContainer | None = container
        try:
            if contents is None:
                index = index_frames(path, container, self._stream)
                contents = Contents(index, describe(path, self._stream, index))
            self.contents = contents
            self._index, self.info = contents
            self._pixel_format = pixel_format or _own_format(self.info)
        except BaseException:  # also an interrupt: the file must not stay open
            self.close()
            raise
        # A stream may change the size of its pictures on the way; here they are all of one.
        self._size = self.info.width, self.info.height
        self._decoded: Iterator[av.VideoFrame] = iter(())
        # Past the last frame: the first read has to seek.
        self._next = len(self)

    def __len__(self) -> int:
        """Return how many frames there are."""
        return len(self._index.pts)

    def __getitem__(self, index: int) -> NDArray[Any]:
        """Decode one frame, counted from the end if ``index`` is negative.

        Returns:
            An array of its own, of the shape and dtype that ``pixel_format`` says.

        Raises:
            IndexError: If there is no such frame.
            VideoError: If the frame is broken, or the reader is closed.
        """
        container = self._open()
        wanted = operator.index(index)
        if not -len(self) <= wanted < len(self):
            raise IndexError(f"frame {index} of {len(self)} in {self.path}")
        wanted %= len(self)
        with video_errors(self.path, f"frame {wanted}: "):
            if not self._is_ahead(wanted):
                self._seek(container, self._index.keyframe_before(wanted))
            return self._to_array(self._decode_to(wanted))

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Decode every frame in order."""
        return (self[k] for k in range(len(self)))

    def close(self) -> None:
        """Close the file."""
        if self._container is not None:
            self._container.close()
            self._container = None

    def __enter__(self) -> FrameReader:
        """Return the reader; leaving the block closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def _is_ahead(self, wanted: int) -> bool:
        """Whether decoding on reaches ``wanted`` with no more work than a seek would."""
        return self._index.keyframe_before(wanted) <= self._next <= wanted

    def _open(self) -> InputContainer:
        # Checked, because decoding after the file is closed would crash the process and not raise.
        if self._container is None:
            raise VideoError(f"{self.path}: the reader is closed")
        return self._container

    def _seek(self, container: InputContainer, keyframe: int) -> None:
        container.seek(self._index.pts[keyframe], stream=self._stream)
        self._decoded = self._decode(container)
        self._next = keyframe

    def _decode(self, container: InputContainer) -> Iterator[av.VideoFrame]:
        """Decode on, up to a frame whose bytes are not those that were written."""
        # Before its third version, FFV1 had neither a header of its own nor checksums.
        carries_checksums = self.info.codec == DEPTH_CODEC and bool(self._stream.codec_context.extradata)
        for packet in container.demux(self._stream):
            if carries_checksums and not is_intact(bytes(packet)):
                return
            yield from packet.decode()

    def _decode_to(self, wanted: int) -> av.VideoFrame:
        for frame in self._decoded:
            found = self._index.number_of(frame.pts)
            self._next = found + 1
            # Up to the next keyframe, frames after a corrupt one are changes to it, and as wrong as it is.
            if frame.is_corrupt or found > wanted or (frame.width, frame.height) != self._size:
                break
            if found == wanted:
                return frame
        # As at the start: the next read has to seek, whatever the decoder has kept of this one.
        self._next = len(self)
        raise VideoError(f"{self.path}: frame {wanted} is broken")

    def _to_array(self, frame: av.VideoFrame) -> NDArray[Any]:
        converted = self._reformatter.reformat(frame, format=self._pixel_format, **ONE_THREAD)
        array: NDArray[Any] = converted.to_ndarray()
        # A frame that needed no conversion is still the decoder's own memory.
        return array.copy() if converted is frame else np.ascontiguousarray(array)


def decode_all(path: Path, *, track: int = 0, pixel_format: str | None = None) -> NDArray[Any]:
    """Decode a whole video track into one array: its frames, as `FrameReader` gives them, along a first axis.

    Raises:
        VideoError: If the file cannot be read or a frame is broken.
    """
    with FrameReader(path, track=track, pixel_format=pixel_format) as reader:
        first = reader[0]
        pictures = np.empty((len(reader), *first.shape), first.dtype)
        for k, picture in enumerate(reader):
            pictures[k] = picture
    return pictures


def _own_format(info: VideoInfo) -> str:
    """Name the memory layout of what a video holds."""
    if info.pix_fmt == DEPTH_CODES.pixel_format:
        return DEPTH_CODES.pixel_format
    return LABEL_IDS.pixel_format if info.holds_labels else RGB.pixel_format
