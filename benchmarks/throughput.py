"""CPU of recording against the bare floor: the same states drawn and encoded by hand, in one thread.

Prints the ratio of the sums of CPU time, floor over recorder, of interleaved ABBA pairs: 1.00 would be a free recorder.

    python benchmarks/throughput.py [--pairs 20] [--frames 100]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from lucky_recorder.bench.filming import film


def compare(width: int, height: int, pairs: int, frames: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        seen = film(width, height, Path(folder), pairs, frames)
    print(
        f"{width}x{height}: floor {seen.floor_ms:.2f} ms, recorder {seen.ours_ms:.2f} ms of CPU a frame; "
        f"floor/recorder {seen.ratio:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--frames", type=int, default=100)
    arguments = parser.parse_args()
    for width, height in ((320, 240), (640, 480)):
        compare(width, height, arguments.pairs, arguments.frames)


if __name__ == "__main__":
    main()
