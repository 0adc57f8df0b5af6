"""What goes wrong in one lane: for its episode, for the session, and for the other lanes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import lucky_recorder as lr
from lucky_recorder.capture.mujoco.snapshot import ScenePool
from lucky_recorder.testing import check_session
from tests.recorder.breaking import break_encoder, give_up
from tests.recorder.lanes import SIZE, Lane, custom, run, vector

WALL = lr.Camera("wall", **SIZE)


def rows_of(path: Path | None) -> list[list[float]]:
    assert path is not None
    session = check_session(path)
    return [np.ravel(session.episode(i).rows()["obs"].to_pylist()).tolist() for i in range(len(session))]


def test_a_stream_that_fails_in_one_lane_stops_the_session_for_all(tmp_path: Path, monkeypatch: Any) -> None:
    env = lr.RecordSession(vector((2, 3, 9), mujoco=True), **custom(tmp_path, cameras=[WALL]))
    # The takes of the first reset are 0 to 2; the fourth is the second one of lane 0.
    break_encoder(monkeypatch, "write", attempt=3, frame=1, act=give_up)
    with pytest.raises(lr.StreamError, match=r"had enough.*\d episodes with \d+ rows that came after it were dropped"):
        run(env, 40)
    assert not env.is_recording
    assert not any(lane.is_recording for lane in env.lanes)
    # It was raised once: whoever goes on is not told again.
    env.reset()
    env.step(np.zeros((3, 1), np.float32))
    env.close()
    found = rows_of(env.session_path)
    assert found[:2] == [[0, 1], [2000, 2001, 2002]]
    assert [one[0] for one in found[2:]] == [100]
    assert check_session(env.session_path).episodes["success"].to_pylist()[:2] == [True, True]
    assert not list(env.session_path.rglob("*.tmp"))


def test_lanes_that_are_stepped_one_by_one_each_hear_of_it(tmp_path: Path, monkeypatch: Any) -> None:
    wrap = lr.vector.shared(**custom(tmp_path, cameras=[WALL]))
    lanes = [wrap(Lane(lane, None, mujoco=True)) for lane in range(3)]
    for lane in lanes:
        lane.reset()
    break_encoder(monkeypatch, "write", attempt=0, frame=0, act=give_up)
    lanes[0].step(np.zeros(1, np.float32))
    lanes[0].recorder.recording.flush()
    for act in (lambda lane: lane.step(np.zeros(1, np.float32)), lambda lane: lane.reset()):
        lane = lanes.pop()
        with pytest.raises(lr.StreamError, match="had enough"):
            act(lane)
        act(lane)
        lane.close()
    lanes[0].close()
    assert not lanes[0].recorder.fleet.is_open


def test_a_lane_whose_step_raises_fails_alone(tmp_path: Path) -> None:
    env = lr.RecordSession(vector((None, None, None)), **custom(tmp_path))
    env.reset()
    env.step(np.zeros((3, 1), np.float32))
    broken = env.lanes[1].unwrapped
    working = broken.step
    broken.step = lambda action: give_up()
    with pytest.raises(RuntimeError, match="enough"):
        env.step(np.zeros((3, 1), np.float32))
    broken.step = working
    env.step(np.zeros((3, 1), np.float32))
    env.reset(options={"reset_mask": np.array([False, True, False])})
    env.step(np.zeros((3, 1), np.float32))
    env.close()
    # Lane 0 had stepped before lane 1 raised, lane 2 had not.
    assert rows_of(env.session_path) == [[2000], [0, 1, 2, 3], [2100], [4000, 4001, 4002]]


def test_every_lane_may_have_looked_before_any_is_stepped(tmp_path: Path) -> None:
    """More lanes than scenes are in flight for one: each holds its own until its step, and none waits for another."""
    cameras = [WALL, lr.Camera("other", source="wall", **SIZE)]
    wrap = lr.vector.shared(**custom(tmp_path, cameras=cameras, worker_timeout_s=5))
    lanes = []
    for number in range(20):
        lanes.append(wrap(Lane(number, None, mujoco=True)))
        lanes[-1].reset()
        lanes[-1].observe()
    for _ in range(2):
        for lane in lanes:
            assert lane.observe()["observation.images.wall"].shape == (48, 64, 3)
        for lane in lanes:
            lane.step(np.zeros(1, np.float32))
    for lane in lanes:
        lane.close()
    assert len(rows_of(lanes[0].session_path)) == 20


def test_scenes_in_flight_are_not_multiplied_by_the_lanes(tmp_path: Path, monkeypatch: Any) -> None:
    made, making = [], ScenePool._make

    def counted(pool: ScenePool) -> Any:
        made.append(1)
        return making(pool)

    monkeypatch.setattr(ScenePool, "_make", counted)
    env = lr.RecordSession(vector((3,) * 32, mujoco=True), **custom(tmp_path, cameras=[WALL]))
    run(env, 6)
    env.close()
    assert len(check_session(env.session_path)) == 64
    assert len(made) <= 20


def test_lanes_in_threads_of_their_own(tmp_path: Path) -> None:
    wrap = lr.vector.shared(**custom(tmp_path, cameras=[WALL]))
    lanes = [wrap(Lane(lane, 4, mujoco=True)) for lane in range(4)]

    def work(lane: Any) -> None:
        for _ in range(3):
            lane.reset()
            for _ in range(4):
                lane.step(np.zeros(1, np.float32))
        lane.close()

    threads = [threading.Thread(target=work, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = rows_of(lanes[0].session_path)
    wanted = [[2000 * lane + 100 * k + t for t in range(4)] for lane in range(4) for k in range(3)]
    assert sorted(found) == sorted(wanted)


PROGRAM = """
import os, signal, sys
import numpy as np
import lucky_recorder as lr
from tests.recorder.lanes import custom, vector
env = lr.RecordSession(vector((2, None, None)), **custom(sys.argv[1]))
env.reset(seed=0)
for _ in range(4):
    env.step(np.zeros((3, 1), np.float32))
print(env.session_path, flush=True)
END
"""


@pytest.mark.parametrize(
    "end",
    ["", "os.kill(os.getpid(), signal.SIGTERM)", "os.kill(os.getpid(), signal.SIGINT)"],
    ids=["exit", "TERM", "INT"],
)
def test_a_process_that_ends_leaves_a_whole_session_of_all_lanes(tmp_path: Path, end: str) -> None:
    program = PROGRAM.replace("END", end)
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr.count("close() was not called") == 1
    assert rows_of(Path(done.stdout.strip())) == [[0, 1], [100], [2000, 2001, 2002, 2003], [4000, 4001, 4002, 4003]]


def test_a_forked_child_is_told_at_once(tmp_path: Path) -> None:
    env = lr.RecordSession(vector((None, None)), **custom(tmp_path))
    env.reset()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            env.step(np.zeros((2, 1), np.float32))
        except lr.ForkError:
            os.write(write, b"told")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"told"
    os.close(read), os.close(write)
    env.step(np.zeros((2, 1), np.float32))
    env.close()
    assert rows_of(env.session_path) == [[0], [2000]]


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_an_interrupt_between_two_lanes_loses_half_a_row_of_none(tmp_path: Path, mode: AutoresetMode) -> None:
    env = lr.RecordSession(vector((None, None, None), mode), **custom(tmp_path))
    env.reset()
    env.step(np.zeros((3, 1), np.float32))
    inner = env.lanes[1].unwrapped
    working = inner.step

    def step(action: Any) -> Any:
        result = working(action)
        signal.raise_signal(signal.SIGINT)
        return result

    inner.step = step
    with pytest.raises(KeyboardInterrupt):
        env.step(np.zeros((3, 1), np.float32))
    env.close()
    assert rows_of(env.session_path) == [[2000], [0, 1], [4000]]
