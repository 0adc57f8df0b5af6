"""Rows of a koyu dataset at random: `lr.koyu.Dataset` against opening the bundle's files anew for each row.

Both give the same rows: state, action and every picture, decoded by frame index. They take turns, on the same random
indices, in one process. Printed are milliseconds a row and their ratio; the goal is 5 or more. The dataset is made of
synthetic pictures, each episode as long as a short demonstration.

    python benchmarks/koyu_random_access.py [--episodes 20] [--length 100] [--rows 200] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import lucky_recorder as lr
from lucky_recorder.koyu.bundle import Bundle
from lucky_recorder.koyu.manifest import Description
from lucky_recorder.koyu.writer import DatasetWriter
from lucky_recorder.video.decode import FrameReader
from lucky_recorder.video.encoder import VideoEncoder

GOAL = 5.0
CAMERAS = ("observation.images.front", "observation.images.wrist")
SIZE = (240, 320)
HZ = 50


def make(root: Path, episodes: int, length: int) -> None:
    """Write a dataset whose pictures move."""
    features: dict[str, Any] = {k: {"dtype": "float32", "shape": [6]} for k in ("observation.state", "action")}
    features |= {key: {"dtype": "video", "shape": [*SIZE, 3]} for key in CAMERAS}
    writer = DatasetWriter(root, Description("benchmark", "synthetic", float(HZ), features))
    random = np.random.default_rng(0)
    for episode in range(episodes):
        videos = {key: root / f"{key}.mp4" for key in CAMERAS}
        for video in videos.values():
            film(video, length, random)
        capture_id = f"{episode + 1:032x}"
        told = {"task": "lift", "task_description": "Lift", "collection_mode": "synthetic", "reward": None}
        said = {"schema_version": 1, "capture_id": capture_id, "length": length, "fps": HZ, "features": features}
        sidecar = said | told
        vectors = {k: random.normal(size=(length, 6)).astype(np.float32) for k in ("observation.state", "action")}
        times = np.arange(length, dtype=np.int64) * (10**9 // HZ)
        writer.prepare(Bundle(capture_id, times, vectors, sidecar, videos)).commit()
        for video in videos.values():
            video.unlink()
    writer.close()


def film(path: Path, length: int, random: np.random.Generator) -> None:
    """Encode a picture of blurred noise that scrolls."""
    coarse = random.integers(0, 256, (SIZE[0] // 8, SIZE[1] // 8, 3), np.uint8)
    picture = np.kron(coarse, np.ones((8, 8, 1), np.uint8))
    encoder = VideoEncoder(path, width=SIZE[1], height=SIZE[0], fps=Fraction(HZ))
    for k in range(length):
        encoder.write(np.roll(picture, 2 * k, axis=1))
    encoder.close()


def opened_anew(dataset: lr.koyu.Dataset, index: int) -> dict[str, Any]:
    """Return a row as a reader without any cache does: open, seek to the keyframe, decode, close."""
    episode = int(np.searchsorted(dataset._index.starts, index, side="right")) - 1
    step = index - dataset.rows_of(episode).start
    folder = dataset.path / "episodes" / dataset.episodes[episode].id
    table = pq.read_table(folder / "data.parquet", columns=["observation.state", "action"])
    row: dict[str, Any] = {k: np.array(table[k][step].as_py(), np.float32) for k in table.column_names}
    for key in CAMERAS:
        with FrameReader(folder / f"{key}.mp4") as frames:
            row[key] = frames[step]
    return row


def milliseconds(read: Any, indices: list[int]) -> float:
    began = time.perf_counter()
    for index in indices:
        read(index)
    return 1000 * (time.perf_counter() - began) / len(indices)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("episodes", 20), ("length", 100), ("rows", 200), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), arguments.episodes, arguments.length)
        with lr.koyu.Dataset(folder, open_videos=64) as dataset:
            compare(dataset, arguments.rows, arguments.rounds)


def compare(dataset: lr.koyu.Dataset, rows: int, rounds: int) -> None:
    random = np.random.default_rng(1)
    for index in random.integers(len(dataset), size=5).tolist():
        ours, theirs = dataset[index], opened_anew(dataset, index)
        assert all(np.array_equal(ours[key], theirs[key]) for key in theirs)
    cold = milliseconds(dataset.__getitem__, [dataset.rows_of(e).start for e in range(len(dataset.episodes))])
    taken: dict[str, list[float]] = {"dataset": [], "anew": []}
    for turn in range(rounds):
        indices = random.integers(len(dataset), size=rows).tolist()
        ways = [("dataset", dataset.__getitem__), ("anew", lambda i: opened_anew(dataset, i))]
        for name, read in ways if turn % 2 else reversed(ways):
            taken[name].append(milliseconds(read, indices))
    ours, theirs = (statistics.median(taken[name]) for name in ("dataset", "anew"))
    cameras = len(CAMERAS)
    print(f"{len(dataset)} rows, {cameras} cameras of {SIZE[1]}x{SIZE[0]}; first touch of a bundle {cold:.2f} ms")
    print(f"d[i] {ours:.2f} ms, opened anew {theirs:.2f} ms: {theirs / ours:.1f} times as fast; the goal is {GOAL:g}")


if __name__ == "__main__":
    main()
