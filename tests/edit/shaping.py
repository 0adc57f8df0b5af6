"""Sessions to be shaped: the same recording in one go and in several sessions, and all that lies in a folder."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import lucky_recorder as lr
from lucky_recorder.edit.assemble import Pick
from lucky_recorder.episode.record import EpisodeRecord
from lucky_recorder.episode.schema import Field, Schema
from tests.same import bytes_of
from tests.scenarios.everything import EVERYTHING
from tests.session.building import Recording, arm_schema, camera, depth, lidar, mask, rgbd


def files(path: Path) -> dict[str, bytes]:
    """What must be the same: all but when episodes were recorded, and of which recording each is."""
    return {name: content for name, content in bytes_of(path).items() if name != "meta/provenance.json"}


def hashes(*paths: Path) -> dict[str, tuple[str, int, int]]:
    """What would show that a file was changed: its bytes, and when it was written."""
    found = [p for path in paths for p in sorted(path.rglob("*")) if p.is_file()]
    return {str(p): (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns, p.stat().st_size) for p in found}


def whole(*paths: Path) -> list[Pick]:
    """Every episode of some sessions, in order."""
    return [Pick(session, e.index) for session in map(lr.Session, paths) for e in session]


EXTRA = [
    Field("touched", "bool", nullable=True, has_stats=True),
    Field("force", "float32", (2, 3), nullable=True, has_stats=True),
    Field("said", "string", nullable=True),
    Field("count", "int16", has_stats=True),
]


def every_stream(robots: Sequence[str] = ("arm",), extra: Sequence[Field] = EXTRA) -> Schema:
    streams = [camera("Front"), depth("Front"), rgbd("Front"), mask("Front"), camera("Fast", 100), camera("Slow", 25)]
    return arm_schema(streams, robots, lidars=[lidar("top", 25, has_proxy=True), lidar("side", 100)], extra=extra)


class Part(Recording):
    """A session that goes on where another ended, as another process would have recorded it."""

    def __init__(self, root: Path, before: Recording | None, schema: Schema, **how: Any) -> None:
        super().__init__(root, schema, **how)
        self._sooner = 0
        if before is not None:
            self._random, self._attempts = before._random, before._attempts
            self._sooner = before._attempts

    def record(self, ticks: int, **episode: Any) -> EpisodeRecord:
        record = super().record(ticks, **episode)
        return dataclasses.replace(record, take=record.take - self._sooner)


def gaps(rows: int) -> dict[str, Any]:
    """Values that are missing, and a text that is."""
    return {
        "missing": {"touched": np.arange(rows) % 3 == 0, "force": np.arange(rows) % 2 == 1},
        "values": {"said": np.array([None if k % 2 else "Ça va?" for k in range(rows)], object)},
    }


def keep_some(recording: Recording, numbers: Iterable[int]) -> None:
    """Keep the episodes of these numbers, and discard some takes between them: the same wherever they are recorded."""
    for number in numbers:
        if number % 3 == 1:
            recording.discard(3)
        ticks = 3 + number % 4
        more = (
            gaps(ticks * len(recording.schema.robots)) if "said" in {f.name for f in recording.schema.columns} else {}
        )
        failed = {"failed_stream": "observation.masks.Front"} if number == 4 else {}
        recording.keep(ticks, success=number not in (1, 4), tasks=(0, 1) if number % 2 else (1,), **more, **failed)


def in_sessions(root: Path, schema: Schema, *parts: int, **how: Any) -> list[Path]:
    """Record so many episodes each in sessions of their own, one after the other; returns their folders."""
    paths, before, done = [], None, 0
    for part, episodes in enumerate(parts):
        before = Part(root / f"part{part}", before, schema, **how)
        keep_some(before, range(done, done + episodes))
        done += episodes
        paths.append(before.close())
    return paths


def real(folder: Path, seeds: Iterable[int], **settings: Any) -> Path:
    """Record the sample environment with every stream, an episode for each seed."""
    env = lr.RecordSession(
        gym.make("LuckyRecorder/PickCube-v0"), output_dir=folder, success="terminated", **{**EVERYTHING, **settings}
    )
    try:
        for seed in seeds:
            observation, _ = env.reset(seed=seed)
            expert = env.unwrapped.expert(seed=seed)
            for _ in range(5 + seed):
                observation, *_ = env.step(expert(observation))
            env.end_episode(success=seed != 1)
    finally:
        env.close()
    assert env.session_path is not None
    return env.session_path
