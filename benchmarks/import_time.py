"""What `import lucky_recorder` costs beside `import numpy`, in fresh interpreters that take turns.

    python benchmarks/import_time.py [ROUNDS]

Each round starts one interpreter per program. Printed are mean CPU time and median wall-clock time, both less those of
an empty interpreter, and the CPU time as a ratio to numpy's. The goal: the package, with settings and errors, takes
under 0.15 s more than numpy.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

GOAL_S = 0.15
EMPTY = "pass"
NUMPY = "import numpy"
PACKAGE = "import lucky_recorder"
SETTINGS = "from lucky_recorder import Camera, RecorderSettings, SettingsError"
EVERYTHING = "from lucky_recorder import *"
PROGRAMS = (EMPTY, NUMPY, PACKAGE, SETTINGS, EVERYTHING)


def measure(program: str) -> tuple[float, float]:
    """Return the CPU and the wall-clock seconds of an interpreter that runs ``program``."""
    before, started = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    wall, after = time.perf_counter() - started, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return cpu, wall


def rounds(count: int) -> dict[str, list[tuple[float, float]]]:
    """Run every program once per round, forwards and backwards in turn, after one round that warms the disk up."""
    taken: dict[str, list[tuple[float, float]]] = {program: [] for program in PROGRAMS}
    for turn in range(-1, count):
        for program in PROGRAMS if turn % 2 else reversed(PROGRAMS):
            sample = measure(program)
            if turn >= 0:
                taken[program].append(sample)
    return taken


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    taken = rounds(count)
    wall = {program: statistics.median(w for _, w in samples) for program, samples in taken.items()}
    cpu = {program: sum(c for c, _ in samples) / count for program, samples in taken.items()}
    print(f"{'program':68} {'CPU ms':>8} {'wall ms':>8} {'to numpy':>9}")
    for program in PROGRAMS[1:]:
        own = {p: cpu[p] - cpu[EMPTY] for p in (program, NUMPY)}
        ms = 1000 * (wall[program] - wall[EMPTY])
        print(f"{program:68} {1000 * own[program]:8.1f} {ms:8.1f} {own[program] / own[NUMPY]:9.2f}")
    for program in (PACKAGE, SETTINGS):
        more = wall[program] - wall[NUMPY]
        print(f"{program}: {1000 * more:+.1f} ms against numpy; the goal is under {1000 * GOAL_S:.0f} ms")


if __name__ == "__main__":
    main()
