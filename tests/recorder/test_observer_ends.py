"""Observer: what is on the disk after a flush, as the session goes on, and where its block is left."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from tests.recorder.states import IDLE


def test_flush_waits_until_ended_episodes_are_on_the_disk(bare: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    for _ in range(3):
        advance(2)
        observer.end_current_episode(success=True)
    observer.flush()
    assert len(list(observer.session_path.glob("data/*/file-*.parquet"))) == observer.counts.kept == 3
    observer.stop_recording()


def test_metadata_is_written_as_the_session_goes_on(bare: Any) -> None:
    observer, advance = bare(metadata_every=2)
    observer.start_recording()
    listed = []
    for _ in range(5):
        advance()
        observer.end_current_episode(success=True)
        observer.flush()
        info = observer.session_path / "meta/info.json"
        listed.append(json.loads(info.read_text())["total_episodes"] if info.exists() else None)
    observer.stop_recording()
    # The first is listed at once, for readers that know nothing else.
    assert listed == [1, 2, 2, 4, 4]
    files = sorted(observer.session_path.glob("meta/episodes/*/*.parquet"))
    assert [len(pd.read_parquet(f)) for f in files] == [1, 1, 2, 1]


def test_leaving_a_block_stops_the_session_also_with_an_error(bare: Any, read_back: Any) -> None:
    observer, advance = bare()

    def work() -> None:
        with observer as entered:
            assert entered is observer
            observer.start_recording()
            advance(2)
            raise KeyError("in the policy")

    with pytest.raises(KeyError, match="in the policy"):
        work()
    assert observer.state is IDLE
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(2, False)]
    with observer:
        pass
