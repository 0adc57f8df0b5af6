"""How long a step waits for the recorder while two cameras of 320x240 film it, paced at 50 Hz as on a real robot.

    python benchmarks/camera_stall.py [--seconds 20] [--cameras 2] [--unpaced]

The stall of a step is the time that the stepping thread spends inside the recorder's own code: that of the outer
`step` less that of the environment's. Goals when paced: p50 under 0.12 ms and p99 under 0.5 ms, without cameras p50
0.06 ms. Unpaced, the simulation runs ahead of the drawing until the queue is full and then waits for it: no frame is
dropped.

A thread that has slept wakes to cold caches, and the same Python code takes many times as long as in a tight loop. How
many times, here and now, is printed too, and so is the stall of a recorder that films nothing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np

from lucky_recorder.bench.filming import stalls

PERIOD_S = 0.02


def work_us(pause_s: float) -> float:
    """Return how long a little work with small arrays takes after a pause, the median in microseconds."""
    rows, values, taken = np.zeros((64, 7)), np.zeros(7), []
    for k in range(100):
        time.sleep(pause_s)
        started = time.perf_counter()
        for _ in range(3):
            rows[k & 63] = values
            values.dot(values)
        taken.append(time.perf_counter() - started)
    return 1e6 * float(np.median(taken[20:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--cameras", type=int, default=2)
    parser.add_argument("--unpaced", action="store_true")
    options = parser.parse_args()
    cold, warm = work_us(PERIOD_S), work_us(0)
    print(f"the same few lines of Python take {cold:.0f} us after a sleep, {warm:.0f} us without")
    for cameras in (0, options.cameras):
        with tempfile.TemporaryDirectory() as folder:
            steps = int(options.seconds / PERIOD_S)
            waited, other = stalls(cameras, steps, Path(folder), not options.unpaced)
        p50, p90, p99 = np.percentile(waited, [50, 90, 99])
        print(
            f"{cameras} cameras, {len(waited)} steps: p50 {p50:.3f} ms, p90 {p90:.3f}, p99 {p99:.3f}, "
            f"worst {waited.max():.3f}; " + ", ".join(f"{name} {ms:.2f}" for name, ms in other.items())
        )


if __name__ == "__main__":
    main()
