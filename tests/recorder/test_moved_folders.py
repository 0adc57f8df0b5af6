"""The folder of a recording that is moved, removed or replaced under it: an error, and never a second folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.koyu.check import inspect_koyu
from lucky_recorder.session.check import check_session
from lucky_recorder.testing import CountEnv

CUBES = lr.KoyuSettings("cubes")
KINDS: dict[str, dict[str, Any]] = {
    "a session": {},
    "several episodes in a file": {"episodes_per_file": 3},
    "a dataset": {"koyu": CUBES, "formats": ("koyu",)},
    "video only": {"record_data": False},
}
GONE = "was moved or removed while it was recorded; .* `lucky-recorder recover` completes it there"


def move(folder: Path) -> Path:
    # With its name, which alone says that a folder without rows is a session.
    (folder.parent / "moved").mkdir()
    return folder.rename(folder.parent / "moved" / folder.name)


def remove(folder: Path) -> Path:
    shutil.rmtree(folder)
    return folder


def replace(folder: Path) -> Path:
    kept = move(folder)
    shutil.copytree(kept, folder)
    return kept


def begun(tmp_path: Path, wall: Any, kind: str) -> lr.RecordSession:
    env = lr.RecordSession(
        CountEnv(50, mujoco=True), output_dir=tmp_path, metadata_every=1, cameras=[wall], **KINDS[kind]
    )
    for seed in range(2):
        an_episode(env, seed)
    env.observer.flush()
    return env


def an_episode(env: lr.RecordSession, seed: int) -> None:
    env.reset(seed=seed)
    for _ in range(3):
        env.step(np.zeros(1))
    env.end_episode(success=True)


def an_episode_to_the_end(env: lr.RecordSession) -> None:
    an_episode(env, 2)
    env.observer.flush()


def assert_whole(kept: Path, kind: str) -> None:
    assert [one.verdict for one in lr.recover(kept)] != ["refused"]
    if kind == "a dataset":
        assert inspect_koyu(kept).episodes == 2
    elif kind == "video only":
        assert len(lr.Session(kept).video_files("wall")) == 2
    else:
        assert len(lr.Session(kept)) == 2
        assert check_session(kept) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lose", [move, remove, replace])
def test_an_episode_after_it_is_an_error_and_nothing_is_made_anew(
    tmp_path: Path, wall: Any, lose: Callable[[Path], Path], kind: str
) -> None:
    env = begun(tmp_path, wall, kind)
    path = env.session_path
    kept = lose(path)
    before = {p for p in tmp_path.rglob("*") if not p.is_relative_to(kept)}
    with pytest.raises(lr.StorageError, match=GONE) as raised:
        an_episode_to_the_end(env)
    assert str(path) in str(raised.value)
    env.close()
    assert env.observer.counts.kept == 2
    assert {p for p in tmp_path.rglob("*") if not p.is_relative_to(kept)} == before
    if lose is not remove:
        assert_whole(kept, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lose", [move, remove])
def test_closing_after_it_is_one_too(tmp_path: Path, wall: Any, lose: Callable[[Path], Path], kind: str) -> None:
    env = begun(tmp_path, wall, kind)
    path = env.session_path
    kept = lose(path)
    with pytest.raises(lr.StorageError, match=GONE):
        env.close()
    assert not path.exists()
    if lose is move:
        assert_whole(kept, kind)


def test_the_other_format_is_completed(tmp_path: Path, wall: Any) -> None:
    env = lr.RecordSession(CountEnv(50, mujoco=True), output_dir=tmp_path, cameras=[wall], koyu=CUBES)
    an_episode(env, 0)
    env.observer.flush()
    move(env.session_path)
    with pytest.raises(lr.StorageError, match=GONE):
        env.close()
    assert inspect_koyu(env.koyu_path).episodes == 1


def test_a_session_that_is_gone_on_with_is_watched_too(tmp_path: Path, wall: Any) -> None:
    env = begun(tmp_path, wall, "a session")
    env.close()
    more = lr.RecordSession(CountEnv(50, mujoco=True), cameras=[wall], resume=env.session_path)
    an_episode(more, 3)
    more.observer.flush()
    kept = move(env.session_path)
    with pytest.raises(lr.StorageError, match=GONE):
        more.close()
    lr.recover(kept)
    assert (len(lr.Session(kept)), check_session(kept)) == (3, [])
    assert not env.session_path.exists()


def test_one_that_is_closed_may_go_anywhere(tmp_path: Path, wall: Any) -> None:
    env = begun(tmp_path, wall, "a session")
    env.close()
    kept = move(env.session_path)
    shutil.copytree(kept, env.session_path)
    more = lr.RecordSession(CountEnv(50, mujoco=True), cameras=[wall], resume=env.session_path)
    an_episode(more, 3)
    more.close()
    assert (len(lr.Session(env.session_path)), check_session(env.session_path)) == (3, [])
