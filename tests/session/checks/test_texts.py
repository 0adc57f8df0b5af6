"""Checks of a session that has a column of texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lucky_recorder.episode.schema import Field
from lucky_recorder.session.check import check_session
from lucky_recorder.session.reader import Session
from tests.session.breaking import DATA, INFO, STATS, rewrite, with_value
from tests.session.building import Recording, arm_schema


@pytest.fixture
def said(tmp_path: Path) -> Path:
    schema = arm_schema(robots=("left", "right"), extra=[Field("said", "string", nullable=True)])
    recording = Recording(tmp_path / "session", schema, episodes_per_file=3)
    for _ in range(6):
        recording.keep(4)
    return recording.close()


def test_it_is_sound(said: Path) -> None:
    assert check_session(said) == []
    rewrite(said / DATA, with_value("said", 2, None))
    assert check_session(said) == []


def test_a_reader_gets_the_texts(said: Path) -> None:
    episode = Session(said).episode(1)
    texts = episode.rows()["said"].to_pylist()
    assert len(texts) == 8
    assert all(isinstance(text, str) for text in texts)
    assert "said" not in Session(said).stats


def as_numbers(table: pa.Table) -> pa.Table:
    return table.set_column(table.column_names.index("said"), "said", pa.array(range(table.num_rows)))


def as_lists(table: pa.Table) -> pa.Table:
    return table.set_column(table.column_names.index("said"), "said", pa.array([["x"]] * table.num_rows))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (as_numbers, "column said: stored as 0 nested lists of int64, the feature says string of shape [1]"),
        (as_lists, "column said: stored as 1 nested lists of string, the feature says string of shape [1]"),
    ],
)
def test_texts_that_are_stored_otherwise_are_a_fault(said: Path, change: Callable[..., Any], message: str) -> None:
    rewrite(said / DATA, change)
    assert message in [fault.message for fault in check_session(said)]


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (INFO, lambda i: i["features"]["said"].update(shape=[2]), "said: shape is [2], expected [1]: a row holds one"),
        (INFO, lambda i: i["features"]["said"].update(dtype="str"), "said: dtype is 'str', expected float64"),
        (STATS, lambda s: s.update(said=s["action"]), "said: has an entry, and is no column or stream that has stat"),
    ],
)
def test_what_meta_says_wrongly_of_texts_is_a_fault(
    said: Path, file: str, change: Callable[[Any], None], message: str
) -> None:
    content = json.loads((said / file).read_text())
    change(content)
    (said / file).write_text(json.dumps(content))
    assert any(f.file == file and f.message.startswith(message) for f in check_session(said))
