"""Sessions that a recording does not go on with: what it would write otherwise is said, and nothing is touched."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.episode import keys
from lucky_recorder.episode.schema import Field, Schema
from lucky_recorder.errors import FormatError, SettingsError, StorageError
from lucky_recorder.session import resumed
from lucky_recorder.session.layout import Chunking
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.storage.lock import hold
from tests.session.building import Recording, arm_schema, camera, depth, lidar, mask, rgbd
from tests.session.foreign import EVERY_STREAM, Recorder, write_session
from tests.session.resuming import forget, in_parts, schema

CHUNKING = Chunking(3)
HOLD = """
import sys
from pathlib import Path
from lucky_recorder.session.layout import Chunking
from lucky_recorder.session.sink import SessionSink
sink = SessionSink(Path(sys.argv[1]), Chunking(3), resumes=True)
print("holds", flush=True)
sys.stdin.read()
"""


def tree(path: Path) -> dict[str, tuple[int, bytes]]:
    files = (p for p in path.rglob("*") if p.is_file())
    return {p.relative_to(path).as_posix(): (p.stat().st_mtime_ns, p.read_bytes()) for p in files}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return in_parts(tmp_path_factory.mktemp("session") / "session", 2)


def changed(**fields: Any) -> Schema:
    return dataclasses.replace(schema(), **fields)


def streams(**by_kind: Any) -> Schema:
    """The schema with another stream in the place of one, by its kind; None takes it away."""
    kept = [by_kind.get(stream.kind, stream) for stream in schema().streams]
    return changed(streams=tuple(stream for stream in kept if stream is not None))


def columns(*changes: Field) -> Schema:
    return changed(columns=tuple(changes))


ACTION, STATE = schema().columns
SMALLER = {"width": 32, "height": 32}
OTHERS: dict[str, tuple[Schema, str]] = {
    "mode": (
        changed(entity_column="sim_id", entity_label="mujoco_scene"),
        "sim_type: the session has none, this recording 'mujoco_scene'"),
    "robots": (arm_schema(schema().streams, ("left", "right"), lidars=schema().scans),
               "robots: the session has ['arm'], this recording ['left', 'right']"),
    "rate": (changed(hz=Fraction(25)), "hz: the session has 50, this recording 25"),
    "column more": (columns(ACTION, STATE, Field("force", "float64")), "'force': only this recording has it"),
    "column less": (columns(STATE), "'action': only the session has it"),
    "order": (columns(STATE, ACTION), "the order of columns: the session has ["),
    "dtype": (columns(ACTION, dataclasses.replace(STATE, dtype="float32")),
              "'observation.state' dtype: the session has 'float64', this recording 'float32'"),
    "shape": (columns(dataclasses.replace(ACTION, shape=(4,)), STATE),
              "'action' shape: the session has [3], this recording [4]"),
    "names": (columns(dataclasses.replace(ACTION, names=("a", "b", "c")), STATE), "'action' names: the session has ["),
    "unit": (columns(dataclasses.replace(ACTION, unit="rad"), STATE),
             "'action' unit: the session has none, this recording 'rad'"),
    "size": (streams(color=dataclasses.replace(camera("Front"), **SMALLER)),
             "'observation.images.Front' shape: the session has [48, 64, 3], this recording [32, 32, 3]"),
    "frame rate": (streams(color=camera("Front", 25)), "'observation.images.Front' video.fps: the session has 50, "),
    "codec": (streams(color=dataclasses.replace(camera("Front"), codec="hevc")),
              "'observation.images.Front' video.codec: the session has 'h264', this recording 'hevc'"),
    "pixel format": (streams(color=dataclasses.replace(camera("Front"), pix_fmt="yuv444p")),
                     "video.pix_fmt: the session has 'yuv420p', this recording 'yuv444p'"),
    "depth scale": (streams(depth=depth("Front", depth_scale=0.01)),
                    "depth_scale: the session has 0.001, this recording 0.01"),
    "camera less": (streams(depth=None), "'observation.images.Front_depth': only the session has it"),
    "camera more": (changed(streams=(*schema().streams, camera("Wrist"))),
                    "'observation.images.Wrist': only this recording has it"),
    "combined less": (streams(rgbd=None), "'observation.images.Front_rgbd': only the session has it"),
    "masks less": (streams(mask=None), "'observation.masks.Front': only the session has it"),
    "masks more": (changed(streams=(*schema().streams, mask("Wrist"))),
                   "'observation.masks.Wrist': only this recording has it"),
    "mask labels": (streams(mask=dataclasses.replace(mask("Front"), info={"labels": {"0": "background"}})),
                    "'observation.masks.Front' labels: the session has {"),
    "mask size": (streams(mask=dataclasses.replace(mask("Front"), **SMALLER)),
                  "'observation.masks.Front' width: the session has 64, this recording 32"),
    "mask rate": (streams(mask=mask("Front", 25)), "'observation.masks.Front' frames per second: the session has '50'"),
    "lidar less": (changed(scans=()), "'lidar-top': only the session has it"),
    "lidar more": (changed(scans=(*schema().scans, lidar("side"))), "'lidar-side': only this recording has it"),
    "lidar rate": (changed(scans=(lidar("top", 50, has_proxy=True),)),
                   "lidar 'top' rate: the session has 25, this recording 50"),
    "lidar proxy": (changed(scans=(lidar("top", 25),)), "lidar 'top' video proxy: the session has True, "),
}  # fmt: skip


def refused(path: Path, schema: Schema, chunking: Chunking = CHUNKING, kind: Any = SettingsError) -> str:
    """Refused where it is asked beforehand, and where the sink is opened; nothing is touched."""
    before = tree(path)
    with pytest.raises(kind) as asked:
        resumed.refuse(path, schema, chunking)
    sink = SessionSink(path, chunking, resumes=True)
    with pytest.raises(kind) as opened:
        sink.open(schema, [])
    sink.close()
    assert str(opened.value) == str(asked.value)
    assert str(path) in str(opened.value)
    assert tree(path) == before
    return str(opened.value)


@pytest.mark.parametrize(("other", "message"), OTHERS.values(), ids=OTHERS)
def test_what_would_be_written_otherwise_is_refused(session: Path, other: Schema, message: str) -> None:
    assert message in refused(session, other)


@pytest.mark.parametrize(
    ("other", "message"),
    [case for name, case in OTHERS.items() if name.startswith(("combined", "mask", "lidar"))],
)
def test_a_session_of_the_version_before_is_compared_by_what_lies_there(
    session: Path, tmp_path: Path, other: Schema, message: str
) -> None:
    shutil.copytree(session, tmp_path / "session")
    for file in (tmp_path / "session").glob("data/*/file-*.parquet"):
        forget(file, "streams", "takes")
    assert message in refused(tmp_path / "session", other)


@pytest.mark.parametrize(
    ("chunking", "message"),
    [
        (Chunking(4), "chunks_size: the session has 3, this recording 4"),
        (Chunking(3, 2), "episodes_per_file: the session has 1, this recording 2"),
    ],
)
def test_files_that_would_be_grouped_otherwise_are_refused(session: Path, chunking: Chunking, message: str) -> None:
    assert message in refused(session, schema(), chunking)


def test_every_difference_is_named_at_once(session: Path) -> None:
    other = columns(ACTION, Field("force", "float64"))
    told = refused(session, dataclasses.replace(other, hz=Fraction(25), scans=()), Chunking(4))
    for part in ("hz: ", "chunks_size: ", "'observation.state': only the", "'force': only this", "'lidar-top': only"):
        assert part in told
    assert "action" not in told


def test_streams_that_no_episode_shows_to_have_been_left_out_are_none_that_differ(tmp_path: Path) -> None:
    """A first episode that lost its masks to a full disk is no reason to refuse the session."""
    streams = [camera("Front"), depth("Front"), rgbd("Front"), mask("Front")]
    recording = Recording(tmp_path / "session", arm_schema(streams))
    recording.keep(3, success=False, failed_stream="observation.masks.Front")
    recording.close()
    recording.resume()
    recording.keep(3)
    recording.close()
    lr.testing.check_session(recording.root)
    assert "'observation.masks.Front': only the session has it" in refused(
        recording.root, arm_schema(streams[:3]), Chunking(40)
    )


def test_one_that_was_cut_short_is_left_as_it_is(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "session", schema(), 3, metadata_every=25)
    recording.keep(3)
    recording.keep(3)
    recording.sink._lock.release()
    assert "hz: " in refused(recording.root, changed(hz=Fraction(25)))
    assert lr.Session(recording.root).state == "cut short"


# What is no session that can be gone on with.


def test_a_session_that_lists_what_is_damaged_is_left_as_it_is(tmp_path: Path) -> None:
    path = in_parts(tmp_path / "session", 3)
    (path / "data/chunk-000/file-001.parquet").write_bytes(b"PAR1")
    before = tree(path)
    sink = SessionSink(path, CHUNKING, resumes=True)
    with pytest.raises(FormatError, match=r"episode 1 is listed, and is not whole"):
        sink.open(schema(), [])
    sink.close()
    assert tree(path) == before


def test_a_session_of_another_recorder_is_refused(tmp_path: Path) -> None:
    write_session(tmp_path / "session", Recorder(streams=EVERY_STREAM))
    assert "another recorder wrote it" in refused(tmp_path / "session", schema(), kind=FormatError)


def test_a_session_whose_files_carry_too_little_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(keys, "SESSION_FOOTER", b"somebody.else")
        path = in_parts(tmp_path / "session", 2)
    assert "data/chunk-000/file-000.parquet does not carry" in refused(path, schema())


def test_a_session_without_rows_is_refused(tmp_path: Path) -> None:
    without = dataclasses.replace(schema(), has_rows=False)
    recording = Recording(tmp_path / "session_2026-10-08_14-30-05", without)
    recording.keep(3)
    recording.close()
    assert "a session without rows says nothing of itself" in refused(recording.root, without, kind=FormatError)


@pytest.mark.parametrize("made", [False, True])
def test_a_folder_that_is_no_session_is_refused(tmp_path: Path, made: bool) -> None:
    path = tmp_path / "folder"
    if made:
        path.mkdir()
    with pytest.raises((SettingsError, FormatError), match=r"no such folder|is no session") as raised:
        resumed.refuse(path, schema(), CHUNKING)
    assert str(path) in str(raised.value)


def test_a_session_with_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    path = in_parts(tmp_path / "session", 2)
    (path / "data").rename(tmp_path / "data")
    (path / "data").symlink_to(tmp_path / "data")
    sink = SessionSink(path, CHUNKING, resumes=True)
    with pytest.raises(FormatError, match="data"):
        sink.open(schema(), [])
    sink.close()


# Two at once.


def test_two_processes_cannot_go_on_with_one_session(session: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD, str(session)], **pipes) as other:
        assert other.stdout.readline() == "holds\n"
        is_writing = rf"{session}: process {other.pid} is writing it"
        with pytest.raises(StorageError, match=is_writing):
            SessionSink(session, CHUNKING, resumes=True)
        # Before anything else is looked at.
        with pytest.raises(StorageError, match=is_writing):
            resumed.refuse(session, schema(), Chunking(2))
        other.kill()
        other.wait()
    SessionSink(session, CHUNKING, resumes=True).close()


def test_one_that_is_being_recorded_or_recovered_is_refused(session: Path) -> None:
    held = hold(session)
    with pytest.raises(StorageError, match="session: this process is writing it"):
        SessionSink(session, CHUNKING, resumes=True)
    held.release()
