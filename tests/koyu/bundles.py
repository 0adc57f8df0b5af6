"""Bundles made by hand, with pyarrow and the encoder alone: what a reader must read, whoever wrote it."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lucky_recorder.testing import paint_count
from lucky_recorder.video.encoder import VideoEncoder

WIDTH, HEIGHT = 64, 48
CAMERAS = ("observation.images.front", "observation.images.wrist")


def vectors(rows: np.ndarray) -> pa.Array:
    """A column of list<float32>."""
    values = np.asarray(rows, np.float32)
    offsets = pa.array(np.arange(len(values) + 1, dtype=np.int32) * values[0].size)
    return pa.ListArray.from_arrays(offsets, pa.array(values.reshape(-1)))


def state_of(episode: int, step: int) -> list[float]:
    return [episode, step, episode * 100 + step]


def film(path: Path, counts: list[int], **encoder: Any) -> None:
    path.unlink(missing_ok=True)
    video = VideoEncoder(path, width=WIDTH, height=HEIGHT, fps=Fraction(50), **encoder)
    for count in counts:
        video.write(paint_count(count, HEIGHT, WIDTH))
    video.close()


def features(cameras: tuple[str, ...] = CAMERAS, **own: list[int]) -> dict[str, Any]:
    columns = {"observation.state": [3], "action": [2], **own}
    return {key: {"dtype": "float32", "shape": shape} for key, shape in columns.items()} | {
        key: {"dtype": "video", "shape": [HEIGHT, WIDTH, 3]} for key in cameras
    }


def capture_id(episode: int) -> str:
    return f"{episode + 1:032x}"


def write_bundle(
    dataset: Path,
    episode: int,
    length: int,
    cameras: tuple[str, ...] = CAMERAS,
    columns: dict[str, Any] | None = None,
    **sidecar: Any,
) -> dict[str, Any]:
    """Write a bundle whose state, actions and pictures all say which row they are; returns its manifest entry."""
    name = capture_id(episode)
    folder = dataset / "episodes" / f"ep_{name}"
    folder.mkdir(parents=True)
    steps = np.arange(length)
    table = {
        "step": pa.array(steps, pa.int64()),
        "timestamp": pa.array(10**18 + steps * 20_000_000, pa.int64()),
        "observation.state": vectors(np.array([state_of(episode, k) for k in steps])),
        "action": vectors(np.array([[100 * episode + k, -k] for k in steps])),
        **{key: vectors(np.asarray(rows)) for key, rows in (columns or {}).items()},
    }
    pq.write_table(pa.table(table), folder / "data.parquet")
    for number, camera in enumerate(cameras):
        film(folder / f"{camera}.mp4", [count_of(episode, k, number) for k in range(length)])
    own = {key: list(np.asarray(rows).shape[1:]) for key, rows in (columns or {}).items()}
    content = {
        "schema_version": 1,
        "capture_id": name,
        "recorded_at": "2026-10-08T14:30:05Z",
        "length": length,
        "fps": 50,
        "record_hz": 50,
        "task": "lift",
        "task_description": "Lift the cube",
        "collection_mode": "teleop",
        "features": features(cameras, **own),
        "encoding": {"codec": "h264", "pix_fmt": "yuv420p", "crf": 20, "gop": 10},
        "source_run_id": None,
        "source_checkpoint": None,
        "policy_name": None,
        "reward": None,
    } | sidecar
    (folder / "episode.json").write_text(json.dumps({k: v for k, v in content.items() if v != "absent"}))
    return {"id": f"ep_{name}", "length": length, "task": content["task"], "task_description": "Lift the cube"}


def count_of(episode: int, step: int, camera: int) -> int:
    return 1000 * (episode + 1) + 200 * camera + step


def write_dataset(dataset: Path, lengths: tuple[int, ...] = (12, 1, 25), **manifest: Any) -> Path:
    entries = [write_bundle(dataset, episode, length) for episode, length in enumerate(lengths)]
    write_manifest(dataset, entries, **manifest)
    return dataset


def write_manifest(dataset: Path, entries: list[dict[str, Any]], **manifest: Any) -> None:
    content = {
        "id": "mf_" + "0" * 32,
        "name": "by-hand",
        "type": "teleop",
        "fps": 50.0,
        "features": features(),
        "episode_count": len(entries),
        "success_rate": None,
        "episodes": entries,
    } | manifest
    (dataset / "manifest.json").write_text(json.dumps(content))


def edit_json(path: Path, **changes: Any) -> None:
    """Change fields of a JSON file; "absent" removes one."""
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value != "absent"}))
