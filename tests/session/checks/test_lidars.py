from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lucky_recorder.session.check import Fault, check_session
from tests.session.breaking import film, rewrite, with_value
from tests.session.building import Recording, arm_schema, lidar

SCANS = "data/chunk-000/lidar-top-001.parquet"  # episode 1: three scans of eight rays at 25 Hz, five ticks at 50 Hz
JSON, PROXY = SCANS.replace(".parquet", ".json"), SCANS.replace(".parquet", ".mp4")
FAST = "data/chunk-001/lidar-side-002.parquet"  # episode 2: twelve scans at 100 Hz, six ticks


def ranges(value: float, ray: int = 1) -> list[float]:
    return [np.inf, *([2.0] * 7)][:ray] + [value] + [2.0] * (7 - ray)


def messages(folder: Path, file: str = SCANS, episode: int = 1) -> list[str]:
    faults = check_session(folder, decode=False)
    assert {(f.file, f.episode) for f in faults} == {(file, episode)}
    return [f.message for f in faults]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("scan_index", 5, "scan 2: scan_index is 5, expected 2"),
        ("timestamp", 0.081, "scan 2: timestamp is 0.081, expected 0.08"),
        ("episode_index", 3, "scan 2: episode_index is 3, expected 1"),
        ("frame_index", 5, "scan 2: frame_index is 5, expected 4"),
        ("sensor_position", [1.0, 2.0], "sensor_position: a list is not whole, or not of 3 values"),
        ("sensor_position", [1.0, 2.0, np.nan], "scan 2: sensor_position holds NaN or infinity"),
        ("sensor_orientation", [1.0, 0.1, 0.0, 0.0], "scan 2: sensor_orientation is no unit quaternion"),
        ("sensor_orientation", None, "a value is missing"),
        ("range", ranges(2.0)[:7], "range: a list is not whole, or not of 8 rays"),
        ("range", ranges(0.4), "scan 2: range 1 is 0.4"),
        ("range", ranges(10.5), "scan 2: range 1 is 10.5, expected 0.5 to 10 m, or infinity"),
        ("range", ranges(np.nan), "scan 2: range 1 is nan"),
        ("range", ranges(-np.inf), "scan 2: range 1 is -inf"),
        ("range", ranges(np.inf), "scan 2: geom_id 1 is 1, its range is inf"),
        ("geom_id", [-1, -1, 2, 3, 4, 5, 6, 7], "scan 2: geom_id 1 is -1, its range is "),
        ("geom_id", [0, 1, 2, 3, 4, 5, 6, 7], "scan 2: geom_id 0 is 0, its range is inf"),
        ("geom_id", [-1, -2, 2, 3, 4, 5, 6, 7], "scan 2: geom_id 1 is -2"),
        ("geom_id", [-1], "geom_id: a list is not whole, or not of 8 rays"),
    ],
)
def test_wrong_values(full_copy: Path, column: str, value: Any, message: str) -> None:
    rewrite(full_copy / SCANS, with_value(column, 2, value))
    (said,) = messages(full_copy)
    assert said.startswith(message)


@pytest.mark.parametrize(
    ("count", "message"), [(2, "2 scans, expected 3 for 5 ticks"), (4, "4 scans, expected 3 for 5 ticks")]
)
def test_a_scan_too_few_or_too_many(full_copy: Path, count: int, message: str) -> None:
    rewrite(full_copy / SCANS, lambda t: pa.concat_tables([t, t.slice(0, 1)]) if count > 3 else t.slice(0, 2))
    said = {f.message for f in check_session(full_copy, decode=False) if f.file == SCANS}
    assert message in said
    assert Fault(PROXY, 1, f"3 frames, for {count} scans") in check_session(full_copy)


@pytest.mark.parametrize(("count", "is_right"), [(10, False), (11, True), (12, True)])
def test_a_lidar_faster_than_the_rows(full_copy: Path, count: int, is_right: bool) -> None:
    rewrite(full_copy / FAST, lambda table: table.slice(0, count))
    assert check_session(full_copy, decode=False) == (
        [] if is_right else [Fault(FAST, 2, f"{count} scans, expected 11 to 12 for 6 ticks")]
    )


def drop(table: pa.Table) -> pa.Table:
    return table.drop_columns(["geom_id"])


def widen(table: pa.Table) -> pa.Table:
    wide = table["range"].cast(pa.list_(pa.float64()))
    return table.set_column(table.column_names.index("range"), "range", wide)


@pytest.mark.parametrize(
    "change",
    [drop, widen, lambda t: t.append_column("more", t["scan_index"]), lambda t: t.select(t.column_names[::-1])],
)
def test_other_columns(full_copy: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    rewrite(full_copy / SCANS, change)
    (said,) = messages(full_copy)
    assert said.startswith("columns are ")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", "bottom", "name is 'bottom', the file's is 'top'"),
        ("pattern", "waving", "pattern is 'waving', expected spinning or solid_state"),
        ("rate", 0, "rate is 0, expected scans per second"),
        ("frame", "", "frame is '', expected a text"),
        ("mount", {}, "mount is {}, expected an object that names a site"),
        ("azimuth_deg", [], "azimuth_deg is [], expected angles in degrees"),
        ("azimuth_deg", ["left"], "azimuth_deg is ['left'], expected angles"),
        ("elevation_deg", [0.0], "rays is 8, its angles make 4"),
        ("rays", 10**9, "rays is 1000000000, expected a whole number up to 1000000"),
        ("min_range_m", -1, "min_range_m is -1, expected metres"),
        ("max_range_m", None, "max_range_m is None, expected metres"),
        ("max_range_m", 1e308, "max_range_m is 1e+308, expected metres"),
        ("max_range_m", 10**400, "max_range_m is 1000"),
        ("noise_m", True, "noise_m is True, expected metres"),
        ("noise_m", 0.5, "says otherwise than the sensor's first episode"),
    ],
)
def test_wrong_descriptions(full_copy: Path, field: str, value: Any, message: str) -> None:
    description = json.loads((full_copy / JSON).read_text())
    (full_copy / JSON).write_text(json.dumps(description | {field: value}))
    faults = check_session(full_copy, decode=False)
    assert any(f.file == JSON and f.episode == 1 and f.message.startswith(message) for f in faults)


def test_a_field_is_missing(full_copy: Path) -> None:
    description = json.loads((full_copy / JSON).read_text())
    del description["mount"]
    (full_copy / JSON).write_text(json.dumps(description))
    assert "mount is missing" in messages(full_copy, JSON)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"rate": NaN}'])
def test_a_description_that_is_no_json(full_copy: Path, content: str) -> None:
    (full_copy / JSON).write_text(content)
    (fault,) = check_session(full_copy)
    assert (fault.file, fault.episode) == (JSON, None)


def test_scans_that_are_no_parquet(full_copy: Path) -> None:
    (full_copy / SCANS).write_bytes(b"PAR1")
    (fault,) = check_session(full_copy)
    assert (fault.file, fault.episode) == (SCANS, None)


@pytest.mark.parametrize(
    ("filmed", "message"),
    [
        ({"frames": 2, "fps": 25}, "2 frames, for 3 scans"),
        ({"frames": 3, "fps": 50}, "frame rate is 50, the sensor's is 25"),
    ],
)
def test_wrong_proxies(full_copy: Path, filmed: dict[str, int], message: str) -> None:
    film(full_copy / PROXY, **filmed)
    assert check_session(full_copy) == [Fault(PROXY, 1, message)]


@pytest.mark.parametrize("gone", [SCANS, JSON, PROXY])
def test_missing_twins(full_copy: Path, gone: str) -> None:
    (full_copy / gone).unlink()
    (fault,) = check_session(full_copy)
    assert (fault.file, fault.episode) == (gone, 1)
    assert fault.message.startswith("is missing, and lidar-top-001.")


def test_an_episode_without_scans(full_copy: Path) -> None:
    for name in (SCANS, JSON, PROXY):
        (full_copy / name).unlink()
    assert check_session(full_copy) == [
        Fault(name, 1, "is missing, and yet success is true") for name in (SCANS, JSON, PROXY)
    ]


def test_a_failed_episode_may_lack_its_scans(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema(lidars=[lidar("top")]))
    recording.keep(3)
    recording.keep(3, success=False, failed_stream="top")
    assert check_session(recording.close()) == []


@pytest.mark.parametrize(
    "moved",
    [
        "data/chunk-001/lidar-top-001.parquet",
        "data/chunk-000/lidar-top-003.parquet",
        "data/chunk-000/lidar-top-01.parquet",
        "data/chunk-000/lidar-top-0001.parquet",
        "data/chunk-000/lidar-top-001.csv",
    ],
)
def test_numbered_by_the_episode_in_the_chunk_of_its_video(full_copy: Path, moved: str) -> None:
    (full_copy / moved).parent.mkdir(exist_ok=True)
    (full_copy / SCANS).rename(full_copy / moved)
    faults = check_session(full_copy, decode=False)
    assert Fault(moved, None, "no episode names this file") in faults
    assert (SCANS, 1) in {(f.file, f.episode) for f in faults}


@pytest.mark.parametrize(
    ("value", "is_right"),
    [(0.5, True), (np.nextafter(np.float32(0.5), np.float32(0)), False), (10.0, True), (10.000001, False)],
)
def test_a_range_at_a_limit_is_one(full_copy: Path, value: float, is_right: bool) -> None:
    rewrite(full_copy / SCANS, with_value("range", 1, ranges(float(value))))
    assert (check_session(full_copy, decode=False) == []) is is_right
