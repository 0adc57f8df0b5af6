"""All attacks that take long, one after the other on every core: ``make soak``.

    python -m tests.soak --seed 1 [--only signals] [--again]

Each attack is a program of its own, which strikes so many times as follows from a seed. They are run in pieces. What a
piece has come to is written down when it ends, so that the same call goes on after an interruption.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from tests.soak import longer, memory, undisturbed
from tests.soak.figures import told

_NOTES = Path("build/soak")
_MEMORY = "/dev/shm"


class Attack(NamedTuple):
    """A program that strikes.

    Attributes:
        name: What it is called: ``python -m tests.soak.NAME --seed S --first N --count M``.
        count: How many strikes there are.
        piece: How many of them are done at once.
        is_in_memory: Whether its folders may be in memory. They are made by the thousand, and no disk is tried there.
    """

    name: str
    count: int
    piece: int
    is_in_memory: bool = False


# The long pieces first, so that no core is left with one at the end.
ATTACKS = (
    Attack("crashes", 60, 2),
    Attack("longer", len(longer.TESTS), 1),
    Attack("signals", 100, 10),
    Attack("machine", 10, 1, is_in_memory=True),
    Attack("undisturbed", len(undisturbed.ENVS), 2),
    Attack("memory", len(memory.MEASURED), 1),
    Attack("hostile", 2000, 100, is_in_memory=True),
)


class Piece(NamedTuple):
    """A part of an attack: the strikes from ``first`` on."""

    name: str
    first: int
    count: int
    is_in_memory: bool

    @property
    def key(self) -> str:
        """What its figures are noted under."""
        return f"{self.name} {self.first}+{self.count}"

    def run(self, seed: int) -> tuple[Counter[str] | None, str]:
        """Run it; returns its figures, None if it broke, and all that it printed."""
        numbers = ["--seed", seed, "--first", self.first, "--count", self.count]
        command = [sys.executable, "-m", f"tests.soak.{self.name}", *map(str, numbers)]
        place = {"TMPDIR": _MEMORY} if self.is_in_memory and _has_room(_MEMORY) else {}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=os.environ | place
        )
        figures = told(done.stdout)
        return figures if done.returncode in (0, 1) else None, done.stdout


def _has_room(folder: str) -> bool:
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 2 << 30


def pieces(only: str | None) -> list[Piece]:
    """Return all pieces there are, or those of one attack."""
    return [
        Piece(attack.name, first, min(attack.piece, attack.count - first), attack.is_in_memory)
        for attack in ATTACKS
        if only in (None, attack.name)
        for first in range(0, attack.count, attack.piece)
    ]


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--only", choices=[attack.name for attack in ATTACKS])
    asked.add_argument("--again", action="store_true", help="also what was done before")
    given = asked.parse_args()
    # A shell that starts this in the background lets it, and all that it starts, ignore Ctrl-C: then none would strike.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    notes = _NOTES / f"{given.seed}.json"
    done: dict[str, dict[str, int]] = json.loads(notes.read_text()) if notes.is_file() and not given.again else {}
    wanted = pieces(given.only)
    left = [piece for piece in wanted if piece.key not in done]
    print(f"seed {given.seed}: {len(left)} of {len(wanted)} pieces to do, noted in {notes}", flush=True)
    failed = _run(left, given.seed, done, notes)
    _sum_up(wanted, done)
    return int(failed)


def _run(left: list[Piece], seed: int, done: dict[str, dict[str, int]], notes: Path) -> bool:
    began, failed = time.monotonic(), False
    with ThreadPoolExecutor(os.cpu_count()) as cores:
        running = {cores.submit(piece.run, seed): piece for piece in left}
        for number, finished in enumerate(as_completed(running), 1):
            piece, (figures, printed) = running[finished], finished.result()
            minutes = (time.monotonic() - began) / 60
            print(f"{minutes:5.1f} min  {number}/{len(left)}  {piece.key}", flush=True)
            if figures is None or figures["wrong"]:
                # It is not noted: the same call tries it again.
                failed = True
                print(printed, flush=True)
                continue
            done[piece.key] = dict(figures)
            notes.parent.mkdir(parents=True, exist_ok=True)
            notes.write_text(json.dumps(done, indent=1))
    return failed


def _sum_up(wanted: list[Piece], done: dict[str, dict[str, int]]) -> None:
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for piece in wanted:
        sums[piece.name].update(done.get(piece.key, {}))
    for name, figures in sums.items():
        print(f"\n{name}")
        for what, count in sorted(figures.items()):
            print(f"{count:7d}  {what}")


if __name__ == "__main__":
    sys.exit(main())
