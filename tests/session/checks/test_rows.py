from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lucky_recorder.session.check import Fault, check_session
from tests.session.breaking import DATA, STATS, rewrite, with_value

FOOTER = b"lucky_recorder.episodes"


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
        (
            lambda t: t.replace_schema_metadata({b"a": b"b"}),
            "footer's list of episodes is None: if it is a copy for LeRobot that an earlier",
        ),
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
