"""What every test of the recorder shares: a counting environment, and a session read back from its files alone."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

# Before anything imports MuJoCo: gymnasium draws headless, as the recorder does.
os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder import testing
from lucky_recorder.video.decode import decode_all


@pytest.fixture(autouse=True)
def _is_followed_again() -> Iterator[None]:
    """What follows the lines of a test, such as coverage, goes on after one that has stopped it with an interrupt."""
    follows = sys.gettrace()
    yield
    if sys.gettrace() is not follows:
        sys.settrace(follows)


class Read(NamedTuple):
    """One episode as the files have it."""

    meta: dict[str, Any]
    rows: dict[str, np.ndarray]
    frames: dict[str, np.ndarray]


def _read_back(path: Path | None) -> list[Read]:
    """Check a session, then read every row and every frame of it, from the files alone."""
    testing.check_session(path)
    assert path is not None
    info = json.loads((path / "meta/info.json").read_text())
    listed = [pq.read_table(p) for p in sorted(path.glob("meta/episodes/*/*.parquet"))]
    episodes = pa.concat_tables(listed).to_pylist() if listed else []
    streams = [key for key, feature in info["features"].items() if feature["dtype"] == "video"]
    return [Read(e, _rows(path, e), _frames(path, e, streams)) for e in episodes]


def _rows(path: Path, episode: dict[str, Any]) -> dict[str, np.ndarray]:
    file = path / f"data/chunk-{episode['data/chunk_index']:03d}/file-{episode['data/file_index']:03d}.parquet"
    table = pq.read_table(file, partitioning=None)
    mine = table.filter(pc.equal(table["episode_index"], episode["episode_index"]))
    return {name: np.array(mine[name].to_pylist()) for name in mine.column_names}


def _frames(path: Path, episode: dict[str, Any], streams: Iterable[str]) -> dict[str, np.ndarray]:
    frames = {}
    for key in streams:
        chunk, file = (episode[f"videos/{key}/{part}"] for part in ("chunk_index", "file_index"))
        if chunk is not None:
            video = path / f"videos/{key}/chunk-{chunk:03d}/file-{file:03d}.mp4"
            frames[key.removeprefix("observation.images.")] = decode_all(video)
    return frames


@pytest.fixture(scope="session")
def read_back() -> Callable[[Path | None], list[Read]]:
    return _read_back


def _counts(episode: Read) -> dict[str, list[int]]:
    """What the rows and each camera of a counting environment say the count was."""
    counts = {"rows": [int(c) for c in episode.rows["obs"]]} if "obs" in episode.rows else {}
    if "observation.state" in episode.rows:
        counts["state"] = [int(c) for c in episode.rows["observation.state"][:, 0]]
    for camera, frames in episode.frames.items():
        counts[camera] = [_count_on_wall(f) if camera == "wall" else testing.read_count(f) for f in frames]
    return counts


def _count_on_wall(picture: np.ndarray) -> int:
    """Read parity and step of a picture that the camera ``wall`` has taken: 100 * (episode % 2) + t % 30."""
    red, green, blue = picture.reshape(-1, 3).mean(0)
    assert max(red, blue) > 200
    assert min(red, blue) < 60
    return 100 * int(blue > red) + round(green / 8)


@pytest.fixture(scope="session")
def counts() -> Callable[[Read], dict[str, list[int]]]:
    return _counts


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., lr.RecordSession]:
    """Return a function that puts a recorder around an environment, by default one that counts to three."""
    made = []

    def make(env: Any = None, **settings: Any) -> lr.RecordSession:
        if env is None:
            env = testing.CountEnv(render_mode="rgb_array")
        fields = {"mode": "custom", "columns": [lr.Column("obs", "gym:obs")], "output_dir": tmp_path, **settings}
        if fields["mode"] != "custom" and "columns" not in settings:
            del fields["columns"]
        made.append(lr.RecordSession(env, **fields))
        return made[-1]

    yield make
    for env in made:
        if env.is_recording:
            env.close()


def _run(env: Any, episodes: int = 1, seed: int | None = 0, steps: int = 1000) -> None:
    """Run whole episodes; the action of step t is t."""
    for episode in range(episodes):
        env.reset(seed=None if seed is None else seed + episode)
        for t in range(steps):
            _, _, terminated, truncated, _ = env.step(np.array([t], np.float32))
            if terminated or truncated:
                break


@pytest.fixture(scope="session")
def run() -> Callable[..., None]:
    return _run


RENDERED = {"name": "seen", "source": "render", "width": 64, "height": 48}
WALL = {"name": "wall", "width": 64, "height": 48}


@pytest.fixture(scope="session")
def seen() -> dict[str, Any]:
    """The settings of a camera through the environment's own ``render()``."""
    return dict(RENDERED)


@pytest.fixture(scope="session")
def wall() -> dict[str, Any]:
    """The settings of the camera of the counting environment's model."""
    return dict(WALL)


@pytest.fixture
def bare(tmp_path: Path) -> Callable[..., tuple[lr.Observer, Any]]:
    """Return a function that makes an observer of a bare model, and a function that steps the model on."""
    made = []

    def make(**settings: Any) -> tuple[lr.Observer, Callable[..., None]]:
        import mujoco

        env = testing.CountEnv(mujoco=True)
        env.reset()
        fields = {"output_dir": tmp_path, "data_hz": 50, **settings}
        observer = lr.Observer(model=env.model, data=env.data, **fields)

        def advance(ticks: int = 1, new_policy_step: bool = True) -> None:
            for _ in range(ticks):
                env.data.ctrl[:] = env.count
                observer.tick(new_policy_step)
                mujoco.mj_step(env.model, env.data, 10)
                env.t += 1
                env.data.qpos[0] = env.count

        observer.env = env
        made.append(observer)
        return observer, advance

    yield make
    for observer in made:
        if observer.is_recording:
            observer.stop_recording()
