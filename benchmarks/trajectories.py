"""What it costs to make a session of arrays, against writing the same arrays with pyarrow.

    python benchmarks/trajectories.py [--pairs 20] [--ticks 20000] [--states] [--profile]
    python benchmarks/trajectories.py --million

The arrays are states (time, positions, velocities) and commands. pyarrow writes them as two columns of lists,
compressed as the session's are. `lr.record_trajectories` makes rows of them, with their statistics, and with --states
keeps full states besides. All CPU of the process counts, in interleaved ABBA pairs; the figure is
a ratio of sums. Goal: at most 1.5. ``--million`` records a million ticks, as one episode and as a thousand, and prints
by how much the memory of the process has grown meanwhile.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lucky_recorder as lr

HZ = 500


class Arrays(NamedTuple):
    model: mujoco.MjModel
    states: np.ndarray
    ctrl: np.ndarray


def arrays(joints: int, episodes: int, ticks: int) -> Arrays:
    slide = '<body><joint name="j{0}" type="slide" range="-1 1"/><geom size="0.1" contype="0"/></body>'
    servo = '<position name="m{0}" joint="j{0}" ctrlrange="-2 2"/>'
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><compiler autolimits="true"/>
        <worldbody>{"".join(slide.format(i) for i in range(joints))}</worldbody>
        <actuator>{"".join(servo.format(i) for i in range(joints))}</actuator></mujoco>"""
    )
    random = np.random.default_rng(0)
    count = ticks + 1
    steps = random.normal(0, 0.01, (episodes, count, 2 * joints))
    time_ = np.broadcast_to(np.arange(count)[None, :, None] / HZ, (episodes, count, 1))
    states = np.concatenate([time_, np.cumsum(steps, 1)], 2)
    return Arrays(model, states, np.cumsum(random.normal(0, 0.01, (episodes, ticks, joints)), 1))


def recorded(given: Arrays, folder: Path, **settings: bool) -> Path:
    return lr.record_trajectories(
        given.model,
        states=given.states,
        ctrl=given.ctrl,
        success=True,
        output_dir=folder,
        mode="full_scene",
        **settings,
    )


def by_pyarrow(given: Arrays, folder: Path) -> None:
    """Write the arrays as they are given, a file for each episode."""
    for number, (states, ctrl) in enumerate(zip(given.states, given.ctrl, strict=True)):
        columns = {"state": _lists(states[:-1]), "ctrl": _lists(ctrl)}
        pq.write_table(
            pa.table(columns),
            folder / f"{number}.parquet",
            compression="zstd",
            use_dictionary=False,
            write_page_checksum=True,
        )


def _lists(values: np.ndarray) -> pa.Array:
    offsets = np.arange(0, values.size + 1, values.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.ascontiguousarray(values).reshape(-1)))


def cpu(run: Callable[[Path], object]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        run(Path(folder))
        return time.process_time() - began


def compare(joints: int, ticks: int, pairs: int, has_states: bool) -> None:
    given = arrays(joints, 2, ticks)
    ours = lambda folder: recorded(given, folder, keep_states=has_states)  # noqa: E731
    theirs = lambda folder: by_pyarrow(given, folder)  # noqa: E731
    for run in (ours, theirs):
        cpu(run)
    spent = [0.0, 0.0]
    for pair in range(pairs):
        for which in (0, 1) if pair % 2 else (1, 0):
            spent[which] += cpu((ours, theirs)[which])
    rows = pairs * given.ctrl.shape[0] * ticks
    print(
        f"{joints:4} joints{', states' if has_states else ''}: {spent[0] / rows * 1e6:.2f} us a tick, pyarrow "
        f"{spent[1] / rows * 1e6:.2f}: ratio {spent[0] / spent[1]:.2f}"
    )


def million() -> None:
    """Record a million ticks whose arrays are made when they are asked for."""
    for episodes, ticks in ((1, 1_000_000), (1000, 1000)):
        with tempfile.TemporaryDirectory() as folder:
            small = arrays(7, 1, 1000)
            recorded(small, Path(folder))
            parts = np.memmap(Path(folder) / "states", np.float64, "w+", shape=(ticks + 1, 15))
            parts[:, 0] = np.arange(ticks + 1) / HZ
            for k in range(1, 15):
                parts[:, k] = np.sin(np.arange(ticks + 1) * 0.001 * k)
            parts.flush()

            def states(parts: np.ndarray = parts, episodes: int = episodes) -> Iterator[np.ndarray]:
                yield from (parts for _ in range(episodes))

            before = _own_memory()
            began = time.process_time()
            lr.record_trajectories(
                small.model,
                states=states(),
                ctrl=(parts[:-1, 1:8] for _ in range(episodes)),
                success=True,
                output_dir=folder,
            )
            spent = time.process_time() - began
            print(
                f"{episodes} episodes of {ticks} ticks: {spent:.1f} s of CPU, memory of its own {before} to "
                f"{_own_memory()} MB, most ever {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB"
            )


def _own_memory() -> int:
    """What the process has in memory that no file has, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) >> 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--ticks", type=int, default=20_000)
    parser.add_argument("--states", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--million", action="store_true")
    asked = parser.parse_args()
    if asked.million:
        million()
        return
    if asked.profile:
        given = arrays(7, 2, asked.ticks)
        with tempfile.TemporaryDirectory() as folder, cProfile.Profile() as profile:
            recorded(given, Path(folder), keep_states=asked.states)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    for joints in (7, 143):
        compare(joints, asked.ticks, asked.pairs, asked.states)


if __name__ == "__main__":
    main()
