"""What a check says of a session that was cut short: nothing that lets anybody remove an episode that is whole."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import lucky_recorder as lr
from lucky_recorder.session.check import check_session
from tests.session.building import Recording, arm_schema, camera, depth, lidar, mask, rgbd

NAME = "session_2026-10-08_14-30-05"
SCHEMA = arm_schema(
    [camera("Front"), depth("Front"), rgbd("Front"), mask("Front")], lidars=[lidar("top", has_proxy=True)]
)


def cut_short(path: Path, per_file: int, episodes: int) -> Path:
    recording = Recording(path, SCHEMA, episodes_per_file=per_file)
    for _ in range(episodes):
        recording.keep(3)
    recording.sink._lock.release()
    return path


@pytest.mark.parametrize(("per_file", "episodes"), [(1, 1), (1, 3), (3, 2), (3, 4)])
@pytest.mark.parametrize("meta", ["behind", "lost"])
def test_streams_of_whole_episodes_are_no_strays(tmp_path: Path, per_file: int, episodes: int, meta: str) -> None:
    path = cut_short(tmp_path / NAME, per_file, episodes)
    if meta == "lost":
        shutil.rmtree(path / "meta", ignore_errors=True)
    faults = check_session(path, decode=False)
    assert not [fault for fault in faults if fault.file.startswith("videos/") or "lidar-" in fault.file]
    told = [fault for fault in faults if re.match(r"data/|meta/\w+\.", fault.file)]
    assert all("`lucky-recorder recover` puts it right" in fault.message for fault in told), told
    assert told or (per_file, episodes, meta) == (1, 1, "behind")
    # Who removes what is told to be named by no episode loses none.
    for fault in faults:
        if "no episode names this file" in fault.message:
            (path / fault.file).unlink()
    (done,) = lr.recover(path)
    assert (done.episodes, done.set_aside, check_session(path)) == (episodes, (), [])


def test_what_no_episode_has_is_told_beside_them(tmp_path: Path) -> None:
    path = cut_short(tmp_path / NAME, 1, 3)
    stray = path / "videos/observation.images.Front/chunk-000/file-003.mp4"
    stray.touch()
    messages = {f.message for f in check_session(path, decode=False) if f.file == stray.relative_to(path).as_posix()}
    assert messages == {"no episode names this file"}
