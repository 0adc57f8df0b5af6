"""Signals at random moments: processes that record are struck while they open, step and close, and their files read.

    python -m tests.soak.signals --seed 1 --first 0 --count 300

Each strike is a process of its own, forked from this one, so that it begins at once. What it does, which signals it
gets and when follow from the seed and the number of the strike. It ends with status 1 if anything was not as it should
be, and says the strike, which ``--first NUMBER --count 1`` repeats.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import re
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("MUJOCO_GL", "egl")

import pyarrow as pa
import pyarrow.parquet as pq

import lucky_recorder as lr
from tests.soak.figures import tell
from tests.soak.struck import LOOPS, OPENS, STEPS, record

pa.array([0])

DEADLINE_S = 120.0
FORGOTTEN = "close() was not called on the recorder of"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MOMENTS = ("opening", "stepping", "closing")


class Strike(NamedTuple):
    """One process, and how it is struck."""

    loop: str
    moment: str
    signals: tuple[signal.Signals, ...]
    pauses: tuple[float, ...]


def planned(seed: int, number: int) -> Strike:
    """Return a strike; the same for the same seed and number."""
    chance = random.Random(f"{seed} {number}")
    moment = chance.choice(MOMENTS)
    kind = chance.choice(SIGNALS)
    count = chance.choice((1, 1, 2))
    first = chance.uniform(0, {"opening": 1.5, "stepping": 0.4, "closing": 0.1}[moment])
    # The second comes while the session is closed because of the first, mostly.
    pauses = (first, *(chance.uniform(0, 0.15) for _ in range(count - 1)))
    return Strike(chance.choice(list(LOOPS)), moment, (kind,) * count, pauses)


def strike(plan: Strike, folder: Path) -> tuple[int, str, bool]:
    """Run a process and strike it.

    Returns:
        Its exit status, negative for a signal; what it wrote to stderr; whether every signal found it alive.
    """
    said = folder / "stderr"
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT), 2)
        raise Begin(plan.loop, folder, writer)
    os.close(writer)
    wait_for(reader, {"opening": OPENS, "stepping": STEPS, "closing": b"c"}[plan.moment])
    was_alive = True
    for number, pause in zip(plan.signals, plan.pauses, strict=True):
        select.select([], [], [], pause)
        was_alive = was_alive and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        os.kill(child, number)
    status = reap(child)
    os.close(reader)
    return status, said.read_text(errors="replace"), was_alive


class Begin(BaseException):
    """Leaves everything that the parent is doing: from here on this is the child, and it ends as any program does."""

    def __init__(self, loop: str, folder: Path, writer: int) -> None:
        self.work = loop, folder, writer


def wait_for(reader: int, mark: bytes) -> None:
    while (read := os.read(reader, 1)) not in (mark, b""):
        pass
    del read


def reap(child: int) -> int:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        select.select([], [], [], 0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"it hangs: still there after {DEADLINE_S:g} s")


def judge(plan: Strike, folder: Path, status: int, said: str, was_alive: bool) -> str:
    """Look at what a process has left, and return what became of it in a word.

    Raises:
        AssertionError: If it is not as it should be.
    """
    kind = plan.signals[0]
    ends = {0, -kind, 128 + kind, 1 if kind == signal.SIGINT or plan.loop == "env.close() fails" else 0}
    # Before a session is open and after it, a signal does what it does to any process. From another thread Python sets
    # no handler: there it does so while a session is open, too.
    is_unhandled = kind != signal.SIGINT and plan.loop == "in a daemon thread"
    assert status in ends, f"exit status {status}"
    assert said.count(FORGOTTEN) <= 1, "more than one message of ours"
    # Signals that come when nothing of ours is open any more may strike in what Python or others do at the end.
    said, *ignored = said.split("Exception ignored in")
    assert not [block for block in ignored if "lucky_recorder" in block], "an exception went nowhere"
    # An error that came while another one was handled stands under that one's.
    tracebacks = len(re.findall(r"^Traceback", said, re.M)) - len(re.findall(r"^(During|The above)", said, re.M))
    assert tracebacks <= 1, "several tracebacks"
    assert "StateError" not in said
    assert "StalledError" not in said
    sessions = sorted(folder.glob("DataSessions/*"))
    if not sessions:
        assert not (folder / "DataSessions").exists(), "an empty folder of sessions"
        assert plan.moment == "opening", "a session is gone"
        return "nothing begun"
    (session,) = sessions
    if status == -kind and is_unhandled:
        for path in session.glob("data/**/file-*.parquet"):
            pq.read_table(path)
        return "killed"
    assert any(session.iterdir()), "an empty folder of a session"
    lr.testing.check_session(session)
    assert not list(session.rglob("*.tmp")), "a temporary file is left"
    lengths = [int(e["length"]) for e in lr.Session(session).episodes.to_pylist()]
    compare(session, lengths)
    if (folder / "k").exists():
        bundles = sum(1 for _ in (folder / "k/episodes").glob("ep_*"))
        assert bundles == len(lengths), f"{bundles} bundles, {len(lengths)} episodes"
    return "empty" if not lengths else "whole"


def compare(session: Path, lengths: list[int]) -> None:
    """Count what each episode has of rows and frames."""
    read = lr.Session(session)
    for number, length in enumerate(lengths):
        episode = read.episode(number)
        key = next((k for k, f in read.info["features"].items() if f["dtype"] == "video"), None)
        if key is not None:
            frames = len(list(episode.frames(key)))
            assert frames == length, f"episode {number}: {length} rows, {frames} frames"


def soak(seed: int, numbers: Iterable[int]) -> collections.Counter[str]:
    """Run strikes, and return what became of them; those that went wrong are printed."""
    outcomes: collections.Counter[str] = collections.Counter()
    for number in numbers:
        plan, folder = planned(seed, number), Path(tempfile.mkdtemp(prefix="struck-"))
        said = ""
        try:
            status, said, was_alive = strike(plan, folder)
            outcomes[f"{plan.moment}: {judge(plan, folder, status, said, was_alive)}"] += 1
        except Exception as error:
            outcomes["wrong"] += 1
            print(f"strike {number} of seed {seed}, {plan}: {error}\n{said}", flush=True)
        shutil.rmtree(folder)
    return outcomes


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--count", type=int, default=300)
    asked = options.parse_args()
    return tell(soak(asked.seed, range(asked.first, asked.first + asked.count)))


if __name__ == "__main__":
    try:
        failed: int | None = main()
    except Begin as child:
        failed = None
        work = child.work
    if failed is None:
        record(*work)
    else:
        sys.exit(failed)
