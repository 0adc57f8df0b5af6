"""Sessions for other readers, and the environments that these run in; a reader that is not there is skipped."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lucky_recorder.edit.merge import merge, rename_task
from lucky_recorder.edit.recover import recover
from lucky_recorder.edit.select import delete, select
from lucky_recorder.edit.split import split
from lucky_recorder.edit.trim import trim
from lucky_recorder.session.reader import Session
from lucky_recorder.video.decode import decode_all
from tests.interop.recording import record_cubes, record_pendulum

CACHE = Path(os.environ.get("LUCKY_RECORDER_INTEROP", "~/.cache/lucky_recorder/interop")).expanduser()
DRIVERS = Path(__file__).parent / "drivers"
LONGEST_S = 600


class Truth:
    """A session as its files have it, read with pyarrow and our own decoder: row ``i`` and frame ``i`` belong together.

    Attributes:
        path: The session's folder.
        session: The session, opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.session = Session(path)

    @cached_property
    def table(self) -> pa.Table:
        """All rows."""
        return pa.concat_tables(pq.ParquetFile(p).read() for p in sorted(self.path.glob("data/*/*.parquet")))

    @cached_property
    def rows(self) -> dict[str, np.ndarray]:
        """All rows, an array per column."""
        return {name: np.array(self.table[name].to_pylist()) for name in self.table.column_names}

    @cached_property
    def frames(self) -> dict[str, np.ndarray]:
        """All frames of a camera, of all episodes one after the other."""
        keys = [camera.key for camera in self.session.cameras.values()]
        return {key: np.concatenate([decode_all(e.video_path(key)) for e in self.session]) for key in keys}

    @cached_property
    def tasks(self) -> np.ndarray:
        """Each row's task description."""
        return np.array(self.session.tasks)[self.rows["task_index"]]

    def rows_of(self, episodes: Sequence[int]) -> np.ndarray:
        """The numbers of the rows of some episodes, in the order given."""
        return np.concatenate([np.flatnonzero(self.rows["episode_index"] == e) for e in episodes])

    def digest(self) -> dict[str, str]:
        """What every file holds."""
        files = (p for p in self.path.rglob("*") if p.is_file())
        return {str(p.relative_to(self.path)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture(scope="session")
def cubes(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """A default session at 50 Hz, two cameras, 32 episodes, some failed."""
    return Truth(record_cubes(tmp_path_factory.mktemp("cubes")))


@pytest.fixture(scope="session")
def recovered(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """The session of `cubes`, whose process was killed in between, completed by ``recover``."""
    folder = tmp_path_factory.mktemp("recovered")
    done = subprocess.run([sys.executable, "-m", "tests.interop.recording", folder], check=False)
    assert done.returncode == -signal.SIGKILL
    (result,) = recover(folder)
    assert (result.verdict, result.episodes) == ("recovered", 32)
    return Truth(result.path)


@pytest.fixture(scope="session")
def pendulum(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """A session at 200/3 Hz with columns of the user's own."""
    return Truth(record_pendulum(tmp_path_factory.mktemp("pendulum")))


@pytest.fixture(scope="session")
def shaped(tmp_path_factory: pytest.TempPathFactory, pendulum: Truth) -> Truth:
    """The session of `pendulum`, put together in another order, its task renamed, its first episode cut, and split."""
    folder = tmp_path_factory.mktemp("shaped")
    trimmed = trim(pendulum.path, folder / "trimmed", start=20, end=3, episodes=[0]).path
    chosen = {"a": (trimmed, "16:"), "b": (trimmed, ":16"), "c": (pendulum.path, "1:9")}
    parts = [select(source, folder / name, episodes=some).path for name, (source, some) in chosen.items()]
    renamed = rename_task(merge(parts, folder / "merged").path, folder / "renamed", "Swing", "Do as you are told").path
    rest = delete(renamed, folder / "rest", episodes="3,20:24").path
    return Truth(split(rest, {"train": 0.95, "val": 0.05}, output=folder)["train"].path)


class LeRobot:
    """One version of LeRobot in an environment of its own."""

    def __init__(self, version: str, home: Path) -> None:
        self.version = version
        self._home = home

    def run(self, *arguments: object) -> str:
        """Run LeRobot's Python; returns what it prints.

        Raises:
            AssertionError: If it fails.
        """
        python = CACHE / "lerobot/bin/python"
        done = subprocess.run(
            [python, *map(str, arguments)],
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said[-4000:]
        return said

    def drive(self, driver: str, session: Path, out: Path) -> None:
        """Let a driver do what it does with a session; it leaves its findings in ``out``."""
        self.run(DRIVERS / f"{driver}.py", session, out)

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "HF_HOME": str(self._home / "hf"),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "2",
            "PYTHONPATH": str(CACHE / f"lerobot/lerobot-{self.version}"),
        }


@pytest.fixture(scope="session", params=["0.4.4", "0.6.1"])
def lerobot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LeRobot:
    """LeRobot, if its environment has been built."""
    if not (CACHE / "lerobot/.done").exists():
        pytest.skip(f"LeRobot is not in {CACHE}; tests/interop/lerobot_env.sh builds it")
    return LeRobot(request.param, tmp_path_factory.mktemp("lerobot"))


@pytest.fixture(scope="session")
def handed_out(tmp_path_factory: pytest.TempPathFactory) -> Callable[[LeRobot, str, Truth], Path]:
    """Return a function that lets a driver loose on a session, once; gives the folder of its findings."""
    folders: dict[Any, Path] = {}

    def handed_out(lerobot: LeRobot, driver: str, truth: Truth) -> Path:
        key = (lerobot.version, driver, truth.path)
        if key not in folders:
            folders[key] = tmp_path_factory.mktemp(driver)
            before = truth.digest()
            lerobot.drive(driver, truth.path, folders[key])
            assert truth.digest() == before, "LeRobot has changed the session"
        return folders[key]

    return handed_out
