"""A renderer that somebody dropped without closing it costs our pictures nothing, wherever it is collected."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import cast

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.draw import context as gl
from lucky_recorder.capture.draw.collections import CollectionGuard
from tests.capture.drawing import Film
from tests.capture.models import scene

# How many signals strike; a soak run raises it.
SIGNALS = int(os.environ.get("LUCKY_RECORDER_SIGNALS", "20"))


class Dropped:
    """Only a collection finds it; then it leaves the thread with another context than it found, as renderers do."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self.me = self
        self._leave = leave

    def __del__(self) -> None:
        self._leave()


def test_collected_in_our_thread_it_takes_nothing_of_ours() -> None:
    """Without a current context nothing is drawn, nothing is read, and nothing is said: the last picture stays."""
    model = scene("pick_cube")
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    cameras = [lr.Camera("front", width=64, height=48, depth_mode="rgbd", masks=["cube"])]
    with Film(model, data, cameras, record_masks=True) as film:
        renderer = film.source.renderer
        assert renderer is not None
        context = renderer._graphics.gl
        assert context is not None

        def see(step: int) -> list[np.ndarray]:
            data.qpos[:6] = 0.1 * step
            [picture] = film.look()
            surfaces = film.surfaces(picture)
            return [*film.draw([picture]), *surfaces]

        known = [see(step) for step in range(3)]
        for step in (0, 1, 2):
            Dropped(context.release)
            assert film.in_worker(gc.collect) > 0
            for before, after in zip(known[step], see(step), strict=True):
                np.testing.assert_array_equal(before, after)


def test_only_collections_in_its_own_thread_concern_it_and_only_while_it_is_up() -> None:
    class Context:
        made_current = 0

        def make_current(self) -> None:
            self.made_current += 1

        def release(self) -> None:
            pass

    context = Context()
    before = list(gc.callbacks)
    guard = CollectionGuard(cast(gl.Context, context))
    gc.collect()
    assert context.made_current == 1
    elsewhere = threading.Thread(target=gc.collect)
    elsewhere.start()
    elsewhere.join()
    assert context.made_current == 1
    guard.remove()
    guard.remove()
    gc.collect()
    assert context.made_current == 1
    assert gc.callbacks == before


@pytest.fixture
def alone() -> Iterator[None]:
    """Have no callbacks of others: one that is Python, such as hypothesis sets, loses signals itself.

    Nor what other tests have left, which would make each collection as many times longer.
    """
    others = list(gc.callbacks)
    gc.callbacks.clear()
    gc.freeze()
    yield
    gc.unfreeze()
    gc.callbacks[:] = others


@pytest.mark.usefixtures("alone")
def test_no_signal_is_lost_in_a_collection_that_a_guard_sees() -> None:
    """What a Python handler raises while garbage is collected would go nowhere."""
    struck, heap = 0, [[number] for number in range(200_000)]
    up, over = threading.Event(), threading.Event()
    guarded = threading.Thread(target=be_guarded, args=(up, over))
    guarded.start()
    assert up.wait(30)
    before = signal.signal(signal.SIGALRM, strike)
    try:
        for _ in range(SIGNALS):
            try:
                # It strikes in the midst of the collection, which takes many times as long.
                signal.setitimer(signal.ITIMER_REAL, 0.0005)
                gc.collect()
                while signal.getitimer(signal.ITIMER_REAL)[0]:
                    pass
            except Struck:
                struck += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        over.set()
        guarded.join()
    assert struck == SIGNALS
    assert len(heap) == 200_000


class Struck(Exception):
    pass


def strike(number: int, frame: object) -> None:
    raise Struck


def be_guarded(up: threading.Event, over: threading.Event) -> None:
    guard = CollectionGuard(cast(gl.Context, NoContext()))
    up.set()
    over.wait()
    guard.remove()


class NoContext:
    def make_current(self) -> None:
        pass

    release = make_current


def test_a_renderer_that_is_closed_leaves_no_guard() -> None:
    before = len(gc.callbacks)
    model = scene("joint_zoo")
    with Film(model, mujoco.MjData(model), [lr.Camera("overview", width=64, height=48)]) as film:
        film.frame()
        assert len(gc.callbacks) == before + 1
    assert len(gc.callbacks) == before
