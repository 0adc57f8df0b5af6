"""A forked child that uses its parent's recorder: an error from the first call on, whatever it calls, in any state."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import lucky_recorder as lr

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

HEAD = """
import os, sys, warnings
import numpy as np
import lucky_recorder as lr
from lucky_recorder.testing import CountEnv
warnings.simplefilter("ignore")
out = sys.argv[1]

def tried(*verbs):
    # Each verb in a child of its own, and then all of them in one.
    for some in (*[[verb] for verb in verbs], list(verbs)):
        child = os.fork()
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            continue
        for verb in some:
            try:
                verb()
            except lr.ForkError:
                continue
            except BaseException as error:
                print(verb.__name__, verb.__code__.co_firstlineno, type(error), error, flush=True)
                os._exit(1)
            print("no error", verb.__code__.co_firstlineno, flush=True)
            os._exit(1)
        os._exit(0)
"""

WRAPPER = """
stepped = []
class Env(CountEnv):
    def step(self, action):
        stepped.append(1)
        return super().step(action)

env = lr.RecordSession(Env(5), output_dir=out, mode="custom", gym_columns=True,
                       episode_trigger=lambda number: number != 1)
def step():
    before = len(stepped)
    try:
        env.step(np.zeros(1))
    finally:
        assert len(stepped) == before
verbs = (
    lambda: env.reset(seed=1), step, lambda: env.end_episode(), lambda: env.end_episode(True), lambda: env.observe(),
    lambda: env.mark_event("x"), lambda: env.set_task(0), lambda: env.hold(), lambda: env.close(), lambda: env.close(),
    lambda: env.reset(), step, lambda: env.observer.flush(), lambda: env.observer.mark_event("x"),
    lambda: env.observer.mark_reset(), lambda: env.observer.begin_episode(), lambda: env.observer.stop_recording(),
    lambda: env.observer.start_recording(), lambda: env.observer.register_task("x"), lambda: env.observer.tick(),
    lambda: env.observer.end_current_episode(True), lambda: env.observer.set_current_task_index(0),
)
env.reset(seed=0)
tried(*verbs)                                   # in an episode, before its first row
env.step(np.zeros(1))
tried(*verbs)                                   # in its midst
for _ in range(4): env.step(np.zeros(1))
tried(*verbs)                                   # it is done
env.end_episode(True)
tried(*verbs)                                   # between two
env.reset(seed=1)
env.step(np.zeros(1))
tried(*verbs)                                   # in one that is left out
env.reset(seed=2)
for _ in range(5): env.step(np.zeros(1))
env.close()
print(env.session_path)
"""

OBSERVER = """
import mujoco
model = mujoco.MjModel.from_xml_string(
    "<mujoco><worldbody><body><joint name='j'/><geom size='.1'/></body></worldbody>"
    "<actuator><motor joint='j'/></actuator></mujoco>")
data = mujoco.MjData(model)
observer = lr.Observer(output_dir=out, data_hz=50, model=model, data=data)
def block():
    with observer.step():
        raise AssertionError("the block was entered")
verbs = (
    lambda: observer.tick(), block, lambda: observer.observe(), lambda: observer.flush(),
    lambda: observer.begin_episode(), lambda: observer.end_current_episode(True),
    lambda: observer.end_current_episode_begin_next(True), lambda: observer.mark_reset(),
    lambda: observer.mark_event("x"), lambda: observer.set_current_task_index(0),
    lambda: observer.register_task("x"), lambda: observer.start_recording(), lambda: observer.stop_recording(),
    lambda: observer.tick(), lambda: observer.start_recording(),
)
def ticks(n):
    for _ in range(n):
        observer.tick()
        mujoco.mj_step(model, data, 10)
observer.start_recording()
tried(*verbs)
ticks(2)
tried(*verbs)
observer.end_current_episode(True)
tried(*verbs)
ticks(3)
observer.end_current_episode(True)
observer.stop_recording()
print(observer.session_path)
"""

IDLE = """
env = lr.RecordSession(CountEnv(2), output_dir=out, mode="custom", gym_columns=True)
def episode():
    env.reset(seed=0)
    for _ in range(2): env.step(np.zeros(1))
    env.close()
child = os.fork()
if not child:
    episode()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
episode()
print(env.session_path)
"""


def recorded(script: str, folder: Path) -> lr.Session:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(script), str(folder)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    session = lr.Session(done.stdout.split()[-1])
    assert session.state == "complete"
    return session


def test_of_an_environment(tmp_path: Path) -> None:
    assert [episode.length for episode in recorded(WRAPPER, tmp_path)] == [5, 5]
    assert len(list(tmp_path.glob("DataSessions/*"))) == 1


def test_of_a_loop_of_one_s_own(tmp_path: Path) -> None:
    assert [episode.length for episode in recorded(OBSERVER, tmp_path)] == [2, 3]
    assert len(list(tmp_path.glob("DataSessions/*"))) == 1


def test_one_that_had_nothing_open_is_the_child_s_to_use(tmp_path: Path) -> None:
    assert [episode.length for episode in recorded(IDLE, tmp_path)] == [2]
    assert [len(lr.Session(path)) for path in tmp_path.glob("DataSessions/*")] == [1, 1]
