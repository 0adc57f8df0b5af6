"""A wrapper as another process has it: its lanes record shards, here in one process, so that a test is quick."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import lucky_recorder as lr
from lucky_recorder.testing import check_session
from tests.recorder.lanes import Lane


def away(**fields: Any) -> tuple[Any, Any]:
    """A wrapper, and what another process gets of it."""
    wrap = lr.vector.shared(**fields)
    return wrap, cloudpickle.loads(cloudpickle.dumps(wrap))


def envs(
    wrap: Callable[[Any], Any], lengths: Sequence[Any], mode: AutoresetMode = AutoresetMode.NEXT_STEP, **more: Any
) -> SyncVectorEnv:
    """Environments, each wrapped, that step one after another."""
    makers = [lambda lane=lane, n=n: wrap(Lane(lane, n, **more)) for lane, n in enumerate(lengths)]
    return SyncVectorEnv(makers, autoreset_mode=mode)


def rows_of(path: Path | None) -> list[list[float]]:
    session = check_session(path)
    return [np.ravel(session.episode(i).rows()["obs"].to_pylist()).tolist() for i in range(len(session))]


def folders(path: Path) -> list[str]:
    """What is in the folder of all sessions."""
    place = path / "DataSessions"
    return sorted(one.name for one in place.iterdir()) if place.is_dir() else []
