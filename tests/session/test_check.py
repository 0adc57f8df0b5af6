from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from lucky_recorder.episode.schema import Field, Schema
from lucky_recorder.errors import FormatError
from lucky_recorder.session.check import Fault, Report, check_session, inspect_session
from tests.session.breaking import DATA, FRONT, INFO, film
from tests.session.building import Recording, arm_schema, camera, custom_schema, vector

VECTORS = ("action", "observation.state")


def test_a_good_session_has_no_faults(good: Recording) -> None:
    assert check_session(good.root) == []
    assert inspect_session(str(good.root)) == Report([], 7, 68, 34 + 18, False)


def test_without_decoding_frames_are_counted(good: Recording) -> None:
    assert inspect_session(good.root, decode=False) == Report([], 7, 68, 34 + 18, False)


WIDE = [
    Field("scalar", "float32", unit="N", has_stats=True),
    Field("flag", "bool", has_stats=True),
    Field("grid", "int16", (2, 3), names=tuple("abcdef"), has_stats=True),
    Field("gym.action", "float32", (4,), has_stats=True),
]


@pytest.mark.parametrize(
    "schema",
    [
        arm_schema(),
        arm_schema(hz=Fraction(200, 3), extra=WIDE),
        arm_schema([camera("Front", Fraction(200, 3))], hz=Fraction(200, 3)),
        arm_schema([camera("Fast", 100), camera("Odd", Fraction(50, 3))]),
        arm_schema(robots=("left", "right"), extra=[*WIDE, vector("torque", 2, ("left", "right"))]),
        custom_schema(*WIDE),
        custom_schema(Field("x", "float64", (1,), has_stats=True)),
        Schema("sim_id", "mujoco_scene", ("s",), Fraction(1), tuple(vector(name, 1, "s") for name in VECTORS)),
    ],
)
def test_all_kinds_of_good_sessions(tmp_path: Path, schema: Schema) -> None:
    recording = Recording(tmp_path, schema, files_per_chunk=2, episodes_per_file=2, metadata_every=2)
    for ticks in (1, 2, 5, 4, 3):
        recording.keep(ticks)
    recording.close()
    assert check_session(tmp_path) == []


def test_missing_and_huge_custom_values_are_no_fault(tmp_path: Path) -> None:
    recording = Recording(
        tmp_path,
        custom_schema(
            Field("a", "float64", nullable=True, has_stats=True),
            Field("b", "float64", (2,), nullable=True, has_stats=True),
            Field("c", "float64", has_stats=True),
        ),
    )
    for missing in ([True, False, True], [True, True, True]):
        where = {"a": np.array(missing), "b": np.array(missing)}
        recording.keep(3, missing=where, values={"c": np.array([np.nan, 1e200, 2.0])})
    recording.close()
    assert check_session(tmp_path) == []


def test_a_column_that_never_had_a_value(tmp_path: Path) -> None:
    recording = Recording(tmp_path, custom_schema(Field("a", "float64", nullable=True, has_stats=True)))
    recording.keep(2, missing={"a": np.array([True, True])})
    recording.close()
    assert check_session(tmp_path) == []


def test_checking_changes_nothing(copy: Path) -> None:
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in copy.rglob("*")}
    check_session(copy)
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in copy.rglob("*")} == before


def test_what_is_no_session_at_all(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no session"):
        check_session(tmp_path)
    with pytest.raises(FormatError, match="no such folder"):
        check_session(tmp_path / "nowhere")


def test_an_interrupted_session_without_metadata(copy: Path) -> None:
    shutil.rmtree(copy / "meta")
    faults = check_session(copy)
    remedy = "the recording was cut short; `lucky-recorder recover` puts it right"
    assert Fault(INFO, None, f"is missing: {remedy}") in faults
    assert Fault(DATA, None, f"holds episodes that meta/episodes does not list (3, 4, 5): {remedy}") in faults


def test_an_interrupted_session_between_two_metadata_writes(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema(), episodes_per_file=3, metadata_every=5)
    for _ in range(8):
        recording.keep(2)
    # With the first data file episodes 0 to 2 were listed. Episode 5 is the last of the second file.
    faults = check_session(tmp_path)
    assert {(f.file, f.episode) for f in faults} == {
        ("data/chunk-000/file-001.parquet", None),
        ("data/chunk-000/file-002.parquet.6.tmp", 6),
        ("data/chunk-000/file-002.parquet.7.tmp", 7),
    }


def test_a_session_that_lists_what_is_only_spooled(tmp_path: Path) -> None:
    """As earlier versions wrote it."""
    recording = Recording(tmp_path, arm_schema(), episodes_per_file=3)
    for _ in range(5):
        recording.keep(2)
    metadata = recording.sink._metadata
    for spooled in recording.sink._spools:
        metadata.add(spooled.episode)
    metadata.write()
    faults = check_session(tmp_path)
    missing = [f for f in faults if f.file == "data/chunk-000/file-001.parquet"]
    assert [f.episode for f in missing] == [3]
    assert "2 of its episodes are spooled beside it" in missing[0].message


@pytest.fixture
def video_only(copy: Path) -> Path:
    shutil.rmtree(copy / "meta")
    shutil.rmtree(copy / "data")
    return copy


def test_a_video_only_session(video_only: Path) -> None:
    assert inspect_session(video_only) == Report([], 0, 0, 34 + 18, True)


def test_faults_of_a_video_only_session(video_only: Path) -> None:
    folder = video_only / f"videos/{FRONT}/chunk-000"
    (folder / "file-000.mp4").write_bytes(b"no video")
    (folder / "notes.txt").touch()
    (folder / "file-002.mp4.tmp").touch()
    film(folder / "file-001.mp4", 4, width=32)
    cut = video_only / f"videos/{FRONT}/chunk-003/file-000.mp4"
    cut.write_bytes(cut.read_bytes()[:-5])
    faults = check_session(video_only)
    assert Fault(str(cut.relative_to(video_only)), None, "was cut off: its last part is not whole") in faults
    about = {f.file: f.message for f in faults}
    assert "cannot be read" in about[f"videos/{FRONT}/chunk-000/file-000.mp4"]
    assert about[f"videos/{FRONT}/chunk-000/notes.txt"] == "is in no stream's place"
    assert about[f"videos/{FRONT}/chunk-000/file-002.mp4.tmp"].startswith("incomplete")
    assert about[f"videos/{FRONT}/chunk-001/file-000.mp4"] == "width is 64, its stream began with 32"
