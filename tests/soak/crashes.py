"""Recordings that are killed, or whose disk refuses, and what `Session`, `recover` and LeRobot's rules make of them.

    python -m tests.soak.crashes --seed 1 --first 0 --count 40

Each number is a round of ten struck recordings, all compared with one that nothing strikes. Every second round kills at
any instant; the others strike at system calls, or kill the whole recorder. All follow from the seed and the number.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

from tests.edit.crashing import (
    ANY_TIME,
    EPISODES,
    FULL,
    KILL_AFTER,
    KILL_BEFORE,
    READ_ONLY,
    REFUSALS,
    REFUSE,
    REFUSE_AFTER,
)
from tests.edit.surviving import crashed, verify
from tests.scenarios import test_killed
from tests.soak.figures import tell

STRUCK = 10
RECORDER = "the whole recorder, killed"
SAID = {
    ANY_TIME: "killed at any instant",
    KILL_BEFORE: "killed before a system call",
    KILL_AFTER: "killed after a system call",
    REFUSE: "a system call refused",
    REFUSE_AFTER: "a system call that failed after it was done",
    FULL: "a disk full from some call on",
    READ_ONLY: "a disk read-only from some call on",
    RECORDER: RECORDER,
}
_OTHERS = (RECORDER, KILL_BEFORE, KILL_AFTER, *REFUSALS)


def planned(number: int) -> tuple[str, int]:
    """Return how a round strikes, and how many episodes a file holds in it."""
    half, is_odd = divmod(number, 2)
    how = _OTHERS[half % len(_OTHERS)] if is_odd else ANY_TIME
    return how, (1, 3)[(half // len(_OTHERS) if is_odd else half) % 2]


def strike(seed: int, number: int, folder: Path) -> Counter[str]:
    """Run one round.

    Raises:
        AssertionError: If anything that was vouched for is lost, or what is left is not sound.
    """
    how, per_file = planned(number)
    mixed = random.Random(f"{seed} {number}")
    if how == RECORDER:
        for one in range(STRUCK):
            test_killed.verify(*test_killed.killed(folder / str(one), per_file, mixed))
    else:
        # Some are new recordings, and some go on with a session.
        before = mixed.randrange(EPISODES)
        whole, *results = crashed(folder, per_file, how, mixed.randrange(10**6), STRUCK, before)
        for result in results:
            verify(result, Path(whole["folder"]))
    return Counter({SAID[how]: STRUCK})


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--first", type=int, default=0)
    asked.add_argument("--count", type=int, default=60, help="how many rounds")
    given = asked.parse_args()
    figures: Counter[str] = Counter()
    for number in range(given.first, given.first + given.count):
        with tempfile.TemporaryDirectory() as folder:
            try:
                figures += strike(given.seed, number, Path(folder))
            except Exception:
                figures["wrong"] += 1
                print(f"round {number} of seed {given.seed}, {planned(number)}:\n{traceback.format_exc()}", flush=True)
    return tell(figures)


if __name__ == "__main__":
    sys.exit(main())
