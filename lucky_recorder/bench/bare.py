"""Reading a video with the library alone: the floor of every reader."""

from __future__ import annotations

from pathlib import Path

import av


def decode(path: Path) -> int:
    """Decode all frames as RGB in one thread, and return how many there are."""
    count = 0
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_count = 1
        for frame in container.decode(stream):
            frame.to_ndarray(format="rgb24")
            count += 1
    return count
