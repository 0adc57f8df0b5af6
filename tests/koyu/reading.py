"""The rows of a dataset made by hand: where each is, what it must be, and how to put another value in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lucky_recorder.testing import read_count
from tests.koyu.bundles import CAMERAS, capture_id, count_of, state_of

FRONT, WRIST = CAMERAS
LENGTHS = (12, 1, 25)


def bundle(dataset: Path, episode: int) -> Path:
    return dataset / "episodes" / f"ep_{capture_id(episode)}"


def places(lengths: tuple[int, ...] = LENGTHS) -> list[tuple[int, int]]:
    return [(episode, step) for episode, length in enumerate(lengths) for step in range(length)]


def assert_is(row: dict[str, Any], episode: int, step: int) -> None:
    """Every part of a row says which row it is."""
    assert row["observation.state"].tolist() == state_of(episode, step)
    assert row["action"].tolist() == [100 * episode + step, -step]
    assert [read_count(row[c]) for c in CAMERAS] == [count_of(episode, step, n) for n in range(2)]
    assert (row["episode_index"], row["episode_id"], row["step"]) == (episode, f"ep_{capture_id(episode)}", step)
    assert row["timestamp"] == 10**18 + step * 20_000_000
    assert (row["task"], row["task_description"]) == ("lift", "Lift the cube")


def rewrite(dataset: Path, episode: int, name: str, change: Any) -> None:
    path = bundle(dataset, episode) / "data.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index(name), name, change(table[name])), path)
