"""Memory while much is recorded: pictures behind a slow encoder, a very long episode, many scans.

    python -m tests.soak.memory --first 0 --count 3

Each measurement is a process of its own. It says by how much the process has grown since its first episode was over,
until the session was closed. Episodes twice as long may not take more.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("MUJOCO_GL", "egl")

import mujoco
import numpy as np
from numpy.typing import NDArray

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv
from lucky_recorder.video.encoder import VideoEncoder
from tests.soak.figures import tell

SCENE = """
<mujoco>
  <option timestep="0.02"/>
  <worldbody>
    <geom type="plane" size="5 5 .1"/>
    <body pos="0 0 1"><freejoint/><site name="eye"/><geom size=".2" mass="1"/></body>
  </worldbody>
</mujoco>
"""


Verify = Callable[[], None]


def pictures(folder: Path, begun: Callable[[], None]) -> Verify:
    """3,000 frames of 640x480, where encoding one takes twice as long as it does."""
    write = VideoEncoder.write

    def slow(self: VideoEncoder, pixels: NDArray[Any], *, bottom_up: bool = False) -> None:
        before = time.perf_counter()
        write(self, pixels, bottom_up=bottom_up)
        time.sleep(time.perf_counter() - before)

    VideoEncoder.write = slow  # type: ignore[method-assign]
    return _count(folder, 3000, begun, cameras=[{"name": "wall", "width": 640, "height": 480}])


def rows(folder: Path, begun: Callable[[], None]) -> Verify:
    """One episode of 1,000,000 rows."""
    return _count(folder, 1_000_000, begun)


def twice_the_rows(folder: Path, begun: Callable[[], None]) -> Verify:
    """One episode of 2,000,000 rows."""
    return _count(folder, 2_000_000, begun)


def _count(folder: Path, length: int, begun: Callable[[], None], **fields: Any) -> Verify:
    env = lr.RecordSession(CountEnv(length, mujoco=True), output_dir=folder, **fields)
    action = np.zeros(1)
    for count in (50, length):
        env.reset(seed=0)
        for _ in range(count):
            env.step(action)
        env.end_episode(success=True)
        env.observer.flush()
        if count != length:
            begun()
    env.close()

    def verify() -> None:
        assert env.session_path is not None
        found = [(episode.length, episode.rows(["frame_index"]).num_rows) for episode in lr.Session(env.session_path)]
        assert found == [(50, 50), (length, length)], found

    return verify


def scans(folder: Path, begun: Callable[[], None]) -> Verify:
    """One episode of 20,000 scans of 360 rays."""
    return _scan(folder, 20_000, begun)


def twice_the_scans(folder: Path, begun: Callable[[], None]) -> Verify:
    """One episode of 40,000 scans of 360 rays."""
    return _scan(folder, 40_000, begun)


def _scan(folder: Path, length: int, begun: Callable[[], None]) -> Verify:
    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    lidar = lr.Lidar("eye", azimuth=(-180, 180, 360), elevation=(0, 0, 1), max_range_m=8)
    observer = lr.Observer(
        mode="full_scene", data_hz=50, lidars=[lidar], model=model, data=data, output_dir=folder
    )  # fmt: skip
    for count in (50, length):
        mujoco.mj_resetData(model, data)
        observer.start_recording() if count == 50 else observer.begin_episode()
        for _ in range(count):
            observer.tick()
            mujoco.mj_step(model, data)
        observer.end_current_episode(success=True)
        observer.flush()
        if count == 50:
            begun()
    observer.stop_recording()

    def verify() -> None:
        assert observer.session_path is not None
        lidars = [episode.scans("eye") for episode in lr.Session(observer.session_path)]
        assert [len(one) for one in lidars] == [50, length]
        assert len(lidars[1].ranges(length - 1)) == 360

    return verify


class Measured(NamedTuple):
    """What is recorded, and by how many MB the process may grow meanwhile."""

    record: Callable[[Path, Callable[[], None]], Verify]
    most_mb: int


# However long an episode is, it takes no more.
MEASURED = (
    Measured(pictures, 200),
    Measured(rows, 100),
    Measured(twice_the_rows, 100),
    Measured(scans, 100),
    Measured(twice_the_scans, 100),
)


def grown_mb(record: Callable[[Path, Callable[[], None]], Verify]) -> float:
    """Return by how much this process grows while something is recorded, from its first episode on."""
    before: list[float] = []

    def begun() -> None:
        Path("/proc/self/clear_refs").write_text("5")
        before.append(_peak_mb())

    with tempfile.TemporaryDirectory() as folder:
        verify = record(Path(folder), begun)
        # Before it is read back, which takes memory of its own.
        grown = _peak_mb() - before[0]
        verify()
    return grown


def _peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--first", type=int, default=0)
    asked.add_argument("--count", type=int, default=len(MEASURED))
    asked.add_argument("--in-child", type=int, help="measure this one here, and print it")
    given = asked.parse_args()
    if given.in_child is not None:
        print(grown_mb(MEASURED[given.in_child].record))
        return 0
    figures: Counter[str] = Counter()
    for number in range(given.first, given.first + given.count):
        record, most_mb = MEASURED[number]
        command = [sys.executable, "-m", "tests.soak.memory", "--in-child", str(number)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        grown = float(done.stdout.split()[-1]) if done.returncode == 0 else float("inf")
        figures["wrong"] += grown > most_mb
        print(f"{record.__name__}: {grown:.0f} MB of {most_mb} at most", flush=True)
        if done.returncode == 0:
            figures[f"MB more while {(record.__doc__ or '').strip('.').lower()} are recorded"] = round(grown)
    return tell(figures)


if __name__ == "__main__":
    sys.exit(main())
