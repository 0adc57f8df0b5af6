"""Drivers of worker processes that are interrupted, once and twice, and killed. Each is a process of its own."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.testing import check_koyu, check_session
from tests.koyu.making import read_dataset

ROOT = Path(__file__).parents[2]
_LONGEST_S = 120.0

DRIVER = """
import logging, multiprocessing, sys
from pathlib import Path
import lucky_recorder as lr
from tests.rollouts.seeded import Wandering, maker

if __name__ == "__main__":
    logging.basicConfig()
    def note(summary):
        print(summary.kept, *(child.pid for child in multiprocessing.active_children()), flush=True)
    names = {"obs": "gym:obs", "observation.state": "gym:obs", "action": "gym:action"}
    columns = [lr.Column(name, source) for name, source in names.items()]
    env = {"trap": int(sys.argv[2]), "how": "hang"}
    make = maker(Path(sys.argv[1]), env, columns=columns, koyu=lr.KoyuSettings("cubes"))
    lr.collect(make, Wandering(), episodes=100000, workers=2, on_episode=note)
"""


class Driver:
    """A process that collects; it is interrupted as soon as some episodes are written.

    Args:
        folder: Where it records.
        trap: The seed that hangs.
    """

    def __init__(self, folder: Path, trap: int) -> None:
        script = folder / "driver.py"
        script.write_text(DRIVER)
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(folder), str(trap)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        assert self.process.stdout is not None
        told: list[str] = []
        while not told or int(told[0]) < 4 or len(told) < 3:
            told = self.process.stdout.readline().split()
            assert told, self.process.communicate()[1]
        # Before they end: of a process that is gone there is no such file.
        self.children = [os.pidfd_open(int(pid)) for pid in told[1:]]

    def wait(self) -> str:
        """Wait for its end, and that of its workers; returns what it said on stderr."""
        error = self.process.communicate(timeout=_LONGEST_S)[1]
        deadline = time.monotonic() + _LONGEST_S
        for child in self.children:
            assert select.select([child], [], [], deadline - time.monotonic())[0], "a worker is left"
            os.close(child)
        return error


def sessions_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "DataSessions").iterdir())


def merged(error: str, what: str) -> Path:
    """Do as the log says; returns what is made."""
    (line,) = [line for line in error.splitlines() if f"this makes a {what} of it" in line]
    command = shlex.split(line.partition(f"this makes a {what} of it: ")[2])
    assert command[:2] == ["lucky-recorder", "merge"]
    result = CliRunner().invoke(app, command[1:])
    assert result.exit_code == 0, result.output
    assert command[-2] == "-o"
    return Path(command[-1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_finished_becomes_a_session(tmp_path: Path, number: signal.Signals) -> None:
    driver = Driver(tmp_path, trap=-1)
    # As a terminal does it: every process of the group gets it.
    os.killpg(driver.process.pid, number)
    error = driver.wait()
    assert driver.process.returncode == (-signal.SIGINT if number == signal.SIGINT else 128 + number)
    assert error.count("Traceback") == (number == signal.SIGINT)
    (name,) = sessions_in(tmp_path)
    path = tmp_path / "DataSessions" / name
    said = f"what was finished, {len(lr.Session(path))} episodes, is in {path} and {tmp_path / 'cubes'}"
    assert said in error
    seeds = [int(e.rows()["obs"][0].as_py()) // 100 for e in check_session(path)]
    assert len(seeds) >= 4
    assert seeds == sorted({*seeds})
    check_koyu(tmp_path / "cubes")
    assert [int(read.rows["observation.state"][0, 0]) // 100 for read in read_dataset(tmp_path / "cubes")] == seeds


def test_a_second_interrupt_leaves_the_shards_and_says_how_to_merge_them(tmp_path: Path) -> None:
    driver = Driver(tmp_path, trap=7)
    os.killpg(driver.process.pid, signal.SIGINT)
    # One that does not hang has ended: the first is heard by now.
    assert select.select(driver.children, [], [], _LONGEST_S)[0]
    os.killpg(driver.process.pid, signal.SIGTERM)
    error = driver.wait()
    (name,) = sessions_in(tmp_path)
    assert name.endswith(".shards")
    session, dataset = (merged(error, what) for what in ("session", "dataset"))
    assert session == tmp_path / "DataSessions" / name.removesuffix(".shards")
    assert dataset.parent == tmp_path
    check_koyu(dataset)
    assert len(check_session(session)) == len(read_dataset(dataset)) >= 4


def test_no_worker_outlives_a_driver_that_was_killed(tmp_path: Path) -> None:
    driver = Driver(tmp_path, trap=-1)
    driver.process.kill()
    driver.wait()
    (name,) = sessions_in(tmp_path)
    shards = [*(tmp_path / "DataSessions" / name).glob("*/DataSessions/*")]
    datasets = [*(tmp_path / "DataSessions" / name).glob("*/cubes")]
    for dataset in datasets:
        check_koyu(dataset)
    assert sum(len(check_session(path)) for path in shards) == sum(len(read_dataset(one)) for one in datasets) >= 4
