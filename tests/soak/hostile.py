"""Folders of others, spoilt in thousands of ways, and everything that reads them: `python -m tests.soak.hostile`.

Each reader runs in a child of bounded memory and time. What is looked for: an error that is not ours, a child that
dies or hangs, more memory than is promised, and a file that was changed outside of where it may be.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import lucky_recorder as lr
from lucky_recorder.episode.record import About
from lucky_recorder.errors import LuckyRecorderError
from lucky_recorder.koyu.overlays import write_overlay
from tests.koyu.bundles import capture_id, write_dataset
from tests.session.building import Recording, arm_schema, camera, depth, full_session
from tests.soak.figures import tell
from tests.soak.mutations import Outside, spoil
from tests.soak.readers import DATASET, MENDERS, SESSION, WRITERS, Reader

Spoil = Callable[[Path, Outside, random.Random], str]

MOST_MB = 500
_PATIENCE_S = 30
_MOST_WAITING = 6
# What reads each kind of folder, and whether it may change it.
_GROUPS = (
    ("session", SESSION, False),
    ("session", MENDERS, True),
    ("koyu", DATASET, False),
    ("koyu", WRITERS, True),
)
# The hard stop, well above what is promised: threads reserve addresses that they do not use.
_MOST_ADDRESSES = 2 << 30


class Finding(NamedTuple):
    """Something that must not happen.

    Attributes:
        number: Which of the spoilt folders.
        reader: What read it.
        done: How it was spoilt.
        what: What happened.
    """

    number: int
    reader: str
    done: str
    what: str


def attack(
    bases: Mapping[str, list[Path]],
    seed: int,
    numbers: Iterable[int],
    only: str | None = None,
    spoil: Spoil = spoil,
) -> Iterator[Finding]:
    """Spoil copies of good folders, and read them in a child; where it dies, another one goes on with the next."""
    left = list(numbers)
    with tempfile.TemporaryDirectory(prefix="hostile-", ignore_cleanup_errors=True) as root:
        while left:
            read = partial(_read_each, bases, seed, left, only, Path(root), spoil)
            told = first = Finding(left[0], "?", "?", "")
            for told in _in_a_child(read, first):
                yield from [told] if told.what else []
            # If it has died, the next one goes on behind what killed it.
            left = left[left.index(told.number) + 1 :]


def _read_each(
    bases: Mapping[str, list[Path]], seed: int, numbers: Iterable[int], only: str | None, root: Path, spoil: Spoil
) -> Iterator[Finding]:
    for number in numbers:
        work = root / str(number)
        yield from (Finding(number, *told) for told in _read_all(bases, seed, number, only, work, spoil))
        shutil.rmtree(work, ignore_errors=True)


def _in_a_child(read: Callable[[], Iterator[Finding]], last: Finding) -> Iterator[Finding]:
    """Go through what a child tells of what it does; the last thing is how it died, if it did."""
    reader, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _as_child(read, last, write)
    os.close(write)
    with os.fdopen(reader) as lines:
        for line in lines:
            last = Finding(*json.loads(line))
            yield last
    _, status = os.waitpid(child, 0)
    if status:
        how = f"killed by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {status}"
        yield last._replace(what=how)


def _as_child(read: Callable[[], Iterator[Finding]], last: Finding, write: int) -> None:
    warnings.simplefilter("ignore")
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, it ends with the child
    os.fsync = lambda descriptor: None
    status = 1
    try:
        for last in read():
            os.write(write, (json.dumps(last) + "\n").encode())
        status = 0
    except BaseException:
        harness = last._replace(reader="harness", what=traceback.format_exc())
        os.write(write, (json.dumps(harness) + "\n").encode())
    finally:
        os._exit(status)


def _read_all(
    bases: Mapping[str, list[Path]], seed: int, number: int, only: str | None, work: Path, spoil: Spoil
) -> Iterator[list[str]]:
    for kind, readers, may_change in _GROUPS:
        rng = random.Random(f"{seed}/{number}/{kind}")
        place = work / f"{kind}-{may_change}" / "deep"
        folder = place / "session_2026-10-08_14-30-05"
        shutil.copytree(rng.choice(bases[kind]), folder)
        outside = Outside(work / f"{kind}-{may_change}" / "outside")
        # Bounded only now: what spoils a folder may need more than those who read it are given.
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        done = spoil(folder, outside, rng)
        resource.setrlimit(resource.RLIMIT_AS, (_addresses() + _MOST_ADDRESSES, resource.RLIM_INFINITY))
        for name, read in readers.items():
            if only in (None, name):
                # First what is about to be done: if the child dies, this is the last that is known.
                yield [name, done, ""]
                yield [name, done, _outcome(read, folder, outside.root, place / f"target-{name[:8]}", may_change)]


def _outcome(read: Reader, folder: Path, outside: Path, target: Path, may_change: bool) -> str:
    target.mkdir(exist_ok=True)
    before = (_told(outside), None if may_change else _told(folder))
    started = peak_mb(reset=True)
    # What works gets its time of the processor, however busy the machine is; what waits, for a pipe say, uses none.
    signal.setitimer(signal.ITIMER_PROF, _PATIENCE_S)
    signal.alarm(_MOST_WAITING * _PATIENCE_S)
    what = ""
    try:
        read(folder, target)
    except LuckyRecorderError:
        pass
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)
        ours = [f"{Path(f.filename).name}:{f.lineno}" for f in where if "lucky_recorder/" in f.filename]
        what = f"{type(error).__module__}.{type(error).__name__}: {str(error)[:150]!r} at {' < '.join(ours[::-1][:5])}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    used = peak_mb() - started
    if used > MOST_MB:
        what += f" {used:.0f} MB"
    after = (_told(outside), None if may_change else _told(folder))
    if after != before:
        what += " wrote outside" if after[0] != before[0] else " changed what it read"
    return what


def _told(folder: Path) -> dict[str, str]:
    """Say of everything in a folder what it is."""
    told = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            status = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            told[str(path)] = f"{status.st_mode} {status.st_size} {hashlib.blake2b(content).hexdigest()}"
    return told


def _addresses() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def peak_mb(reset: bool = False) -> float:
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def _cut_short(root: Path) -> Path:
    """Make a session with an episode that is listed, some that are only in footers, and one that is spooled."""
    recording = Recording(root / "recording", arm_schema([camera("Front"), depth("Front")]), episodes_per_file=2)
    for ticks in (3, 2, 4, 2, 3):
        recording.keep(ticks)
    copy = root / "short" / recording.root.name
    shutil.copytree(recording.root, copy)
    recording.close()
    return copy


def good_folders(root: Path) -> dict[str, list[Path]]:
    """Make the folders that are spoilt: three sessions, one of them cut short, and a dataset."""
    small = Recording(root / "small", arm_schema([camera("Front"), depth("Front")]), episodes_per_file=2)
    for ticks in (3, 2):
        small.keep(ticks, about=About("1", {"a": [1]}, annotations={"b": "c"}), began_ns=10**18)
    small.close()
    _say_origin(small.root)
    dataset = write_dataset(root / "by-hand", (3, 1, 2))
    write_overlay(dataset, "progress", "dense", {f"ep_{capture_id(0)}": np.zeros(3)})
    write_overlay(dataset, "words", "spans", {f"ep_{capture_id(2)}": [(0, 2, "lift")]})
    full = full_session(root / "full").root
    _say_origin(full)
    # Their lists of sums are spoilt as well.
    lr.checksum(full)
    lr.checksum(dataset)
    bases = {"session": [small.root, _cut_short(root), full], "koyu": [dataset]}
    # Each reader once, on what is good: its modules are imported here, and not in every child anew.
    for kind, readers, may_change in _GROUPS:
        for name, read in readers.items():
            once = root / "once" / name
            once.mkdir(parents=True)
            folder = bases[kind][0]
            read(shutil.copytree(folder, once / folder.name) if may_change else folder, once)
    return bases


def _say_origin(session: Path) -> None:
    """Say where a session comes from, as a recording does, and keep a model beside it."""
    digits = hashlib.sha256(b"model").hexdigest()
    model = {"sha256": digits, "bytes": 5, "file": f"meta/models/{digits}.mjb", "others": 0}
    spec = {
        "id": "Ant-v5",
        "entry_point": "gymnasium.envs.mujoco.ant_v5:AntEnv",
        "kwargs": {},
        "additional_wrappers": [],
    }
    entry = {"episodes": "0:2", "env": spec, "command": ["a"], "model": model, "discarded_seeds": ["1", None]}
    (session / "meta/provenance.json").write_text(json.dumps({"recordings": [entry]}))
    (session / "meta/models").mkdir()
    (session / "meta/models" / f"{digits}.mjb").write_bytes(b"model")


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    asked.add_argument("--first", type=int, default=0, help="where to go on after an interruption")
    asked.add_argument("--count", type=int, default=2000, help="how many spoilt folders")
    asked.add_argument("--only", help="one reader")
    given = asked.parse_args()
    print(f"seed {given.seed}: go on after an interruption with --seed {given.seed} --first N", flush=True)
    readers = [name for _, group, _ in _GROUPS for name in group if given.only in (None, name)]
    figures: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as root:
        bases = good_folders(Path(root))
        figures.update(dict.fromkeys(readers, given.count))
        for finding in attack(bases, given.seed, range(given.first, given.first + given.count), given.only):
            figures["wrong"] += 1
            print(f"{finding.number}: {finding.reader}: {finding.done!r}: {finding.what}", flush=True)
    return tell(figures)


if __name__ == "__main__":
    sys.exit(main())
