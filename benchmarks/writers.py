"""What others take to write the same pictures and rows, over what it takes here.

    python benchmarks/writers.py [--rounds 4] [--frames 150] [--episodes 2] [--lerobot PYTHON]

Each writer is given the same pictures, 640x480, in which shapes move, and the same 7 values of state and action, step
by step. It runs in a process of its own, and they take turns, there and back. Compared is the CPU of the whole process
and its children, from the first picture until everything is on the disk, threads included: a ratio of sums. Printed too
is the longest that one step was held up, and by how much the process grew.

RecordVideo needs moviepy, imageio its ffmpeg (`pip install moviepy imageio-ffmpeg`); LeRobot's writer needs a Python
that has it, such as the one that `make interop-readers` sets up, and PYTHONPATH naming LeRobot's folder there:

    home=~/.cache/lucky_recorder/interop/lerobot
    PYTHONPATH=$home/lerobot-0.6.1 HF_HUB_OFFLINE=1 python benchmarks/writers.py --lerobot $home/bin/python

What is not installed is left out, and told.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

WIDTH, HEIGHT, FPS, VALUES = 640, 480, 50, 7
STREAMING = "LeRobot, streaming"


class Told(NamedTuple):
    """What a writer took."""

    cpu_s: float
    worst_s: float
    grew_mb: float


def pictures(count: int) -> list[np.ndarray]:
    """Return pictures as simulations draw them: a floor, a shaded background, and a few shapes that move."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    floor = np.where((x // 40 + y // 40) % 2, 150, 110)
    room = np.where(y < HEIGHT / 2, 200 - y / 4, floor)[..., None] * np.array([1.0, 0.95, 0.9], np.float32)
    shown = []
    for k in range(count):
        picture = room.copy()
        for shape, colour in enumerate(((220, 60, 50), (60, 170, 80), (70, 90, 200))):
            cx = WIDTH * (0.5 + 0.35 * np.sin(k / 25 + 2 * shape))
            cy = HEIGHT * (0.55 + 0.25 * np.cos(k / 18 + shape))
            near = np.hypot(x - cx, y - cy) / (30 + 15 * shape)
            inside = near < 1
            picture[inside] = np.array(colour, np.float32) * (1.1 - 0.6 * near[inside, None])
        shown.append(np.clip(picture, 0, 255).astype(np.uint8))
    return shown


class Held:
    """Notes how long each step was held up."""

    def __init__(self) -> None:
        self.worst_s = 0.0

    @contextmanager
    def step(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.worst_s = max(self.worst_s, time.perf_counter() - began)


def environment(frames: list[np.ndarray]) -> Any:
    """Return an environment that shows the pictures, one a step."""
    import gymnasium as gym

    class Shown(gym.Env[Any, Any]):
        metadata = {"render_modes": ["rgb_array"], "render_fps": FPS}  # noqa: RUF012, as gymnasium has it
        render_mode = "rgb_array"
        observation_space = gym.spaces.Box(-np.inf, np.inf, (VALUES,))
        action_space = gym.spaces.Box(-1, 1, (VALUES,))

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.at = 0
            return np.zeros(VALUES, np.float32), {}

        def step(self, action: Any) -> Any:
            self.at += 1
            return np.full(VALUES, self.at, np.float32), 0.0, False, False, {"is_success": True}

        def render(self) -> Any:
            # As a simulation does, which draws each picture anew.
            return frames[min(self.at, len(frames) - 1)].copy()

    return Shown()


def play(env: Any, frames: int, episodes: int, held: Held) -> None:
    action = np.zeros(VALUES, np.float32)
    for _ in range(episodes):
        with held.step():
            env.reset(seed=0)
        for _ in range(frames):
            with held.step():
                env.step(action)
    with held.step():
        env.close()


def by_lucky_recorder(frames: list[np.ndarray], episodes: int, folder: Path, held: Held) -> None:
    import lucky_recorder as lr

    columns = [lr.Column(name, f"gym:{name}", "float32", (VALUES,)) for name in ("obs", "action")]
    camera = lr.Camera("front", source="render", width=WIDTH, height=HEIGHT)
    env = lr.RecordSession(
        environment(frames), output_dir=folder, mode="custom", columns=columns, cameras=[camera], data_hz=FPS
    )
    play(env, len(frames), episodes, held)


def by_record_video(frames: list[np.ndarray], episodes: int, folder: Path, held: Held) -> None:
    from gymnasium.wrappers import RecordVideo

    play(
        RecordVideo(environment(frames), str(folder), episode_trigger=lambda k: True, disable_logger=True),
        len(frames),
        episodes,
        held,
    )


def by_imageio(frames: list[np.ndarray], episodes: int, folder: Path, held: Held) -> None:
    import imageio

    for episode in range(episodes):
        writer = imageio.get_writer(folder / f"{episode}.mp4", fps=FPS)
        for frame in frames:
            with held.step():
                writer.append_data(frame)
        with held.step():
            writer.close()


def by_lerobot(frames: list[np.ndarray], episodes: int, folder: Path, held: Held, **options: Any) -> None:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    names = [f"joint_{k}" for k in range(VALUES)]
    vector = {"dtype": "float32", "shape": (VALUES,), "names": names}
    features = {
        "observation.state": vector,
        "action": vector,
        "observation.images.front": {
            "dtype": "video",
            "shape": (HEIGHT, WIDTH, 3),
            "names": ["height", "width", "channels"],
        },
    }
    dataset = LeRobotDataset.create("benchmark/writers", FPS, features, root=folder / "dataset", **options)
    values = np.zeros(VALUES, np.float32)
    for _ in range(episodes):
        for frame in frames:
            row = {"observation.state": values, "action": values, "observation.images.front": frame, "task": "show"}
            with held.step():
                dataset.add_frame(row)
        with held.step():
            dataset.save_episode()
    with held.step():
        dataset.finalize()


WRITERS: dict[str, Callable[..., None]] = {
    "lucky_recorder": by_lucky_recorder,
    "Gymnasium RecordVideo": by_record_video,
    "imageio-ffmpeg": by_imageio,
    "LeRobot": by_lerobot,
    STREAMING: lambda *given: by_lerobot(*given, streaming_encoding=True),
}


def cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write(name: str, frames: int, episodes: int) -> Told:
    """Write once to warm up, and once more."""
    shown = pictures(frames)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "warm").mkdir()
        WRITERS[name](shown[:5], 1, Path(folder) / "warm", Held())
        (Path(folder) / "real").mkdir()
        held, began, at_first = Held(), cpu_s(), peak_mb()
        WRITERS[name](shown, episodes, Path(folder) / "real", held)
        return Told(cpu_s() - began, held.worst_s, peak_mb() - at_first)


def run(name: str, options: argparse.Namespace) -> Told | None:
    python = options.lerobot if name.startswith("LeRobot") else sys.executable
    if python is None:
        print(f"{name}: left out; --lerobot names a Python that has it", file=sys.stderr)
        return None
    numbers = ["--frames", str(options.frames), "--episodes", str(options.episodes)]
    done = subprocess.run([python, __file__, "--only", name, *numbers], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name}: left out: {(done.stderr.strip().splitlines() or ['failed'])[-1]}", file=sys.stderr)
        return None
    return Told(*json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--frames", type=int, default=150)
    parser.add_argument("--episodes", type=int, default=2)
    parser.add_argument("--lerobot", help="a Python that has LeRobot")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--only", choices=WRITERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(write(options.only, options.frames, options.episodes)))
        return
    told: dict[str, list[Told]] = {name: [] for name in WRITERS}
    names = list(WRITERS)
    for turn in range(options.rounds):
        for name in names[:: -1 if turn % 2 else 1]:
            found = run(name, options)
            if found is None:
                names.remove(name)
            else:
                told[name].append(found)
    pictured = options.frames * options.episodes
    own = sum(one.cpu_s for one in told["lucky_recorder"])
    figures = []
    for name in names:
        spent = sum(one.cpu_s for one in told[name])
        worst, grew = (max(getattr(one, field) for one in told[name]) for field in ("worst_s", "grew_mb"))
        cpu_ms = 1e3 * spent / len(told[name]) / pictured
        figures.append({"name": name, "cpu_ms": cpu_ms, "times": spent / own, "worst_ms": 1e3 * worst, "grew_mb": grew})
    if options.json:
        from lucky_recorder.bench.suite import machine

        what = f"{options.episodes} episodes of {options.frames} pictures of {WIDTH}x{HEIGHT}, {options.rounds} rounds"
        print(json.dumps({"what": what, "machine": machine(), "writers": figures}, indent=4))
        return
    print(f"{'':24}{'ms CPU a frame':>16}{'times':>8}{'worst step, ms':>16}{'grew, MB':>10}")
    for one in figures:
        print("{name:24}{cpu_ms:16.2f}{times:8.1f}{worst_ms:16.1f}{grew_mb:10.0f}".format(**one))


if __name__ == "__main__":
    main()
