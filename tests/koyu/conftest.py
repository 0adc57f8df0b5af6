"""A recorder that writes bundles, and a dataset to read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv
from tests.koyu.bundles import write_dataset
from tests.koyu.reading import LENGTHS
from tests.koyu.recording import KOYU, PAIR


@pytest.fixture
def film(record: Any, seen: Any) -> Callable[..., lr.RecordSession]:
    """Return a function that records a counting environment as bundles, through its own ``render()``."""

    def make(length: Any = 3, succeeds: Any = True, **settings: Any) -> lr.RecordSession:
        env = CountEnv(length, succeeds, render_mode="rgb_array")
        return record(env, **{"columns": PAIR, "cameras": [seen], "koyu": KOYU, **settings})

    return make


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that no test changes."""
    return write_dataset(tmp_path_factory.mktemp("stored") / "by-hand", LENGTHS)


@pytest.fixture
def copy(stored: Path, tmp_path: Path) -> Path:
    """A dataset to be broken."""
    return Path(shutil.copytree(stored, tmp_path / "by-hand"))
