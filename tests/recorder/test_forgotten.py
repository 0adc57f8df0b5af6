"""A recorder that nobody closed: it is closed where it is collected, with one warning."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.session.sink import SessionSink
from tests.recorder.breaking import LATER


def test_a_forgotten_observer_is_closed_with_one_warning(bare: Any, read_back: Any, tmp_path: Path) -> None:
    env = bare()[0].env
    observer = lr.Observer(output_dir=tmp_path / "forgotten", data_hz=50, model=env.model, data=env.data)
    observer.start_recording()
    observer.tick()
    path = observer.session_path
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del observer
        gc.collect()
    ours = [str(w.message) for w in caught if "lucky_recorder" in str(w.filename) or "close()" in str(w.message)]
    assert ours == [f"close() was not called on the recorder of {path}; its open episode was ended as failed"]
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(path)] == [(1, False)]


def test_what_fails_while_a_forgotten_observer_is_closed_is_in_the_warning(
    bare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(sink: SessionSink) -> None:
        raise lr.StorageError("meta/info.json: no room")

    monkeypatch.setattr(SessionSink, "close", close)
    env = bare()[0].env
    observer = lr.Observer(output_dir=tmp_path, data_hz=50, model=env.model, data=env.data)
    observer.start_recording()
    with pytest.warns(RuntimeWarning, match=r"close\(\) was not called .* as failed; meta/info\.json: no room"):
        del observer
    assert not any(t.name == "lucky_recorder" for t in threading.enumerate())


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
