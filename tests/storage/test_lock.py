from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lucky_recorder.errors import StorageError
from lucky_recorder.storage import lock as locks
from lucky_recorder.storage.lock import Lock, hold, is_abandoned, is_held, locked, refuse_held, take_over

HOLD = """
import sys
from pathlib import Path
from lucky_recorder.storage.lock import Lock
lock = Lock(Path(sys.argv[1]))
print(lock.try_once(), flush=True)
sys.stdin.read()
"""

FORK = """
import multiprocessing, os, signal, sys
from pathlib import Path
from lucky_recorder.storage.lock import Lock, hold, locked, take_over
folder = Path(sys.argv[1])
locks = [hold(folder / "held"), take_over(folder / "taken"), Lock(folder / "made", create=True)]
locks[-1].try_once()
inherited = locked(folder / "open")
inherited.__enter__()
# The parent dies first, and the child lives on until its input ends.
if os.fork() == 0:
    inside = [os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")[:-1]]
    print([path for path in inside if path.startswith(str(folder))], flush=True)
    inherited.__exit__(None, None, None)
    for lock in locks:
        lock.release()
    print([lock.is_held for lock in locks], flush=True)
    sys.stdin.read()
    os._exit(0)
signal.pause()
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted there")
def test_a_forked_child_has_no_lock_of_its_parent_s_and_gives_none_up(tmp_path: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    for name in ("held", "taken"):
        (tmp_path / name).mkdir()
    names = ("held", "taken", "made", "open")
    with subprocess.Popen([sys.executable, "-c", FORK, str(tmp_path)], **pipes) as parent:
        try:
            assert [parent.stdout.readline() for _ in range(2)] == ["[]\n", "[False, False, False]\n"]
            assert [is_held(tmp_path / name) for name in names] == [True] * 4
        finally:
            parent.kill()
            # Not `wait`, which would close the input: the child lives until then.
            os.waitpid(parent.pid, 0)
            parent.returncode = -9
        assert [is_held(tmp_path / name) for name in names] == [False] * 4


def test_an_open_file_is_known_before_anyone_forks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fork between opening a file and noting it, the child would keep it."""
    opened = locks.open_file
    seen = []

    def open_slowly(*given: object, **how: object) -> int:
        descriptor = opened(*given, **how)
        other = threading.Thread(target=lambda: seen.append(locks._opening.acquire(blocking=False)))
        other.start()
        other.join()
        return descriptor

    monkeypatch.setattr(locks, "open_file", open_slowly)
    Lock(tmp_path).release()
    assert seen == [False]


def test_a_process_that_has_ended_is_not_told_as_one_that_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    found = tmp_path.stat()
    table = tmp_path / "locks"
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    table.write_text(f"1: FLOCK  ADVISORY  WRITE {ended.pid} {place} 0 EOF\n")
    monkeypatch.setattr(locks, "_SYSTEM_LOCKS", table)
    lock = hold(tmp_path)
    with pytest.raises(StorageError, match=f"a child of process {ended.pid}, which has ended, is writing it"):
        take_over(tmp_path)
    lock.release()


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


@contextlib.contextmanager
def asked(folder: Path) -> Iterator[Callable[[float], None]]:
    """A reader that asks whether a folder is held, until what is yielded is called, or the block ends."""
    reader = os.open(folder, os.O_RDONLY)
    locks.fcntl.flock(reader, locks.fcntl.LOCK_SH)
    try:
        yield lambda seconds: locks.fcntl.flock(reader, locks.fcntl.LOCK_UN)
    finally:
        os.close(reader)


@pytest.mark.parametrize("take", [take_over, hold])
def test_a_reader_that_looks_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, take: Callable[[Path], Lock]
) -> None:
    with asked(tmp_path) as stop:
        monkeypatch.setattr(locks.time, "sleep", stop)
        lock = take(tmp_path)
        assert is_held(tmp_path)
        lock.release()


def test_any_number_may_ask_whether_a_folder_is_abandoned(tmp_path: Path) -> None:
    with asked(tmp_path):
        assert (is_abandoned(tmp_path), is_held(tmp_path)) == (True, False)


def test_where_readers_ask_all_the_time_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_LONGEST_LOOK_S", 0.0)
    with asked(tmp_path), pytest.raises(StorageError, match="ask all the time"):
        take_over(tmp_path)


def test_where_there_are_no_locks_a_session_is_taken_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Lock, "try_once", lambda lock: None)
    assert take_over(tmp_path) is None
    assert "has no locks" in caplog.text
