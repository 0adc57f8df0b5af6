"""What a process does that is struck by signals: it records, in every way people do."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv

# What it writes into its pipe when it begins to open a session, has stepped once, and begins to close.
OPENS, STEPS, CLOSES = b"o", b"s", b"c"
EPISODES, LENGTH = 60, 7
WALL = {"name": "wall", "width": 64, "height": 48}
KOYU = {"name": "k", "collection_mode": "synthetic"}

Mark = Callable[[bytes], None]


class Fails(CountEnv):
    def close(self) -> None:
        super().close()
        raise OSError("the simulator is gone")


def recorded(folder: Path, env: Any = None, **fields: Any) -> lr.RecordSession:
    return lr.RecordSession(env or CountEnv(LENGTH, mujoco=True), output_dir=folder, **fields)


def run(env: Any, mark: Mark) -> None:
    mark(OPENS)
    for seed in range(EPISODES):
        env.reset(seed=seed)
        done = False
        while not done:
            *_, done, _, _ = env.step(np.zeros(1))
            mark(STEPS)
    mark(CLOSES)


def closed(folder: Path, mark: Mark) -> None:
    env = recorded(folder, cameras=[WALL], koyu=KOYU, formats=("session", "koyu"))
    run(env, mark)
    env.close()


def in_a_block(folder: Path, mark: Mark) -> None:
    with recorded(folder, cameras=[WALL]) as env:
        run(env, mark)


def forgotten(folder: Path, mark: Mark) -> None:
    run(recorded(folder, cameras=[WALL]), mark)


def rows_only(folder: Path, mark: Mark) -> None:
    with recorded(folder) as env:
        run(env, mark)


def discarding(folder: Path, mark: Mark) -> None:
    with recorded(folder, cameras=[WALL], discard_and_retry_failed=True) as env:
        run(env, mark)


def with_an_env_that_fails(folder: Path, mark: Mark) -> None:
    env = recorded(folder, Fails(LENGTH, mujoco=True), cameras=[WALL])
    run(env, mark)
    env.close()


def in_a_daemon_thread(folder: Path, mark: Mark) -> None:
    env = recorded(folder, cameras=[WALL])
    thread = threading.Thread(target=run, args=(env, mark), daemon=True)
    thread.start()
    thread.join()


def as_in_a_notebook(folder: Path, mark: Mark) -> None:
    """A cell that is interrupted, and the next one, which goes on."""
    env = recorded(folder, cameras=[WALL])
    try:
        run(env, mark)
    except KeyboardInterrupt:
        for seed in range(2):
            env.reset(seed=seed)
            for _ in range(LENGTH):
                env.step(np.zeros(1))
    env.close()


LOOPS: dict[str, Callable[[Path, Mark], None]] = {
    "closed": closed,
    "in a block": in_a_block,
    "forgotten": forgotten,
    "rows only": rows_only,
    "discarding": discarding,
    "env.close() fails": with_an_env_that_fails,
    "in a daemon thread": in_a_daemon_thread,
    "as in a notebook": as_in_a_notebook,
}


def record(loop: str, folder: Path, writer: int) -> None:
    """Record in one of the ways; the marks go into a pipe."""
    marked: set[bytes] = set()

    def mark(what: bytes) -> None:
        if what not in marked:
            marked.add(what)
            os.write(writer, what)

    LOOPS[loop](folder, mark)
