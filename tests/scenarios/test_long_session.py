"""A long session with several episodes per file and failures discarded: every number in ``meta/`` against the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.session import rows
from lucky_recorder.testing import CountEnv

FILES, PER_FILE, KEPT = 4, 3, 80


@pytest.fixture(scope="module")
def long_session(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[int]]]:
    """Eighty kept episodes of one to five steps, every third attempt discarded; and the counts that were kept."""
    lengths = [1, 3, 2, 5]
    camera = {"name": "seen", "source": "render", "width": 64, "height": 48, "frame_rate": 25}
    env = lr.RecordSession(
        CountEnv(lengths, succeeds=lambda n: n % 3 != 1, mujoco=True, render_mode="rgb_array"),
        output_dir=tmp_path_factory.mktemp("long"),
        cameras=[camera],
        tasks=["Pick", "Place"],
        columns=[lr.Column("obs", "gym:obs")],
        files_per_chunk=FILES,
        episodes_per_file=PER_FILE,
        discard_and_retry_failed=True,
        total_episodes=KEPT,
    )
    kept, attempt = [], 0
    while not kept or env.is_recording:
        env.set_task(attempt % 2)
        env.reset(seed=attempt)
        for t in range(lengths[attempt % 4]):
            env.step(np.array([np.sin(attempt + t)], np.float32))
        env.end_episode()
        if attempt % 3 != 1:
            kept.append([100 * attempt + t for t in range(lengths[attempt % 4])])
        attempt += 1
    env.close()
    assert (attempt, env.observer.counts.discarded) == (120, 40)
    assert env.session_path is not None
    return env.session_path, kept


def test_a_long_session_keeps_what_succeeded(long_session: Any, read_back: Any, counts: Any) -> None:
    path, kept = long_session
    episodes = read_back(path)
    assert [counts(e)["rows"] for e in episodes] == kept
    assert [counts(e)["state"] for e in episodes] == kept
    assert [counts(e)["seen"] for e in episodes] == [rows[::2] for rows in kept]
    assert {e.meta["success"] for e in episodes} == {True}
    assert [e.meta["tasks"] for e in episodes] == [[["Pick", "Place"][rows[0] // 100 % 2]] for rows in kept]


def test_a_long_session_lies_where_the_arithmetic_says(long_session: Any) -> None:
    path, _ = long_session
    data = [divmod(file, FILES) for file in range(-(-KEPT // PER_FILE))]
    videos = [divmod(episode, FILES) for episode in range(KEPT)]
    metas = [divmod(file, FILES) for file in range(5)]
    (model,) = path.glob("meta/models/*.mjb")
    expected = {
        *("meta/info.json", "meta/stats.json", "meta/tasks.parquet", "meta/provenance.json"),
        f"meta/models/{model.name}",
        *(f"data/chunk-{c:03d}/file-{f:03d}.parquet" for c, f in data),
        *(f"videos/observation.images.seen/chunk-{c:03d}/file-{f:03d}.mp4" for c, f in videos),
        *(f"meta/episodes/chunk-{c:03d}/file-{f:03d}.parquet" for c, f in metas),
    }
    assert {p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()} == expected


def test_a_long_sessions_metadata_agrees_with_its_files(long_session: Any, read_back: Any) -> None:
    path, kept = long_session
    metas = [pq.read_table(p).to_pylist() for p in sorted(path.glob("meta/episodes/*/*.parquet"))]
    assert [len(m) for m in metas] == [3, 21, 24, 27, 5]
    total, first = sum(map(len, kept)), 0
    for number, (episode, counted) in enumerate(zip(read_back(path), kept, strict=True)):
        meta, length = episode.meta, len(counted)
        place = divmod(number // PER_FILE, FILES)
        assert (meta["chunk_index"], meta["file_index"]) == place
        assert (meta["data/chunk_index"], meta["data/file_index"]) == place
        assert (meta["episode_index"], meta["length"]) == (number, length)
        assert (meta["dataset_from_index"], meta["dataset_to_index"]) == (first, first + length)
        assert episode.rows["index"].tolist() == list(range(first, first + length))
        key = "videos/observation.images.seen"
        assert (meta[f"{key}/chunk_index"], meta[f"{key}/file_index"]) == divmod(number, FILES)
        assert (meta[f"{key}/from_timestamp"], meta[f"{key}/to_timestamp"]) == (0.0, -(-length // 2) / 25)
        first += length
    info = json.loads((path / "meta/info.json").read_text())
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (KEPT, total, 2)
    assert (info["chunks_size"], info["splits"], info["hz"]) == (FILES, {"train": f"0:{KEPT}"}, 50)
    footers = [rows.footer(p) for p in sorted(path.glob("data/*/*.parquet"))]
    assert [[e["episode_index"] for e in footer] for footer in footers] == [
        list(range(n, min(n + PER_FILE, KEPT))) for n in range(0, KEPT, PER_FILE)
    ]


def test_a_long_sessions_statistics_are_those_of_its_rows(long_session: Any, read_back: Any) -> None:
    path, kept = long_session
    stats = json.loads((path / "meta/stats.json").read_text())
    episodes = read_back(path)
    assert set(stats) == {"action", "observation.state", "obs", "observation.images.seen"}
    for column in ("action", "observation.state", "obs"):
        values = np.concatenate([e.rows[column].reshape(len(e.rows["index"]), -1) for e in episodes]).astype(float)
        entry = stats[column]
        assert entry["count"] == [sum(map(len, kept))]
        for name, expected in (
            ("min", values.min(0)),
            ("max", values.max(0)),
            ("mean", values.mean(0)),
            ("std", values.std(0)),
        ):
            assert np.allclose(entry[name], expected, rtol=1e-9, atol=1e-9), (column, name)
