"""The real recorder, killed: what `flush` has vouched for is read at once, and is whole for everyone once recovered."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

import lucky_recorder as lr
from lucky_recorder.koyu.check import check_koyu
from lucky_recorder.session.check import check_session


def killed(folder: Path, per_file: int, chosen: random.Random, resume: Path | None = None) -> tuple[Path, int]:
    """Record until it is killed; returns the session, and how many episodes were vouched for by then.

    Args:
        folder: Where to record.
        per_file: Episodes in a data file.
        chosen: Says when it is killed.
        resume: A session to go on with, as an earlier kill has left it.
    """
    before = 0 if resume is None else whole(resume)
    when = chosen.randrange(8), chosen.uniform(0, 0.3)
    command = [sys.executable, "-m", "tests.scenarios.killed", folder, per_file, *when, *([resume] if resume else [])]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    (path,) = (folder / "DataSessions").iterdir()
    return path, before + (int(done.stdout.split()[-1]) if done.stdout else 0)


def whole(path: Path) -> int:
    """Count the episodes that a kill has left; a session in which none was finished cannot be opened."""
    try:
        return len(lr.Session(path))
    except lr.FormatError:
        return 0


def verify(path: Path, vouched: int, kills: int = 1) -> int:
    """Verify what it has left after so many kills; returns how many episodes there are."""
    session = lr.Session(path) if vouched else None
    assert session is None or len(session) in (vouched, vouched + 1)
    for episode in session or ():
        ticks = episode.data_ticks
        assert episode.rows().num_rows == ticks == len(episode.frames("front")) == len(episode.depth("front"))
        assert (len(episode.masks("front")), len(episode.scans("grasp"))) == (ticks, -(-ticks // 2))
    results = lr.recover(path.parent.parent)
    assert {done.verdict for done in results} <= {"recovered", "complete", "no episode"}
    assert results[0].episodes in (vouched, vouched + 1)
    if results[0].episodes:
        assert (check_session(path), lr.Session(path).state) == ([], "complete")
    dataset = path.parent.parent / "bundles"
    if any(dataset.glob("episodes/ep_*")):
        assert check_koyu(dataset) == []
        # The session is renamed first: each kill may have struck before the bundle.
        assert results[0].episodes - len(lr.koyu.Dataset(dataset).episodes) in range(kills + 1)
    return results[0].episodes


@pytest.mark.parametrize(("per_file", "seed"), [(1, 1), (3, 5)])
def test_what_flush_has_vouched_for_is_whole(tmp_path: Path, per_file: int, seed: int) -> None:
    verify(*killed(tmp_path, per_file, random.Random(seed)))


@pytest.mark.parametrize(("per_file", "seed"), [(1, 2), (3, 3)])
def test_what_an_earlier_kill_has_left_is_gone_on_with(tmp_path: Path, per_file: int, seed: int) -> None:
    """Killed, gone on with as it lies there, killed, and gone on with again."""
    chosen = random.Random(seed)
    path, vouched = killed(tmp_path, per_file, chosen)
    for _ in range(2):
        again, vouched = killed(tmp_path, per_file, chosen, path)
        assert again == path
    verify(path, vouched, kills=3)
