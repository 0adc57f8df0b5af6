"""Processes that end in every way: the session is whole, and what stderr says is ours, once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.recorder import exits as interrupts
from lucky_recorder.testing import CountEnv

# How many random moments to strike at; a soak run raises it.
MOMENTS = int(os.environ.get("LUCKY_RECORDER_INTERRUPTS", "3"))
SETUP = """
import os, signal, sys, threading
import numpy as np
import lucky_recorder as lr
from lucky_recorder.testing import CountEnv

out = sys.argv[1]
camera = {"name": "wall", "width": 64, "height": 48}
class Counting(CountEnv):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.steps, self.is_time, self.strike = 0, threading.Event(), None
    def step(self, action):
        self.steps += 1
        if self.steps == self.strike:
            self.is_time.set()
        return super().step(action)

inner = Counting(7, mujoco=True)
env = lr.RecordSession(inner, output_dir=out, cameras=[camera])
def run(episodes):
    for seed in range(episodes):
        env.reset(seed=seed)
        done = False
        while not done:
            *_, done, _, _ = env.step(np.zeros(1))

def strike(signal_number, step):
    inner.strike = step
    def wait():
        inner.is_time.wait()
        os.kill(os.getpid(), signal_number)
    threading.Thread(target=wait, daemon=True).start()
"""
FORGOTTEN = "close() was not called on the recorder of"


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., tuple[subprocess.CompletedProcess[str], Path]]:
    """Return a function that runs a script in a process of its own, and returns what it did and its session."""

    def run(script: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], Path]:
        done = subprocess.run(
            [sys.executable, "-c", SETUP + textwrap.dedent(script), str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, **environment},
        )
        sessions = sorted(tmp_path.glob("DataSessions/*"))
        assert len(sessions) == 1, done.stderr
        return done, sessions[0]

    return run


def test_a_forgotten_close_leaves_a_whole_session_and_one_warning(python: Any, read_back: Any) -> None:
    done, session = python("run(3)\nenv.reset()\nfor _ in range(4): env.step(np.zeros(1))")
    assert done.returncode == 0
    assert done.stderr.count(FORGOTTEN) == 1
    assert str(session) in done.stderr
    assert "Traceback" not in done.stderr
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(session)] == [(7, True)] * 3 + [(4, False)]


def test_warnings_as_errors_keep_no_session_from_being_closed(tmp_path: Path, read_back: Any) -> None:
    script = """
    others = [lr.RecordSession(CountEnv(7, mujoco=True), output_dir=out, mode="full_scene") for _ in range(2)]
    for env in others:
        run(1)
    """
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", SETUP + textwrap.dedent(script), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert FORGOTTEN in done.stderr
    sessions = list(tmp_path.glob("DataSessions/*"))
    assert len(sessions) == 2
    assert [[e.meta["length"] for e in read_back(s)] for s in sessions] == [[7], [7]]


def test_an_error_that_ends_the_process_leaves_a_whole_session(python: Any, read_back: Any) -> None:
    done, session = python("run(1)\nenv.reset()\nenv.step(np.zeros(1))\nraise KeyError('in the policy')")
    assert done.returncode == 1
    assert "KeyError: 'in the policy'" in done.stderr
    assert done.stderr.count(FORGOTTEN) == 1
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(session)] == [(7, True), (1, False)]


def test_failed_episodes_are_discarded_on_the_way_out_too(python: Any, read_back: Any) -> None:
    done, session = python(
        """
        env = lr.RecordSession(inner, output_dir=out, cameras=[camera], discard_and_retry_failed=True)
        run(2)
        env.reset()
        env.step(np.zeros(1))
        """
    )
    assert done.returncode == 0
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(session)] == [(7, True)] * 2
    assert not list(session.rglob("*.tmp"))


def check_struck(session: Path, read_back: Any) -> None:
    episodes = read_back(session)
    assert all(len(e.frames["wall"]) == e.meta["length"] for e in episodes)
    assert [e.meta["length"] for e in episodes[:-1]] == [7] * (len(episodes) - 1)
    assert [e.meta["success"] for e in episodes[:-1]] == [True] * (len(episodes) - 1)
    assert not list(session.rglob("*.tmp"))


@pytest.mark.parametrize("face", ["env", "observer"])
def test_a_daemon_thread_that_still_records_is_ended_without_a_word(python: Any, read_back: Any, face: str) -> None:
    done, session = python(
        f"""
        begun = threading.Event()
        def tick():
            env.step(np.zeros(1)) if "{face}" == "env" else env.observer.tick()
        def loop():
            env.reset(seed=0)
            inner.lengths = [10 ** 9]
            while True:
                tick()
                begun.set()
        threading.Thread(target=loop, daemon=True).start()
        begun.wait()
        """
    )
    assert done.returncode == 0
    assert done.stderr.count(FORGOTTEN) == 1
    assert "Traceback" not in done.stderr
    (episode, *others) = read_back(session)
    assert len(episode.frames["wall"]) == episode.meta["length"] > 0
    assert not [e for e in others if e.meta["length"] != len(e.frames["wall"])]


def test_a_process_whose_encoder_hangs_still_ends(python: Any) -> None:
    done, _ = python(
        """
        from lucky_recorder.video.encoder import VideoEncoder
        VideoEncoder.write = lambda *args, **named: threading.Event().wait()
        env = lr.RecordSession(inner, output_dir=out, cameras=[camera], worker_timeout_s=3)
        env.reset(seed=0)
        env.step(np.zeros(1))
        """
    )
    assert done.returncode == 0
    assert done.stderr.count(FORGOTTEN) == 1
    assert "worker_timeout_s=3" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_exit_without_python_leaves_what_was_finished(python: Any) -> None:
    done, session = python(
        "run(3)\nenv.end_episode()\nenv.observer.flush()\nenv.reset()\nenv.step(np.zeros(1))\nos._exit(3)"
    )
    assert done.returncode == 3
    assert not done.stderr
    assert len(list(session.glob("data/**/file-*.parquet"))) == 3


def test_bundles_alone_are_whole_after_a_forgotten_close(tmp_path: Path) -> None:
    script = """
    koyu = {"name": "k", "collection_mode": "synthetic"}
    env = lr.RecordSession(inner, output_dir=out, cameras=[camera], formats=("koyu",), koyu=koyu)
    run(1)
    env.reset()
    for _ in range(3): env.step(np.zeros(1))
    """
    done = subprocess.run(
        [sys.executable, "-c", SETUP + textwrap.dedent(script), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert done.stderr.count(FORGOTTEN) == 1
    assert "could not be written" not in done.stderr
    assert len(lr.koyu.Dataset(tmp_path / "k")) == 10


@pytest.mark.parametrize(("number", "step"), list(enumerate(random.Random(14).sample(range(1, 300), MOMENTS))))
def test_ctrl_c_at_a_random_step(python: Any, read_back: Any, number: int, step: int) -> None:
    block = bool(number % 2)
    work = "with env: run(100)" if block else "run(100)"
    done, session = python(f"strike(signal.SIGINT, {step})\n{work}")
    assert done.returncode in (-signal.SIGINT, 1, 130)
    assert "KeyboardInterrupt" in done.stderr
    assert done.stderr.count(FORGOTTEN) == (0 if block else 1)
    check_struck(session, read_back)


@pytest.mark.parametrize("step", random.Random(15).sample(range(1, 300), MOMENTS - 1))
def test_sigterm_at_a_random_step(python: Any, read_back: Any, step: int) -> None:
    done, session = python(f"strike(signal.SIGTERM, {step})\nrun(100)")
    assert done.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in done.stderr
    check_struck(session, read_back)


def test_a_sigterm_handler_of_the_users_own_is_left_alone(python: Any, read_back: Any) -> None:
    done, session = python(
        """
        def mine(*_):
            print("mine")
        signal.signal(signal.SIGTERM, mine)
        run(1)
        assert signal.getsignal(signal.SIGTERM) is mine
        signal.raise_signal(signal.SIGTERM)
        run(1)
        env.close()
        assert signal.getsignal(signal.SIGTERM) is mine
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "mine\n", "")
    assert [e.meta["length"] for e in read_back(session)] == [7, 7]


def test_kill_leaves_every_committed_episode_whole(python: Any) -> None:
    done, session = python(
        "run(3)\nenv.end_episode()\nenv.observer.flush()\nenv.reset()\nenv.step(np.zeros(1))\n"
        "env.recorder.recording.flush()\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    import pyarrow.parquet as pq

    from lucky_recorder.video.decode import decode_all

    assert done.returncode == -signal.SIGKILL
    data, videos = (
        sorted(session.glob(f"{kind}/**/file-*.{end}")) for kind, end in (("data", "parquet"), ("videos", "mp4"))
    )
    assert [pq.read_table(p).num_rows for p in data] == [7, 7, 7]
    assert [len(decode_all(p)) for p in videos] == [7, 7, 7]
    models = session.glob("meta/models/*.mjb")
    assert {p.name for p in session.rglob("*") if p.is_file()} - {p.name for p in (*data, *videos, *models)} == {
        "observation.images.wall-take-000003.mp4.tmp",
        ".reserve.tmp",
        # What was written with the first episode.
        *("info.json", "provenance.json", "stats.json", "tasks.parquet"),
    }


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_gets_a_clear_error_and_the_parent_goes_on(python: Any, read_back: Any) -> None:
    done, session = python(
        """
        import time, warnings
        warnings.simplefilter("ignore")
        env.reset(seed=0)
        env.step(np.zeros(1))
        child = os.fork()
        if child == 0:
            begun = time.monotonic()
            for verb in (lambda: env.step(np.zeros(1)), lambda: env.observer.flush(), lambda: env.end_episode(True)):
                try:
                    verb()
                except lr.ForkError as error:
                    print("spawn" in str(error), flush=True)
            print(time.monotonic() - begun < 1, flush=True)
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        for _ in range(6): env.step(np.zeros(1))
        run(1)
        env.close()
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"] * 4
    assert FORGOTTEN not in done.stderr
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(session)] == [(7, True)] * 2


def test_a_state_only_recorder_in_a_forked_child_errs_at_once(python: Any, read_back: Any) -> None:
    done, session = python(
        """
        import multiprocessing, warnings
        warnings.simplefilter("ignore")
        env = lr.RecordSession(inner, output_dir=out)
        env.reset(seed=0)
        def work():
            try:
                env.step(np.zeros(1))
            except lr.ForkError:
                os._exit(7)
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join(20)
        assert child.exitcode == 7, child.exitcode
        env.step(np.zeros(1))
        env.close()
        """
    )
    assert done.returncode == 0, done.stderr
    assert [e.meta["length"] for e in read_back(session)] == [1]


def test_a_recorder_may_be_made_in_a_forked_child(tmp_path: Path, read_back: Any) -> None:
    script = """
    child = os.fork()
    if child == 0:
        env = lr.RecordSession(inner, output_dir=out)
        run(2)
        env.close()
        os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = subprocess.run(
        [sys.executable, "-c", SETUP + textwrap.dedent(script), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    (session,) = tmp_path.glob("DataSessions/*")
    assert [e.meta["length"] for e in read_back(session)] == [7, 7]


# In this process.


@pytest.fixture
def sigterm() -> Any:
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield lambda: signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)


def start(tmp_path: Path) -> lr.RecordSession:
    env = lr.RecordSession(CountEnv(2), output_dir=tmp_path, mode="custom", gym_columns=True)
    env.reset()
    return env


def test_the_handler_is_there_only_while_a_session_is_open(tmp_path: Path, sigterm: Any) -> None:
    first, second = start(tmp_path), start(tmp_path)
    assert sigterm() is interrupts._on_signal
    first.close()
    assert sigterm() is interrupts._on_signal
    second.close()
    assert sigterm() is signal.SIG_DFL


def test_a_handler_that_the_user_sets_meanwhile_stays(tmp_path: Path, sigterm: Any) -> None:
    env = start(tmp_path)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    env.close()
    assert sigterm() is signal.SIG_IGN


def test_no_handler_is_set_from_another_thread(tmp_path: Path, sigterm: Any, read_back: Any) -> None:
    made = []

    def work() -> None:
        made.append(start(tmp_path))
        made[0].step([0.0])
        made[0].close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert sigterm() is signal.SIG_DFL
    assert [e.meta["length"] for e in read_back(made[0].session_path)] == [1]


def test_what_was_registered_is_forgotten_once_closed(tmp_path: Path) -> None:
    before = dict(interrupts._open)
    env = start(tmp_path)
    assert len(interrupts._open) == len(before) + 1
    env.close()
    assert interrupts._open == before
