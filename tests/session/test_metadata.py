from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder
from lucky_recorder.episode.schema import Field, Schema
from lucky_recorder.session.check import check_session
from lucky_recorder.session.features import episodes_schema, features
from tests.session.building import Recording, arm_schema, camera, custom_schema, lidar


def read(root: Path, file: str = "info") -> dict:
    return json.loads((root / f"meta/{file}.json").read_text())


def test_info_has_every_field(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front")], ("left", "right")), 4, 3)
    recording.keep(5)
    recording.keep(6, success=False)
    recording.close()
    assert read(tmp_path) == {
        "codebase_version": "v3.0",
        "recorder_version": lucky_recorder.__version__,
        "neural_denoise": False,
        "bit_reproducible": True,
        "robot_type": "ur5e",
        "robots": ["left", "right"],
        "total_tasks": 2,
        "total_episodes": 2,
        "total_frames": 22,
        "fps": 50,
        "hz": 50,
        "chunks_size": 4,
        "episodes_per_file": 3,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "splits": {"train": "0:2"},
        "features": features(recording.schema),
    }


@pytest.mark.parametrize(
    ("column", "label", "field"),
    [
        ("robot_id", "ur5e", "robot_type"),
        ("sim_id", "mujoco_scene", "sim_type"),
        ("entity_id", "custom", "entity_type"),
    ],
)
def test_the_type_is_named_after_the_entity_column(tmp_path: Path, column: str, label: str, field: str) -> None:
    schema = Schema(column, label, ("one",), Fraction(200, 3), (Field("x", "float64", has_stats=True),))
    recording = Recording(tmp_path, schema)
    recording.keep(2)
    info = read(recording.close())
    assert info[field] == label
    assert info["hz"] == info["fps"] == 200 / 3
    assert "video_path" not in info


def test_without_tasks_there_is_the_default_task(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema(), tasks=())
    recording.keep(2)
    recording.close()
    assert read(tmp_path)["total_tasks"] == 1
    assert pd.read_parquet(tmp_path / "meta/tasks.parquet").to_dict() == {"task_index": {"Default Task": 0}}


def test_pandas_reads_the_tasks_indexed_by_description(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema(), tasks=("Greifen & heben", "Put it down", "Wait"))
    recording.close()
    tasks = pd.read_parquet(tmp_path / "meta/tasks.parquet")
    assert list(tasks.columns) == ["task_index"]
    assert tasks.loc["Put it down", "task_index"] == 1
    assert tasks["task_index"].tolist() == [0, 1, 2]


def test_statistics_are_numpy_s_over_all_rows(tmp_path: Path) -> None:
    extra = [Field("force", "float32", (2,), has_stats=True), Field("touch", "bool", has_stats=True)]
    extra.append(Field("count", "int16", (2, 2), has_stats=True))
    recording = Recording(tmp_path, arm_schema(extra=extra), metadata_every=7)
    for episode in range(30):
        recording.keep(1 + episode % 13, offset=3.0)
    _compare(recording)
    assert set(read(tmp_path, "stats")) == {"action", "observation.state", "force", "touch", "count"}


@pytest.mark.parametrize("offset", [0.0, 1e3, -1e6, 1e9])
def test_statistics_are_exact_far_from_zero(tmp_path: Path, offset: float) -> None:
    recording = Recording(tmp_path, arm_schema(), seed=1)
    for episode in range(20):
        recording.keep(3 + 7 * episode, offset=offset)
    _compare(recording)


def test_statistics_of_a_constant_have_no_deviation(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema())
    for ticks in (3, 7, 11):
        recording.keep(ticks, values={"action": np.full((ticks, 3), 0.1)})
    stats = read(recording.close(), "stats")["action"]
    assert stats["std"] == pytest.approx([0.0] * 3, abs=1e-17)
    assert stats["min"] == stats["max"] == stats["mean"] == [0.1] * 3


def _compare(recording: Recording) -> None:
    stats = read(recording.close(), "stats")
    for field in recording.schema.columns:
        values = recording.all_rows(field.name).reshape(-1, field.size).astype(np.float64)
        entry = stats[field.name]
        assert entry["count"] == [len(values)]
        np.testing.assert_array_equal(entry["min"], values.min(axis=0))
        np.testing.assert_array_equal(entry["max"], values.max(axis=0))
        np.testing.assert_allclose(entry["mean"], values.mean(axis=0), rtol=1e-9)
        np.testing.assert_allclose(entry["std"], values.std(axis=0), rtol=1e-9)


def test_missing_values_do_not_count(tmp_path: Path) -> None:
    recording = Recording(tmp_path, custom_schema(Field("info", "float64", nullable=True, has_stats=True)))
    recording.keep(3, values={"info": np.array([1.0, 99.0, 3.0])}, missing={"info": np.array([False, True, False])})
    entry = read(recording.close(), "stats")["info"]
    assert (entry["count"], entry["min"], entry["max"], entry["mean"], entry["std"]) == ([2], [1], [3], [2], [1])


def test_statistics_of_a_stream_are_per_channel_from_0_to_1(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front")]))
    recording.keep(3)
    entry = read(recording.close(), "stats")["observation.images.Front"]
    assert {name: np.shape(values) for name, values in entry.items() if name != "count"} == dict.fromkeys(
        ("min", "max", "mean", "std", "q01", "q10", "q50", "q90", "q99"), (3, 1, 1)
    )
    # The first frame is all (0, 40, 0).
    np.testing.assert_allclose(np.ravel(entry["mean"]), [0, 40 / 255, 0])
    assert entry["count"] == [1]


def test_episodes_are_appended_every_25_and_at_the_end(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema())
    files = []
    for episode in range(60):
        recording.keep(1 + episode % 3)
        files.append(len(list(tmp_path.glob("meta/episodes/*/*"))))
        assert (tmp_path / "meta/info.json").exists() == (episode >= 24)
    assert files == [0] * 24 + [1] * 25 + [2] * 11
    assert read(tmp_path)["total_episodes"] == 50
    recording.close()
    tables = [pq.ParquetFile(p).read() for p in sorted(tmp_path.glob("meta/episodes/chunk-000/file-*.parquet"))]
    assert [t["episode_index"].to_pylist() for t in tables] == [
        list(range(25)),
        list(range(25, 50)),
        list(range(50, 60)),
    ]
    assert read(tmp_path)["total_episodes"] == 60


def test_metadata_files_fill_chunks_too(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema(), files_per_chunk=2, metadata_every=1)
    for _ in range(5):
        recording.keep(1)
    recording.close()
    found = sorted(str(p.relative_to(tmp_path / "meta/episodes")) for p in tmp_path.glob("meta/episodes/*/*"))
    expected = [f"chunk-{i // 2:03d}/file-{i % 2:03d}.parquet" for i in range(5)]
    assert found == expected
    for i, name in enumerate(expected):
        row = pq.ParquetFile(tmp_path / "meta/episodes" / name).read().to_pylist()[0]
        assert (row["meta/episodes/chunk_index"], row["meta/episodes/file_index"]) == (i // 2, i % 2)


def test_all_metadata_files_have_one_schema_with_typed_nulls(tmp_path: Path) -> None:
    schema = arm_schema([camera("Front"), camera("Wrist")])
    recording = Recording(tmp_path, schema, metadata_every=1)
    recording.keep(2, success=False, failed_stream="observation.images.Wrist")
    recording.keep(2)
    recording.close()
    first, second = (pq.ParquetFile(p).read() for p in sorted(tmp_path.glob("meta/episodes/*/*")))
    assert first.schema.equals(second.schema)
    assert first.schema.equals(episodes_schema(schema))
    wrist = [n for n in first.column_names if n.startswith("videos/observation.images.Wrist/")]
    assert [first[n].to_pylist() for n in wrist] == [[None]] * 4
    assert [second[n].to_pylist() for n in wrist] == [[0], [1], [0.0], [2 / 50]]
    assert first.schema.field(wrist[0]).type == pa.int64()


def test_closing_an_empty_session_still_writes_metadata(tmp_path: Path) -> None:
    assert read(Recording(tmp_path, arm_schema()).close())["total_episodes"] == 0
    assert read(tmp_path, "stats") == {}
    assert not list(tmp_path.glob("meta/episodes/*/*"))


def test_info_is_renamed_last_and_after_what_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renamed: list[str] = []
    working = os.replace

    def rename(source: Any, target: Any) -> None:
        renamed.append(Path(target).relative_to(tmp_path).as_posix())
        working(source, target)

    monkeypatch.setattr(os, "replace", rename)
    recording = Recording(tmp_path, arm_schema([camera("Front")]), metadata_every=2)
    for _ in range(3):
        recording.keep(2)
    recording.close()
    video, data = "videos/observation.images.Front/chunk-000/file-{:03d}.mp4", "data/chunk-000/file-{:03d}.parquet"
    tail = ["meta/stats.json", "meta/info.json"]
    assert renamed == [
        *(name.format(k) for k in (0, 1) for name in (video, data)),
        *("meta/tasks.parquet", "meta/episodes/chunk-000/file-000.parquet", *tail),
        *(name.format(2) for name in (video, data)),
        *("meta/episodes/chunk-000/file-001.parquet", *tail),
    ]


def test_every_parquet_file_is_compressed_with_zstd(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema(lidars=[lidar("top")]), episodes_per_file=2)
    for _ in range(2):
        recording.keep(3)
    recording.close()
    kinds = {}
    for path in tmp_path.rglob("*.parquet"):
        metadata = pq.read_metadata(path)
        groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
        kinds[path.name] = {group.column(c).compression for group in groups for c in range(group.num_columns)}
    assert len(kinds) == 4  # rows, two lidar files, tasks; the episodes' file has the name of the rows'
    assert set.union(*kinds.values()) == {"ZSTD"}


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (100, [0, 0, 1, 1, 2, 2, 3, 3]),
        (75, [0, 0, 1, 2, 2, 3]),
        (Fraction(200, 3), [0, 0, 1, 2, 3, 3]),
        (25, [0, 2]),
    ],
)
def test_a_scan_belongs_to_the_row_that_was_current_at_its_time(
    tmp_path: Path, rate: Fraction | int, expected: list[int]
) -> None:
    """Rows are at 50 Hz: a scan between two rows is the earlier one's."""
    recording = Recording(tmp_path, arm_schema(lidars=[lidar("top", rate)]))
    recording.keep(4)
    recording.close()
    table = pq.read_table(tmp_path / "data/chunk-000/lidar-top-000.parquet", partitioning=None)
    assert table["frame_index"].to_pylist() == expected
    assert check_session(tmp_path) == []
