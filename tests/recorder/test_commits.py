"""What the committer makes of formats that fail while an episode is prepared, committed or discarded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.episode import clock
from lucky_recorder.errors import MetadataError
from lucky_recorder.testing import CountEnv, MemorySink

KINDS = [OSError(28, "No space left on device"), SystemExit("out"), KeyboardInterrupt("out")]


class Format(MemorySink):
    """A sink whose episode 1 fails where it is told to; says what was asked of it.

    Args:
        root: Its folder.
        fails: By the verb, what is raised there.
        prepared: What `prepare` returns in place of its own, if anything.
    """

    def __init__(self, root: Path, prepared: Any = ..., **fails: BaseException) -> None:
        super().__init__(root)
        self.fails = fails
        self.asked: list[str] = []
        self.prepared = prepared

    def prepare(self, record: Any) -> Any:
        one = Part(self, super().prepare(record), record.take == 1)
        one.ask("prepare")
        return self.prepared if self.prepared is not ... and record.take == 1 else one


class Part:
    """An episode that a `Format` has prepared."""

    def __init__(self, sink: Format, prepared: Any, fails: bool) -> None:
        self.sink, self.prepared, self.may_fail = sink, prepared, fails

    def ask(self, verb: str) -> None:
        if self.may_fail:
            self.sink.asked.append(verb)
            if verb in self.sink.fails:
                raise self.sink.fails[verb]

    def commit(self) -> None:
        self.ask("commit")
        self.prepared.commit()

    def discard(self) -> None:
        self.ask("discard")
        self.prepared.discard()

    def files(self) -> Iterator[Path]:
        self.ask("files")
        yield from ()

    def claims(self) -> Iterator[Path]:
        self.ask("claims")
        yield from ()


@pytest.fixture
def into(tmp_path: Path, run: Callable[..., None]) -> Callable[..., tuple[Any, str]]:
    """Return a function that records two episodes of 3 rows into formats; returns the counts, and what was raised."""

    def into(*sinks: Format, has_session: bool = False) -> tuple[Any, str]:
        formats = ("session",) if has_session else ()
        env = lr.RecordSession(
            CountEnv(3), mode="custom", gym_columns=True, formats=formats, sinks=sinks, output_dir=tmp_path
        )
        run(env, episodes=2)
        said = ""
        try:
            env.close()
        except lr.LuckyRecorderError as error:
            said = str(error)
        if has_session:
            assert len(lr.Session(env.session_path)) == env.observer.counts.kept
        return env.observer.counts, said

    return into


def takes(sink: MemorySink) -> list[int]:
    return [record.take for record in sink.records]


@pytest.mark.parametrize("discards", KINDS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("error", KINDS, ids=lambda e: type(e).__name__)
def test_an_episode_that_a_format_has_is_counted_whatever_the_others_raise(
    into: Any, tmp_path: Path, error: BaseException, discards: BaseException
) -> None:
    first, second, third = (
        Format(tmp_path / "a"),
        Format(tmp_path / "b", commit=error, discard=discards),
        Format(tmp_path / "c", discard=ValueError("of the third")),
    )
    counts, said = into(first, second, third, has_session=True)
    assert (counts.kept, counts.rows, counts.failed, counts.dropped) == (2, 6, 0, 0)
    assert takes(first) == [0, 1]
    assert takes(second) == takes(third) == [0]
    assert [one.asked[-1] for one in (second, third)] == ["discard", "discard"]
    # Its episode is there: it has no temporary file any more.
    assert "discard" not in first.asked
    assert said.startswith(f"an episode could not be written: {type(error).__name__}: {error}; its episode is whole in")
    assert f"{tmp_path / 'a'} and not in {tmp_path / 'b'} and {tmp_path / 'c'}; " in said
    assert f"{tmp_path / 'b'}: temporary files may be left: {type(discards).__name__}: {discards}" in said
    assert said.endswith(f"{tmp_path / 'c'}: temporary files may be left: ValueError: of the third")


@pytest.mark.parametrize("error", KINDS, ids=lambda e: type(e).__name__)
def test_one_that_cannot_be_prepared_is_in_none_whatever_discarding_raises(
    into: Any, tmp_path: Path, error: BaseException
) -> None:
    first, second, third = (
        Format(tmp_path / "a", discard=ValueError("of the first")),
        Format(tmp_path / "b"),
        Format(tmp_path / "c", prepare=error),
    )
    counts, said = into(first, second, third)
    assert (counts.kept, counts.rows, counts.failed) == (1, 3, 1)
    assert [takes(one) for one in (first, second, third)] == [[0]] * 3
    assert first.asked == second.asked == ["prepare", "discard"]
    assert said == (
        f"take 1 could not be written: {type(error).__name__}: {error}; 1 episode with 3 rows could not be written; "
        f"{tmp_path / 'a'}: temporary files may be left: ValueError: of the first"
    )


@pytest.mark.parametrize("prepared", [None, 7, MemorySink], ids=["none", "a number", "a class"])
def test_what_cannot_be_committed_is_refused_before_anything_is(into: Any, tmp_path: Path, prepared: Any) -> None:
    first, second = Format(tmp_path / "a"), Format(tmp_path / "b", prepared=prepared)
    counts, said = into(first, second, has_session=True)
    assert (counts.kept, counts.rows, counts.failed) == (1, 3, 1)
    assert takes(first) == [0]
    assert first.asked == ["prepare", "discard"]
    assert said.startswith(f"{tmp_path / 'b'}: its prepare() returned {prepared!r}; return what has commit() and")


@pytest.mark.parametrize("verb", ["files", "claims"])
@pytest.mark.parametrize("error", KINDS, ids=lambda e: type(e).__name__)
def test_to_foresee_a_full_disk_costs_no_episode(into: Any, tmp_path: Path, verb: str, error: BaseException) -> None:
    sink = Format(tmp_path / "a", **{verb: error})
    counts, said = into(sink)
    assert (counts.kept, counts.failed, said) == (2, 0, "")
    assert takes(sink) == [0, 1]


def test_of_several_that_are_late_and_one_that_fails_all_are_told(into: Any, tmp_path: Path) -> None:
    late = [MetadataError(f"{name}: the list is behind") for name in "ab"]
    sinks = [
        Format(tmp_path / "a", commit=late[0]),
        Format(tmp_path / "b", commit=late[1]),
        Format(tmp_path / "c", commit=OSError("c fails")),
    ]
    counts, said = into(*sinks)
    assert (counts.kept, counts.rows, counts.failed) == (2, 6, 0)
    assert said == (
        f"a: the list is behind; its episode is whole in {tmp_path / 'a'} and {tmp_path / 'b'} and not in "
        f"{tmp_path / 'c'}; b: the list is behind; an episode could not be written: OSError: c fails"
    )


def test_files_that_cannot_be_removed_hide_no_error(
    tmp_path: Path, run: Any, seen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = Path.unlink

    def refuse(path: Path, *args: Any, **named: Any) -> None:
        if path.name.endswith(".mp4.tmp"):
            raise PermissionError(13, "Permission denied")
        working(path, *args, **named)

    sink = Format(tmp_path / "a", prepare=ValueError("the first"))
    env = lr.RecordSession(
        CountEnv(3, render_mode="rgb_array"), mode="custom", gym_columns=True, formats=(), sinks=[sink], cameras=[seen]
    )
    monkeypatch.setattr(Path, "unlink", refuse)
    run(env, episodes=2)
    with pytest.raises(lr.StreamError, match=r"take 1 could not be written: ValueError: the first; 1 episode with"):
        env.close()
    counts = env.observer.counts
    assert (counts.kept, counts.failed) == (1, 1)


def test_no_format_can_change_what_the_next_is_given(tmp_path: Path, run: Any, seen: Any) -> None:
    refused: list[str] = []

    class Changes(MemorySink):
        def prepare(self, record: Any) -> Any:
            for name, values in (*record.columns.items(), *record.missing.items()):
                try:
                    values[:] = 0
                except ValueError:
                    refused.append(name)
            assert len(refused) == len(record.columns) + len(record.missing)
            return super().prepare(record)

    sinks = [Changes(tmp_path / "a"), MemorySink(tmp_path / "b")]
    columns = [lr.Column("said", lambda moment: "yes", dtype="str"), lr.Column("obs", "gym:obs")]
    env = lr.RecordSession(CountEnv(3, mujoco=True), mode="custom", columns=columns, formats=(), sinks=sinks)
    run(env)
    env.close()
    assert {"said", "obs", "timestamp"} <= set(refused)
    assert [r.columns["obs"].reshape(-1).tolist() for r in sinks[1].records] == [[0, 1, 2]]
    assert [r.columns["said"].tolist() for r in sinks[1].records] == [["yes"] * 3]


@pytest.mark.parametrize("now", [253_402_300_800 * 10**9, 2**80, -(2**80)], ids=["10000", "far", "before"])
def test_a_clock_that_says_no_date_costs_no_episode(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch, now: int
) -> None:
    monkeypatch.setattr(clock.time, "time_ns", lambda: now)
    env = lr.RecordSession(
        CountEnv(3, mujoco=True), mode="robot_arm", output_dir=tmp_path, formats=("session", "koyu"),
        koyu=lr.KoyuSettings(name="late"),
    )  # fmt: skip
    run(env, episodes=2)
    env.close()
    assert [episode.recorded_at for episode in lr.Session(env.session_path)] == [None, None]
    assert env.observer.counts.kept == 2
