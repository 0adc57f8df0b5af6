from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucky_recorder.errors import StorageError
from lucky_recorder.koyu.writer import DatasetWriter
from lucky_recorder.storage import lock as locks
from lucky_recorder.storage import reserve
from tests.koyu.making import read_dataset, snapshot
from tests.koyu.test_manifest import CUBES, append, listed, make

DIE = """
import os, signal, sys
from pathlib import Path
from tests.koyu.test_manifest import CUBES, make
from lucky_recorder.koyu.writer import DatasetWriter
writer = DatasetWriter(Path(sys.argv[1]), CUBES)
writer.prepare(make(0)).commit()
writer.prepare(make(1))
print("ready", flush=True)
if sys.argv[2] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.readline()
"""


@contextlib.contextmanager
def writing(dataset: Path, fate: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has committed bundle 0 and prepared bundle 1; it dies, or lives until the block ends."""
    place = Path(__file__).parents[2]
    path = os.pathsep.join([str(place), str(place.parent), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-c", DIE, str(dataset), fate],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


def hidden(dataset: Path) -> list[str]:
    return sorted(p.name for p in (dataset / "episodes").iterdir() if p.name.startswith("."))


def unfinished(workshop: Path) -> list[str]:
    return [p.name for p in workshop.iterdir() if p.name != reserve.NAME]


def test_a_bundle_appears_whole_by_one_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = DatasetWriter(tmp_path, CUBES)
    prepared = writer.prepare(make(1))
    assert listed(tmp_path) == []
    assert [p.name for p in (tmp_path / "episodes").iterdir()] == [writer.workshop.name]
    assert writer.workshop.name.startswith(f".tmp-{os.getpid()}-")
    renames, working = [], os.rename
    monkeypatch.setattr(os, "rename", lambda *paths: (renames.append(paths), working(*paths)))
    prepared.commit()
    assert renames == [(writer.workshop / make(1).id, tmp_path / "episodes" / make(1).id)]
    writer.close()
    writer.close()
    assert len(read_dataset(tmp_path)) == 1


def test_every_byte_is_safe_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    def name(descriptor: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{descriptor}")).name

    working, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda d: (events.append(name(d)), working(d)))
    monkeypatch.setattr(os, "rename", lambda a, b: (events.append("rename"), rename(a, b)))
    video = tmp_path / "video"
    video.write_bytes(b"pictures")
    bundle = make(1)
    writer = DatasetWriter(tmp_path / "cubes", CUBES)
    events.clear()
    made = type(bundle)(**{**vars(bundle), "videos": {"observation.images.a": video}})
    writer.prepare(made).commit()
    at = events.index("rename")
    assert {"observation.images.a.mp4", "data.parquet", "episode.json.tmp"} <= set(events[:at])
    assert events[at - 1] == bundle.id
    assert events[at + 1] == "episodes"
    writer.close()


def test_what_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    writer = DatasetWriter(tmp_path, CUBES)
    writer.prepare(make(1)).discard()
    assert unfinished(writer.workshop) == []
    writer.prepare(make(1)).commit()
    writer.close()
    assert listed(tmp_path) == [1]


def test_a_bundle_is_never_replaced(tmp_path: Path) -> None:
    append(tmp_path, [1])
    before = snapshot(tmp_path)
    writer = DatasetWriter(tmp_path, CUBES)
    with pytest.raises(StorageError, match=r"ep_0+1: is there already, .* give another koyu.id_seed"):
        writer.prepare(make(1))
    assert unfinished(writer.workshop) == []
    writer.close()
    assert snapshot(tmp_path) == before


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = DatasetWriter(tmp_path, CUBES)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match=r"data\.parquet: No space left") as caught:
            writer.prepare(make(1))
    assert caught.value.errno == errno.ENOSPC
    assert unfinished(writer.workshop) == []
    writer.prepare(make(2)).commit()
    writer.close()
    assert listed(tmp_path) == [2]


def test_what_a_killed_process_leaves_is_swept_at_the_next_start(tmp_path: Path) -> None:
    with writing(tmp_path, "die") as process:
        assert process.wait(30) == -signal.SIGKILL
    assert len(hidden(tmp_path)) == 1
    assert listed(tmp_path) == []
    append(tmp_path, [2])
    assert hidden(tmp_path) == []
    assert listed(tmp_path) == [0, 2]
    read_dataset(tmp_path)


def test_what_another_living_writer_has_is_left_alone(tmp_path: Path) -> None:
    with writing(tmp_path, "live") as process:
        append(tmp_path, [2])
        assert len(hidden(tmp_path)) == 1
        assert unfinished(tmp_path / "episodes" / hidden(tmp_path)[0]) == [make(1).id]
        assert listed(tmp_path) == [0, 2]
        process.kill()
    append(tmp_path, [])
    assert hidden(tmp_path) == []


def test_two_writers_of_one_process_know_of_each_other(tmp_path: Path) -> None:
    first, second = DatasetWriter(tmp_path, CUBES), DatasetWriter(tmp_path, CUBES)
    both = [first.prepare(make(1)), second.prepare(make(2))]
    for one in both:
        one.commit()
    second.close()
    first.close()
    assert sorted(listed(tmp_path)) == [1, 2]
    assert len(read_dataset(tmp_path)) == 2


def test_only_folders_of_that_name_are_swept(tmp_path: Path) -> None:
    append(tmp_path, [1])
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "episodes/.tmp-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "episodes/.tmp-file").write_bytes(b"")
    (tmp_path / "episodes/.trash").mkdir()
    (tmp_path / "episodes/.tmp-1-0").mkdir()
    append(tmp_path, [])
    assert hidden(tmp_path) == [".tmp-file", ".tmp-link", ".trash"]
    assert (tmp_path / "elsewhere").is_dir()


@pytest.mark.parametrize("how", ["unsupported", "absent"])
def test_without_locks_one_process_can_write_and_nothing_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    if how == "absent":
        monkeypatch.setattr(locks, "fcntl", None)
    else:
        monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / "episodes/.tmp-1-0").mkdir(parents=True)
    append(tmp_path, [1, 2])
    assert listed(tmp_path) == [1, 2]
    assert hidden(tmp_path) == [".tmp-1-0"]
    assert "this file system has no locks" in caplog.text


def test_a_reader_that_looks_at_a_writer_s_folder_first_does_not_leave_it_without_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = locks.open_file
    readers: list[int] = []

    def look_first(path: Path, *given: object, **how: object) -> int:
        if path.name.startswith(".tmp-") and not readers:
            readers.append(os.open(path, os.O_RDONLY))
            fcntl.flock(readers[0], fcntl.LOCK_SH)
        return opened(path, *given, **how)

    monkeypatch.setattr(locks, "open_file", look_first)
    monkeypatch.setattr(locks.time, "sleep", lambda seconds: fcntl.flock(readers[0], fcntl.LOCK_UN))
    writer = DatasetWriter(tmp_path, CUBES)
    assert locks.is_held(writer.workshop)
    writer.close()
    os.close(readers[0])
