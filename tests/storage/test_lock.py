from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lucky_recorder.errors import StorageError
from lucky_recorder.storage import lock as locks
from lucky_recorder.storage.lock import Lock, is_abandoned, is_held, locked, refuse_held, take_over

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


def test_a_folder_that_is_written_is_refused_at_once_and_says_by_whom(tmp_path: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], **pipes) as holder:
        assert holder.stdout.readline() == "True\n"
        for refuse in (take_over, refuse_held):
            with pytest.raises(StorageError, match=rf"^{tmp_path}: process {holder.pid} is writing it"):
                refuse(tmp_path)
        holder.kill()
        holder.wait()
    refuse_held(tmp_path)
    lock = take_over(tmp_path)
    assert lock is not None
    assert is_held(tmp_path)
    with pytest.raises(StorageError, match="this process is writing it"):
        take_over(tmp_path)
    lock.release()


@pytest.mark.parametrize("table", ["", "1: FLOCK\n", "1: POSIX  ADVISORY  WRITE 7 00:01:2 0 EOF\n", None])
def test_who_holds_a_lock_need_not_be_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str | None) -> None:
    file = tmp_path / "locks"
    if table is not None:
        file.write_text(table)
    monkeypatch.setattr(locks, "_SYSTEM_LOCKS", file)
    lock = take_over(tmp_path)
    with pytest.raises(StorageError, match="another process is writing it"):
        take_over(tmp_path)
    lock.release()


def test_a_reader_that_looks_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = locks.open_file(tmp_path, folders=True)
    locks.fcntl.flock(reader, locks.fcntl.LOCK_SH)
    waited = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        locks.fcntl.flock(reader, locks.fcntl.LOCK_UN)

    monkeypatch.setattr(locks.time, "sleep", pause)
    lock = take_over(tmp_path)
    assert len(waited) == 1
    assert is_held(tmp_path)
    lock.release()


def test_where_there_are_no_locks_a_session_is_taken_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Lock, "try_once", lambda lock: None)
    assert take_over(tmp_path) is None
    assert "has no locks" in caplog.text
