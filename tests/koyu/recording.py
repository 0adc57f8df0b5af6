"""A recorder that writes bundles of what counts itself, and what the bundles' rows and pictures count."""

from __future__ import annotations

import lucky_recorder as lr
from lucky_recorder.testing import read_count
from tests.koyu.making import Read, read_dataset

KOYU = {"name": "cubes"}
PAIR = [lr.Column("observation.state", "gym:obs"), lr.Column("action", "gym:action")]
SMALL = {"width": 64, "height": 48}


def seen_counts(read: Read) -> list[int]:
    return [read_count(frame) for frame in read.frames["observation.images.seen"]]


def counted(read: Read, name: str = "observation.state") -> list[float]:
    return read.rows[name][:, 0].tolist()


def bundles(env: lr.RecordSession) -> list[Read]:
    assert env.koyu_path is not None
    return read_dataset(env.koyu_path)
