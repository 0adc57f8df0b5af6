"""The scenes that are in flight are bounded, and every one comes back; a camera costs no more passes than it must."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import mujoco
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.mujoco.snapshot import ScenePool
from lucky_recorder.video.encoder import VideoEncoder
from tests.scenarios.everything import record
from tests.scenarios.failing import FAILURES, ONE_CAMERA


class Counted:
    """Counts the scenes that are out of a pool."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.out: set[int] = set()
        self.most = 0
        take, give_back = ScenePool.borrow, ScenePool.give_back

        def taken(pool: ScenePool) -> Any:
            scene = take(pool)
            assert id(scene) not in self.out, "a scene that is in use was given out again"
            self.out.add(id(scene))
            self.most = max(self.most, len(self.out))
            return scene

        def given_back(pool: ScenePool, scene: Any) -> None:
            self.out.remove(id(scene))
            give_back(pool, scene)

        monkeypatch.setattr(ScenePool, "borrow", taken)
        monkeypatch.setattr(ScenePool, "give_back", given_back)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def test_no_more_than_sixteen_scenes_are_in_flight_and_every_one_comes_back(
    tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    pause, working = threading.Event(), VideoEncoder.write

    def slow(encoder: VideoEncoder, *args: Any, **named: Any) -> None:
        pause.wait(0.002)
        working(encoder, *args, **named)

    monkeypatch.setattr(VideoEncoder, "write", slow)
    record(tmp_path, steps=25)
    assert 12 <= counted.most <= 16
    assert counted.out == set()


@pytest.mark.parametrize("what", ["colours", "surfaces", "depth encoder"])
def test_every_scene_comes_back_where_a_stream_fails(
    tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    FAILURES[what][0](monkeypatch)
    with pytest.raises(lr.StreamError):
        record(tmp_path, episodes=4, **ONE_CAMERA)
    assert counted.out == set()


def test_a_camera_costs_one_pass_for_colours_and_one_for_all_surfaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = itertools.count()
    working = mujoco.mjr_render
    monkeypatch.setattr(mujoco, "mjr_render", lambda *args: (next(passes), working(*args))[1])
    updates = itertools.count()
    update = mujoco.mjv_updateScene
    monkeypatch.setattr(mujoco, "mjv_updateScene", lambda *args: (next(updates), update(*args))[1])
    record(tmp_path, episodes=1, steps=6, **ONE_CAMERA)
    assert (next(passes), next(updates)) == (12, 6)
