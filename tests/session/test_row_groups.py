"""Sessions whose ``meta/episodes`` others have written anew, in row groups of a few episodes, as LeRobot does."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.session.check import check_session
from tests.edit.test_recover import tree
from tests.session.building import Recording, arm_schema, camera


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_every_reader_has_them(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "session_2026-10-08_14-30-05"
    recording = Recording(path, arm_schema([camera("Front")]))
    for number in range(5):
        recording.keep(3, tasks=(number % 2,))
    recording.close()
    told = lr.Session(path).episodes
    for file in path.glob("meta/episodes/*/*.parquet"):
        table = pq.read_table(file, partitioning=None)
        noted = table.append_column("note", pa.array([{"by": "ada"}] * len(table)))
        pq.write_table(noted, file, row_group_size=rows)
    before = tree(path)
    session = lr.Session(path)
    assert session.episodes.drop_columns(["note"]) == told
    assert session.episodes["note"].to_pylist() == [{"by": "ada"}] * 5
    assert check_session(path) == []
    (done,) = lr.recover(path)
    assert (done.verdict, tree(path)) == ("complete", before)
    assert lr.lerobot_view(path, tmp_path / "view").episodes == 5
    assert lr.merge([path], tmp_path / "merged").episodes == 5
    assert lr.Session(tmp_path / "merged").episodes["note"].to_pylist() == [{"by": "ada"}] * 5
