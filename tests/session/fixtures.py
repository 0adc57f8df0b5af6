"""A small session to read, and copies of it to break."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lucky_recorder.session.check import Fault, check_session
from tests.session.building import Recording, full_session, small_session


@pytest.fixture(scope="package", autouse=True)
def no_fsync() -> Iterator[None]:
    """Do not wait for the disk: what is read back here is in memory either way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="package")
def good(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A session that is never changed."""
    return small_session(tmp_path_factory.mktemp("good") / "session_2026-10-08_14-30-05")


@pytest.fixture
def copy(good: Recording, tmp_path: Path) -> Path:
    """A copy of the good session, to be broken."""
    return Path(shutil.copytree(good.root, tmp_path / good.root.name))


@pytest.fixture(scope="package")
def full(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A session of every stream, which is never changed."""
    return full_session(tmp_path_factory.mktemp("full") / "session_2026-10-08_14-30-06")


@pytest.fixture
def full_copy(full: Recording, tmp_path: Path) -> Path:
    """A copy of the session of every stream, to be broken."""
    return Path(shutil.copytree(full.root, tmp_path / full.root.name))


@pytest.fixture
def edit(copy: Path) -> Callable[[str, Callable[[Any], None]], list[Fault]]:
    """Change a JSON file of the copy, and check it."""

    def edit(file: str, change: Callable[[Any], None]) -> list[Fault]:
        content = json.loads((copy / file).read_text())
        change(content)
        (copy / file).write_text(json.dumps(content))
        return check_session(copy, decode=False)

    return edit
