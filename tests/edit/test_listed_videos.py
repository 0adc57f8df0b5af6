"""Videos that ``meta/`` lists and that are not there, or not whole: no interruption leaves that, and it is said."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import lucky_recorder as lr
from lucky_recorder.session.layout import Chunking
from lucky_recorder.session.sink import SessionSink
from tests.session.building import Recording, arm_schema, camera, depth

NAME = "session_2026-10-08_14-30-05"
COLOR, DEPTH = "videos/observation.images.Front/chunk-000/file-{:03d}.mp4", (
    "videos/observation.images.Front_depth/chunk-000/file-{:03d}.mkv"
)  # fmt: skip
SCHEMA = arm_schema([camera("Front"), depth("Front")])


def cut(path: Path, count: int) -> None:
    path.write_bytes(path.read_bytes()[:-count])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "cut by 300 bytes": lambda path: cut(path, 300),
    "cut in half": lambda path: cut(path, path.stat().st_size // 2),
    "empty": lambda path: path.write_bytes(b""),
    "another episode's": lambda path: shutil.copy(path.with_stem("file-002"), path),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, bool], Path]:
    """Sessions of four episodes, all listed or, of one that was cut short, the first or the first three."""

    def make(per_file: int, is_killed: bool) -> Path:
        path = tmp_path_factory.getbasetemp() / f"listed-{per_file}-{is_killed}" / NAME
        if not path.exists():
            recording = Recording(path, SCHEMA, 40, per_file, metadata_every=25)
            for number in range(4):
                recording.keep(12 + number)
            recording.sink._lock.release() if is_killed else recording.close()
        return path

    return make


def tree(path: Path) -> dict[str, bytes]:
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("per_file", "is_killed", "episode"), [(1, False, 3), (3, False, 1), (1, True, 0), (3, True, 1)]
)
@pytest.mark.parametrize("video", [COLOR, DEPTH], ids=["color", "depth"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_listed_video_that_is_not_whole_is_refused(
    tmp_path: Path,
    made: Callable[[int, bool], Path],
    per_file: int,
    is_killed: bool,
    episode: int,
    video: str,
    damage: str,
) -> None:
    path, name = tmp_path / NAME, video.format(episode)
    shutil.copytree(made(per_file, is_killed), path)
    assert lr.recover(path, dry_run=True)[0].verdict == ("recovered" if is_killed else "complete")
    DAMAGES[damage](path / name)
    before = tree(path)
    for is_dry in (True, False):
        (done,) = lr.recover(path, dry_run=is_dry)
        assert done.verdict == "refused"
        assert f"episode {episode} is listed, and is not whole" in done.why
        assert name in done.why
    sink = SessionSink(path, Chunking(40, per_file), resumes=True)
    with pytest.raises(lr.FormatError, match=rf"episode {episode} is listed, and is not whole: .*{name}"):
        sink.open(SCHEMA, [])
    sink.close()
    assert tree(path) == before


def test_a_stream_that_has_failed_is_none_that_is_missing(tmp_path: Path) -> None:
    recording = Recording(tmp_path / NAME, SCHEMA)
    recording.keep(3, success=False, failed_stream="observation.images.Front_depth")
    recording.close()
    assert lr.recover(recording.root)[0].verdict == "complete"
    recording.resume()
    recording.keep(3)
    recording.close()
    lr.testing.check_session(recording.root)
