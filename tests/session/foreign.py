"""Sessions of another recorder: by the letter of the format's page, with pandas, pyarrow and PyAV alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

VECTOR = pa.list_(pa.float64())
WIDTH, HEIGHT, HZ = 64, 48, 50
JOINTS = ("shoulder", "elbow", "grip")
LABELS = {"robot_id": "ur5e", "sim_id": "mujoco_scene", "entity_id": "custom"}
IMAGES = "observation.images."
SPLIT = 2  # episodes between two writes of meta/, and files in a chunk


@dataclass(frozen=True)
class Recorder:
    """What another recorder is set to.

    Attributes:
        entity: The entity column; ``entity_id`` is Custom Schema mode.
        robots: The robots' ids.
        version: The engine's version.
        lists: How vectors are stored: the value's type, and a fixed length or none.
        compression: Of every Parquet file.
        streams: Which streams it records: ``color``, ``depth``, ``rgbd``, ``masks``, ``lidar``.
        lengths: Ticks of each episode. The second one has failed: its colour stream has no file.
        turns: Whether the robots of a tick stand in another order at every other tick.
    """

    entity: str = "robot_id"
    robots: Sequence[int] = (-7319274629384756,)
    version: str = "2026.3"
    lists: pa.DataType = VECTOR
    compression: str = "snappy"
    streams: Sequence[str] = ("color",)
    lengths: Sequence[int] = (4, 5, 6)
    turns: bool = False

    @property
    def is_custom(self) -> bool:
        return self.entity == "entity_id"

    def fails(self, episode: int) -> bool:
        return episode == 1


def rows_of(recorder: Recorder, episode: int) -> pd.DataFrame:
    """The rows of an episode, as the page has them."""
    ticks, robots = recorder.lengths[episode], len(recorder.robots)
    first = sum(recorder.lengths[:episode]) * robots
    count = ticks * robots
    ids = [list(recorder.robots) for _ in range(ticks)]
    ids = [tick[::-1] if recorder.turns and k % 2 else tick for k, tick in enumerate(ids)]
    place = np.concatenate([[recorder.robots.index(i) for i in tick] for tick in ids])
    tick = np.repeat(np.arange(ticks), robots)
    values = np.stack([100.0 * episode + 10 * place + tick + joint / 8 for joint in range(len(JOINTS))], axis=1)
    rows = {
        "index": np.arange(first, first + count),
        recorder.entity: np.concatenate(ids),
        # Added up step by step, as a simulation does.
        "timestamp": np.repeat(np.cumsum(np.full(ticks, 1 / HZ)) - 1 / HZ, robots),
        "episode_index": np.full(count, episode),
        "frame_index": tick,
        "task_index": np.full(count, episode % 2),
        "frame_flags": np.where(tick == 0, 3, 1).astype(np.uint8),
    }
    if recorder.is_custom:
        return pd.DataFrame(rows | {"gripper": values[:, 0], "tip": list(values), "held": values[:, 0] % 2 > 0.5})
    return pd.DataFrame(rows | {"action": list(values + 0.25), "observation.state": list(values)})


def write_session(root: Path, recorder: Recorder) -> Path:
    """Write every file of a session."""
    for episode, ticks in enumerate(recorder.lengths):
        _write_data(root, recorder, episode)
        for stream in recorder.streams:
            _WRITERS[stream](root, recorder, episode, ticks)
    for write, first in enumerate(range(0, len(recorder.lengths), SPLIT)):
        chosen = range(first, min(first + SPLIT, len(recorder.lengths)))
        frame = pd.DataFrame([_listed(recorder, episode) for episode in chosen])
        _parquet(root, f"meta/episodes/chunk-000/file-{write:03d}.parquet", frame, recorder)
    tasks = pd.DataFrame({"task_index": [0, 1]}, index=["Lift the cube", "Put it down"])
    _parquet(root, "meta/tasks.parquet", tasks, recorder)
    _json(root / "meta/stats.json", _stats(recorder))
    _json(root / "meta/info.json", _info(recorder))
    return root


def _parquet(root: Path, name: str, frame: pd.DataFrame, recorder: Recorder) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(path, compression=recorder.compression)


def _json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def _write_data(root: Path, recorder: Recorder, episode: int) -> None:
    table = pa.Table.from_pandas(rows_of(recorder, episode))
    for name in ("action", "observation.state", "tip"):
        if name in table.column_names:
            table = table.set_column(table.column_names.index(name), name, table[name].cast(recorder.lists))
    path = root / "data/chunk-{:03d}/file-{:03d}.parquet".format(*divmod(episode, SPLIT))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression=recorder.compression)


def _place(episode: int) -> str:
    return "chunk-{:03d}/file-{:03d}".format(*divmod(episode, SPLIT))


def _listed(recorder: Recorder, episode: int) -> dict[str, Any]:
    robots = len(recorder.robots)
    first = sum(recorder.lengths[:episode]) * robots
    chunk, file = divmod(episode, SPLIT)
    length = recorder.lengths[episode] * robots
    row = {
        "episode_index": episode,
        "chunk_index": chunk,
        "file_index": file,
        "data/chunk_index": chunk,
        "data/file_index": file,
        "length": length,
        "success": not recorder.fails(episode),
        "dataset_from_index": first,
        "dataset_to_index": first + length,
    }
    for key in _described(recorder):
        is_lost = recorder.fails(episode) and not key.endswith("_depth")
        said = dict(chunk_index=chunk, file_index=file, from_timestamp=0.0, to_timestamp=recorder.lengths[episode] / HZ)
        row |= {f"videos/{key}/{part}": None if is_lost else value for part, value in said.items()}
    return row


def _described(recorder: Recorder) -> list[str]:
    suffixes = {"color": "", "depth": "_depth"}
    return [f"{IMAGES}Front{suffixes[s]}" for s in recorder.streams if s in suffixes]


def _stats(recorder: Recorder) -> dict[str, Any]:
    rows = pd.concat([rows_of(recorder, e) for e in range(len(recorder.lengths))])
    stats = {}
    for name in ("gripper", "tip", "held") if recorder.is_custom else ("action", "observation.state"):
        values = np.stack(rows[name].tolist()).astype(float).reshape(len(rows), -1)
        parts = {"min": values.min(0), "max": values.max(0), "mean": values.mean(0), "std": values.std(0, ddof=1)}
        stats[name] = {part: number.tolist() for part, number in parts.items()} | {"count": [len(rows)]}
    return stats


def _info(recorder: Recorder) -> dict[str, Any]:
    episodes = len(recorder.lengths)
    return {
        "codebase_version": recorder.version,
        "neural_denoise": False,
        "bit_reproducible": False,
        recorder.entity.replace("_id", "_type"): LABELS[recorder.entity],
        "total_tasks": 2,
        "total_episodes": episodes,
        "total_frames": sum(recorder.lengths) * len(recorder.robots),
        "fps": 30,
        "hz": float(HZ),
        "chunks_size": SPLIT,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 500,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "splits": {"train": f"0:{episodes}"},
        "features": _features(recorder),
    }


def _features(recorder: Recorder) -> dict[str, Any]:
    whole = dict.fromkeys(("index", recorder.entity), "int64") | {"timestamp": "float64"}
    whole |= dict.fromkeys(("episode_index", "frame_index", "task_index"), "int64") | {"frame_flags": "uint8"}
    features: dict[str, Any] = {name: {"dtype": dtype, "shape": [1]} for name, dtype in whole.items()}
    features["frame_flags"]["names"] = ["new_policy_step", "post_reset"]
    kind = "float32" if recorder.lists.value_type == pa.float32() else "float64"
    if recorder.is_custom:
        features["gripper"] = {"dtype": "float64", "shape": [1], "unit": "m"}
        features["tip"] = {"dtype": kind, "shape": [3]}
        features["held"] = {"dtype": "bool", "shape": [1]}
    else:
        names = [joint for _ in recorder.robots for joint in JOINTS]
        features["action"] = {"dtype": kind, "shape": [3], "names": names}
        features["observation.state"] = {"dtype": kind, "shape": [3], "names": names, "lucky_names": names}
    for key in _described(recorder):
        features[key] = _depth_feature() if key.endswith("_depth") else _color_feature()
    return features


def _color_feature() -> dict[str, Any]:
    info = {"video.fps": HZ, "video.codec": "h264", "video.pix_fmt": "yuv420p", "video.is_depth_map": False}
    return {"dtype": "video", "shape": [HEIGHT, WIDTH, 3], "info": info | {"has_audio": False}}


def _depth_feature() -> dict[str, Any]:
    info = {"video.fps": HZ, "video.codec": "ffv1", "video.pix_fmt": "gray16le", "video.is_depth_map": True}
    info |= {"depth_scale": 0.001, "depth_dtype": "uint16", "depth_units": "meters", "sensor_model": "None"}
    info |= {"zero_means": "no return", "has_audio": False}
    return {"dtype": "video", "shape": [HEIGHT, WIDTH, 1], "info": info}


# The streams.


def color_of(episode: int, frame: int) -> np.ndarray:
    return np.full((HEIGHT, WIDTH, 3), (20 + 20 * frame, 60, 40 * episode), np.uint8)


def _film(path: Path, codec: str, pix_fmt: str, pictures: Sequence[np.ndarray], given: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(path, "w") as container:
        stream = container.add_stream(codec, rate=Fraction(HZ))
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, pix_fmt
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format=given)))
        container.mux(stream.encode())


def _film_color(root: Path, recorder: Recorder, episode: int, ticks: int) -> None:
    if not recorder.fails(episode):
        pictures = [color_of(episode, k) for k in range(ticks)]
        # The encoder's own defaults: B-frames, and keyframes far apart.
        _film(root / f"videos/{IMAGES}Front/{_place(episode)}.mp4", "libx264", "yuv420p", pictures, "rgb24")


def _film_depth(root: Path, recorder: Recorder, episode: int, ticks: int) -> None:
    pictures = [np.full((HEIGHT, WIDTH), 1000 + 10 * episode + k, np.uint16) for k in range(ticks)]
    _film(root / f"videos/{IMAGES}Front_depth/{_place(episode)}.mkv", "ffv1", "gray16le", pictures, "gray16le")


def _film_masks(root: Path, recorder: Recorder, episode: int, ticks: int) -> None:
    pictures = [np.full((HEIGHT, WIDTH, 3), (255, 0, 0), np.uint8) for _ in range(ticks)]
    _film(root / f"videos/observation.masks.Front/{_place(episode)}.mp4", "libx264", "yuv420p", pictures, "rgb24")


def _combine(root: Path, recorder: Recorder, episode: int, ticks: int) -> None:
    sources = [
        root / f"videos/{IMAGES}Front{end}" for end in (f"/{_place(episode)}.mp4", f"_depth/{_place(episode)}.mkv")
    ]
    target = root / f"videos/{IMAGES}Front_rgbd/{_place(episode)}.mkv"
    if recorder.fails(episode):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with av.open(target, "w") as container:
        opened = [av.open(source) for source in sources]
        copies = [container.add_stream_from_template(one.streams.video[0]) for one in opened]
        for one, copy in zip(opened, copies, strict=True):
            for packet in one.demux(video=0):
                if packet.dts is not None:
                    packet.stream = copy
                    container.mux(packet)
            one.close()


def _scan(root: Path, recorder: Recorder, episode: int, ticks: int) -> None:
    """Scans of another layout than ours: the page says no more than that there are two files."""
    name = f"data/chunk-{episode // SPLIT:03d}/lidar-Top Deck-{episode:03d}"
    beams = pd.DataFrame({"time": np.arange(ticks) / HZ, "points": [[1.0, 2.0, 3.0]] * ticks})
    _parquet(root, f"{name}.parquet", beams, recorder)
    _json(root / f"{name}.json", {"sensor": "spinning", "channels": 3})


_WRITERS = {"color": _film_color, "depth": _film_depth, "masks": _film_masks, "rgbd": _combine, "lidar": _scan}
EVERY_STREAM = tuple(_WRITERS)
