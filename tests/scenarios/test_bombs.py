"""Small folders that say they are huge: each reader takes less than 500 MB over start, and ends with our own error."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.soak.hostile import attack, good_folders
from tests.soak.mutations import Outside


def _column(folder: Path, pattern: str, values: Callable[[int], pa.Array], rows: int = 0) -> None:
    """Put another column in the place of a file's last, and repeat its first row."""
    for path in folder.glob(pattern):
        table = pq.read_table(path, partitioning=None)
        table = table.take(pa.array(np.zeros(rows or table.num_rows, np.int64)))
        name = table.column_names[-1]
        pq.write_table(table.set_column(table.num_columns - 1, name, values(table.num_rows)), path)


def _lists(rows: int) -> pa.Array:
    long = 30_000_000 // rows
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * long)
    return pa.ListArray.from_arrays(offsets, pa.array(np.zeros(rows * long, np.float32)))


def _texts(rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 2_000_000]))


def lists(folder: Path) -> None:
    _column(folder, "**/data*/**/file-*.parquet", _lists)
    _column(folder, "episodes/*/data.parquet", _lists)


def texts(folder: Path) -> None:
    for pattern in ("**/file-*.parquet", "meta/tasks.parquet", "episodes/*/data.parquet", "overlays/*/*.parquet"):
        _column(folder, pattern, _texts, 1000)


def rows(folder: Path) -> None:
    for pattern in ("**/file-*.parquet", "meta/tasks.parquet", "episodes/*/data.parquet"):
        _column(folder, pattern, lambda count: pa.array(np.zeros(count, np.int64)), 1_000_000)


def brackets(folder: Path) -> None:
    for name in ("meta/stats.json", "manifest.json"):
        if (folder / name).exists():
            (folder / name).write_text('{"action": [' + ("[]," * 5_000_000)[:-1] + "]}")


def pictures(folder: Path) -> None:
    for path in folder.rglob("*.mp4"):
        content = path.read_bytes()
        place = content.rfind(b"avc1") + 28
        path.write_bytes(content[:place] + struct.pack(">HH", 60_000, 60_000) + content[place + 4 :])


def far(folder: Path) -> None:
    for path in folder.glob("overlays/progress/*.parquet"):
        table = pq.read_table(path).slice(0, 1)
        pq.write_table(table.set_column(0, "step", pa.array([99_999_999], pa.int64())), path)


def shapes(folder: Path) -> None:
    for name in ("meta/info.json", "manifest.json", "overlays/progress/overlay.json"):
        if (folder / name).exists():
            content = json.loads((folder / name).read_text())
            for feature in [content, *content.get("features", {}).values()]:
                feature["shape"] = [1 << 20, 1 << 20, 3]
            (folder / name).write_text(json.dumps(content))


BOMBS = [lists, texts, rows, brackets, pictures, far, shapes]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    made = good_folders(tmp_path_factory.mktemp("good"))
    return {"session": made["session"][:1], "koyu": made["koyu"]}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_folder_takes_no_gigabytes(bases: dict[str, list[Path]], bomb: Callable[[Path], None]) -> None:
    def spoil(folder: Path, outside: Outside, rng: random.Random) -> str:
        bomb(folder)
        return bomb.__name__

    assert list(attack(bases, 0, [0], spoil=spoil)) == []
