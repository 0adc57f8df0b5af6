"""The same recording in one go and in parts, and all that either of them leaves on the disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import lucky_recorder as lr
from lucky_recorder.episode import keys
from tests.same import WHEN
from tests.session.building import Recording, arm_schema, camera, depth, lidar, mask, rgbd

FIELDS = {"files_per_chunk": 3, "episodes_per_file": 1, "metadata_every": 2}


def schema() -> Any:
    streams = [camera("Front"), depth("Front"), rgbd("Front"), mask("Front")]
    return arm_schema(streams, lidars=[lidar("top", 25, has_proxy=True)])


def keep(recording: Recording, episodes: int) -> None:
    for _ in range(episodes):
        number = len(recording.committed)
        recording.keep(3 + number % 3, success=number != 1, tasks=(number % 2,))


def in_parts(root: Path, *parts: int, **fields: Any) -> Path:
    """Record a session in parts, each of so many episodes; returns its folder."""
    given = FIELDS | fields
    recording = Recording(root, schema(), **given)
    keep(recording, parts[0])
    recording.close()
    for episodes in parts[1:]:
        recording.resume()
        keep(recording, episodes)
        recording.close()
    return root


def contents(root: Path) -> dict[str, bytes]:
    """All files of a session but those that say which recording each episode is of: each of them adds its own."""
    files = {p.relative_to(root).as_posix(): p for p in root.rglob("*") if p.is_file()}
    own = ("meta/episodes/", "meta/provenance.json")
    return {name: p.read_bytes() for name, p in sorted(files.items()) if not name.startswith(own)}


def listed(root: Path) -> list[dict[str, Any]]:
    """What ``meta/episodes`` says, but for where it says so, and when it was recorded."""
    rows = [row for file in sorted(root.glob("meta/episodes/*/*.parquet")) for row in pq.read_table(file).to_pylist()]
    return [{k: v for k, v in row.items() if k not in WHEN and not k.startswith("meta/")} for row in rows]


def read(root: Path, cameras: Sequence[str] = ("Front",)) -> list[tuple[Any, ...]]:
    """The rows and pictures of every episode, decoded."""
    return [
        (
            episode.rows().to_pylist(),
            [_content(picture) for name in cameras for picture in episode.frames(name)],
            [_content(picture) for picture in episode.depth("Front").codes],
        )
        for episode in lr.Session(root)
    ]


def _content(picture: np.ndarray) -> tuple[Any, ...]:
    return picture.shape, picture.dtype.str, picture.tobytes()


def forget(path: Path, *parts: str) -> None:
    """Leave out of a data file's footer what earlier versions have not written there."""
    table = pq.ParquetFile(path).read()
    said = json.loads(table.schema.metadata[keys.SESSION_FOOTER])
    kept = json.dumps({key: value for key, value in said.items() if key not in parts}).encode()
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, keys.SESSION_FOOTER: kept}), path)
