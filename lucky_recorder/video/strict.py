"""Decoding a video for its faults alone: every track, nothing forgiven, and what the decoder says is heard."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from lucky_recorder.episode import limits
from lucky_recorder.errors import FormatError, VideoError
from lucky_recorder.storage.spread import Progress, spread
from lucky_recorder.storage.untrusted import Folder, reason
from lucky_recorder.video.probe import FrameIndex, index_frames, open_video, video_errors

# Larger pictures take turns: several decoders, each of which keeps up to sixteen of the largest, would be too much.
_SMALL_PIXELS = limits.MOST_PIXELS >> 4
_turn = threading.Lock()
# Where there are more, the file is broken: no more is looked for.
_MOST_SAID, _MOST_HEARD = 3, 100
_hearing = threading.Lock()


@contextlib.contextmanager
def heard() -> Iterator[None]:
    """Let the decoders speak while this is entered; only `faults` hears them. One at a time enters it.

    They say of some faults what no error and no mark on a frame says: that a checksum of FFV1 is wrong, for one.
    """
    with _hearing:
        level, skips = av.logging.get_level(), av.logging.get_skip_repeated()
        av.logging.set_level(max(level or 0, av.logging.WARNING))
        # The same words of the next file are another fault.
        av.logging.set_skip_repeated(False)
        # What other threads' coders say went nowhere before, unless somebody had asked for it.
        others = av.logging.Capture(local=False) if level is None else contextlib.nullcontext()
        try:
            with others:
                yield
        finally:
            av.logging.set_skip_repeated(skips)
            av.logging.set_level(level)


def look(folder: Folder, files: Sequence[str], progress: Progress) -> Iterator[tuple[str, str]]:
    """Decode the videos of a folder, several at a time, and yield what is wrong with which.

    Args:
        folder: The folder.
        files: The videos, by their names within the folder.
        progress: Told the bytes of each that is done.
    """

    def of_one(file: str) -> list[str]:
        try:
            return faults(folder.file(file))
        except FormatError as error:
            return [reason(error, folder.path / file)]

    with heard():
        for file, found in zip(files, spread(of_one, files), strict=True):
            progress.advance(folder.size(file))
            yield from ((file, message) for message in found)


def faults(path: Path) -> list[str]:
    """Decode every frame of every video track of a file, and return what is wrong with it; to be called in `heard`.

    A flipped bit that still makes a picture is not found: only a sum of the file's bytes tells that.
    """
    found: list[str] = []
    with av.logging.Capture(local=True) as said:
        try:
            number, count = 0, 1
            while number < count:
                count = _decode_track(path, number, found, said)
                number += 1
        except VideoError as error:
            found.append(f"cannot be decoded: {str(error).removeprefix(f'{path}: ')}")
    words = dict.fromkeys(f"the decoder says: {text.strip()}" for level, _, text in said if level <= av.logging.WARNING)
    return [*found, *list(words)[:_MOST_SAID]]


def _decode_track(path: Path, number: int, found: list[str], said: list[Any]) -> int:
    """Decode one track, until enough is found and said; returns how many there are."""
    container, stream = open_video(path, number, is_strict=True)
    with container:
        context = stream.codec_context
        is_large = context.width * context.height > _SMALL_PIXELS
        if not is_large:
            # What says in the middle that it is larger after all is refused by the decoder.
            context.options = {**context.options, "max_pixels": str(_SMALL_PIXELS)}
        with _turn if is_large else contextlib.nullcontext(), video_errors(path, f"track {number}: "):
            index = index_frames(path, container, stream)
            container.seek(index.pts[0], stream=stream)
            for fault in _frame_faults(container, stream, index, said):
                found.append(f"track {number}: {fault}" if number else fault)
                if len(found) >= _MOST_SAID:
                    break
        return len(container.streams.video)


def _frame_faults(container: InputContainer, stream: VideoStream, index: FrameIndex, said: list[Any]) -> Iterator[str]:
    packets = frames = 0
    size = stream.codec_context.width, stream.codec_context.height
    for packet in container.demux(stream):
        packets += bool(packet.size)
        if len(said) > _MOST_HEARD:
            yield f"the decoder has complained {len(said)} times by packet {packets - 1}"
            return
        if packet.is_corrupt:
            yield f"packet {packets - 1} is marked as broken"
        for frame in packet.decode():
            if frame.is_corrupt:
                yield f"frame {frames} is broken"
            if (frame.width, frame.height) != size:
                yield f"frame {frames} is {frame.width}x{frame.height}, its track is {size[0]}x{size[1]}"
            if index.number_of(frame.pts) != frames:
                yield f"frame {frames} is not the one that is stored there"
            frames += 1
    if frames != len(index.pts):
        yield f"{frames} frames can be decoded, it holds {len(index.pts)}"
