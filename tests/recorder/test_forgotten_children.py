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
import multiprocessing, sys, threading
import numpy as np
import lucky_recorder as lr
from lucky_recorder.testing import CountEnv

out, method, kind, how = sys.argv[1:]

def record(env, begun):
    for seed in range(3):
        env.reset(seed=seed)
        if seed == 1:
            begun.set()
        for _ in range(3):
            env.step(np.zeros(1))
    env.reset()
    env.step(np.zeros(1))

def work():
    global env
    fields = {"output_dir": out}
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
    child = multiprocessing.get_context(method).Process(target=work)
    child.start()
    child.join(50)
    sys.exit(child.exitcode)
"""
METHODS = multiprocessing.get_all_start_methods()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("kind", "how"),
    [("plain", "ends"), ("cameras", "ends"), ("koyu", "ends"), ("spooled", "raises"), ("plain", "thread")],
)
def test_a_child_that_forgets_to_close_leaves_a_whole_session(
    tmp_path: Path, read_back: Any, method: str, kind: str, how: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), method, kind, how], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == (how == "raises"), done.stderr
    assert done.stderr.count("close() was not called on the recorder of") == 1, done.stderr
    if kind == "koyu":
        assert len(lr.koyu.Dataset(tmp_path / "k")) == 10
        return
    (session,) = tmp_path.glob("DataSessions/*")
    assert lr.Session(session).state == "complete"
    episodes = read_back(session)
    assert [(e.meta["length"], e.meta["success"]) for e in episodes] == [(3, True)] * 3 + [(1, False)]
    if kind == "cameras":
        assert [len(e.frames["wall"]) for e in episodes] == [3, 3, 3, 1]
