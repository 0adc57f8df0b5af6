"""The long crash test: every call that changes the disk, and many instants. ``make soak``.

Run as a program: ``python -m tests.edit.soak [SEED [KILLS]]``. It prints the seed and the figures.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.edit.crashing import ANY_TIME, KILL_AFTER, KILL_BEFORE, REFUSALS
from tests.edit.surviving import crashed, verify
from tests.scenarios import test_killed


def main(seed: int, kills: int) -> None:
    print(f"seed {seed}, {kills} kills at any time, and as many struck calls of each kind as there are up to {kills}")
    struck = 0
    for per_file in (1, 3):
        for how in (ANY_TIME, KILL_BEFORE, KILL_AFTER, *REFUSALS):
            count = kills // 2 if how == ANY_TIME else kills // 4
            with tempfile.TemporaryDirectory() as folder:
                whole, *results = crashed(Path(folder), per_file, how, seed, count)
                states = Counter(verify(result, Path(whole["folder"])) for result in results)
            struck += len(results)
            told = ", ".join(f"{n} {state}" for state, n in sorted(states.items()))
            print(f"episodes_per_file {per_file}, {how}: {len(results)} of {whole['calls']} calls: {told}", flush=True)
    chosen, episodes = random.Random(seed), 0
    for number in range(kills // 10):
        with tempfile.TemporaryDirectory() as folder:
            left = test_killed.killed(Path(folder), (1, 3)[number % 2], chosen)
            episodes += test_killed.verify(*left)
    struck += kills // 10
    print(f"the whole recorder, every stream: {kills // 10} kills, {episodes} episodes", flush=True)
    print(f"{struck} recordings struck; nothing that was vouched for was lost")


if __name__ == "__main__":
    main(*(int(given) for given in (*sys.argv[1:], *("1", "300")[len(sys.argv) - 1 :])))
