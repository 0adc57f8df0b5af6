"""Lanes that go on with a session, and whoever adds their episodes is killed meanwhile: none is lost, none comes twice.

The kill is a real one, of a process of its own: what is left on the disk is what it leaves.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.edit import assemble
from lucky_recorder.recorder import origin
from lucky_recorder.testing import check_session
from tests.recorder.lanes import custom, run
from tests.same import bytes_of
from tests.vector.away import away, envs, folders, rows_of

# Newer Pythons tell of threads where processes are forked.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
SETTINGS: dict[str, Any] = {"discard_and_retry_failed": True}


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin, "_asked", lambda *asked: None)


def succeeds(episode: int) -> bool:
    return episode % 3 != 1


def recorded(wrap: Callable[[Any], Any], steps: int) -> None:
    """Two lanes, each of whose episodes follows from its number: whoever records them again records the same rows."""
    steps_of = envs(wrap, (2, 2), succeeds=succeeds)
    run(steps_of, steps)
    steps_of.close()


def begun(place: Path, **more: Any) -> Path:
    first = lr.vector.shared(**custom(place, **SETTINGS, **more))
    recorded(first, 3)
    assert first.session_path is not None
    return first.session_path


def left(place: Path, monkeypatch: pytest.MonkeyPatch, session: Path, **more: Any) -> Any:
    """The processes whose episodes nobody has added yet."""

    def full(*given: Any) -> None:
        raise lr.StorageError("the disk is full")

    wrap, there = away(**custom(place, **SETTINGS, **more, resume=session))
    with monkeypatch.context() as patched:
        patched.setattr(assemble, "extend", full)
        recorded(there, 12)
    return wrap.processes


def killed(processes: Any, after: int) -> None:
    """Have a process add them that is killed as soon as so many are added."""
    pid = os.fork()
    if not pid:
        real = assemble.extend

        def extend(session: Path, picks: Any, recorded: Any, on_episode: Any, every: int) -> Path:
            def die(done: int, total: int) -> None:
                if done >= after:
                    os.kill(os.getpid(), signal.SIGKILL)

            return real(session, picks, recorded, die, every)

        assemble.extend = extend
        try:
            processes.finish()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def as_lanes(path: Path) -> list[tuple[int, tuple[float, ...]]]:
    lanes: Sequence[int] = check_session(path).episodes["lane"].to_pylist()
    return sorted(zip(lanes, map(tuple, rows_of(path)), strict=True))


@pytest.mark.parametrize("after", [[1], [2, 4], [6]])
@pytest.mark.parametrize("grouping", [{"metadata_every": 1}, {"episodes_per_file": 4}], ids=["listed", "spooled"])
def test_the_next_one_goes_on(tmp_path: Path, monkeypatch: Any, after: list[int], grouping: dict[str, int]) -> None:
    one = begun(tmp_path / "one", **grouping)
    recorded(lr.vector.shared(**custom(tmp_path / "one", **SETTINGS, **grouping, resume=one)), 12)
    many = begun(tmp_path / "many", **grouping)
    processes = left(tmp_path / "many", monkeypatch, many, **grouping)
    for number in after:
        killed(processes, number)
    processes.finish()
    assert processes.session == many
    assert len(check_session(one)) == 8
    # What is recovered is listed in a file of its own.
    mine, theirs = (
        {name: content for name, content in bytes_of(path).items() if not name.startswith("meta/episodes")}
        for path in (many, one)
    )
    assert mine == theirs
    table, other = check_session(many).episodes, check_session(one).episodes
    names = ["lane", "seed", "length", "success", "end_reason", "dataset_from_index", "tasks"]
    assert table.select(names).equals(other.select(names))
    assert folders(tmp_path / "many") == [many.name]


@pytest.mark.parametrize("after", [None, 2])
def test_what_others_have_added_meanwhile_is_theirs(tmp_path: Path, monkeypatch: Any, after: int | None) -> None:
    """Also where their episodes have the same rows."""
    wanted = begun(tmp_path / "one")
    before = Counter(as_lanes(wanted))
    recorded(lr.vector.shared(**custom(tmp_path / "one", **SETTINGS, resume=wanted)), 12)
    added = Counter(as_lanes(wanted)) - before
    session = begun(tmp_path)
    processes = left(tmp_path, monkeypatch, session)
    if after is not None:
        killed(processes, after)
        lr.recover(session)
    recorded(lr.vector.shared(**custom(tmp_path, **SETTINGS, resume=session)), 12)
    processes.finish()
    assert len(check_session(session)) == 2 + 6 + 6
    assert Counter(as_lanes(session)) == before + added + added
    said = [entry["episodes"] for entry in lr.Session(session).provenance]
    assert said == (["0:2", "2:8", "8:14"] if after is None else ["0:2", "4:10", "2:4,10:14"])


def test_the_command_leaves_out_what_is_there(tmp_path: Path, monkeypatch: Any) -> None:
    session = begun(tmp_path)
    processes = left(tmp_path, monkeypatch, session)
    killed(processes, 3)

    def full(*given: Any) -> None:
        raise lr.StorageError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(assemble, "extend", full)
        with pytest.raises(lr.StorageError) as raised:
            processes.finish()
    commands = str(raised.value).partition("this makes a session of them: ")[2].split(" && ")
    assert [shlex.split(command)[1] for command in commands] == ["delete", "delete", "merge"]
    for command in commands:
        done = CliRunner().invoke(app, shlex.split(command)[1:])
        assert done.exit_code == 0, done.output
    made = Path(shlex.split(commands[-1])[-1])
    wanted = begun(tmp_path / "one")
    recorded(lr.vector.shared(**custom(tmp_path / "one", **SETTINGS, resume=wanted)), 12)
    assert as_lanes(made) == as_lanes(wanted)


def test_where_nothing_is_kept_the_session_says_which_seeds_were_tried(tmp_path: Path) -> None:
    """As it does of lanes in one process."""
    here = begun(tmp_path)
    there = here.with_name("there")
    shutil.copytree(here, there)
    for session, wrapped in ((here, lr.vector.shared), (there, lambda **given: away(**given)[1])):
        wrap = wrapped(**custom(tmp_path, **SETTINGS, resume=session))
        steps_of = envs(wrap, (2, 3), succeeds=lambda episode: False)
        run(steps_of, 5)
        steps_of.close()
    found = [[one["discarded_seeds"] for one in check_session(path).provenance] for path in (here, there)]
    assert found[0] == found[1]
    assert {*found[0][1]} > {"7", "8"}
    assert folders(tmp_path) == sorted([here.name, there.name])
