"""What fails in the worker: the episode at hand is failed, those before it are whole, those after it counted."""

from __future__ import annotations

import errno
import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.draw.renderer import Renderer
from lucky_recorder.recorder.take import Take
from lucky_recorder.recorder.worker import Worker
from lucky_recorder.session import rows
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.storage import write as files
from lucky_recorder.testing import CountEnv, MemorySink
from lucky_recorder.video.encoder import VideoEncoder

LATER = 30.0


@pytest.fixture
def two_eyed(record: Any, seen: Any, wall: Any) -> Callable[..., lr.RecordSession]:
    """Return a function that records a counting environment through the cameras ``seen`` and ``wall``."""

    def make(length: Any = 10, **settings: Any) -> lr.RecordSession:
        return record(CountEnv(length, mujoco=True, render_mode="rgb_array"), cameras=[seen, wall], **settings)

    return make


def break_encoder(
    monkeypatch: pytest.MonkeyPatch, verb: str, attempt: int, frame: int, act: Callable[[], None]
) -> None:
    """Have ``wall``'s encoder do something else at a frame of an attempt."""
    working = getattr(VideoEncoder, verb)

    def broken(encoder: VideoEncoder, *args: Any, **named: Any) -> Any:
        if (
            "images.wall" in str(encoder.path)
            and f"take-{attempt:06d}" in encoder.path.name
            and encoder.frames == frame
        ):
            act()
        return working(encoder, *args, **named)

    monkeypatch.setattr(VideoEncoder, verb, broken)


def give_up() -> None:
    raise RuntimeError("the encoder has had enough")


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


# The disk.


def full(path: Path) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def test_rows_that_the_disk_refuses_fail_the_session_and_name_the_path(
    record: Any, run: Any, seen: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = rows.write

    def refuse(path: Path, *args: Any) -> None:
        path.write_bytes(b"PAR1 and not much else")
        raise full(path)

    monkeypatch.setattr(rows, "write", lambda p, *a: refuse(p, *a) if "file-002" in p.name else working(p, *a))
    env = record(cameras=[seen])
    with pytest.raises(lr.StorageError, match=r"data/chunk-000/file-002\.parquet: No space left on device") as raised:
        run(env, episodes=50)
    assert raised.value.errno == errno.ENOSPC or raised.value.__cause__.errno == errno.ENOSPC
    assert not env.is_recording
    assert [e.meta["length"] for e in read_back(env.session_path)] == [3, 3]
    assert not list(env.session_path.rglob("*.tmp"))


@pytest.mark.parametrize("file", ["stats.json", "info.json", "tasks.parquet", "file-000.parquet"])
def test_metadata_that_the_disk_refuses_is_an_error_and_truncates_nothing(
    record: Any, run: Any, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    working = os.replace

    def replace(source: Any, target: Any) -> None:
        if Path(target).name == file and "/meta/" in str(target):
            raise full(target)
        working(source, target)

    monkeypatch.setattr(files.os, "replace", replace)
    env = record()
    run(env, episodes=2)
    with pytest.raises(lr.StorageError, match=rf"{file}: No space left on device"):
        env.close()
    assert not env.is_recording
    assert not list(env.session_path.rglob("*.tmp"))
    assert not list(env.session_path.glob(f"meta/**/{file}"))
    assert [len(rows.footer(p)) for p in sorted(env.session_path.glob("data/*/*.parquet"))] == [1, 1]
    env.close()


def test_a_sink_that_raises_anything_ends_the_session_in_order(
    record: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(sink: SessionSink) -> None:
        raise ZeroDivisionError("in a library")

    monkeypatch.setattr(SessionSink, "close", broken)
    env = record()
    run(env)
    with pytest.raises(lr.StreamError, match=r"session_.* could not be completed: ZeroDivisionError: in a library"):
        env.close()
    assert not env.is_recording
    assert not any(t.name == "lucky_recorder" for t in threading.enumerate())
    env.close()


def test_an_episode_that_cannot_be_assembled_leaves_no_video(
    record: Any, run: Any, seen: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lucky_recorder.recorder.buffer import EpisodeBuffer

    working = EpisodeBuffer.finish

    def finish(buffer: EpisodeBuffer, *args: Any) -> Any:
        finished = working(buffer, *args)
        if finished.columns["obs"][0] == 100:
            raise MemoryError("no room")
        return finished

    monkeypatch.setattr(EpisodeBuffer, "finish", finish)
    env = record(cameras=[seen])
    run(env)
    env.observer.flush()
    run(env)
    with pytest.raises(lr.StreamError, match="take 1 could not be written: MemoryError: no room"):
        env.close()
    assert [e.meta["length"] for e in read_back(env.session_path)] == [3]
    assert not list(env.session_path.rglob("*.tmp"))


# A worker that hangs.


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Have the encoder of the second attempt hang until the test is over; set once it does."""
    go_on, hangs = threading.Event(), threading.Event()

    def wait() -> None:
        hangs.set()
        assert go_on.wait(LATER)

    break_encoder(monkeypatch, "write", attempt=1, frame=2, act=wait)
    yield hangs
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "lucky_recorder":
            thread.join(LATER)


def test_a_worker_that_hangs_is_an_error_after_a_bounded_wait(
    record: Any, run: Any, wall: Any, hang: threading.Event
) -> None:
    env = record(CountEnv(5, mujoco=True), cameras=[wall], worker_timeout_s=0.2)
    with pytest.raises(lr.WorkerStalledError, match=r"worker_timeout_s=0\.2 s"):
        run(env, episodes=200)
    assert hang.is_set()
    assert not env.is_recording
    env.close()
    assert len(rows.footer(env.session_path / "data/chunk-000/file-000.parquet")) == 1


@pytest.mark.parametrize("verb", ["flush", "stop_recording"])
def test_waiting_for_a_worker_that_hangs_is_bounded(
    record: Any, run: Any, wall: Any, hang: threading.Event, verb: str
) -> None:
    env = record(CountEnv(5, mujoco=True), cameras=[wall], worker_timeout_s=0.2)
    run(env, episodes=2)
    assert hang.wait(LATER)
    with pytest.raises(lr.WorkerStalledError):
        getattr(env.observer, verb)()
    assert not env.is_recording
    env.close()


def test_an_end_that_cannot_be_queued_closes_the_session(record: Any, wall: Any, hang: threading.Event) -> None:
    env = record(CountEnv(None, mujoco=True), cameras=[wall], worker_timeout_s=0.2)
    env.reset()
    env.step(np.zeros(1))
    env.end_episode(success=True)

    def go_on() -> None:
        for _ in range(60):
            env.reset()
            for _ in range(4):
                env.step(np.zeros(1))
            env.end_episode(success=True)

    with pytest.raises(lr.WorkerStalledError):
        go_on()
    assert not env.is_recording
    with pytest.raises(lr.StateError, match="Idle: the session stopped by itself"):
        env.observer.tick()
    env.close()


# Interrupts at the worst moment.


def interrupt_once(monkeypatch: pytest.MonkeyPatch, at: int, is_queued: bool) -> None:
    """Have an interrupt strike while a job is handed over: just before it is queued, or just after."""
    working, handed = Worker.put, []

    def put(worker: Worker, job: Any) -> None:
        handed.append(job)
        is_time = len(handed) == at
        if is_time and not is_queued:
            raise KeyboardInterrupt
        working(worker, job)
        if is_time:
            raise KeyboardInterrupt

    monkeypatch.setattr(Worker, "put", put)


@pytest.mark.parametrize("is_queued", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("interrupted", [3, 5, 6, 7])
def test_an_interrupt_while_work_is_handed_over_costs_no_frame(
    record: Any,
    seen: Any,
    read_back: Any,
    counts: Any,
    monkeypatch: pytest.MonkeyPatch,
    interrupted: int,
    is_queued: bool,
) -> None:
    """Jobs 1 and up: three frames and an end of episode 0, then the frames of episode 1."""
    env = record(CountEnv([3, 9], render_mode="rgb_array"), cameras=[seen])
    env.reset()
    interrupt_once(monkeypatch, interrupted, is_queued)

    def go_on() -> None:
        for _ in range(3):
            env.step(np.zeros(1))
        env.reset()
        for _ in range(9):
            env.step(np.zeros(1))

    with pytest.raises(KeyboardInterrupt):
        go_on()
    env.close()
    episodes = read_back(env.session_path)
    rows = [2 + is_queued] if interrupted == 3 else [3, interrupted - 5 + is_queued]
    assert [e.meta["length"] for e in episodes] == [r for r in rows if r]
    for episode in episodes:
        found = counts(episode)
        assert found["seen"] == found["rows"]
        assert episode.meta["success"] is (interrupted > 4 and episode is episodes[0])
    assert not list(env.session_path.rglob("*.tmp"))


@pytest.mark.parametrize("is_queued", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("goes_on", [False, True], ids=["closes", "goes-on"])
def test_an_interrupt_while_an_end_is_handed_over_loses_no_episode(
    record: Any, run: Any, seen: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch, is_queued: bool, goes_on: bool
) -> None:
    env = record(cameras=[seen])
    run(env)
    interrupt_once(monkeypatch, 1, is_queued)
    with pytest.raises(KeyboardInterrupt):
        env.reset()
    if goes_on:
        run(env)
    env.close()
    episodes = [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)]
    assert episodes == [(3, True)] + [(3, True)] * goes_on
    assert not list(env.session_path.rglob("*.tmp"))


@pytest.mark.parametrize("is_queued", [False, True], ids=["before", "after"])
def test_ticks_after_an_interrupted_end_are_the_next_episode(
    bare: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch, wall: Any, is_queued: bool
) -> None:
    observer, advance = bare(cameras=[wall])
    observer.start_recording()
    advance(3)
    interrupt_once(monkeypatch, 1, is_queued)
    with pytest.raises(KeyboardInterrupt):
        observer.end_current_episode(success=True)
    assert observer.state.value == "BetweenEpisodes"
    advance(4)
    observer.end_current_episode(success=False)
    advance(2)
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    assert [(e.meta["length"], e.meta["success"], len(e.frames["wall"])) for e in episodes] == [
        (3, True, 3),
        (4, False, 4),
        (2, False, 2),
    ]


def test_an_interrupt_between_a_step_and_its_row_ends_the_episode(
    record: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Going on would leave a row out without a word."""
    env = record(CountEnv(None))
    env.reset()
    env.step(np.zeros(1))
    with monkeypatch.context() as patch:
        patch.setattr(Take, "settle", interrupted)
        with pytest.raises(KeyboardInterrupt):
            env.step(np.zeros(1))
    env.step(np.zeros(1))
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0]]


def interrupted(*args: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("verb", ["stream_path", "prepare", "commit"])
def test_a_sink_of_ones_own_that_raises_fails_its_take_and_ends_the_session(
    tmp_path: Path, seen: Any, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    class Breaks(MemorySink):
        def stream_path(self, key: str, take: int, suffix: str) -> Path:
            self.maybe(verb == "stream_path" and take == 1)
            return super().stream_path(key, take, suffix)

        def prepare(self, record: Any) -> Any:
            self.maybe(verb == "prepare" and record.take == 1)
            return Late(super().prepare(record), lambda: self.maybe(verb == "commit" and record.take == 1))

        def maybe(self, fails: bool) -> None:
            if fails:
                raise SystemExit("boom")

    sink = Breaks(tmp_path)
    env = lr.RecordSession(
        CountEnv(20, render_mode="rgb_array"), mode="custom", gym_columns=True, cameras=[seen],
        formats=(), sinks=[sink], worker_timeout_s=20,
    )  # fmt: skip

    def go_on() -> None:
        for seed in range(50):
            env.reset(seed=seed)
            for _ in range(20):
                env.step(np.zeros(1))

    with pytest.raises(lr.StreamError, match="boom"):
        go_on()
    assert not env.is_recording
    whole = [r for r in sink.records if r.outcome.success]
    assert [(r.take, r.data_ticks, r.videos["observation.images.seen"].file.frames) for r in whole] == [(0, 20, 20)]
    assert all(r.take == 1 and not r.videos for r in sink.records if not r.outcome.success)
    env.close()


class Late:
    """What a sink has prepared, and something that happens first when it is committed."""

    def __init__(self, prepared: Any, first: Callable[[], None]) -> None:
        self.prepared, self.first = prepared, first

    def commit(self) -> None:
        self.first()
        self.prepared.commit()

    def discard(self) -> None:
        self.prepared.discard()


@pytest.mark.parametrize("is_queued", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2], ids=["end", "meta"])
def test_an_interrupt_while_closing_still_leaves_a_whole_session(
    record: Any, seen: Any, read_back: Any, monkeypatch: pytest.MonkeyPatch, at: int, is_queued: bool
) -> None:
    env = record(CountEnv(None, render_mode="rgb_array"), cameras=[seen])
    env.reset()
    for _ in range(4):
        env.step(np.zeros(1))
    interrupt_once(monkeypatch, at, is_queued)
    with pytest.raises(KeyboardInterrupt):
        env.close()
    env.close()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(4, False)]
    assert not list(env.session_path.rglob("*.tmp"))


# Garbage.


def test_a_recorder_forgotten_in_the_worker_thread_is_closed_by_another(
    record: Any, bare: Any, tmp_path: Path, read_back: Any
) -> None:
    inner = bare()[0].env
    observer = lr.Observer(output_dir=tmp_path, data_hz=50, model=inner.model, data=inner.data)
    path = observer.start_recording()
    observer.tick()
    worker, closed = observer._recorder.recording._worker, observer._recorder.recording
    last = [observer]
    gone = weakref.ref(observer)
    del observer

    def drop() -> None:
        last.clear()
        gc.collect()

    def wait() -> None:
        before = set(threading.enumerate())
        worker.put(drop)
        worker._thread.join(LATER)
        for thread in set(threading.enumerate()) - before:
            thread.join(LATER)

    with pytest.warns(RuntimeWarning, match=r"close\(\) was not called") as caught:
        wait()
    warned = [str(w.message) for w in caught]
    assert gone() is None
    assert len(warned) == 1
    assert closed.is_closed
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(path)] == [(1, False)]


# A model that is changed.


class Repaints(CountEnv):
    """Changes what a rendering context holds of the model, at every reset."""

    def reset(self, **options: Any) -> Any:
        self.model.mat_texrepeat[0] += 1
        return super().reset(**options)


def test_a_model_that_changes_between_episodes_is_drawn_as_it_is(
    record: Any, run: Any, read_back: Any, counts: Any, wall: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, working = [], Renderer.update
    monkeypatch.setattr(Renderer, "update", lambda renderer, change: changes.append(1) or working(renderer, change))
    env = record(Repaints(3, mujoco=True), cameras=[wall])
    run(env, episodes=3)
    env.close()
    assert [counts(e)["wall"] for e in read_back(env.session_path)] == [[0, 1, 2], [100, 101, 102], [0, 1, 2]]
    assert len(changes) == 2


def test_a_change_that_cannot_be_drawn_stops_the_session(
    record: Any, run: Any, read_back: Any, wall: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Renderer, "update", lambda renderer, change: give_up())
    env = record(Repaints(3, mujoco=True), cameras=[wall])
    run(env)
    with pytest.raises(lr.StreamError, match=r"the changed model could not be drawn: RuntimeError: .* had enough"):
        run(env, episodes=20)
    env.close()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(3, True)]
    assert not list(env.session_path.rglob("*.tmp"))


# A model that is exchanged.


class Swapping(gym.Env[Any, Any]):
    """Makes a model of its own at every reset, as robosuite does: the joint moves by the episode's number."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    dt = 0.02

    def __init__(self, joints: list[int]) -> None:
        self._joints = iter(joints)
        self.episode = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode += 1
        joints = "".join(
            f'<body><joint name="j{i}" type="slide"/><geom size=".1" rgba="{self.episode % 2} 0 1 1"/></body>'
            for i in range(next(self._joints))
        )
        camera = '<camera name="front" pos="0 0 3"/><light pos="0 0 3"/>'
        actuators = '<actuator><general joint="j0" gainprm="0"/></actuator>'
        self.model = mujoco.MjModel.from_xml_string(
            f'<mujoco><option gravity="0 0 0"/><worldbody>{camera}{joints}</worldbody>{actuators}</mujoco>'
        )
        self.data = mujoco.MjData(self.model)
        self.data.qpos[:] = self.episode
        return self.data.qpos.copy(), {}

    def step(self, action: Any) -> Any:
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, 10)
        return self.data.qpos.copy(), 0.0, False, False, {"success": True}


def test_a_model_that_is_exchanged_at_every_reset_is_followed(record: Any, read_back: Any) -> None:
    camera = lr.Camera("front", width=64, height=48)
    env = record(Swapping([1, 1, 1]), mode="robot_arm", cameras=[camera])
    for _ in range(3):
        env.reset()
        for _ in range(2):
            env.step(np.zeros(1))
    env.close()
    episodes = read_back(env.session_path)
    assert [e.rows["observation.state"].tolist() for e in episodes] == [[[k], [k]] for k in range(3)]
    reds = [e.frames["front"][..., 0].astype(float).mean() for e in episodes]
    assert reds[1] > 2 * max(reds[0], reds[2])


@pytest.mark.parametrize("mode", ["full_scene", "robot_arm"])
def test_another_layout_of_the_rows_is_refused_for_good(record: Any, read_back: Any, mode: str) -> None:
    env = record(Swapping([1, 2, 2, 1]), mode=mode, cameras=[lr.Camera("front", width=64, height=48)])
    env.reset()
    env.step(np.zeros(1))
    if mode == "robot_arm":
        env.reset()
        env.step(np.zeros(1))
        env.close()
        assert [e.rows["observation.state"].tolist() for e in read_back(env.session_path)] == [[[0]], [[1]]]
        return
    for _ in range(2):
        with pytest.raises(lr.SettingsError, match="changed its model"):
            env.reset()
        env.step(np.zeros(1))
    env.reset()
    env.step(np.zeros(1))
    env.close()
    assert [e.rows["observation.state"].tolist() for e in read_back(env.session_path)] == [[[0]], [[3]]]


# What became of the episodes.


def test_counts_say_what_became_of_the_episodes(record: Any, run: Any, seen: Any) -> None:
    env = record(
        CountEnv([2, 5], succeeds=lambda n: n % 2 == 0, render_mode="rgb_array"),
        cameras=[seen],
        discard_and_retry_failed=True,
    )
    run(env, episodes=5)
    env.close()
    counts = env.observer.counts
    assert (counts.kept, counts.discarded, counts.rows) == (3, 2, 6)
    assert counts.bytes == sum(p.stat().st_size for p in env.session_path.rglob("*.mp4"))


def test_a_sink_in_memory_takes_the_same_episodes(record: Any, run: Any, seen: Any, tmp_path: Path) -> None:
    sink = MemorySink(tmp_path / "memory")
    env = record(CountEnv([2, 3], render_mode="rgb_array"), cameras=[seen], formats=(), sinks=[sink])
    run(env, episodes=2)
    env.close()
    assert [r.columns["obs"].tolist() for r in sink.records] == [[0, 1], [100, 101, 102]]
    assert [r.videos["observation.images.seen"].file.frames for r in sink.records] == [2, 3]
    assert (env.session_path, sink.is_closed) == (tmp_path / "memory", True)
    assert not (tmp_path / "DataSessions").exists()
