"""Columns of texts: what is taken for one, and how it comes back from the file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.channels import text
from lucky_recorder.episode.keys import LONGEST_TEXT
from lucky_recorder.errors import CaptureError
from lucky_recorder.testing import CountEnv, check_session

LONG = "ä" * (LONGEST_TEXT // 2)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("Pick up the cube", "Pick up the cube"),
        ("Würfel 立方体 \U0001f9ca\0\n", "Würfel 立方体 \U0001f9ca\0\n"),
        (np.str_("x"), "x"),
        (np.array("x"), "x"),
        (np.array(["x"]), "x"),
        (np.array(["x"], object), "x"),
        (None, None),
        (np.array(None, object), None),
        (LONG, LONG),
    ],
)
def test_what_is_a_text(given: Any, kept: str | None) -> None:
    settled = text("column 'c': the source", given)
    assert settled == kept
    assert type(settled) in (str, type(None))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (5, "which is no text; give a str, or None"),
        (b"x", "which is no text"),
        (np.array(["x", "y"]), "which is no text"),
        (["x"], "which is no text"),
        (np.float64(0), "which is no text"),
        ("\ud800", "holds half a character"),
        (LONG + "x", f"a text of {LONGEST_TEXT + 1} bytes; at most {LONGEST_TEXT} are recorded: shorten it"),
    ],
)
def test_what_is_no_text_is_refused_with_the_column(given: Any, why: str) -> None:
    with pytest.raises(CaptureError, match=f"^column 'c': .*{why}"):
        text("column 'c': the source", given)


def stored(path: Any) -> pa.Table:
    return pq.read_table(path / "data/chunk-000/file-000.parquet", partitioning=None)


@pytest.mark.parametrize("when", ["before", "after"])
def test_texts_come_back_from_the_file_and_may_be_missing(record: Any, run: Any, when: str) -> None:
    said = [None, "", "b", None, LONG]
    late = when == "after"
    columns = [
        lr.Column("obs", "gym:obs"),
        lr.Column("said", lambda m: said[int(m.obs[0]) - late], dtype="str", when=when),
    ]
    env = record(CountEnv(5), columns=columns)
    run(env)
    env.close()
    table = stored(env.session_path)
    assert table["said"].to_pylist() == said
    assert table.schema.field("said").type == pa.string()
    session = check_session(env.session_path)
    assert session.features["said"] == {"dtype": "string", "shape": [1], "names": None}
    assert "said" not in session.stats
    assert session.episode(0).rows(["said"])["said"].to_pylist() == said


def test_a_column_of_nothing_but_missing_texts_keeps_its_type(record: Any, run: Any) -> None:
    env = record(CountEnv(3), columns=[lr.Column("said", lambda m: None, dtype=str)], episodes_per_file=2)
    run(env, episodes=2)
    env.close()
    assert stored(env.session_path).schema.field("said").type == pa.string()
    check_session(env.session_path)


def test_texts_of_an_info_are_null_where_it_has_none(record: Any, run: Any) -> None:
    class Talks(CountEnv):
        def _info(self) -> dict[str, Any]:
            return {"is_success": True, "said": {"now": f"step {self.t}"}} if self.t % 2 else {"is_success": True}

    env = record(Talks(4), columns=[lr.Column("said", "info:said.now", dtype="str")], data_hz=25)
    run(env)
    env.close()
    assert stored(env.session_path)["said"].to_pylist() == ["step 1", "step 3"]
    env = record(Talks(4), columns=[lr.Column("said", "info:said.now", dtype="str")])
    run(env)
    env.close()
    assert stored(env.session_path)["said"].to_pylist() == ["step 1", None, "step 3", None]


def test_texts_fill_more_than_one_block(record: Any, run: Any) -> None:
    env = record(CountEnv(2100), columns=[lr.Column("said", lambda m: f"{int(m.obs[0])}", dtype="str")])
    run(env, steps=2100)
    env.close()
    assert stored(env.session_path)["said"].to_pylist() == [str(t) for t in range(2100)]


def test_what_is_no_text_fails_the_episode_and_keeps_the_rows_before_it(record: Any) -> None:
    env = record(CountEnv(5), columns=[lr.Column("said", lambda m: "x" if m.obs[0] < 2 else 3, dtype="str")])
    env.reset()
    env.step(np.zeros(1))
    env.step(np.zeros(1))
    with pytest.raises(CaptureError, match="column 'said': the source gave 3"):
        env.step(np.zeros(1))
    env.close()
    assert stored(env.session_path)["said"].to_pylist() == ["x", "x"]


def test_a_number_is_not_read_as_a_text_nor_a_text_as_a_number(record: Any) -> None:
    env = record(CountEnv(5), columns=[lr.Column("said", lambda m: "1")])
    env.reset()
    with pytest.raises(CaptureError, match=r"'said'.*which is no number"):
        env.step(np.zeros(1))


@pytest.mark.parametrize("source", ["qpos:count", "ctrl:push"])
def test_the_simulation_has_no_texts(record: Any, source: str) -> None:
    env = record(CountEnv(mujoco=True), columns=[lr.Column("said", source, dtype="str")])
    with pytest.raises(lr.SettingsError, match=r"column 'said': dtype='string': this source gives floats"):
        env.reset()


def test_a_policy_that_looks_is_shown_the_text(record: Any) -> None:
    env = record(CountEnv(), columns=[lr.Column("said", lambda m: "now", dtype="str")])
    env.reset()
    assert env.observe()["said"] == "now"
