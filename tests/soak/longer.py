"""Tests of the suite that strike at random, at greater length than there.

python -m tests.soak.longer --first 0 --count 2
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from typing import NamedTuple

from tests.soak.figures import tell


class Longer(NamedTuple):
    """A file of tests, and the variable that says how often it strikes."""

    file: str
    variable: str
    count: int


TESTS = (
    Longer("tests/capture/draw/test_collections.py", "LUCKY_RECORDER_SIGNALS", 100),
    Longer("tests/recorder/test_exits.py", "LUCKY_RECORDER_INTERRUPTS", 50),
)


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--first", type=int, default=0)
    asked.add_argument("--count", type=int, default=len(TESTS))
    given = asked.parse_args()
    figures: Counter[str] = Counter()
    for test in TESTS[given.first : given.first + given.count]:
        # Its strikes follow from the number of each, so the seed changes nothing here.
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test.file]
        done = subprocess.run(command, env=os.environ | {test.variable: str(test.count)}, check=False)
        figures["wrong" if done.returncode else test.file] += 1 if done.returncode else test.count
    return tell(figures)


if __name__ == "__main__":
    sys.exit(main())
