"""Workers whose episodes were being added to a session when that was broken off: nothing is lost or comes twice."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.edit import assemble, left
from lucky_recorder.rollouts import gather, tried
from lucky_recorder.storage.lock import Lock
from lucky_recorder.testing import check_session
from tests.rollouts.inline import Inline
from tests.rollouts.seeded import Wandering, maker

# Of the seeds 0 to 9 these succeed.
SEEDS = [0, 2, 3, 5, 6, 8, 9]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "Workers", Inline)


def collect(session: Path, workers: int = 2, **settings: Any) -> lr.Session:
    make = maker(session.parents[1], discard_and_retry_failed=True, resume=session, **settings)
    lr.collect(make, Wandering(), episodes=len(SEEDS), workers=workers)
    return check_session(session)


def broken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, **settings: Any) -> Path:
    """A session of two episodes to which so many of five were added when the disk was full."""
    make = maker(tmp_path, discard_and_retry_failed=True, **settings)
    first = lr.collect(make, Wandering(), episodes=2, seed=0).path
    assert first is not None
    real = assemble.extend

    def full(done: int = 0, total: int = 0) -> None:
        if done >= after:
            raise lr.StorageError("the disk is full")

    def extend(session: Path, picks: Any, recorded: Any, on_episode: Any, every: int) -> Path:
        full()
        return real(session, picks, recorded, full, every)

    with monkeypatch.context() as patched:
        patched.setattr(assemble, "extend", extend)
        with pytest.raises(lr.StorageError, match="the disk is full"):
            collect(first, **settings)
    assert len(check_session(first)) == 2 + after
    return first


def shards_of(session: Path) -> Path:
    (folder,) = session.parent.glob("*.shards")
    return folder


def seeds(session: lr.Session) -> list[int]:
    return [int(seed) for seed in session.episodes["seed"].to_pylist()]


def discarded(session: lr.Session) -> list[str]:
    return [seed for one in session.provenance for seed in one["discarded_seeds"]]


@pytest.mark.parametrize(
    ("after", "grouping", "workers"),
    [(0, {}, 2), (2, {"metadata_every": 1}, 1), (2, {"episodes_per_file": 4}, 2), (4, {}, 1)],
    ids=["none", "listed", "spooled", "all but one"],
)
def test_what_was_not_added_is_tried_again(
    tmp_path: Path, monkeypatch: Any, caplog: Any, after: int, grouping: dict[str, int], workers: int
) -> None:
    session = broken_off(tmp_path, monkeypatch, after, **grouping)
    assert (tried.largest_seed(session) or 0) < SEEDS[2 + after]
    found = collect(session, workers, **grouping)
    assert seeds(found) == SEEDS
    assert discarded(found) == ["1", "4", "7"]
    (told,) = [text for text in caplog.messages if "was to be added to" in text]
    assert str(shards_of(session)) in told


def told_of(session: Path, caplog: Any) -> list[str]:
    caplog.clear()
    left.tell_of_left(lr.RecorderSettings(output_dir=session.parents[1], resume=session))
    messages: list[str] = caplog.messages
    return messages


@pytest.mark.parametrize("after", [0, 2])
def test_the_command_that_is_told_puts_both_together(tmp_path: Path, monkeypatch: Any, caplog: Any, after: int) -> None:
    session = broken_off(tmp_path, monkeypatch, after)
    (told,) = told_of(session, caplog)
    command = told.partition("go on with that; ")[2]
    for part in command.split(" && "):
        done = CliRunner().invoke(app, shlex.split(part)[1:])
        assert done.exit_code == 0, done.output
    made = check_session(Path(shlex.split(command)[-1]))
    # With what was beyond those that were wanted, each once.
    assert [seed for seed in sorted(seeds(made)) if seed <= max(SEEDS)] == SEEDS
    assert len({*seeds(made)}) == len(made)


def test_nothing_is_told_of_what_is_another_sessions_or_is_being_recorded(
    tmp_path: Path, monkeypatch: Any, caplog: Any
) -> None:
    session = broken_off(tmp_path, monkeypatch, 2)
    other = session.with_name("other")
    shutil.copytree(session, other)
    assert told_of(other, caplog) == []
    lock = Lock(next(shards_of(session).glob("*/DataSessions/*")))
    assert lock.try_once()
    assert told_of(session, caplog) == []
    lock.release()
    assert len(told_of(session, caplog)) == 1
