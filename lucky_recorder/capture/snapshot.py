"""Snapshots: what is copied at one tick in the caller's thread, and drawn or scanned later in the worker's."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import mujoco

T = TypeVar("T")


class Pool(Protocol):
    """Where a scene goes back to once it is drawn."""

    def give_back(self, scene: mujoco.MjvScene) -> None:
        """Take a scene back."""


class Scenes:
    """The pools of scenes of a recording: lanes whose models have the same sizes take theirs from one.

    Attributes:
        lanes: How many lanes there may be.
    """

    def __init__(self) -> None:
        self.lanes = 1
        # A pool is kept by those who take scenes from it: an environment may make ever new models.
        self._pools: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()

    def pool(self, key: Hashable, made: Callable[[], T]) -> T:
        """Return the pool of a key, which is made where there is none."""
        found: T | None = self._pools.get(key)
        if found is None:
            self._pools[key] = found = made()
        return found


class Labelling(Protocol):
    """What turns a segmentation pass into the label ids of a mask."""

    def ids(self, segments: NDArray[np.uint8], scene: mujoco.MjvScene) -> NDArray[np.uint8]:
        """Return label ids, uint8, shape ``(height, width)``, rows in the order of the pass's."""


class SceneSnapshot(NamedTuple):
    """One camera's view at one tick: a scene still to be drawn, or pixels that are there already.

    Attributes:
        camera: Index of the camera among those recorded.
        scene: The scene, with its camera in it. The pool gives it to nobody else until it is given back.
        pixels: uint8, shape ``(height, width, 3)``, top row first.
        pool: Where the scene goes back to.
        labels: What its mask stream labels.
    """

    camera: int
    scene: mujoco.MjvScene | None = None
    pixels: NDArray[np.uint8] | None = None
    pool: Pool | None = None
    labels: Labelling | None = None

    def release(self) -> None:
        """Give the scene back."""
        if self.pool is not None:
            self.pool.give_back(self.scene)


class ScanSnapshot(NamedTuple):
    """The state that one lidar is to scan.

    Attributes:
        lidar: Index of the lidar among those recorded.
        state: MuJoCo's full integration state, float64, shape ``(n,)``.
    """

    lidar: int
    state: NDArray[np.float64]

    def release(self) -> None:
        """Nothing to give back."""


Snapshot = SceneSnapshot | ScanSnapshot
