"""Environments in processes of their own: what each records becomes one session, however the processes end."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv, check_session
from tests.recorder.lanes import LENGTHS, Lane, custom, expected, run
from tests.vector.away import folders, rows_of

# Gymnasium tells of what has failed in a process, and newer Pythons of threads where processes are forked.
pytestmark = pytest.mark.filterwarnings("ignore")
STEPS = 8


def started(wrap: Any, lengths: Sequence[Any] = LENGTHS, context: str = "fork", **more: Any) -> AsyncVectorEnv:
    makers = [lambda lane=lane, n=n: wrap(Lane(lane, n)) for lane, n in enumerate(lengths)]
    return AsyncVectorEnv(makers, context=context, **more)


def step(envs: Any, count: int = 1) -> None:
    for _ in range(count):
        envs.step(np.zeros((envs.num_envs, 1), np.float32))


def test_one_session_comes_out(tmp_path: Path) -> None:
    mode = AutoresetMode.SAME_STEP
    envs = lr.RecordSession(started(lr.vector.shared(**custom(tmp_path)), autoreset_mode=mode))
    assert type(envs) is lr.vector.AsyncRecordSession
    assert (envs.session_path, envs.counts, envs.is_recording) == (None, None, False)
    assert folders(tmp_path) == []
    run(envs, STEPS, mode)
    wanted = sorted(expected(LENGTHS, STEPS, mode), key=lambda one: (one.episode % 20, one.lane))
    envs.flush()
    assert envs.is_recording
    ended = [one for one in wanted if one.is_done]
    assert 0 < envs.counts.kept <= len(ended)
    envs.close()
    envs.close()
    assert not envs.is_recording
    assert (envs.counts.kept, envs.counts.rows) == (len(wanted), sum(len(one.steps) for one in wanted))
    assert rows_of(envs.session_path) == [[100 * one.episode + t for t in range(len(one.steps))] for one in wanted]
    table = check_session(envs.session_path).episodes
    assert table["lane"].to_pylist() == [one.lane for one in wanted]
    assert table["success"].to_pylist() == [one.is_done for one in wanted]
    assert folders(tmp_path) == [envs.session_path.name]


def test_what_is_said_of_a_lane(tmp_path: Path) -> None:
    with lr.RecordSession(started(lr.vector.shared(**custom(tmp_path, tasks=["lift", "push"])), (None, None))) as envs:
        envs.reset()
        # Any word: some of them are parameters on the way.
        words = dict.fromkeys(("self", "lane", "name", "verb", "args", "said", "kwargs"), "any")
        envs.annotate(1, rating=4, **words)
        envs.call("annotate", operator="Ada")
        envs.set_task(1, lane=np.int64(0))
        step(envs)
        envs.end_episode(1, success=True, reward=0.5)
        step(envs)
        with pytest.raises(lr.StateError, match="open episode"):
            envs.end_episode(1)
        with pytest.raises(lr.SettingsError, match="lane=2"):
            envs.annotate(2, rating=1)
        # Nobody was ended by that.
        step(envs)
    with pytest.raises(lr.StateError, match=r"close\(\) was called"):
        envs.flush()
    table = check_session(envs.session_path).episodes.to_pydict()
    assert table["lane"] == [0, 1]
    assert table["length"] == [3, 1]
    assert table["success"] == [False, True]
    assert table["tasks"] == [["push"], ["lift"]]
    said = [json.loads(one) for one in table["annotations"]]
    assert said == [{"operator": "Ada"}, {"rating": 4, "operator": "Ada", **words}]


def test_spawned_ones_whose_vector_environment_is_closed_by_itself(tmp_path: Path) -> None:
    wrap = lr.vector.shared(**custom(tmp_path))
    envs = started(wrap, (2, 3), "spawn")
    run(envs, 4)
    envs.close()
    assert rows_of(wrap.session_path) == [[0, 1], [2000, 2001, 2002], [100]]
    assert folders(tmp_path) == [wrap.session_path.name]


def test_what_a_killed_process_had_finished_is_kept(tmp_path: Path, caplog: Any) -> None:
    wrap = lr.vector.shared(**custom(tmp_path))
    inner = started(wrap, (1, 2, 3))
    envs = lr.RecordSession(inner)
    envs.reset()
    step(envs, 5)
    envs.flush()
    os.kill(inner.processes[1].pid, signal.SIGKILL)
    with pytest.raises((EOFError, OSError)):
        step(envs, 2)
    with caplog.at_level(logging.WARNING, "lucky_recorder"):
        envs.close()
    (said,) = [message for message in caplog.messages if "lane" in message]
    assert said == f"lane 1: ended without close(); what was finished there, 1 episode, is in {envs.session_path}"
    assert [one for one in rows_of(envs.session_path) if 2000 <= one[0] < 4000] == [[2000, 2001]]
    assert rows_of(envs.session_path)[0] == [0]
    assert envs.counts.kept == len(check_session(envs.session_path))
    assert not any(process.is_alive() for process in inner.processes)


@pytest.mark.parametrize("how", ["one by one", "all at once"])
def test_processes_that_are_terminated_make_the_session_all_the_same(tmp_path: Path, how: str) -> None:
    wrap = lr.vector.shared(**custom(tmp_path))
    envs = started(wrap, (1, None))
    envs.reset()
    step(envs, 2)
    if how == "one by one":
        for process in envs.processes:
            process.terminate()
            process.join()
        with pytest.raises((EOFError, OSError)):
            envs.close()
        envs.closed = True
    else:
        envs.close(terminate=True)
    assert rows_of(wrap.session_path) == [[0], [2000, 2001]]


def test_what_is_refused_in_a_process_is_raised_here(tmp_path: Path) -> None:
    wrap = lr.vector.shared(**custom(tmp_path, total_episodes=3))
    envs = started(wrap, (1, 1))
    for call in (lambda: lr.RecordSession(envs), envs.reset):
        with pytest.raises(lr.SettingsError, match=r"total_episodes=3: no lane knows .*vectorization_mode='sync'"):
            call()
    envs.close()
    assert wrap.session_path is None
    assert folders(tmp_path) == []


def test_settings_are_given_once(tmp_path: Path) -> None:
    inner = started(lr.vector.shared(**custom(tmp_path)), (1,))
    with pytest.raises(lr.SettingsError, match=r"shared\(\) is around its environments"):
        lr.RecordSession(inner, **custom(tmp_path))
    inner.close()


def test_all_environments_are_recorded_or_none(tmp_path: Path) -> None:
    wrap = lr.vector.shared(**custom(tmp_path))
    inner = AsyncVectorEnv([lambda: wrap(CountEnv()), CountEnv], context="fork")
    with pytest.raises(lr.SettingsError, match="some of its environments are recorded"):
        lr.RecordSession(inner)
    inner.close()
    inner = AsyncVectorEnv([CountEnv], context="fork")
    with pytest.raises(lr.SettingsError, match=r"mode='custom'.*wrappers=\[lucky_recorder.vector.shared"):
        lr.RecordSession(inner)
    inner.close()


INTERRUPTED = """
import sys
from pathlib import Path
import numpy as np
import lucky_recorder as lr
from tests.recorder.lanes import custom
from tests.vector.test_processes import started

if __name__ == "__main__":
    wrap = lr.vector.shared(**custom(Path(sys.argv[1])))
    with lr.RecordSession(started(wrap, (2, None))) as envs:
        envs.reset()
        print("ready", flush=True)
        while True:
            envs.step(np.zeros((2, 1), np.float32))
"""


def test_an_interrupt_leaves_one_session(tmp_path: Path) -> None:
    """Ctrl-C in a terminal is sent to all processes at once."""
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    command = [sys.executable, str(script), str(tmp_path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    place = tmp_path / "DataSessions"
    while not list(place.glob("*.shards/000/DataSessions/*/data/*/*.parquet")):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert re.search("KeyboardInterrupt", said)
    (path,) = place.iterdir()
    session = check_session(path)
    assert session.episodes["lane"].to_pylist()[:3] == [0, 1, 0]
    assert session.episodes["success"].to_pylist()[:3] == [True, False, True]
    assert "merge" not in said
    assert "lucky_recorder_" not in said
