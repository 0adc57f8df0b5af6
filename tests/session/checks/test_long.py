"""Episodes of many row groups: all that is found in one that is read at once is found in them, in flat memory."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.episode import limits, parts
from lucky_recorder.episode.clock import ticks_s
from lucky_recorder.episode.schema import Field, Schema
from lucky_recorder.lerobot.rules import check_lerobot
from lucky_recorder.session.check import check_session
from lucky_recorder.session.checks import measured
from lucky_recorder.session.checks import quantiles as several
from lucky_recorder.session.checks.quantiles import quantiles
from lucky_recorder.session.checks.times import tick_times
from lucky_recorder.storage import parquet
from tests.pairs import pairwise
from tests.session.breaking import STATS
from tests.session.building import Recording, arm_schema, lidar
from tests.soak.hostile import peak_mb

DATA = "data/chunk-000/file-000.parquet"
ROWS, GROUP = 60, 7


HELD = ["waits", "again", "bits"]
SUMMED = ["min", "max", "mean", "std", "count"]


@pytest.fixture(params=HELD)
def held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row group is a batch, none is kept; an episode waits for its end, or is read again, some bits at a time."""
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 1)
    monkeypatch.setattr("lucky_recorder.session.checks.kept.MOST_BYTES", 0)
    if request.param != "waits":
        monkeypatch.setattr(measured, "_WAITING_BYTES", 500)
        monkeypatch.setattr(several, "HELD_VALUES", 200 if request.param == "again" else 10)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two robots, whose ticks the borders of row groups divide; three episodes in a file, and scans."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "PART_ROWS", GROUP)
        schema = arm_schema(robots=("left", "right"), lidars=[lidar("top")], hz=Fraction(200, 3))
        recording = Recording(tmp_path_factory.mktemp("long"), schema, episodes_per_file=3)
        for ticks in (ROWS // 2, 4, 9):
            recording.keep(ticks, tasks=(0, 1))
        recording.close()
    assert pq.read_metadata(recording.root / DATA).num_row_groups > 10
    return recording.root


@pytest.fixture
def copy(good: Path, tmp_path: Path, copy_of: Callable[[Path, Path], Path]) -> Path:
    return copy_of(good, tmp_path / "copy")


@pytest.fixture
def copy_of() -> Callable[[Path, Path], Path]:
    def copied(source: Path, target: Path) -> Path:
        for path in source.rglob("*"):
            if path.is_file():
                (target / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
                (target / path.relative_to(source)).write_bytes(path.read_bytes())
        return target

    return copied


def spoil(path: Path, column: str, row: int, value: Any) -> None:
    table = pq.ParquetFile(path).read()
    values = table[column].to_pylist()
    values[row] = value
    field = table.schema.field(column)
    table = table.set_column(table.column_names.index(column), field, pa.array(values, field.type))
    pq.write_table(table, path, row_group_size=GROUP, write_page_checksum=True)


@pytest.mark.usefixtures("held")
def test_a_good_session_has_no_fault(good: Path) -> None:
    assert check_session(good) == []


FAULTS = [
    ("index", 7000, "index is 7000"),
    ("robot_id", 5, "robot_id is 5"),
    ("timestamp", 9.5, "timestamp is 9.5"),
    ("episode_index", 1, "59 rows, meta/episodes says 60"),
    ("frame_index", 77, "frame_index is 77"),
    ("task_index", 9, "task_index 0..9 is out of range"),
    ("frame_flags", 9, "frame_flags is 9"),
    ("action", [1.0] * 5, "action: a list is not whole"),
    ("action", [1.0, 1.0, np.nan], "holds NaN or infinity"),
]


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(
    ("held", "fault", "row"), pairwise(HELD, FAULTS, [GROUP - 1, GROUP, ROWS - 1]), indirect=["held"]
)
def test_faults_at_the_borders_are_found(copy: Path, row: int, fault: tuple[str, Any, str]) -> None:
    column, value, message = fault
    spoil(copy / DATA, column, row, value)
    found = [f.message for f in check_session(copy, decode=False) if f.file == DATA and f.episode == 0]
    assert len(found) == 1
    assert message in found[0]
    assert f"row {row}" in found[0] or column in ("episode_index", "task_index") or "whole" in message


@pytest.mark.usefixtures("held")
def test_a_value_that_is_missing_is_told_alone(copy: Path) -> None:
    spoil(copy / DATA, "frame_flags", 40, None)
    assert "column frame_flags: a value is missing" in [f.message for f in check_session(copy) if f.file == DATA]


# How an episode is held makes a difference to its quantiles alone.
@pytest.mark.parametrize(
    ("name", "held"),
    [*itertools.product(["q01", "q10", "q50", "q90", "q99"], HELD), *((name, "again") for name in SUMMED)],
    indirect=["held"],
)
@pytest.mark.usefixtures("held")
def test_statistics_are_exact(copy: Path, name: str) -> None:
    content = json.loads((copy / STATS).read_text())
    entry = content["observation.state"]
    entry[name][0] += 1 if name == "count" else 3e-9 * max(map(abs, (entry["min"][0], entry["max"][0])))
    (copy / STATS).write_text(json.dumps(content))
    assert [f.message.split("[")[0] for f in check_session(copy, decode=False)] == [
        "observation.state: count is " if name == "count" else f"observation.state: {name}"
    ]


@pytest.mark.usefixtures("held")
def test_a_row_group_that_cannot_be_read_is_all_that_is_told_of_its_file(copy: Path) -> None:
    group = pq.read_metadata(copy / DATA).row_group(5).column(0)
    content = bytearray((copy / DATA).read_bytes())
    content[group.data_page_offset + group.total_compressed_size - 1] ^= 4
    (copy / DATA).write_bytes(content)
    (told,) = [f.message for f in check_session(copy, decode=False) if f.file == DATA]
    assert told.startswith("cannot be read")


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(("column", "value"), [("scan_index", 3), ("timestamp", 0.5), ("range", [0.0] * 8)])
def test_scans_of_several_row_groups(copy: Path, column: str, value: Any) -> None:
    path = copy / "data/chunk-000/lidar-top-000.parquet"
    spoil(path, column, 9, value)
    assert pq.read_metadata(path).num_row_groups > 1
    messages = [f.message for f in check_session(copy, decode=False) if f.file.endswith(path.name)]
    assert messages
    assert all(m.startswith("scan 9: ") for m in messages)


@pytest.mark.usefixtures("held")
def test_lerobots_rules_are_the_same(copy: Path) -> None:
    before = check_lerobot(copy)
    spoil(copy / DATA, "index", 30, 9)
    spoil(copy / DATA, "timestamp", 30, 9.0)
    spoil(copy / DATA, "task_index", 30, 9)
    more = [one.message for one in check_lerobot(copy) if one not in before]
    assert [m.split(" ")[0] for m in more] == ["episode", "index", "task_index"]


# What a small file may come to.


def test_rows_that_are_as_many_as_is_listed_are_read(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_TABLE_BYTES", 4000)
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 1)
    monkeypatch.setattr(limits, "TABLE_BYTES_PER_FILE_BYTE", 0)
    episode = lr.Session(copy).episode(0)
    rows = episode.rows()
    assert rows.num_rows == ROWS
    monkeypatch.setattr(limits, "MOST_EXPECTED_BYTES", 2000)
    with pytest.raises(lr.FormatError, match=r"batches\(\)"):
        episode.rows()
    assert episode.rows(["index"]).num_rows == ROWS
    tables = list(episode.batches())
    assert len(tables) > 5
    assert pa.concat_tables(tables).equals(rows)
    assert [t.column_names for t in episode.batches(["action", "index"])] == [["action", "index"]] * len(tables)
    # One row group alone is still bounded.
    monkeypatch.setattr(limits, "MOST_TABLE_BYTES", 100)
    with pytest.raises(lr.FormatError, match="are read of such a file"):
        next(episode.batches())


def test_rows_that_are_more_than_is_listed_are_refused(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(copy / DATA, "episode_index", ROWS, 0)
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 1)
    episode = lr.Session(copy).episode(0)
    for read in (episode.rows, lambda: list(episode.batches())):
        with pytest.raises(lr.FormatError, match="61 rows of episode 0, meta/episodes says 60"):
            read()
    with pytest.raises(KeyError, match="no column 'x'"):
        next(episode.batches(["x"]))


def test_a_long_episode_takes_no_more_memory(tmp_path: Path) -> None:
    """Of a million rows of values that hardly change: they are a small file, and come to more than 192 MB."""
    joints = ("action", "observation.state")
    names = [tuple(f"arm.joint{i}" for i in range(7))] * 2
    columns = [Field(n, "float64", (7,), names=k, has_stats=True) for n, k in zip(joints, names, strict=True)]
    columns[1] = replace(columns[1], lucky_names=names[1])
    schema = Schema("robot_id", "ur5e", ("arm",), Fraction(50), tuple(columns), ())
    recording = Recording(tmp_path / "session_2026-10-08_14-30-05", schema)
    still = np.repeat(np.arange(14.0).reshape(2, 7), 600_000, axis=0)
    recording.keep(len(still), values=dict.fromkeys(joints, still))
    root = recording.close()
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        started = peak_mb(reset=True)
        faults = check_session(root)
        told = [len(faults), peak_mb() - started, sum(t.num_rows for t in lr.Session(root).episode(0).batches())]
        os.write(writer, json.dumps(told).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        found, used, rows = json.loads(answer.read())
    os.waitpid(child, 0)
    assert (found, rows) == (0, 1_200_000)
    assert used < 200


# Small parts.


@pytest.mark.parametrize("most", [1, 40, 1000])
def test_quantiles_are_numpys(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(several, "HELD_VALUES", most)
    draw, wanted = np.random.default_rng(5), [0.0, 0.01, 0.5, 0.9, 1.0]
    for values in (
        draw.normal(size=(101, 3)) * 10.0 ** draw.integers(-300, 140, (101, 3)),
        draw.integers(-2, 3, (50, 2)).astype(float),
        np.array([[-0.0], [0.0], [5e-324], [-5e-324], [1e150], [-1e150]]),
        np.ones((30, 1)),
        np.array([[4.0, -2.0]]),
    ):
        split = partial(map, np.asarray, np.array_split(values, 4))
        found = quantiles(split, len(values), values.shape[1], wanted)
        assert np.allclose(found, np.quantile(values, wanted, axis=0), rtol=1e-14, atol=0)


@pytest.mark.parametrize("hz", ["50", "200/3", "1000", "30", "999999", "1/7", "123457/1000", "524287/10007"])
@pytest.mark.parametrize("first", [0, 5, 10**7, 10**15])
def test_times_of_ticks_are_the_nearest_nanoseconds(hz: str, first: int) -> None:
    step = Fraction(10**9) / Fraction(hz)
    exact = [round(k * step) / 10**9 for k in range(first, first + 50)]
    assert tick_times(first, 50, Fraction(hz)).tolist() == exact
    assert tick_times(0, 50, Fraction(hz)).tolist() == ticks_s(50, Fraction(hz)).tolist()


def test_texts_of_many_row_groups_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is stored once in its row group, and written out in every row."""
    recording = Recording(tmp_path, arm_schema(extra=[Field("note", "string", ())]))
    recording.keep(ROWS, values={"note": np.array(["x" * 2000] * ROWS, object)})
    path = recording.close() / DATA
    pq.write_table(pq.ParquetFile(path).read(), path, row_group_size=GROUP)
    monkeypatch.setattr(limits, "MOST_TABLE_BYTES", 40_000)
    monkeypatch.setattr(limits, "TABLE_BYTES_PER_FILE_BYTE", 0)
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 1)
    monkeypatch.setattr(parquet, "_COPIES", 0)
    episode = lr.Session(tmp_path).episode(0)
    with pytest.raises(lr.FormatError, match=r"texts that become .* episode\.batches\(\)"):
        episode.rows(["note"])
    assert sum(t.num_rows for t in episode.batches(["note"])) == ROWS
