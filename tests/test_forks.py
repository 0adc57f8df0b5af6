"""Forks and OpenGL: a child of a process that has drawn is told so at once, and no other child is."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="drivers are known by their threads here")

# Each script is a process of its own: what was drawn in this one, by other tests, must not count.
SETUP = """
import multiprocessing, os, sys, time, warnings
warnings.simplefilter("ignore")
import gymnasium as gym
import numpy as np
OUT = sys.argv[1]

def record(lr, source="front", **fields):
    camera = lr.Camera("front", source=source, width=32, height=32)
    env = gym.make("LuckyRecorder/PickCube-v0", render_mode="rgb_array", width=32, height=32)
    env = lr.RecordSession(env, output_dir=OUT, **({"cameras": [camera]} | fields))
    env.reset(seed=0)
    for _ in range(3):
        env.step(np.zeros(env.action_space.shape, np.float32))
    env.close()
    return env.session_path

def drawn_by_mujoco(keep=[]):
    import mujoco
    model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='.1'/></worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    keep.append(mujoco.Renderer(model, 32, 32))
    keep[-1].update_scene(data)
    keep[-1].render()

def drawn_and_closed():
    keep = []
    drawn_by_mujoco(keep)
    keep[0].close()

def drawn_by_gymnasium():
    import lucky_recorder
    env = gym.make("LuckyRecorder/PickCube-v0", render_mode="rgb_array", width=32, height=32)
    env.reset(seed=0)
    env.render()
    env.close()

def drawn_by_us():
    import lucky_recorder as lr
    record(lr)

def made_only():
    import mujoco
    made_only.context = mujoco.GLContext(32, 32)

def asked_for_devices():
    from lucky_recorder.capture.draw import context
    assert context._candidates()

def imported_only():
    import mujoco, mujoco.egl, OpenGL.GL

def nothing():
    pass

def told(lr, **fields):
    "Record, and print whether that worked or what was said."
    begun = time.monotonic()
    try:
        path = record(lr, **fields)
        frames = len(lr.Session(path).episode(0).frames("front")) if "cameras" not in fields else 0
        print("recorded", frames, flush=True)
    except lr.ForkError as error:
        soon = time.monotonic() - begun < 10
        print("refused", "spawn" in str(error) and "forkserver" in str(error), soon, flush=True)
        print(sorted(os.listdir(OUT)) if os.path.isdir(OUT) else [], flush=True)

def child(work, method="fork", *args):
    process = multiprocessing.get_context(method).Process(target=work, args=args, daemon=True)
    process.start()
    process.join(60)
    if process.is_alive():
        process.kill()
        print("HANGS", flush=True)
"""


def run(script: str, folder: Path, *, late: bool = False) -> list[str]:
    """Run a script; ``late``: the package is imported in the child, and not before."""
    program = SETUP + ("" if late else "import lucky_recorder as lr\n") + textwrap.dedent(script)
    env = os.environ | {"MUJOCO_GL": "egl"}
    file = folder / "script.py"
    file.write_text(program)
    done = subprocess.run(
        [sys.executable, str(file), str(folder / "out")],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


DREW = ["drawn_by_mujoco", "drawn_and_closed", "drawn_by_gymnasium", "made_only"]
DREW_NOT = ["nothing", "imported_only", "asked_for_devices"]


@pytest.mark.parametrize("before", DREW)
def test_a_child_of_a_process_that_has_drawn_is_refused_at_once(before: str, tmp_path: Path) -> None:
    said = run(f"{before}()\nchild(lambda: told(lr))\nchild(lambda: told(lr, source='render'))", tmp_path)
    assert said == ["refused True True", "[]"] * 2


def test_so_is_one_whose_parent_has_drawn_through_us(tmp_path: Path) -> None:
    said = run("drawn_by_us()\nchild(lambda: told(lr))", tmp_path)
    assert said == ["refused True True", "['DataSessions']"]
    assert len(list((tmp_path / "out/DataSessions").iterdir())) == 1


@pytest.mark.parametrize(
    ("before", "late"),
    [*((before, False) for before in DREW_NOT), ("imported_only", True)],
)
def test_a_child_of_a_process_that_has_not_drawn_draws(before: str, late: bool, tmp_path: Path) -> None:
    script = f"{before}()\ndef work():\n    import lucky_recorder as lr\n    told(lr)\nchild(work)"
    assert run(script, tmp_path, late=late) == ["recorded 3"]


def test_where_the_package_is_imported_in_the_child_alone_it_can_still_tell(tmp_path: Path) -> None:
    script = "drawn_by_mujoco()\ndef work():\n    import lucky_recorder as lr\n    told(lr)\nchild(work)"
    assert run(script, tmp_path, late=True) == ["refused True True", "[]"]


def test_a_child_that_has_drawn_itself_before_it_imports_the_package_may_go_on(tmp_path: Path) -> None:
    script = "def work():\n    drawn_by_mujoco()\n    import lucky_recorder as lr\n    told(lr)\nchild(work)"
    assert run(script, tmp_path, late=True) == ["recorded 3"]


def test_a_child_that_was_refused_records_without_cameras(tmp_path: Path) -> None:
    assert run("drawn_by_mujoco()\nchild(lambda: told(lr, cameras=[]))", tmp_path) == ["recorded 0"]


def test_the_child_of_a_refused_child_is_refused_too(tmp_path: Path) -> None:
    script = """
    drawn_by_mujoco()
    first = os.fork()
    if first == 0:
        child(lambda: told(lr))
        os._exit(0)
    os.waitpid(first, 0)
    """
    assert run(script, tmp_path) == ["refused True True", "[]"]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_the_remedies_work(method: str, tmp_path: Path) -> None:
    script = f"""
    def work():
        told(lr)

    if __name__ == "__main__":
        drawn_by_mujoco()
        child(work, {method!r})
    """
    assert run(script, tmp_path) == ["recorded 3"]


VECTOR = """
CAMERAS = [lr.Camera("front", width=32, height=32)]

def wrapped(env):
    return lr.RecordSession(env, output_dir=OUT, cameras=CAMERAS)

shared = lr.vector.shared(output_dir=OUT, cameras=CAMERAS)

if __name__ == "__main__":
    drawn_by_mujoco()
    begun = time.monotonic()
    envs = gym.make_vec(
        "LuckyRecorder/PickCube-v0", num_envs=2, vectorization_mode="async", wrappers=[WRAPPER], KWARGS
    )
    begun = time.monotonic()
    try:
        envs.reset(seed=0)
        envs.step(np.zeros(envs.action_space.shape, np.float32))
        print("recorded")
    except lr.ForkError as error:
        print("refused", "vector_kwargs={'context': 'spawn'}" in str(error), time.monotonic() - begun < 10)
    envs.close()
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("wrapper", "context", "said"),
    [
        ("wrapped", "None", "refused True True"),
        ("wrapped", "'spawn'", "recorded"),
        ("shared", "None", "refused True True"),
    ],
)
def test_gymnasiums_vector_environments(wrapper: str, context: str, said: str, tmp_path: Path) -> None:
    script = VECTOR.replace("KWARGS", f"vector_kwargs={{'context': {context}}}").replace("WRAPPER", wrapper)
    assert run(script, tmp_path) == [said]


YOUNG = """
import ctypes, threading, types
from lucky_recorder import forks

begun, may_name, named, looks = threading.Event(), threading.Event(), threading.Event(), []

def work():
    begun.set()
    may_name.wait()
    ctypes.CDLL(None).prctl(15, NAME, 0, 0, 0)  # PR_SET_NAME
    named.set()
    threading.Event().wait()

def sleep(seconds):
    looks.append(seconds)
    may_name.set()
    named.wait()

thread = threading.Thread(target=work, daemon=True)
thread.start()
begun.wait()
stat = open(f"/proc/self/task/{thread.native_id}/stat").read().rpartition(")")[2].split()
now = int(stat[19]) / os.sysconf("SC_CLK_TCK") + LATER
clock = types.SimpleNamespace(sleep=sleep, clock_gettime=lambda _: now, CLOCK_BOOTTIME=time.CLOCK_BOOTTIME)
forks.time, forks._has_mesa = clock, lambda: True
print(forks._runs_driver(), len(looks))
"""


@pytest.mark.parametrize(
    ("name", "later", "said"),
    [
        ("llvmpipe-0", 0, "True 1"),  # a driver's thread, which had no time to name itself
        ("worker", 0, "False 1"),  # one of another kind
        ("llvmpipe-0", 60, "False 0"),  # one that has had time enough, such as those of numpy: never waited for
    ],
)
def test_a_thread_that_has_just_begun_is_given_time_to_name_itself(
    name: str, later: int, said: str, tmp_path: Path
) -> None:
    script = YOUNG.replace("NAME", repr(name.encode())).replace("LATER", str(later))
    assert run(script, tmp_path) == [said]
