"""What recording adds to a film: against the bare floor of drawing and encoding, and to a simulation that is paced."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.bench.figures import Figure, in_turns, ratio
from lucky_recorder.lazy import lazy
from lucky_recorder.recorder.observer import Observer
from lucky_recorder.recorder.wrapper import RecordSession
from lucky_recorder.settings.camera import Camera

if TYPE_CHECKING:
    from lucky_recorder.bench import floor, paced
else:
    floor, paced = lazy("lucky_recorder.bench.floor"), lazy("lucky_recorder.bench.paced")

_HZ = 50
_WARM_UP = 50
_FRAMES = 100
# floor / recorder, CPU; milliseconds.
_LEAST_RATIO, _MOST_P50, _MOST_P99, _MOST_P50_BLIND, _MOST_END = 0.97, 0.12, 0.5, 0.06, 0.3


class Film(NamedTuple):
    """CPU of a film.

    Attributes:
        floor_ms: Milliseconds of CPU a frame, by hand.
        ours_ms: The same, recorded.
        ratio: Floor over recorder; 1 would be a recorder that costs nothing.
        drawn_by: What draws, in the driver's words.
    """

    floor_ms: float
    ours_ms: float
    ratio: float
    drawn_by: str


def film(width: int, height: int, folder: Path, pairs: int, frames: int) -> Film:
    """Film the same states by hand and by a recorder, in turns.

    Raises:
        GLError: If there is no OpenGL.
    """
    scene = floor.Scene()
    by_hand = floor.Floor(scene, width, height)
    camera = Camera("front", width=width, height=height)
    observer = Observer(output_dir=folder, data_hz=_HZ, model=scene.model, data=scene.data, cameras=[camera])
    observer.start_recording()

    def bare() -> None:
        by_hand.film(frames, folder / "floor.mp4")

    def ours() -> None:
        for k in range(frames):
            observer.tick()
            scene.drive(k)
        observer.end_current_episode(success=True)
        observer.flush()

    def cost(job: Callable[[], None]) -> float:
        scene.restart()
        began = time.process_time()
        job()
        return time.process_time() - began

    try:
        costs = in_turns(lambda: cost(bare), lambda: cost(ours), pairs)
    finally:
        observer.stop_recording()
        by_hand.close()
    a, b = (1e3 * sum(pair[k] for pair in costs) / pairs / frames for k in (0, 1))
    return Film(a, b, 1 / ratio(costs), by_hand.drawn_by)


class Waited(NamedTuple):
    """What a paced simulation waited for its recorder.

    Attributes:
        steps_ms: What each step waited, after the warm-up, in milliseconds.
        others_ms: What else was waited for, by name.
    """

    steps_ms: NDArray[np.float64]
    others_ms: dict[str, float]


def stalls(cameras: int, steps: int, folder: Path, is_paced: bool = True) -> Waited:
    """Record the sample arm at 50 Hz, and note what each step waits inside the recorder's own code."""
    names = ("front", "wrist")
    bindings = [Camera(f"{names[i % 2]}{i}", source=names[i % 2], width=320, height=240) for i in range(cameras)]
    inner: Any = paced.Timed()
    env = RecordSession(inner, output_dir=folder, cameras=bindings)
    low, high = inner.action_space.low, inner.action_space.high
    random = np.random.default_rng(0)
    waited: list[float] = []
    others: dict[str, float] = {}

    def timed(name: str, job: Callable[[], Any]) -> None:
        began = time.perf_counter()
        job()
        others[name] = 1e3 * (time.perf_counter() - began)

    for name, count in (("first reset", _WARM_UP), ("later reset", steps)):
        timed(name, lambda: env.reset(seed=0))
        due, waited = time.perf_counter(), []
        for _ in range(count):
            action = random.uniform(low, high)
            began = time.perf_counter()
            env.step(action)
            waited.append(time.perf_counter() - began - inner.last_s)
            due += 1 / _HZ
            if is_paced:
                time.sleep(max(0.0, due - time.perf_counter()))
        timed("end_episode", lambda: env.end_episode(success=True))
    timed("close", env.close)
    return Waited(1e3 * np.array(waited), others)


def film_figures(width: int, height: int, pairs: int, folder: Path) -> list[Figure]:
    """Measure one size against the floor."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        seen = film(width, height, Path(place), pairs, frames=_FRAMES)
    note = f"floor {seen.floor_ms:.2f} ms, recorder {seen.ours_ms:.2f} ms of CPU a frame; drawn by {seen.drawn_by}"
    return [Figure(f"bare floor / recorder, {width}x{height}", seen.ratio, "", _LEAST_RATIO, at_least=True, note=note)]


def stall_figures(cameras: int, pairs: int, folder: Path) -> list[Figure]:
    """Measure what a simulation at 50 Hz waits, for as many seconds as there would be pairs."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        waited = stalls(cameras, _HZ * max(1, pairs), Path(place))
    p50, p99, worst = (float(np.percentile(waited.steps_ms, p)) for p in (50, 99, 100))
    what = f"a step waits at {_HZ} Hz, {cameras} cameras of 320x240"
    if not cameras:
        return [Figure(f"a step waits at {_HZ} Hz, no camera, p50", p50, "ms", _MOST_P50_BLIND)]
    return [
        Figure(f"{what}, p50", p50, "ms", _MOST_P50),
        Figure(f"{what}, p99", p99, "ms", _MOST_P99, note=f"worst of {len(waited.steps_ms)}: {worst:.2f} ms"),
        Figure(f"end_episode, {len(waited.steps_ms)} steps", waited.others_ms["end_episode"], "ms", _MOST_END),
    ]
