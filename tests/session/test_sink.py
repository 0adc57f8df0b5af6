from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import StorageError
from lucky_recorder.session import rows
from lucky_recorder.session.check import check_session
from lucky_recorder.session.layout import Chunking
from lucky_recorder.session.reader import Session
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.video.decode import decode_all
from tests.session.building import HEIGHT, WIDTH, Recording, arm_schema, camera, custom_schema, entity_id

FRONT = "observation.images.Front"


def names(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def read(path: Path):
    return pq.ParquetFile(path).read()


def test_every_row_comes_back(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema(robots=("left", "right"), hz=50), episodes_per_file=2)
    for ticks in (3, 1, 4):
        recording.keep(ticks, tasks=(0, 1))
    recording.close()
    table = {name: [] for name in [f.name for f in recording.schema.fields]}
    for path in sorted(tmp_path.glob("data/*/*")):
        for name, values in read(path).to_pydict().items():
            table[name] += values
    assert table["index"] == list(range(16))
    assert table["episode_index"] == [0] * 6 + [1] * 2 + [2] * 8
    assert table["frame_index"] == [0, 0, 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3]
    assert table["robot_id"] == [entity_id("left"), entity_id("right")] * 8
    assert table["timestamp"][:6] == [0.0, 0.0, 0.02, 0.02, 0.04, 0.04]
    for name in ("action", "observation.state", "task_index", "frame_flags"):
        np.testing.assert_array_equal(table[name], recording.all_rows(name))


def test_an_episode_per_file(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front")]), files_per_chunk=2)
    for _ in range(3):
        recording.keep(2)
        # Whole as soon as it is committed.
        assert read(sorted(tmp_path.glob("data/*/*.parquet"))[-1]).num_rows == 2
    assert names(recording.close()) == [
        "data/chunk-000/file-000.parquet",
        "data/chunk-000/file-001.parquet",
        "data/chunk-001/file-000.parquet",
        "meta/episodes/chunk-000/file-000.parquet",
        "meta/episodes/chunk-000/file-001.parquet",
        "meta/info.json",
        "meta/stats.json",
        "meta/tasks.parquet",
        f"videos/{FRONT}/chunk-000/file-000.mp4",
        f"videos/{FRONT}/chunk-000/file-001.mp4",
        f"videos/{FRONT}/chunk-001/file-000.mp4",
    ]


def test_eighty_episodes_in_files_of_three_and_chunks_of_four(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front")]), files_per_chunk=4, episodes_per_file=3)
    for episode in range(80):
        if episode % 9 == 4:
            recording.discard(2)
        recording.keep(1 + episode % 3)
    recording.close()
    assert check_session(tmp_path) == []
    episodes = Session(tmp_path).episodes.to_pylist()
    assert len(episodes) == 80
    for n, row in enumerate(episodes):
        assert (row["data/chunk_index"], row["data/file_index"]) == divmod(n // 3, 4)
        assert (row["chunk_index"], row["file_index"]) == divmod(n // 3, 4)
        assert (row[f"videos/{FRONT}/chunk_index"], row[f"videos/{FRONT}/file_index"]) == divmod(n, 4)
        file = tmp_path / "data/chunk-{:03d}/file-{:03d}.parquet".format(*divmod(n // 3, 4))
        stored = read(file).to_pydict()
        mine = [i for i, e in zip(stored["index"], stored["episode_index"], strict=True) if e == n]
        assert mine == list(range(row["dataset_from_index"], row["dataset_to_index"]))
        video = tmp_path / f"videos/{FRONT}" / "chunk-{:03d}/file-{:03d}.mp4".format(*divmod(n, 4))
        assert decode_all(video).shape == (1 + n % 3, HEIGHT, WIDTH, 3)
    assert len(list(tmp_path.glob("data/*/*"))) == 27
    assert len(list(tmp_path.glob("videos/*/*/*"))) == 80
    assert [read(p).num_rows for p in sorted(tmp_path.glob("meta/episodes/*/*"))] == [3, 21, 24, 27, 5]


def test_spools_are_whole_before_their_file_is_assembled(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema(), episodes_per_file=3)
    first, second = recording.keep(4), recording.keep(5)
    spools = sorted(tmp_path.glob("data/chunk-000/*"))
    assert [p.name for p in spools] == ["file-000.parquet.0.tmp", "file-000.parquet.1.tmp"]
    for spool, record, number in zip(spools, (first, second), (0, 1), strict=True):
        np.testing.assert_array_equal(read(spool)["action"].to_pylist(), record.columns["action"])
        assert [e["episode_index"] for e in rows.footer(spool)] == [number]
    recording.keep(6)
    assert [name for name in names(tmp_path) if name.startswith("data")] == ["data/chunk-000/file-000.parquet"]
    assert [e["length"] for e in rows.footer(tmp_path / "data/chunk-000/file-000.parquet")] == [4, 5, 6]


def test_closing_assembles_what_is_spooled(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema(), episodes_per_file=1000)
    recording.keep(2)
    recording.keep(3)
    recording.close()
    assert [p.name for p in tmp_path.glob("data/*/*")] == ["file-000.parquet"]
    assert check_session(tmp_path) == []


def test_footers_say_what_meta_says(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front")]), episodes_per_file=2)
    for ticks in (2, 3, 4):
        recording.keep(ticks, success=ticks != 3)
    recording.close()
    said = [e for p in sorted(tmp_path.glob("data/*/*")) for e in rows.footer(p)]
    own = ("meta/episodes/chunk_index", "meta/episodes/file_index")
    listed = Session(tmp_path).episodes.to_pylist()
    assert said == [{k: v for k, v in row.items() if k not in own and v is not None} for row in listed]


@pytest.mark.parametrize("episodes_per_file", [1, 3])
def test_a_discarded_episode_leaves_nothing(tmp_path: Path, episodes_per_file: int) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front")]), episodes_per_file=episodes_per_file)
    recording.keep(2)
    before = names(tmp_path)
    recording.discard(9)
    assert names(tmp_path) == before
    kept = recording.keep(3)
    recording.close()
    assert check_session(tmp_path) == []
    episode = Session(tmp_path).episode(1)
    assert (episode.length, len(episode.frames("Front"))) == (3, 3)
    np.testing.assert_array_equal(episode.rows()["action"].to_pylist(), kept.columns["action"])


def test_a_session_of_discarded_episodes_has_no_video_folder(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front")]))
    recording.discard(2)
    recording.close()
    assert names(tmp_path) == ["meta/info.json", "meta/stats.json", "meta/tasks.parquet"]
    assert not (tmp_path / "videos").exists()
    assert check_session(tmp_path) == []


def test_a_failed_stream_leaves_no_file(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front"), camera("Wrist")]))
    recording.keep(2, success=False, failed_stream=FRONT)
    recording.close()
    assert not (tmp_path / f"videos/{FRONT}").exists()
    assert Session(tmp_path).episode(0).success is False
    assert check_session(tmp_path) == []


def test_videos_only(tmp_path: Path) -> None:
    schema = arm_schema([camera("Front")])
    schema = type(schema)(**{**schema.__dict__, "has_rows": False})
    recording = Recording(tmp_path, schema, files_per_chunk=2, metadata_every=1)
    for _ in range(3):
        recording.keep(2)
    recording.close()
    assert names(tmp_path) == [f"videos/{FRONT}/chunk-{n // 2:03d}/file-{n % 2:03d}.mp4" for n in range(3)]


def test_the_thousandth_chunk_is_refused(tmp_path: Path) -> None:
    recording = Recording(tmp_path, custom_schema(Field("x", "float64")), files_per_chunk=1)
    recording.sink._episodes = 999
    recording.sink.prepare(recording.record(1)).discard()
    recording.sink._episodes = 1000
    with pytest.raises(StorageError, match="raise files_per_chunk"):
        recording.sink.prepare(recording.record(1))


def test_bit_reproducible_only_if_every_episode_is(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema())
    recording.keep(2)
    record = recording.record(2)
    recording.sink.prepare(type(record)(**{**record.__dict__, "reproducible": False})).commit()
    recording.keep(2)
    assert json.loads((recording.close() / "meta/info.json").read_text())["bit_reproducible"] is False


def test_the_same_episodes_give_the_same_bytes(tmp_path: Path) -> None:
    def record(root: Path) -> dict[str, bytes]:
        recording = Recording(root, arm_schema([camera("Front")]), episodes_per_file=2)
        for ticks in (3, 4, 2):
            recording.keep(ticks)
        recording.close()
        return {name: (root / name).read_bytes() for name in names(root)}

    assert record(tmp_path / "one") == record(tmp_path / "two")


def test_a_scene_without_actuators_has_an_action_of_no_values(tmp_path: Path) -> None:
    schema = arm_schema()
    nothing = Field("action", "float64", (0,), has_stats=True)
    recording = Recording(tmp_path, type(schema)(**{**schema.__dict__, "columns": (nothing, schema.columns[1])}))
    recording.keep(3)
    recording.close()
    assert read(tmp_path / "data/chunk-000/file-000.parquet")["action"].to_pylist() == [[], [], []]
    assert check_session(tmp_path) == []


def test_a_sink_that_was_never_opened_leaves_no_folder(tmp_path: Path) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    for folder in (empty, full):
        folder.mkdir()
    (full / "mine.txt").touch()
    for folder in (empty, full):
        SessionSink(folder, Chunking(40)).close()
    assert not empty.exists()
    assert [p.name for p in full.iterdir()] == ["mine.txt"]
