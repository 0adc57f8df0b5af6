"""`recover` and `resume` of a session in whose ``meta/episodes`` something is broken, or somebody else's.

Only these lists say when an episode was recorded, and what somebody has noted of it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.episode import keys
from lucky_recorder.session import recovery, resumed
from lucky_recorder.session.check import check_session
from tests.edit.test_recover import NAME, cut_short, recovered, tree
from tests.session.building import Recording, arm_schema

EPISODES = 5
FOLDER = "meta/episodes/chunk-000"


def lists(path: Path) -> list[Path]:
    return sorted((path / FOLDER).glob("file-*.parquet"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session with a list for each of its episodes, and notes of somebody's in each."""
    path = tmp_path_factory.mktemp("recorded") / NAME
    recording = Recording(path, arm_schema(), 40, metadata_every=1)
    for _ in range(EPISODES):
        recording.keep(3)
    recording.close()
    for number, file in enumerate(lists(path)):
        table = pq.read_table(file, partitioning=None)
        when = pa.array([f"2026-10-08T14:30:0{number}+00:00"] * len(table))
        table = table.set_column(table.column_names.index("recorded_at"), "recorded_at", when)
        pq.write_table(table.append_column("note", pa.array([f"mine {number}"] * len(table))), file)
    assert len(lists(path)) == EPISODES
    return path


@pytest.fixture
def session(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / NAME))


def known(path: Path) -> list[tuple[str | None, str | None]]:
    """What only the lists say of each episode."""
    table = lr.Session(path).episodes
    assert table[keys.EPISODE_INDEX].to_pylist() == list(range(EPISODES))
    notes = table["note"].to_pylist() if "note" in table.column_names else [None] * EPISODES
    return list(zip(table["recorded_at"].to_pylist(), notes, strict=True))


def but(whole: list[tuple[str | None, str | None]], *lost: int) -> list[tuple[str | None, str | None]]:
    return [(None, None) if number in lost else one for number, one in enumerate(whole)]


def by_recover(path: Path) -> None:
    assert recovered(path).verdict in ("recovered", "complete")


def by_resume(path: Path) -> None:
    assert resumed.complete(path, None).writes == len(lists(path))


BOTH = pytest.mark.parametrize("mend", [by_recover, by_resume])


@BOTH
@pytest.mark.parametrize("is_cut_short", [False, True])
@pytest.mark.parametrize(
    "name", [f"{FOLDER}/{n}" for n in (".DS_Store", "._file-000.parquet", "notes.txt", "file-000.parquet.bak")]
)
def test_what_somebody_puts_beside_the_lists_changes_nothing(
    session: Path, mend: Callable[[Path], None], name: str, is_cut_short: bool
) -> None:
    whole = known(session)
    if is_cut_short:
        lists(session)[-1].unlink()
    (session / name).write_bytes(b"x")
    mend(session)
    assert known(session) == (but(whole, EPISODES - 1) if is_cut_short else whole)
    assert [fault.file for fault in check_session(session)] == [name]
    assert (session / name).read_bytes() == b"x"
    assert not (session / "lost+found").exists()


@BOTH
@pytest.mark.parametrize("broken", [(0,), (2,), (EPISODES - 1,), (0, 1), (1, 3), tuple(range(EPISODES))])
@pytest.mark.parametrize("how", ["torn", "gone"])
def test_lists_that_are_sound_stay(
    session: Path, mend: Callable[[Path], None], broken: tuple[int, ...], how: str
) -> None:
    whole = known(session)
    for number in broken:
        file = lists(session)[number] if how == "torn" else session / FOLDER / f"file-{number:03d}.parquet"
        file.write_bytes(file.read_bytes()[:-9]) if how == "torn" else file.unlink()
    mend(session)
    assert known(session) == but(whole, *broken)
    assert check_session(session) == []
    aside = sorted((session / "lost+found" / FOLDER).glob("*.parquet"))
    assert [file.name for file in aside] == [f"file-{n:03d}.parquet" for n in broken if how == "torn"]


def renamed(session: Path, names: dict[int, int]) -> None:
    for old, new in names.items():
        (session / FOLDER / f"file-{old:03d}.parquet").rename(session / FOLDER / f"file-{new:03d}.parquet")


@BOTH
@pytest.mark.parametrize(
    ("names", "lost"),
    [
        ({4: 9}, ()),
        ({4: 9, 3: 7, 2: 4}, ()),
        ({4: 9, 3: 7, 2: 4, 1: 2, 0: 1}, ()),
        # The one that is lost has no number left for it, so that the others make room.
        ({2: 1, 3: 2, 4: 3}, (1,)),
        ({1: 0, 2: 1, 3: 2, 4: 3}, (0,)),
        ({1: 0, 3: 1, 4: 7}, (0, 2)),
    ],
)
def test_a_gap_in_the_numbers_of_lists_is_closed(
    session: Path, mend: Callable[[Path], None], names: dict[int, int], lost: tuple[int, ...]
) -> None:
    whole = known(session)
    for number in lost:
        (session / FOLDER / f"file-{number:03d}.parquet").unlink()
    renamed(session, names)
    mend(session)
    assert known(session) == but(whole, *lost)
    assert check_session(session) == []
    assert not (session / "lost+found").exists()


@BOTH
def test_what_is_listed_twice_or_out_of_order_is_set_aside_and_known(
    session: Path, mend: Callable[[Path], None]
) -> None:
    whole = known(session)
    first, second, third, *_ = lists(session)
    shutil.copy(first, first.with_name("file-009.parquet"))
    mixed = pa.concat_tables([pq.read_table(file, partitioning=None) for file in (third, second)])
    pq.write_table(mixed, second)
    third.unlink()
    mend(session)
    assert known(session) == whole
    assert check_session(session) == []
    aside = sorted((session / "lost+found" / FOLDER).glob("*.parquet"))
    assert [file.name for file in aside] == ["file-001.parquet", "file-009.parquet"]


def test_a_list_whose_columns_do_not_go_with_the_others_is_set_aside_alone(session: Path) -> None:
    whole = known(session)
    second = lists(session)[1]
    table = pq.read_table(second, partitioning=None)
    pq.write_table(table.set_column(table.column_names.index("success"), "success", pa.array(["yes"])), second)
    by_recover(session)
    assert known(session) == but(whole, 1)
    assert check_session(session) == []


def test_damage_before_what_is_listed_is_told_with_the_episode_that_is_lost(session: Path) -> None:
    lists(session)[1].unlink()
    (session / "data/chunk-000/file-001.parquet").write_bytes(b"?")
    before = tree(session)
    done = recovered(session)
    assert (done.verdict, tree(session)) == ("refused", before)
    assert "episode 2 is listed, and episode 1 before it is not whole: " in done.why


def test_killed_in_the_midst_of_it_nothing_that_is_known_is_lost(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = Path(shutil.copytree(recorded, tmp_path / "origin"))
    whole = known(origin)
    (origin / FOLDER / "file-001.parquet").unlink()
    renamed(origin, {2: 1, 3: 2, 4: 7})
    strikes = ("replace", "rename", "unlink", "mkdir", "fsync")
    for at in range(1, 100):
        path = Path(shutil.copytree(origin, tmp_path / f"{at}" / NAME))
        calls: list[str] = []
        with monkeypatch.context() as patch:
            for name in strikes:
                patch.setattr(os, name, _refused_from(at, calls, getattr(os, name), name))
            with contextlib.suppress(lr.LuckyRecorderError, OSError):
                recovery.carry_out(path, recovery.plan(path))
        assert known(path) == but(whole, 1)
        by_recover(path)
        assert (known(path), check_session(path)) == (but(whole, 1), [])
        if len(calls) < at:
            return
    raise AssertionError("it never came to its end")


def _refused_from(at: int, calls: list[str], call: Callable[..., object], name: str) -> Callable[..., object]:
    def struck(*given: object, **named: object) -> object:
        calls.append(name)
        if len(calls) >= at:
            raise OSError(5, "Input/output error")
        return call(*given, **named)

    return struck


def test_a_recording_that_is_cut_short_lists_what_it_did_before(tmp_path: Path) -> None:
    """Nothing is noted, nothing is broken: a new file after those that are there."""
    path = tmp_path / NAME
    cut_short(path, 4, metadata_every=2)
    before = {file.name: file.read_bytes() for file in lists(path)}
    by_recover(path)
    after = {file.name: file.read_bytes() for file in lists(path)}
    assert {name: after[name] for name in before} == before
