"""Masks, combined files and lidars of sessions that are gone on with: also where no episode shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.episode import keys
from lucky_recorder.session import resumed
from lucky_recorder.session.layout import Chunking
from tests.session.building import Recording, arm_schema, camera, depth, lidar, mask, rgbd
from tests.session.resuming import forget

SEEN = (camera("Front"), depth("Front"))
MORE: dict[str, tuple[list[Any], list[Any], str]] = {
    "masks": ([mask("Front")], [], "'observation.masks.Front'"),
    "combined": ([rgbd("Front")], [], "'observation.images.Front_rgbd'"),
    "lidar": ([], [lidar("top")], "'lidar-top'"),
}


def session(path: Path, streams: list[Any], lidars: list[Any], per_file: int, **episode: Any) -> Recording:
    recording = Recording(path, arm_schema([*SEEN, *streams], lidars=lidars), 40, per_file)
    for _ in range(2):
        recording.keep(3, success=False, **episode)
    return recording


@pytest.mark.parametrize("per_file", [1, 3])
@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("kind", MORE)
def test_where_no_episode_succeeded_none_is_added_or_left_out(
    tmp_path: Path, kind: str, is_killed: bool, per_file: int
) -> None:
    streams, lidars, key = MORE[kind]
    failed = streams[0].key if streams else lidars[0].name
    without = session(tmp_path / "without", [], [], per_file)
    failing = session(tmp_path / "failing", streams, lidars, per_file, failed_stream=failed)
    for one, other, told in (
        (without, failing, f"{key}: only this recording has it"),
        (failing, without, f"{key}: only the session has it"),
    ):
        one.sink._lock.release() if is_killed else one.close()
        with pytest.raises(lr.SettingsError) as refused:
            resumed.refuse(one.root, other.schema, Chunking(40, per_file))
        assert str(refused.value).endswith(told)
        if is_killed:
            one.sink._reserve.release()
        one.resume()
        one.keep(3)
        one.close()
        lr.testing.check_session(one.root)


def test_what_a_stream_is_is_known_without_a_file_of_it(tmp_path: Path) -> None:
    made = session(tmp_path / "session", [mask("Front")], [], 1, failed_stream="observation.masks.Front")
    made.close()
    other = arm_schema([*SEEN, mask("Front", 25)])
    with pytest.raises(lr.SettingsError, match=r"'observation\.masks\.Front' frames per second: the session has '50'"):
        resumed.refuse(made.root, other, Chunking(40))


def test_sessions_of_the_version_before_go_by_what_lies_there(tmp_path: Path) -> None:
    made = session(tmp_path / "session", [], [], 1)
    made.close()
    for file in made.root.glob("data/*/*.parquet"):
        forget(file, "streams", "takes")
    assert resumed.takes(made.root) == 2
    made.schema = arm_schema([*SEEN, mask("Front")])
    made.resume()
    made.keep(3)
    made.close()
    with pytest.raises(lr.SettingsError, match=r"'observation\.masks\.Front': only the session has it"):
        resumed.refuse(made.root, arm_schema(SEEN), Chunking(40))


@pytest.mark.parametrize("per_file", [1, 3])
def test_takes_that_were_discarded_are_counted(tmp_path: Path, per_file: int) -> None:
    recording = Recording(tmp_path / "session", arm_schema(), 40, per_file)
    for discarded, kept in ((1, 2), (3, 2)):
        for _ in range(discarded):
            recording.discard(3)
        for _ in range(kept):
            recording.keep(3)
    assert resumed.takes(recording.root) == 8
    recording.close()
    assert resumed.takes(recording.root) == 8


@pytest.mark.parametrize(("part", "value"), [("takes", -1), ("takes", "3"), ("takes", True), ("streams", [1])])
def test_a_note_that_cannot_be_believed_is_none(tmp_path: Path, part: str, value: object) -> None:
    made = session(tmp_path / "session", [], [], 1)
    made.close()
    file = made.root / "data/chunk-000/file-001.parquet"
    table = pq.ParquetFile(file).read()
    said = json.loads(table.schema.metadata[keys.SESSION_FOOTER]) | {part: value}
    notes = {**table.schema.metadata, keys.SESSION_FOOTER: json.dumps(said).encode()}
    pq.write_table(table.replace_schema_metadata(notes), file)
    with pytest.raises(lr.FormatError, match=r"file-001\.parquet: .*no (number of takes|streams)"):
        resumed.takes(made.root)
