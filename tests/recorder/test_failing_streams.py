"""A stream that fails in the worker: its episode is failed, those before it are whole, those after it counted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.draw.renderer import Renderer
from lucky_recorder.testing import CountEnv
from lucky_recorder.video.encoder import VideoEncoder
from tests.recorder.breaking import LATER, break_encoder, give_up


@pytest.fixture
def two_eyed(record: Any, seen: Any, wall: Any) -> Callable[..., lr.RecordSession]:
    """Return a function that records a counting environment through the cameras ``seen`` and ``wall``."""

    def make(length: Any = 10, **settings: Any) -> lr.RecordSession:
        return record(CountEnv(length, mujoco=True, render_mode="rgb_array"), cameras=[seen, wall], **settings)

    return make


def break_renderer(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    working, drawn = Renderer.color, []

    def broken(renderer: Renderer, picture: Any) -> Any:
        if picture.scene is not None:
            drawn.append(1)
            if len(drawn) > after:
                give_up()
        return working(renderer, picture)

    monkeypatch.setattr(Renderer, "color", broken)


BREAKS = {
    "write": lambda patch: break_encoder(patch, "write", attempt=1, frame=5, act=give_up),
    "close": lambda patch: break_encoder(patch, "close", attempt=1, frame=10, act=give_up),
    "draw": lambda patch: break_renderer(patch, after=15),
}


@pytest.mark.parametrize("discards", [False, True], ids=["keeps", "discards"])
@pytest.mark.parametrize("where", BREAKS)
def test_a_stream_that_fails_stops_the_session_after_its_episode(
    two_eyed: Any, run: Any, read_back: Any, counts: Any, monkeypatch: pytest.MonkeyPatch, where: str, discards: bool
) -> None:
    BREAKS[where](monkeypatch)
    env = two_eyed(discard_and_retry_failed=discards)
    with pytest.raises(lr.StreamError, match=r"stream 'observation\.images\.wall' failed: .*had enough"):
        run(env, episodes=50)
    assert not env.is_recording
    env.reset()
    env.step(np.zeros(1))
    env.close()
    whole, *rest = read_back(env.session_path)
    assert counts(whole) == {"rows": [*range(10)], "seen": [*range(10)], "wall": [*range(10)]}
    assert whole.meta["success"] is True
    assert not list(env.session_path.rglob("*.tmp"))
    if discards:
        assert rest == []
        return
    (failed,) = rest
    length = failed.meta["length"]
    assert failed.meta["success"] is False
    assert length == 10 if where == "close" else 5 < length <= 10
    assert counts(failed) == {"rows": [100 + t for t in range(length)], "seen": [100 + t for t in range(length)]}
    assert failed.meta["videos/observation.images.wall/chunk_index"] is None


def test_what_came_after_the_failed_episode_is_dropped_and_counted(
    record: Any, run: Any, wall: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def wait_and_give_up() -> None:
        assert go_on.wait(LATER)
        give_up()

    break_encoder(monkeypatch, "close", attempt=1, frame=2, act=wait_and_give_up)
    env = record(CountEnv(2, mujoco=True), cameras=[wall])
    run(env, episodes=4)
    go_on.set()
    with pytest.raises(
        lr.StreamError, match="had enough; 2 episodes with 4 rows that came after it were dropped"
    ) as raised:
        env.close()
    assert isinstance(raised.value.__cause__, lr.StreamError)
    assert [(e.meta["success"], len(e.frames)) for e in read_back(env.session_path)] == [(True, 1), (False, 0)]
    assert not list(env.session_path.rglob("*.tmp"))


@pytest.mark.parametrize(
    "verb",
    [
        lambda env: env.step(np.zeros(1)),
        lambda env: env.reset(),
        lambda env: env.observer.flush(),
        lambda env: env.observer.tick(),
        lambda env: env.observer.stop_recording(),
        lambda env: env.close(),
    ],
    ids=["step", "reset", "flush", "tick", "stop_recording", "close"],
)
def test_the_error_reaches_the_caller_with_the_next_call(
    record: Any, wall: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch, verb: Any
) -> None:
    break_encoder(monkeypatch, "write", attempt=0, frame=1, act=give_up)
    env = record(CountEnv(None, mujoco=True), cameras=[wall])
    env.reset()
    env.step(np.zeros(1))
    env.step(np.zeros(1))
    env.recorder.recording.flush()
    with pytest.raises(lr.StreamError, match="had enough"):
        verb(env)
    assert not env.is_recording
    with pytest.raises(lr.StateError, match="Idle: "):
        env.observer.flush()
    env.close()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(2, False)]


def test_a_frame_that_is_lost_is_found(record: Any, run: Any, seen: Any, read_back: Any, monkeypatch: Any) -> None:
    working = VideoEncoder.write
    monkeypatch.setattr(
        VideoEncoder, "write", lambda encoder, rgb, **named: encoder.frames == 2 or working(encoder, rgb, **named)
    )
    env = record(cameras=[seen])
    run(env)
    with pytest.raises(lr.StreamError, match="2 frames for 3 ticks, expected 3"):
        env.close()
    (episode,) = read_back(env.session_path)
    assert (episode.meta["length"], episode.meta["success"], episode.frames) == (3, False, {})


def test_a_render_that_raises_fails_the_episode(record: Any, seen: Any, read_back: Any, counts: Any) -> None:
    class Blind(CountEnv):
        def render(self) -> Any:
            if self.count == 102:
                raise OSError("the display is gone")
            return super().render()

    env = record(Blind(3, render_mode="rgb_array"), cameras=[seen])
    env.reset()
    for _ in range(3):
        env.step(np.zeros(1))
    env.reset()
    for _ in range(2):
        env.step(np.zeros(1))
    with pytest.raises(lr.StreamError, match=r"camera 'seen': env\.render\(\) failed: OSError: the display is gone"):
        env.step(np.zeros(1))
    assert not env.is_recording
    env.close()
    first, second = read_back(env.session_path)
    assert counts(first) == {"rows": [0, 1, 2], "seen": [0, 1, 2]}
    assert counts(second) == {"rows": [100, 101], "seen": [100, 101]}
    assert (first.meta["success"], second.meta["success"]) == (True, False)
