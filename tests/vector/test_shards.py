"""Lanes that record shards: what becomes one session, in which order, and what is refused before that."""

from __future__ import annotations

import contextlib
import copy
import gc
import logging
import shlex
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.edit import assemble
from lucky_recorder.recorder import origin
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.testing import CountEnv, MemorySink, check_session
from lucky_recorder.vector.meeting import WATCHED
from tests.recorder.lanes import SIZE, Lane, action, custom, expected, run
from tests.same import bytes_of
from tests.vector.away import away, envs, folders, rows_of

EYE = lr.Camera("eye", source="render", **SIZE)
MODES = list(AutoresetMode)


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine git may answer in time for one recording, and not for the other."""
    monkeypatch.setattr(origin, "_asked", lambda *asked: None)


def succeeds(episode: int) -> bool:
    return episode % 3 != 1


@pytest.mark.parametrize("mode", MODES)
def test_it_is_the_session_of_one_process(tmp_path: Path, mode: AutoresetMode) -> None:
    """Where lanes end together the order is the same, and then all of it is, to the last byte."""
    settings: dict[str, Any] = {"cameras": [EYE], "discard_and_retry_failed": True, "metadata_every": 2}
    one = lr.vector.shared(**custom(tmp_path / "one", **settings))
    wrap, there = away(**custom(tmp_path / "many", **settings))
    for lanes in (one, there):
        steps = envs(lanes, (2, 2, 2), mode, succeeds=succeeds)
        run(steps, 10, mode)
        steps.close()
    assert one.session_path is not None
    assert wrap.session_path is not None
    assert len(check_session(one.session_path)) > 3
    assert bytes_of(wrap.session_path) == bytes_of(one.session_path)
    assert folders(tmp_path / "many") == [wrap.session_path.name]


@pytest.mark.parametrize("mode", MODES)
def test_episodes_follow_each_other_by_their_number_in_their_lane(tmp_path: Path, mode: AutoresetMode) -> None:
    lengths, steps = (2, 3, 5), 14
    wrap, there = away(**custom(tmp_path))
    recorded = envs(there, lengths, mode)
    run(recorded, steps, mode)
    recorded.close()
    wanted = sorted(expected(lengths, steps, mode), key=lambda one: (one.episode % 20, one.lane))
    session = check_session(wrap.session_path)
    assert session.episodes["lane"].to_pylist() == [one.lane for one in wanted]
    assert rows_of(wrap.session_path) == [[100 * one.episode + t for t in range(len(one.steps))] for one in wanted]
    for index, one in enumerate(wanted):
        sent = np.ravel(session.episode(index).rows()["gym.action"].to_pylist()).tolist()
        assert sent == [action(step, one.lane) for step in one.steps]
    assert session.episodes["success"].to_pylist() == [one.is_done for one in wanted]
    assert session.episodes["seed"].to_pylist() == [str(7 + w.lane) if not w.episode % 20 else None for w in wanted]


def test_each_lane_discards_its_own(tmp_path: Path) -> None:
    """Lane 1 always fails: the others are as if it were not there, and its seeds are listed."""
    wrap, there = away(**custom(tmp_path, discard_and_retry_failed=True))
    lanes = [there(Lane(lane, 1, succeeds=lane != 1)) for lane in range(3)]
    for seed in range(2):
        for lane in lanes:
            lane.reset(seed=10 * seed + lane.lane)
            lane.step(np.zeros(1, np.float32))
    for lane in lanes:
        lane.close()
    assert rows_of(wrap.session_path) == [[0], [4000], [100], [4100]]
    (entry,) = check_session(wrap.session_path).provenance
    assert entry["discarded_seeds"] == ["1", "11"]


def test_nothing_is_kept_of_lanes_that_have_only_discarded(tmp_path: Path) -> None:
    wrap, there = away(**custom(tmp_path, discard_and_retry_failed=True))
    lane = there(CountEnv(succeeds=False))
    lane.reset()
    lane.step(np.zeros(1, np.float32))
    lane.close()
    assert wrap.session_path is None
    assert folders(tmp_path) == []


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("total_episodes", {"total_episodes": 3}),
        ("formats", {"koyu": lr.KoyuSettings(name="lanes", collection_mode="synthetic")}),
        ("record_data", {"record_data": False, "cameras": [EYE]}),
        ("sinks", {"sinks": [MemorySink(Path())]}),
        ("resume", {"resume": Path("nowhere")}),
    ],
)
def test_what_cannot_be_recorded_is_refused_by_the_first_reset(
    tmp_path: Path, field: str, given: dict[str, Any]
) -> None:
    settings = custom(tmp_path)
    if field == "resume":
        del settings["output_dir"]
        given = {"resume": tmp_path / "DataSessions" / "nowhere"}
    _, there = away(**settings, **given)
    lane = there(CountEnv())
    with pytest.raises(lr.SettingsError, match=field):
        lane.reset()
    lane.close()
    assert folders(tmp_path) == []


def test_lanes_of_another_layout_are_refused(tmp_path: Path) -> None:
    wrap, there = away(output_dir=tmp_path, mode="custom", gym_columns=True)
    first, second = there(CountEnv()), there(CountEnv())
    second.unwrapped.action_space = _box(4)
    first.reset()
    with pytest.raises(lr.SettingsError, match=r"lane 1: it has another layout .*'gym.action' shape.* of its own"):
        second.reset()
    first.step(np.zeros(1, np.float32))
    first.close(), second.close()
    assert len(check_session(wrap.session_path)) == 1


def _box(size: int) -> Any:
    space = CountEnv().action_space
    return type(space)(0, 1, (size,))


def test_lanes_of_another_rate_are_refused(tmp_path: Path) -> None:
    wrap, there = away(**custom(tmp_path))
    lanes = [there(CountEnv()), there(CountEnv())]
    lanes[1].unwrapped.dt = 0.04
    lanes[0].reset()
    with pytest.raises(lr.SettingsError, match=r"lane 1: .*steps a second: lane 0 has 50, lane 1 25"):
        lanes[1].reset()
    for lane in lanes:
        lane.close()
    assert wrap.session_path is None
    assert folders(tmp_path) == []


def test_a_session_is_gone_on_with(tmp_path: Path) -> None:
    """Two recordings, the second of which goes on with the first, in one process and in many."""
    paths = []
    for name in ("one", "many"):
        first = lr.vector.shared(**custom(tmp_path / name))
        steps = envs(first, (2, 2))
        run(steps, 3)
        steps.close()
        settings = custom(tmp_path / name, resume=first.session_path)
        wrap, there = (lr.vector.shared(**settings),) * 2 if name == "one" else away(**settings)
        more = envs(there, (2, 2))
        run(more, 6)
        # Noise of sensors goes by it: what the session has had is not drawn again.
        assert [lane.recorder.recording.session.first_take for lane in more.envs] == [2, 2]
        more.close()
        assert wrap.session_path == first.session_path
        paths.append(wrap.session_path)
    assert len(check_session(paths[0])) == 6
    assert bytes_of(paths[1]) == bytes_of(paths[0])


def test_one_that_is_unlike_is_not_gone_on_with(tmp_path: Path) -> None:
    first = lr.vector.shared(**custom(tmp_path))
    steps = envs(first, (2, 2))
    run(steps, 3)
    steps.close()
    before = bytes_of(first.session_path)
    _, there = away(**custom(tmp_path, resume=first.session_path, gym_columns=False))
    lane = there(CountEnv())
    with pytest.raises(lr.SettingsError, match=r"resume=.*gym.action"):
        lane.reset()
    lane.close()
    assert bytes_of(first.session_path) == before
    assert folders(tmp_path) == [first.session_path.name]


@pytest.mark.parametrize("by", ["the command", "the one that has started them"])
def test_shards_that_cannot_be_merged_stay(tmp_path: Path, monkeypatch: Any, caplog: Any, by: str) -> None:
    def full(*given: Any, **more: Any) -> None:
        raise lr.StorageError("the disk is full")

    wrap, there = away(**custom(tmp_path))
    steps = envs(there, (2, 3))
    run(steps, 8)
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(assemble, "assemble", full)
        steps.close()
    (said,) = caplog.messages
    assert said.startswith("the disk is full; the shards are in ")
    command = shlex.split(said.partition("this makes a session of them: ")[2])
    if by == "the command":
        assert CliRunner().invoke(app, command[1:]).exit_code == 0
    else:
        wrap.processes.finish()
    assert wrap.session_path == Path(command[-1])
    assert len(rows_of(wrap.session_path)) == 5
    del wrap
    gc.collect()
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("is_watched", [True, False])
def test_what_fails_while_a_lane_is_closed_is_raised_once(tmp_path: Path, monkeypatch: Any, is_watched: bool) -> None:
    """By the process that has started it, if that asks; else where it has failed."""

    def full(*given: Any) -> None:
        raise lr.StorageError("the disk is full")

    wrap, there = away(**custom(tmp_path))
    lanes = [there(Lane(0, None)), there(Lane(1, None))]
    for lane in lanes:
        lane.reset()
        lane.step(np.zeros(1, np.float32))
    lanes[0].close()
    if is_watched:
        wrap.processes.meeting.say(WATCHED)
    monkeypatch.setattr(SessionSink, "prepare", full)
    with contextlib.nullcontext() if is_watched else pytest.raises(lr.StorageError, match="the disk is full"):
        lanes[1].close()
    (failure,) = wrap.processes.failures()
    assert isinstance(failure, lr.StorageError)
    assert "the disk is full" in str(failure)
    monkeypatch.undo()
    wrap.processes.finish()
    assert rows_of(wrap.session_path) == [[0]]


def test_a_lane_that_comes_too_late_is_told(tmp_path: Path) -> None:
    _, there = away(**custom(tmp_path))
    lane = there(CountEnv())
    lane.reset()
    lane.close()
    late = there(CountEnv())
    with pytest.raises(lr.StateError, match=r"has ended; call lucky_recorder.vector.shared\(\) again"):
        late.reset()
    late.close()


@pytest.mark.parametrize("when", ["made", "reset", "closed"])
def test_no_session_is_opened_here_beside_that_of_other_processes(tmp_path: Path, when: str) -> None:
    wrap, there = away(**custom(tmp_path))
    steps, here = envs(there, (2, 2)), wrap(CountEnv())
    if when != "made":
        run(steps, 3)
    if when == "closed":
        steps.close()
    with pytest.raises(lr.StateError, match=r"in other processes share a session already.*shared\(\) again"):
        here.reset()
    here.close()
    if when == "made":
        run(steps, 3)
    steps.close()
    assert wrap.session_path is not None
    assert len(check_session(wrap.session_path)) == 2
    assert folders(tmp_path) == [wrap.session_path.name]


def test_a_wrapper_is_sent_to_other_processes_before_it_is_used_here(tmp_path: Path) -> None:
    wrap = lr.vector.shared(**custom(tmp_path))
    assert copy.deepcopy(wrap) is wrap
    lane = wrap(CountEnv())
    cloudpickle.dumps(wrap)
    lane.reset()
    with pytest.raises(lr.StateError, match=r"share a session already.*shared\(\) again"):
        cloudpickle.dumps(wrap)
    lane.close()
