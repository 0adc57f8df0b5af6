from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lucky_recorder.errors import StorageError
from lucky_recorder.storage import lock as locks
from lucky_recorder.storage.lock import Lock, is_abandoned, locked

HOLD = """
import sys
from pathlib import Path
from lucky_recorder.storage.lock import Lock
lock = Lock(Path(sys.argv[1]))
print(lock.try_once(), flush=True)
sys.stdin.read()
"""


def test_a_folder_is_held_by_who_lives_and_abandoned_by_who_is_killed(tmp_path: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], **pipes) as holder:
        assert holder.stdout.readline() == "True\n"
        assert not is_abandoned(tmp_path)
        holder.kill()
        holder.wait()
    assert is_abandoned(tmp_path)
    assert not is_abandoned(tmp_path / "absent")


def test_a_lock_belongs_to_who_took_it(tmp_path: Path) -> None:
    first, second = Lock(tmp_path), Lock(tmp_path)
    assert first.try_once() is True
    assert second.try_once() is False
    first.release()
    first.release()
    assert second.try_once() is True
    assert second.is_held
    second.release()
    assert not second.is_held


def test_a_lock_that_is_never_free_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LONGEST_WAIT_S", 0.0)
    held = pytest.raises(StorageError, match=r"\.lock: another process has held this lock")
    with locked(tmp_path / ".lock"), held, locked(tmp_path / ".lock"):
        pytest.fail("held twice")
    with locked(tmp_path / ".lock"):
        assert (tmp_path / ".lock").exists()
