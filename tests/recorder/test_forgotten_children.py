"""Processes of `multiprocessing` that end without close(): most of them run nothing that is registered at exit."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr

SCRIPT = """
import multiprocessing, os, sys, threading
import numpy as np
import lucky_recorder as lr
from lucky_recorder.testing import CountEnv

out, method, *kinds = sys.argv[1:]

def record(env, begun):
    for seed in range(3):
        env.reset(seed=seed)
        if seed == 1:
            begun.set()
        for _ in range(3):
            env.step(np.zeros(1))
    env.reset()
    env.step(np.zeros(1))

def work(kind, how):
    global env
    told = os.open(f"{out}/{kind}-{how}.err", os.O_WRONLY | os.O_CREAT)
    os.dup2(told, 2)
    fields = {"output_dir": f"{out}/{kind}-{how}"}
    if kind == "cameras":
        fields["cameras"] = [{"name": "wall", "width": 64, "height": 48}]
    if kind == "koyu":
        fields |= {"formats": ("koyu",), "koyu": {"name": "k", "collection_mode": "synthetic"}}
    if kind == "spooled":
        fields["episodes_per_file"] = 2
    env = lr.RecordSession(CountEnv(3, mujoco=True), **fields)
    begun = threading.Event()
    if how == "thread":
        threading.Thread(target=record, args=(env, begun)).start()
        begun.wait()
    else:
        record(env, begun)
    if how == "raises":
        raise KeyError("in the policy")

if __name__ == "__main__":
    for kind in kinds:
        child = multiprocessing.get_context(method).Process(target=work, args=kind.split("-"))
        child.start()
        child.join(50)
        print(kind, child.exitcode, flush=True)
"""
METHODS = multiprocessing.get_all_start_methods()
# What is recorded, and how the child ends.
KINDS = ["plain-ends", "cameras-ends", "koyu-ends", "spooled-raises", "plain-thread"]


@pytest.fixture(scope="module", params=METHODS)
def ended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """A child of each kind, one after another; returns the folder, and how they ended."""
    folder = tmp_path_factory.mktemp(request.param)
    script = folder / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), str(folder), request.param, *KINDS], capture_output=True, text=True, timeout=200
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder, {kind: int(code) for kind, code in map(str.split, done.stdout.splitlines())}


@pytest.mark.parametrize("kind", KINDS)
def test_a_child_that_forgets_to_close_leaves_a_whole_session(
    ended: tuple[Path, dict[str, int]], read_back: Any, kind: str
) -> None:
    folder, codes = ended
    told = (folder / f"{kind}.err").read_text()
    assert codes[kind] == (kind == "spooled-raises"), told
    assert told.count("close() was not called on the recorder of") == 1, told
    if kind == "koyu-ends":
        assert len(lr.koyu.Dataset(folder / kind / "k")) == 10
        return
    (session,) = (folder / kind).glob("DataSessions/*")
    assert lr.Session(session).state == "complete"
    episodes = read_back(session)
    assert [(e.meta["length"], e.meta["success"]) for e in episodes] == [(3, True)] * 3 + [(1, False)]
    if kind == "cameras-ends":
        assert [len(e.frames["wall"]) for e in episodes] == [3, 3, 3, 1]
