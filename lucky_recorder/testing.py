"""For tests of your own: an environment whose rows can be foretold, a sink in memory, a session check that raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.errors import SettingsError
from lucky_recorder.koyu.check import check_koyu as dataset_faults
from lucky_recorder.koyu.reader import Dataset
from lucky_recorder.lazy import lazy
from lucky_recorder.session.check import check_session as session_faults
from lucky_recorder.session.checks.evidence import Fault
from lucky_recorder.session.reader import Session

if TYPE_CHECKING:
    import mujoco

    from lucky_recorder.episode.record import EpisodeRecord
    from lucky_recorder.episode.schema import Schema
else:
    # Most counting environments are without MuJoCo.
    mujoco = lazy("mujoco")

__all__ = ["CountEnv", "MemorySink", "check_koyu", "check_session", "paint_count", "read_count"]

PER_EPISODE = 100
HZ = 50
_BITS = 16
_SUBSTEPS = 10
# The room is lit by its own glow and by the ambient light that OpenGL adds: a pixel is the colour that the model says.
_ROOM = """
<mujoco model="count">
  <option timestep="0.002" gravity="0 0 0"/>
  <visual>
    <headlight active="0" ambient="0 0 0" diffuse="0 0 0" specular="0 0 0"/>
    <quality shadowsize="0" offsamples="0"/>
    <global offwidth="64" offheight="64"/>
  </visual>
  <asset><material name="glow" emission="0.72" specular="0" shininess="0"/></asset>
  <worldbody>
    <camera name="wall" pos="0 0 1" fovy="60"/>
    <geom name="wall" type="box" size="4 4 0.1" material="glow" contype="0" conaffinity="0"/>
    <body name="counter" pos="0 0 -1">
      <joint name="count" type="slide" axis="0 0 -1"/>
      <geom type="sphere" size="0.05" mass="1" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator><general name="push" joint="count" gainprm="0"/></actuator>
</mujoco>
"""


class CountEnv(gym.Env[NDArray[np.float64], NDArray[np.float32]]):
    """An environment that counts: the observation is ``[100 * episode + t]`` after ``t`` steps of an episode.

    The reward of step ``t`` is ``t``. ``render()`` paints the count, see `read_count`. With ``mujoco``, the count is
    also the position of the model's only joint, the action is its actuator's command, and the camera ``wall`` sees one
    colour all over: red in even episodes and blue in odd ones, with a green value of ``8 * (t % 30)`` in it. It runs
    at 50 Hz.

    Attributes:
        dt: Seconds a step lasts.
        episode: The number of the episode, from 0.
        t: Steps since the reset.
        model: The MuJoCo model, or None.
        data: Its data, or None.

    Args:
        length: Steps until ``terminated``; a sequence gives the length of each episode in turn, None never ends.
        succeeds: What ``info["is_success"]`` says from the first step on, or a function of the episode's number that
            says so; with None there is no such key.
        mujoco: Whether there is a MuJoCo model behind it.
        render_mode: ``rgb_array`` or None.
        width: Pixels of ``render()``.
        height: Pixels of ``render()``.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": HZ}  # noqa: RUF012, gymnasium declares it so

    def __init__(
        self,
        length: int | Sequence[int] | None = 3,
        succeeds: bool | Callable[[int], bool] | None = True,
        mujoco: bool = False,
        render_mode: str | None = None,
        width: int = 64,
        height: int = 48,
    ) -> None:
        self.observation_space = gym.spaces.Box(0.0, np.inf, (1,), np.float64)
        self.dt = 1 / HZ
        self.action_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.render_mode = render_mode
        self.episode = -1
        self.t = 0
        self._lengths = [length] if length is None or isinstance(length, int) else list(length)
        self._succeeds = succeeds
        self._size = (height, width)
        self.model: Any = None
        self.data: Any = None
        if mujoco:
            self.model, self.data = _load_room()

    @property
    def count(self) -> int:
        """``100 * episode + t``."""
        return PER_EPISODE * self.episode + self.t

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Begin the next episode."""
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        if self.model is not None:
            mujoco.mj_resetData(self.model, self.data)
        self._show()
        return self._observation(), {}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Count one up."""
        reward, self.t = float(self.t), self.t + 1
        if self.model is not None:
            self.data.ctrl[:] = action
            mujoco.mj_step(self.model, self.data, _SUBSTEPS)
        self._show()
        length = self._lengths[self.episode % len(self._lengths)]
        return self._observation(), reward, self.t == length, False, self._info()

    def render(self) -> Any:
        """Return the count as a picture, uint8, shape ``(height, width, 3)``."""
        return None if self.render_mode is None else paint_count(self.count, *self._size)

    def _observation(self) -> NDArray[np.float64]:
        return np.array([self.count], np.float64)

    def _info(self) -> dict[str, Any]:
        says = self._succeeds(self.episode) if callable(self._succeeds) else self._succeeds
        return {} if says is None else {"is_success": bool(says)}

    def _show(self) -> None:
        if self.model is None:
            return
        self.data.qpos[0], self.data.qvel[0] = self.count, 0
        green = 8 * (self.t % 30) / 255
        self.model.geom("wall").rgba[:3] = (0, green, 1) if self.episode % 2 else (1, green, 0)


def _load_room() -> tuple[Any, Any]:
    model = mujoco.MjModel.from_xml_string(_ROOM)
    return model, mujoco.MjData(model)


def paint_count(count: int, height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    """Return a picture that shows a count as sixteen black or white stripes, uint8, shape ``(height, width, 3)``."""
    stripe = np.arange(width) * _BITS // width
    row = np.where(count >> stripe & 1, 255, 0).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(row[None, :, None], (height, width, 3)))


def read_count(picture: NDArray[np.uint8]) -> int:
    """Return the count that a picture of `paint_count` shows, also after it has been through a lossy video."""
    width = picture.shape[1]
    stripe = np.arange(width) * _BITS // width
    columns = picture.mean(axis=(0, 2))
    return sum(1 << bit for bit in range(_BITS) if columns[stripe == bit].mean() > 127)


class MemorySink:
    """Keeps finished episodes in memory instead of writing a session; only videos touch the disk.

    Attributes:
        root: Folder of the videos; made when the first is written.
        schema: What the rows and frames are; known once recording has begun.
        tasks: Task descriptions, in index order; known then too, and those that were found, once their episode is kept.
        records: The committed episodes, in order.
        is_closed: Whether the recording has ended.
    """

    keeps_broken = True

    def __init__(self, root: Path) -> None:
        self.root = root
        self.schema: Schema
        self.tasks: tuple[str, ...] = ()
        self.records: list[EpisodeRecord] = []
        self.is_closed = False
        self._opened = 0

    def open(self, schema: Schema, tasks: Sequence[str]) -> None:
        """Take note of what rows and frames are."""
        self.schema = schema
        self.tasks = tuple(tasks)
        self.is_closed = False
        # Takes are counted from 0 in every session: the videos of one must not take the place of another's.
        self._opened += 1

    def stream_path(self, key: str, take: int, suffix: str) -> Path:
        """Return where a take's video is written. It stays there; beside other formats, it is the first one's file."""
        return self.root / key / f"{self._opened:03d}-take-{take:06d}{suffix}.tmp"

    def prepare(self, record: EpisodeRecord) -> _InMemory:
        """Take an episode; it is kept once committed."""
        return _InMemory(self, record)

    def close(self) -> None:
        """Take note that nothing follows."""
        self.is_closed = True


class _InMemory:
    def __init__(self, sink: MemorySink, record: EpisodeRecord) -> None:
        self._sink = sink
        self._record = record

    def commit(self) -> None:
        self._sink.records.append(self._record)
        self._sink.tasks += tuple(self._record.new_tasks(len(self._sink.tasks)))

    def discard(self) -> None:
        """There is nothing to remove."""


def check_koyu(
    path: str | Path, decode: bool = True, *, count: Callable[[Mapping[str, Any]], int] | None = None
) -> Dataset:
    """Check a koyu dataset against the format, and open it.

    With ``count`` this is the format's golden test: of a dataset whose every picture was painted by `paint_count`, it
    proves that row i is frame i, for every row of every camera.

    Args:
        path: The dataset's folder.
        decode: Decode every frame of every video; without it, frames are only counted.
        count: Says which count the pictures of a row must show: a function of the row without its pictures.

    Raises:
        AssertionError: If anything is not as the format says; lists every fault.
        FormatError: If the folder is no dataset at all.

    Example:
        ```python
        check_koyu("counted", count=lambda row: int(row["observation.state"][0]))
        ```
    """
    faults = [str(fault) for fault in dataset_faults(path, decode)]
    dataset = None if faults else Dataset(path)
    if dataset is not None and count is not None:
        faults = list(_miscounted(dataset, count))
    if dataset is None or faults:
        raise AssertionError("\n".join([f"{path}: {len(faults)} faults", *faults]))
    return dataset


def _miscounted(dataset: Dataset, count: Callable[[Mapping[str, Any]], int]) -> Iterator[str]:
    for row in dataset:
        pictures = {key: row.pop(key) for key in dataset.cameras}
        expected = count(row)
        for key, picture in pictures.items():
            if read_count(picture) != expected:
                place = f"{row['episode_id']}: {key}: frame {row['step']}"
                yield f"{place} shows {read_count(picture)}, row {row['step']} says {expected}"


def check_session(path: str | Path | None, decode: bool = True) -> Session:
    """Check a session folder against the format, and open it.

    Args:
        path: The session's folder, such as ``env.session_path``.
        decode: Decode every frame of every video; without it, frames are only counted.

    Raises:
        AssertionError: If anything is not as the format says; lists every fault.
        SettingsError: If there is no path: nothing was recorded.
        FormatError: If the folder is no session at all.
    """
    if path is None:
        raise SettingsError.of("path", path, "nothing was recorded: the session's folder is made at the first reset")
    faults = session_faults(path, decode)
    if faults:
        raise AssertionError("\n".join([f"{path}: {len(faults)} faults", *map(_told, faults)]))
    return Session(path)


def _told(fault: Fault) -> str:
    return f"{fault.file}{'' if fault.episode is None else f' (episode {fault.episode})'}: {fault.message}"
