from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucky_recorder.errors import FormatError
from lucky_recorder.schema import Field, Schema
from lucky_recorder.session.check import Fault, Report, check_session, inspect_session
from lucky_recorder.session.checks.videos import frames_due
from lucky_recorder.video.encoder import VideoEncoder
from session.building import Recording, arm_schema, camera, custom_schema, vector

INFO, STATS, TASKS = "meta/info.json", "meta/stats.json", "meta/tasks.parquet"
META = "meta/episodes/chunk-000/file-001.parquet"  # episodes 4, 5, 6
DATA = "data/chunk-000/file-001.parquet"  # episodes 3, 4, 5
VECTORS = ("action", "observation.state")
FOOTER = b"lucky_recorder.episodes"
FRONT = "observation.images.Front"
VIDEO = f"videos/{FRONT}/chunk-002/file-001.mp4"  # episode 5

Edit = Callable[[str, Callable[[Any], None]], list[Fault]]


# -- Good sessions ----------------------------------------------------------------------------------------------------


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


def test_streams_that_metadata_has_no_entry_for_belong_to_their_episodes(copy: Path) -> None:
    unlisted = [
        "data/chunk-002/lidar-Top-005.parquet",
        "data/chunk-002/lidar-Top-005.json",
        "videos/observation.masks.Front/chunk-002/file-001.mp4",
        f"videos/{FRONT}_rgbd/chunk-002/file-001.mkv",
    ]
    for name in unlisted:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).touch()
    assert check_session(copy) == []
    for name in unlisted:
        moved = (copy / name).with_name((copy / name).name.replace("005", "009").replace("001", "002"))
        (copy / name).rename(moved)
        assert [f.file for f in check_session(copy)] == [str(moved.relative_to(copy))]
        moved.unlink()


def test_checking_changes_nothing(copy: Path) -> None:
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in copy.rglob("*")}
    check_session(copy)
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in copy.rglob("*")} == before


# -- Folders that are no session --------------------------------------------------------------------------------------


def test_what_is_no_session_at_all(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no session"):
        check_session(tmp_path)
    with pytest.raises(FormatError, match="no such folder"):
        check_session(tmp_path / "nowhere")


def test_an_interrupted_session_without_metadata(copy: Path) -> None:
    shutil.rmtree(copy / "meta")
    faults = check_session(copy)
    assert Fault(INFO, None, "is missing") in faults
    assert Fault(DATA, None, "holds episodes that meta/episodes does not list: the recording was cut short") in faults


def test_an_interrupted_session_between_two_metadata_writes(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema(), episodes_per_file=3, metadata_every=5)
    for _ in range(8):
        recording.keep(2)
    faults = check_session(tmp_path)
    assert {(f.file, f.episode) for f in faults} == {
        ("data/chunk-000/file-001.parquet", None),  # also holds episode 5, which nothing lists yet
        ("data/chunk-000/file-002.parquet.6.tmp", 6),
        ("data/chunk-000/file-002.parquet.7.tmp", 7),
    }


def test_an_interrupted_session_whose_last_file_was_not_assembled(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema(), episodes_per_file=3, metadata_every=5)
    for _ in range(5):
        recording.keep(2)
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
    assert about[f"videos/{FRONT}/chunk-000/notes.txt"] == "is no video's place"
    assert about[f"videos/{FRONT}/chunk-000/file-002.mp4.tmp"].startswith("incomplete")
    assert about[f"videos/{FRONT}/chunk-001/file-000.mp4"] == "width is 64, its stream began with 32"


# -- info.json --------------------------------------------------------------------------------------------------------

WRONG_FIELDS = {
    "codebase_version": ["3.0", "v2.1", None, 3],
    "recorder_version": ["", None, 1],
    "neural_denoise": [None, 0, "false"],
    "bit_reproducible": [None, 1],
    "robots": [[], ["left"], ["left", "left"], "left", None, [1, 2], ["a", "b", "c"]],
    "robot_type": ["so100", None],
    "total_tasks": [0, 3, "2", 2.0, None],
    "total_episodes": [6, 8, -1, 7.0, True, None],
    "total_frames": [67, 0, "68", None],
    "fps": [25, 50.0, "50", None, 0],
    "hz": [100, 50.0, -50, 1e300, None],
    "chunks_size": [0, 3, 1001, 2.0, True, None],
    "episodes_per_file": [0, 1, 2, 1001, "3", None],
    "data_files_size_in_mb": [0, -1, "100", True, None],
    "video_files_size_in_mb": [0, None],
    "data_path": ["data/{episode}.parquet", "../{chunk_index}", None],
    "video_path": ["videos/{video_key}.mp4", None],
    "splits": [{"train": "0:6"}, {"train": "0:7", "test": "7:7"}, {}, [], None],
    "features": [{}, [], None, "features"],
}


@pytest.mark.parametrize("field", WRONG_FIELDS)
def test_every_wrong_field_of_info_is_a_fault(edit: Edit, field: str) -> None:
    for value in WRONG_FIELDS[field]:
        faults = edit(INFO, lambda info, value=value: info.update({field: value}))
        named = field if field not in ("robots", "chunks_size", "episodes_per_file", "hz", "features") else ""
        assert any(f.file == INFO and named in f.message for f in faults) or (not named and faults), (field, value)


@pytest.mark.parametrize("field", WRONG_FIELDS)
def test_every_missing_field_of_info_is_a_fault(edit: Edit, field: str) -> None:
    faults = edit(INFO, lambda info: info.pop(field))
    assert any(f.file == INFO and field in f.message for f in faults)


def test_a_denoised_session_is_not_reproducible(edit: Edit) -> None:
    faults = edit(INFO, lambda info: info.update(neural_denoise=True))
    assert faults == [Fault(INFO, None, "bit_reproducible is True, expected False")]


def test_two_entity_types(edit: Edit) -> None:
    assert "expected one of" in edit(INFO, lambda info: info.update(sim_type="mujoco_scene"))[0].message


def test_the_entity_type_goes_with_the_column(edit: Edit) -> None:
    def change(info: dict) -> None:
        info["sim_type"] = "mujoco_scene"
        del info["robot_type"]

    assert edit(INFO, change) == [Fault(INFO, None, "sim_type does not go with the column robot_id")]


def feature(name: str, **fields: Any) -> Callable[[dict], None]:
    return lambda info: info["features"][name].update(fields)


def stream_info(**fields: Any) -> Callable[[dict], None]:
    return lambda info: info["features"][FRONT]["info"].update(fields)


WRONG_FEATURES = {
    "index dtype": (feature("index", dtype="int32"), "index: dtype"),
    "index shape": (feature("index", shape=[2]), "index: shape"),
    "index names": (feature("index", names=["a"]), "index: names"),
    "flag names": (feature("frame_flags", names=["a", "b"]), "frame_flags: names"),
    "action dtype": (feature("action", dtype="float32"), "action: dtype"),
    "unknown dtype": (feature("action", dtype=["x"]), "action: dtype"),
    "action shape": (feature("action", shape=[0]), "action"),
    "negative shape": (feature("action", shape=[-3]), "action: shape"),
    "absurd shape": (feature("action", shape=[1 << 60]), "action: shape"),
    "absurd product": (feature("action", shape=[1 << 15] * 8), "action: shape"),
    "names of one robot": (feature("action", names=["a", "b", "c"]), "action: 3 names, expected 6"),
    "no names": (feature("action", names=None), "action: names"),
    "names of numbers": (feature("observation.state", names=[1] * 6), "observation.state: names"),
    "no lucky names": (feature("observation.state", lucky_names=None), "observation.state: lucky_names"),
    "few lucky names": (feature("observation.state", lucky_names=["a"]), "observation.state: 1 lucky_names"),
    "unit": (feature("action", unit=3), "action: unit"),
    "no object": (lambda info: info["features"].update(action=[]), "action: is []"),
    "missing column": (lambda info: info["features"].pop("task_index"), "features: task_index is missing"),
    "missing action": (lambda info: info["features"].pop("action"), "features: action is missing"),
    "missing entity": (lambda info: info["features"].pop("robot_id"), "features: expected one of robot_id"),
    "two entities": (
        lambda info: info["features"].update(sim_id=info["features"]["robot_id"]),
        "features: expected one of robot_id",
    ),
    "channels": (feature(FRONT, shape=[48, 64, 1]), f"{FRONT}: shape"),
    "no shape": (feature(FRONT, shape=None), f"{FRONT}: shape"),
    "axes": (feature(FRONT, names=["channels"]), f"{FRONT}: names"),
    "no info": (feature(FRONT, info=None), f"{FRONT}: info"),
    "fps": (stream_info(**{"video.fps": "50"}), f"{FRONT}: video.fps"),
    "codec": (stream_info(**{"video.codec": "mpeg4"}), f"{FRONT}: video.codec"),
    "pixels": (stream_info(**{"video.pix_fmt": "yuv444p"}), f"{FRONT}: video.pix_fmt"),
    "depth map": (stream_info(**{"video.is_depth_map": 0}), f"{FRONT}: video.is_depth_map"),
    "audio": (stream_info(has_audio=True), f"{FRONT}: has_audio"),
    "height": (stream_info(**{"video.height": 64}), f"{FRONT}: video.height"),
    "a name with a slash": (
        lambda info: info["features"].update({"observation.images./..": info["features"][FRONT]}),
        "is no stream's name",
    ),
}


@pytest.mark.parametrize("case", WRONG_FEATURES)
def test_every_wrong_feature_is_a_fault(edit: Edit, case: str) -> None:
    change, message = WRONG_FEATURES[case]
    assert any(f.file == INFO and message in f.message for f in edit(INFO, change))


def test_a_depth_stream_is_described_in_full(edit: Edit) -> None:
    key = f"{FRONT}_depth"
    good = {
        "video.fps": 50,
        "video.codec": "ffv1",
        "video.pix_fmt": "gray16le",
        "video.is_depth_map": True,
        "has_audio": False,
        "depth_scale": 0.001,
        "depth_dtype": "uint16",
        "depth_units": "meters",
        "sensor_model": "None",
        "zero_means": "no surface",
    }
    axes = ["height", "width", "channels"]

    def add(**changes: Any) -> Callable[[dict], None]:
        entry = {"dtype": "video", "shape": [48, 64, 1], "names": axes, "info": good | changes}
        return lambda info: info["features"].update({key: entry})

    def said(faults: list[Fault]) -> list[str]:
        return [f.message for f in faults if f.file == INFO]

    assert said(edit(INFO, add())) == []
    for field in good:
        assert any(field in message for message in said(edit(INFO, add(**{field: None})))), field


# -- meta/episodes ----------------------------------------------------------------------------------------------------


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    table = pq.ParquetFile(path).read()
    changed = change(table)
    metadata = changed.schema.metadata or table.schema.metadata
    pq.write_table(changed.replace_schema_metadata(metadata), path, write_page_checksum=True)


def with_value(column: str, row: int, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        values = table[column].to_pylist()
        values[row] = value
        field = table.schema.field(column)
        return table.set_column(table.column_names.index(column), field, pa.array(values, field.type))

    return change


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("episode_index", 9, "episode_index is 9, expected 5"),
        ("episode_index", 4, "episode_index is 4, expected 5"),
        ("episode_index", None, "episode_index is None"),
        ("episode_index", -1, "episode_index is -1"),
        ("chunk_index", 3, "chunk_index is 3, expected 0"),
        ("file_index", None, "file_index is None, expected 1"),
        ("data/chunk_index", 1, "data/chunk_index is 1, expected 0"),
        ("data/file_index", 0, "data/file_index is 0, expected 1"),
        ("data/file_index", 10**15, "data/file_index is 10"),
        ("length", 10, "dataset_to_index is 60, expected 58"),
        ("length", 0, "length is 0"),
        ("length", -12, "length is -12"),
        ("length", 11, "length is 11, expected a row for each of 2 robots"),
        ("length", 10**17, "12 rows, meta/episodes says 100000000000000000"),
        ("success", None, "success is None"),
        ("success", False, "the footer does not say of it"),
        ("dataset_from_index", 47, "dataset_from_index is 47, expected 48"),
        ("dataset_to_index", 61, "dataset_to_index is 61, expected 60"),
        ("tasks", None, "tasks is None"),
        ("tasks", [], "tasks is []"),
        ("tasks", ["Dance"], "task 'Dance' is not in"),
        ("tasks", ["Pick up the cube"], "meta/episodes says ['Pick up the cube']"),
        ("meta/episodes/chunk_index", 1, "says that it stands in meta/episodes/chunk-001/file-001"),
        ("meta/episodes/file_index", None, "says that it stands in"),
        (f"videos/{FRONT}/chunk_index", 1, f"videos/{FRONT}/chunk_index is 1, expected 2"),
        (f"videos/{FRONT}/file_index", 0, f"videos/{FRONT}/file_index is 0, expected 1"),
        (f"videos/{FRONT}/file_index", None, f"videos/{FRONT}/file_index is empty"),
        (f"videos/{FRONT}/from_timestamp", 0.5, f"videos/{FRONT}/from_timestamp is 0.5"),
        (f"videos/{FRONT}/to_timestamp", 0.1, "to_timestamp is 0.1, its 6 frames end at 0.12"),
    ],
)
def test_every_wrong_number_of_an_episode_is_a_fault(copy: Path, column: str, value: Any, message: str) -> None:
    rewrite(copy / META, with_value(column, 1, value))
    faults = check_session(copy, decode=False)
    assert any(message in f.message and f.episode in (5, value, None) for f in faults), faults


def test_a_stream_without_a_file_in_a_success(copy: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        for suffix in ("chunk_index", "file_index", "from_timestamp", "to_timestamp"):
            table = with_value(f"videos/{FRONT}/{suffix}", 1, None)(table)
        return table

    rewrite(copy / META, change)
    faults = check_session(copy)
    assert Fault(META, 5, f"{FRONT} wrote no file, and yet success is true") in faults
    assert Fault(VIDEO, None, "no episode names this file") in faults


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns("success"), "column success is missing"),
        (lambda t: t.append_column("extra", pa.array([1, 2, 3])), "column extra is not of the format"),
        (lambda t: t.append_column("length", t["length"]), "a column stands twice"),
        (lambda t: t.set_column(5, "length", t["length"].cast(pa.float64())), "column length is double"),
        (lambda t: t.set_column(0, "episode_index", pa.array(["a", "b", "c"])), "column episode_index is string"),
        (lambda t: t.set_column(9, "tasks", pa.nulls(3)), "column tasks is null"),
    ],
)
def test_every_wrong_column_of_the_episodes_is_a_fault(copy: Path, change: Callable, message: str) -> None:
    rewrite(copy / META, change)
    assert Fault(META, None, message) in [f._replace(message=f.message[: len(message)]) for f in check_session(copy)]


def test_a_gap_between_metadata_files(copy: Path) -> None:
    (copy / META).rename(copy / META.replace("001", "003"))
    faults = check_session(copy)
    assert Fault(META.replace("001", "003"), None, f"out of place: metadata file 1 is {META}") in faults


def test_a_lost_metadata_file(copy: Path) -> None:
    (copy / META).unlink()
    faults = check_session(copy)
    assert Fault(INFO, None, "total_episodes is 7, expected 4") in faults
    assert any(f.file == DATA and "episode 4, which meta/episodes does not list" in f.message for f in faults)


# -- tasks.parquet ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.take([1, 0]), "task_index is not int64 from 0 to 1 in order"),
        (lambda t: t.set_column(0, "task_index", pa.array([0, 2])), "task_index is not int64"),
        (lambda t: t.set_column(0, "task_index", pa.array([0, 1], pa.int32())), "task_index is not int64"),
        (lambda t: t.set_column(1, "task", pa.array(["a", "a"])), "descriptions are missing or stand twice"),
        (lambda t: t.set_column(1, "task", pa.array(["a", None])), "descriptions are missing or stand twice"),
        (lambda t: t.drop_columns("task"), "columns are ['task_index']"),
        (lambda t: t.append_column("more", pa.array(["a", "b"])), "columns are"),
        (lambda t: t.replace_schema_metadata({b"pandas": b"{"}), "pandas would not take 'task' as the index"),
        (lambda t: t.replace_schema_metadata({b"pandas": b"[]"}), "pandas would not take 'task' as the index"),
        (lambda t: t.slice(0, 1), "total_tasks is 2, expected 1"),
    ],
)
def test_every_wrong_tasks_file_is_a_fault(copy: Path, change: Callable, message: str) -> None:
    rewrite(copy / TASKS, change)
    assert any(message in f.message and f.file in (TASKS, INFO) for f in check_session(copy))


# -- data -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("index", 99, "row 3: index is 99, expected 41"),
        ("robot_id", 7, "row 3: robot_id is 7"),
        ("timestamp", 0.02000001, "row 3: timestamp is 0.02000001, expected 0.02"),
        ("timestamp", float("nan"), "row 3: timestamp is nan"),
        ("episode_index", 5, "row 11: episode_index is 5, expected 4"),
        ("episode_index", 77, "holds rows of episode 77"),
        ("frame_index", 2, "row 3: frame_index is 2, expected 1"),
        ("task_index", 2, "task_index 0..2 is out of range"),
        ("task_index", -1, "task_index -1..0 is out of range"),
        ("task_index", 1, "its rows have tasks [0, 1]"),
        ("frame_flags", 4, "row 3: frame_flags is 4"),
        ("frame_flags", None, "column frame_flags: a value is missing"),
        ("index", None, "column index: a value is missing"),
        ("action", None, "column action: a value is missing"),
        ("action", [0.0, 1.0], "action: a list is not whole, or not of shape [3]"),
        ("action", [0.0, 1.0, 2.0, 3.0], "action: a list is not whole"),
        ("action", [0.0, None, 1.0], "action: a list is not whole"),
        ("action", [0.0, float("nan"), 1.0], "action: row 3 holds NaN or infinity"),
        ("observation.state", [0.0, float("inf"), 1.0], "observation.state: row 3 holds NaN or infinity"),
        ("observation.state", [0.0, 9.0, 1.0], "observation.state: max[1]"),
    ],
)
def test_every_wrong_value_is_a_fault(copy: Path, column: str, value: Any, message: str) -> None:
    rewrite(copy / DATA, with_value(column, 8 + 3, value))  # row 3 of episode 4
    faults = check_session(copy, decode=False)
    named = {DATA: (4, None), STATS: (None,)}
    assert any(message in f.message and f.episode in named.get(f.file, ()) for f in faults), faults


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns("action"), "column action is missing; info.json has a feature for it"),
        (lambda t: t.append_column("extra", t["index"]), "column extra has no feature in info.json"),
        (lambda t: t.append_column("index", t["index"]), "has other columns, or another order"),
        (lambda t: t.select([1, 0, *range(2, 9)]), "does not start with the columns index, robot_id"),
        (lambda t: t.set_column(6, "frame_flags", t["frame_flags"].cast(pa.int64())), "column frame_flags: stored as"),
        (lambda t: t.set_column(7, "action", t["timestamp"]), "column action: stored as 0 nested lists of double"),
        (lambda t: t.set_column(7, "action", pa.array(["x"] * 30)), "column action: stored as 0 nested lists"),
        (lambda t: t.drop_columns("episode_index"), "column episode_index is missing"),
        (lambda t: t.slice(0, 29), "11 rows, meta/episodes says 12"),
        (lambda t: t.take([*range(8, 18), *range(8), *range(18, 30)]), "row 0: episode_index is 4, expected 3"),
        (lambda t: t.replace_schema_metadata({b"a": b"b"}), "the footer's list of episodes is None"),
        (lambda t: t.replace_schema_metadata({FOOTER: b"[3]"}), "the footer's list of episodes is [3]"),
        (lambda t: t.replace_schema_metadata({FOOTER: b"{"}), "cannot be read"),
        (lambda t: t.replace_schema_metadata({FOOTER: b"[{}]"}), "the footer does not say of it"),
        (lambda t: t.schema.empty_table(), "0 rows, meta/episodes says 8"),
    ],
)
def test_every_wrong_data_file_is_a_fault(copy: Path, change: Callable, message: str) -> None:
    rewrite(copy / DATA, change)
    assert any(f.file == DATA and message in f.message for f in check_session(copy, decode=False))


def test_robots_with_one_id(copy: Path) -> None:
    for path in copy.glob("data/*/*"):
        rewrite(path, lambda t: t.set_column(1, "robot_id", pa.array([7] * t.num_rows)))
    faults = [f for f in check_session(copy) if "robot_id: [7, 7] are not the ids of 2 robots" in f.message]
    assert {f.episode for f in faults} == set(range(7))


def test_robots_that_change_places(copy: Path) -> None:
    order = [*range(8), *range(9, 18), 8, *range(18, 30)]  # of the rows of episode 4, the first goes last
    rewrite(copy / DATA, lambda t: t.set_column(1, "robot_id", t["robot_id"].take(order)))
    assert [f.episode for f in check_session(copy)] == [4]


def test_a_missing_data_file(copy: Path) -> None:
    (copy / DATA).unlink()
    faults = check_session(copy)
    assert Fault(DATA, 3, "is missing") in faults


# -- stats.json -------------------------------------------------------------------------------------------------------


def entry(name: str, **fields: Any) -> Callable[[dict], None]:
    return lambda stats: stats[name].update(fields)


def nudged(name: str, field: str, factor: float) -> Callable[[dict], None]:
    def change(stats: dict) -> None:
        stats[name][field][1] *= factor

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *[(nudged("action", field, 1 + 3e-9), f"action: {field}[1] is") for field in ("min", "max", "std")],
        (nudged("action", "mean", 1.001), "action: mean[1] is"),
        (entry("action", count=[67]), "action: count is [67], expected [68]"),
        (entry("action", count=68), "action: count is 68, expected a list"),
        (entry("action", min=[0.0]), "action: min is [0.0], expected finite numbers of shape [3]"),
        (entry("action", std=[0.1, "a", 0.2]), "action: std is"),
        (entry("action", std=[0.1, None, 0.2]), "action: std is"),
        (entry("action", std=[0.1, 10**400, 0.2]), "action: std is"),
        (entry("action", q50=[99.0, 0, 0]), "action: q50 is [99.0, 0, 0], not between min and max"),
        (entry("action", q01=[0.5, 0.5, 0.5], q10=[0.1, 0.1, 0.1]), "action: its quantiles are not in order"),
        (lambda stats: stats["action"].pop("mean"), "action: mean is missing"),
        (lambda stats: stats.pop("observation.state"), "observation.state: has no entry"),
        (lambda stats: stats.pop(FRONT), f"{FRONT}: has no entry"),
        (lambda stats: stats.update(index={}), "index: has an entry, and is no column"),
        (lambda stats: stats.update(other={}), "other: has an entry, and is no column"),
        (lambda stats: stats.update(action=[]), "action: is [], expected an object"),
        (entry(FRONT, max=[[[255]], [[255]], [[255]]]), f"{FRONT}: max is"),
        (entry(FRONT, mean=[0.1, 0.2, 0.3]), f"{FRONT}: mean is [0.1, 0.2, 0.3], expected finite"),
        (entry(FRONT, mean=[[[0.9]], [[0.9]], [[0.9]]]), f"{FRONT}: mean is [[[0.9]], [[0.9]], [[0.9]]], not between"),
        (entry(FRONT, count=[-1]), f"{FRONT}: count is [-1]"),
    ],
)
def test_every_wrong_statistic_is_a_fault(edit: Edit, change: Callable, message: str) -> None:
    faults = edit(STATS, change)
    assert any(f.file == STATS and f.message.startswith(message) for f in faults), faults


def test_quantiles_may_be_left_out(edit: Edit) -> None:
    assert edit(STATS, lambda stats: [stats["action"].pop(q) for q in ("q01", "q10", "q50", "q90", "q99")]) == []


# -- videos -----------------------------------------------------------------------------------------------------------


def film(path: Path, frames: int, width: int = 64, height: int = 48, fps: int = 50, codec_frames: Any = None) -> None:
    path.unlink(missing_ok=True)
    encoder = VideoEncoder(path, width=width, height=height, fps=Fraction(fps))
    for k in range(frames):
        encoder.write(np.full((height, width, 3), k, np.uint8))
    encoder.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frames": 5}, "5 frames, expected 6 for 6 ticks"),
        ({"frames": 7}, "7 frames, expected 6 for 6 ticks"),
        ({"frames": 6, "width": 32}, "width is 32, info.json says 64"),
        ({"frames": 6, "height": 64}, "height is 64, info.json says 48"),
        ({"frames": 6, "fps": 25}, "frame rate is 25, info.json says 50"),
    ],
)
@pytest.mark.parametrize("decode", [True, False])
def test_every_wrong_video_is_a_fault(copy: Path, options: dict, message: str, decode: bool) -> None:
    film(copy / VIDEO, **options)
    assert Fault(VIDEO, 5, message) in check_session(copy, decode)


def test_a_missing_video(copy: Path) -> None:
    (copy / VIDEO).unlink()
    assert check_session(copy) == [Fault(VIDEO, 5, "is missing")]


@pytest.mark.parametrize("content", [b"", b"no video", bytes(10_000)])
def test_a_broken_video(copy: Path, content: bytes) -> None:
    (copy / VIDEO).write_bytes(content)
    (fault,) = check_session(copy)
    assert (fault.file, fault.episode) == (VIDEO, 5)
    assert str(copy) not in fault.message


@pytest.mark.parametrize(("old", "new"), [(b"avc1", b"zzzz"), (b"moov", b"free")])
def test_a_video_of_another_kind(copy: Path, old: bytes, new: bytes) -> None:
    (copy / VIDEO).write_bytes((copy / VIDEO).read_bytes().replace(old, new))
    assert {(f.file, f.episode) for f in check_session(copy)} == {(VIDEO, 5)}


@pytest.mark.parametrize("box", [b"\0\0\0\1free" + bytes(8), b"\0\0\0\7free", b"\0\0\0\x09free", b"\0\0\0"])
def test_boxes_that_are_none(copy: Path, box: bytes) -> None:
    (copy / VIDEO).write_bytes((copy / VIDEO).read_bytes() + box)
    assert Fault(VIDEO, 5, "was cut off: its last part is not whole") in check_session(copy)


@pytest.mark.parametrize("box", [b"\0\0\0\x08free", b"\0\0\0\1free" + bytes(7) + b"\x10", b"\0\0\0\0free"])
def test_boxes_that_are_whole(copy: Path, box: bytes) -> None:
    (copy / VIDEO).write_bytes((copy / VIDEO).read_bytes() + box)
    assert check_session(copy) == []


def test_a_video_that_reorders_its_frames(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lucky_recorder.session.checks import videos

    original = videos.probe
    monkeypatch.setattr(
        videos, "probe", lambda path: original(path)._replace(has_b_frames=2, keyframes=(2,), timing_error=0.01)
    )
    said = {f.message for f in check_session(copy, decode=False) if f.file == VIDEO}
    assert said == {
        "has B-frames: frames are not stored in the order they are shown",
        "its first 2 frames cannot be decoded: there is no keyframe before them",
        "frames are up to 0.010000 s away from their times",
    }


@pytest.mark.parametrize(
    ("ticks", "hz", "rate", "due"),
    [
        (10, 50, 50, (10, 10)),
        (10, 50, 25, (5, 5)),
        (11, 50, 25, (6, 6)),
        (1, 50, 5, (1, 1)),
        (10, 50, 100, (19, 20)),
        (4, 50, Fraction(100, 3), (3, 3)),
        (3, Fraction(200, 3), Fraction(200, 3), (3, 3)),
    ],
)
def test_frames_due(ticks: int, hz: Fraction | int, rate: Fraction | int, due: tuple[int, int]) -> None:
    assert frames_due(ticks, Fraction(hz), Fraction(rate)) == due


# -- strays -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "episode", "message"),
    [
        ("data/chunk-000/file-001.parquet.4.tmp", 4, "the spool of an episode"),
        ("data/chunk-000/file-001.parquet.tmp", None, "incomplete, left behind by an interrupted recording"),
        ("data/chunk-007/file-000.parquet", None, "holds episodes that meta/episodes does not list"),
        ("data/notes.txt", None, "no episode names this file"),
        ("meta/stats.json.tmp", None, "incomplete"),
        ("meta/other.json", None, "no episode names this file"),
        ("meta/episodes/notes.txt", None, "no episode names this file"),
        (f"videos/{FRONT}/attempt-000007.mp4.tmp", None, "incomplete"),
        (f"videos/{FRONT}/chunk-003/file-001.mp4", None, "no episode names this file"),
        ("videos/observation.images.Back/chunk-000/file-000.mp4", None, "no episode names this file"),
    ],
)
def test_every_stray_is_a_fault(copy: Path, name: str, episode: int | None, message: str) -> None:
    (copy / name).parent.mkdir(parents=True, exist_ok=True)
    (copy / name).touch()
    (fault,) = check_session(copy)
    assert (fault.file, fault.episode, fault.message[: len(message)]) == (name, episode, message)


def test_what_lies_beside_the_three_folders_is_the_user_s(copy: Path) -> None:
    (copy / "notes.txt").touch()
    (copy / "plots").mkdir()
    (copy / "plots/reward.png").touch()
    assert check_session(copy) == []


def test_links_to_elsewhere(copy: Path, tmp_path: Path) -> None:
    shutil.move(copy / VIDEO, tmp_path / "elsewhere.mp4")
    (copy / VIDEO).symlink_to(tmp_path / "elsewhere.mp4")
    assert check_session(copy) == [Fault(VIDEO, 5, "lies outside the session folder")]


# -- Broken in several places, or anyhow ------------------------------------------------------------------------------


def test_faults_in_one_place_do_not_hide_others(copy: Path) -> None:
    (copy / INFO).write_text("{")
    (copy / STATS).unlink()
    (copy / VIDEO).unlink()
    rewrite(copy / META, with_value("success", 0, None))
    rewrite(copy / DATA, with_value("frame_flags", 0, 255))
    faults = check_session(copy)
    assert {f.file for f in faults} >= {INFO, STATS, META, DATA}
    assert any("frame_flags is 255" in f.message and f.episode == 3 for f in faults)


FILES = (INFO, STATS, TASKS, META, DATA, VIDEO, "data/chunk-001/file-000.parquet", META.replace("001", "000"))


@pytest.mark.parametrize("name", FILES)
def test_every_lost_or_cut_file_is_a_fault(copy: Path, name: str) -> None:
    content = (copy / name).read_bytes()
    for length in (None, 0, 1, len(content) // 2, len(content) - 3):
        (copy / name).unlink()
        if length is not None:
            (copy / name).write_bytes(content[:length])
        # What a lost list of episodes lists is unknown: others miss it.
        assert any(f.file == name or (length is None and "meta/episodes" in name) for f in check_session(copy)), length
        (copy / name).write_bytes(content)
    assert check_session(copy) == []


@pytest.mark.parametrize("name", [n for n in FILES if n.endswith(".parquet")])
def test_a_flipped_byte_of_a_table_is_a_fault_or_changes_nothing(copy: Path, name: str) -> None:
    content, random_ = (copy / name).read_bytes(), random.Random(name)
    whole = pq.ParquetFile(copy / name).read()
    for _ in range(15):
        flipped = bytearray(content)
        flipped[random_.randrange(len(flipped))] ^= 1 << random_.randrange(8)
        (copy / name).write_bytes(flipped)
        if not check_session(copy, decode=False):
            assert pq.ParquetFile(copy / name).read().equals(whole)


# Texts and numbers that nothing else in a session repeats.
FREE = {"recorder_version", "bit_reproducible", "data_files_size_in_mb", "video_files_size_in_mb", "neural_denoise"}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [path, *(leaf for k, v in value.items() for leaf in leaves(v, (*path, k)))]
    return [path]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), file=st.sampled_from([INFO, STATS]), value=JSON)
def test_any_json_value_anywhere_is_a_fault_and_no_crash(
    good: Recording, copy: Path, data: Any, file: str, value: Any
) -> None:
    content = json.loads((good.root / file).read_text())
    path = data.draw(st.sampled_from(leaves(content)[1:]))
    parent = content
    for key in path[:-1]:
        parent = parent[key]
    unchanged = parent[path[-1]] == value and type(parent[path[-1]]) is type(value)
    parent[path[-1]] = value
    (copy / file).write_text(json.dumps(content))
    faults = check_session(copy, decode=False)
    (copy / file).write_bytes((good.root / file).read_bytes())
    assert faults or unchanged or path[0] in FREE or path[-1] == "unit"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), noise=st.binary(min_size=1, max_size=40), data=st.data())
def test_noise_anywhere_is_no_crash(good: Recording, copy: Path, name: str, noise: bytes, data: Any) -> None:
    content = (good.root / name).read_bytes()
    at = data.draw(st.integers(0, len(content)))
    (copy / name).write_bytes(content[:at] + noise + content[at + data.draw(st.integers(0, 60)) :])
    assert isinstance(check_session(copy), list)
    (copy / name).write_bytes(content)


def test_a_folder_in_a_file_s_place(copy: Path) -> None:
    for name in FILES:
        content = (copy / name).read_bytes()
        (copy / name).unlink()
        (copy / name).mkdir()
        assert any(f.file == name or "meta/episodes" in name for f in check_session(copy)), name
        (copy / name).rmdir()
        (copy / name).write_bytes(content)


def test_a_pipe_in_a_file_s_place(copy: Path) -> None:
    for name in (INFO, DATA, VIDEO):
        content = (copy / name).read_bytes()
        (copy / name).unlink()
        os.mkfifo(copy / name)
        assert any(f.file == name and f.message == "is no file" for f in check_session(copy)), name
        (copy / name).unlink()
        (copy / name).write_bytes(content)
