"""A copy for LeRobot is a folder of its own kind: sound as it is, and nothing to be recovered or gone on with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import lucky_recorder as lr
from lucky_recorder.episode.schema import Field
from lucky_recorder.lerobot.rules import check_lerobot
from lucky_recorder.session import resumed
from lucky_recorder.session.check import check_session
from lucky_recorder.session.layout import Chunking
from tests.pairs import in_pairs
from tests.session.building import Recording, arm_schema, camera, depth, lidar, mask, rgbd
from tests.session.foreign import Recorder, write_session

FRONT = "observation.images.Front"


def plain(root: Path) -> Recording:
    return Recording(root, arm_schema([camera("Front")]), episodes_per_file=3)


def with_streams(root: Path) -> Recording:
    streams = [camera("Front"), depth("Front"), rgbd("Front"), mask("Front"), depth("Slow", 25)]
    return Recording(root, arm_schema(streams, lidars=[lidar("top", 25)]), episodes_per_file=3)


def with_a_list_of_one(root: Path) -> Recording:
    return Recording(root, arm_schema([camera("Front")], extra=[Field("lone", "float32", (1,), has_stats=True)]))


MADE: dict[str, Callable[[Path], Recording]] = {
    "plain": plain,
    "with streams": with_streams,
    "a list of one": with_a_list_of_one,
}


def kept(recording: Recording, episodes: int = 4, failed: int | None = None) -> Recording:
    for number in range(episodes):
        recording.keep(3 + number, success=number != failed, failed_stream=FRONT if number == failed else None)
    return recording


def assert_is_a_view(view: Path, episodes: int) -> None:
    before = {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in view.rglob("*")}
    assert json.loads((view / "meta/info.json").read_text())["lerobot_view"] is True
    assert check_session(view, deep=True) == []
    assert check_lerobot(view) == []
    session = lr.Session(view)
    assert (len(session), session.state, session.unlisted) == (episodes, "complete", ())
    (done,) = lr.recover(view)
    assert (done.verdict, done.episodes, done.brought_back, done.set_aside) == ("complete", episodes, 0, ())
    assert "a copy for LeRobot" in done.why
    with pytest.raises(lr.FormatError, match="a copy for LeRobot; go on with the session it was made of"):
        resumed.refuse(view, arm_schema([camera("Front")]), Chunking(40))
    assert {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in view.rglob("*")} == before


@in_pairs(made=MADE, failed=[None, 1], is_closed=[True, False], with_depth=[True, False])
def test_a_view_is_sound(
    tmp_path: Path, made: Callable[[Path], Recording], failed: int | None, is_closed: bool, with_depth: bool
) -> None:
    recording = kept(made(tmp_path / "session"), failed=failed)
    if is_closed:
        recording.close()
    else:
        # Cut short, with a spool where data files are of several episodes.
        recording.sink._lock.release()
    view = lr.lerobot_view(tmp_path / "session", tmp_path / "view", depth=with_depth)
    assert_is_a_view(view.path, 4 if failed is None else 3)


def test_a_view_of_a_session_that_is_being_recorded(tmp_path: Path) -> None:
    recording = kept(plain(tmp_path / "session"), 5)
    session = lr.Session(tmp_path / "session")
    assert len(session) == 5
    recording.keep(3)
    assert_is_a_view(lr.lerobot_view(session, tmp_path / "view").path, 5)
    recording.close()


def test_a_view_of_a_view_is_one(tmp_path: Path) -> None:
    recording = kept(plain(tmp_path / "session"))
    first = lr.lerobot_view(recording.close(), tmp_path / "first").path
    assert_is_a_view(lr.lerobot_view(first, tmp_path / "second").path, 4)


def test_a_view_of_another_recorder_s_session_needs_no_recovery(tmp_path: Path) -> None:
    write_session(tmp_path / "theirs", Recorder())
    view = lr.lerobot_view(tmp_path / "theirs", tmp_path / "view").path
    (done,) = lr.recover(view)
    assert (done.verdict, "a copy for LeRobot" in done.why) == ("complete", True)


@pytest.mark.parametrize("made", MADE.values(), ids=MADE.keys())
def test_what_is_spoiled_in_a_view_is_told(tmp_path: Path, made: Callable[[Path], Recording]) -> None:
    kept(made(tmp_path / "session")).close()
    view = lr.lerobot_view(tmp_path / "session", tmp_path / "view").path
    for part in ("data", "videos"):
        file = next(p for p in sorted((view / part).rglob("*")) if p.is_file())
        content = file.read_bytes()
        file.unlink()
        assert check_session(view) != []
        file.write_bytes(content[:-30])
        assert check_session(view) != []
        file.write_bytes(content)
        assert check_session(view) == []


def test_a_session_itself_is_none(tmp_path: Path) -> None:
    kept(plain(tmp_path / "session")).close()
    assert "lerobot_view" not in lr.Session(tmp_path / "session").info
