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


def killed(folder: Path, per_file: int, chosen: random.Random) -> tuple[Path, int]:
    """Record until it is killed; returns the session, and how many episodes were vouched for by then."""
    when = chosen.randrange(8), chosen.uniform(0, 0.3)
    command = [sys.executable, "-m", "tests.scenarios.killed", folder, per_file, *when]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    (path,) = (folder / "DataSessions").iterdir()
    return path, int(done.stdout.split()[-1]) if done.stdout else 0


def verify(path: Path, vouched: int) -> int:
    """Verify what it has left; returns how many episodes there are."""
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
        assert len(lr.koyu.Dataset(dataset).episodes) in (results[0].episodes, results[0].episodes - 1)
    return results[0].episodes


@pytest.mark.parametrize(("per_file", "seed"), [(1, 1), (3, 5)])
def test_what_flush_has_vouched_for_is_whole(tmp_path: Path, per_file: int, seed: int) -> None:
    verify(*killed(tmp_path, per_file, random.Random(seed)))
