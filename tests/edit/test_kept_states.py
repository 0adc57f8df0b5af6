"""States go where their episodes go: linked whole, cut with their rows, and left out where nobody could read them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.session.check import check_session as faults
from lucky_recorder.testing import check_session
from tests.recorder.physics import XML, Cart, push

TICKS = (20, 31, 24)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three episodes of two ticks to a row; the last is of another model, and one was reset within."""
    env = Cart()
    wrapped = lr.RecordSession(env, output_dir=tmp_path_factory.mktemp("states"), keep_states=True, data_hz=25)
    for seed, ticks in enumerate(TICKS):
        env.model.opt.gravity[2] = -9.81 if seed < 2 else -1.6
        wrapped.reset(seed=seed)
        push(wrapped, ticks)
        wrapped.end_episode(success=True)
    wrapped.close()
    assert wrapped.session_path is not None
    return wrapped.session_path


def states(path: Path, episode: int = 0) -> Any:
    return lr.Session(path).episode(episode).states()


def test_picked_episodes_take_theirs_along_as_links(session: Path, tmp_path: Path) -> None:
    lr.select(session, tmp_path / "some", episodes=[1, 2])
    some = check_session(tmp_path / "some")
    for new, old in enumerate((1, 2)):
        mine, theirs = some.episode(new), lr.Session(session).episode(old)
        assert os.path.samefile(mine.states_path(), theirs.states_path())
        assert mine.model() == theirs.model()
    assert len(list((tmp_path / "some/states/models").iterdir())) == 2


def test_a_model_that_no_episode_is_of_stays_behind(session: Path, tmp_path: Path) -> None:
    lr.delete(session, tmp_path / "two", episodes=[2])
    assert len(list((tmp_path / "two/states/models").iterdir())) == 1
    check_session(tmp_path / "two")


@pytest.mark.parametrize(
    "shape",
    [
        lambda s, t: lr.merge([s, shutil.copytree(s, t / "copy")], t / "new"),
        lambda s, t: lr.rename_task(s, t / "new", old="Default Task", new="Push"),
        lambda s, t: lr.split(s, {"new": 1.0}, output={"new": t / "new"}),
    ],
    ids=["merge", "rename", "split"],
)
def test_every_tool_keeps_them(shape: Callable[[Path, Path], Any], session: Path, tmp_path: Path) -> None:
    shape(session, tmp_path)
    new = check_session(tmp_path / "new")
    assert new.has_states
    for episode in new:
        assert np.array_equal(episode.states().states, states(session, episode.index % 3).states)


@pytest.mark.parametrize(("start", "end"), [(2, 3), (0, 1), (4, 0)])
def test_states_are_cut_with_their_rows(start: int, end: int, session: Path, tmp_path: Path) -> None:
    lr.trim(session, tmp_path / "new", start=start, end=end)
    new = check_session(tmp_path / "new")
    for episode, ticks in zip(new, TICKS, strict=True):
        rows = -(-ticks // 2)
        stop = min(2 * (rows - end), ticks)
        old = states(session, episode.index)
        cut = episode.states()
        assert len(cut) == stop - 2 * start
        assert np.array_equal(cut.states, old.states[2 * start : stop + 1])
        assert np.array_equal(cut.commands, old.commands[2 * start : stop])
        tried = [tick - 2 * start for tick in old.about["tried"] if 2 * start <= tick < stop]
        assert cut.about == {**old.about, "tried": tried}


def test_a_reset_where_an_episode_is_cut_leaves_no_last_state(tmp_path: Path) -> None:
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    observer = lr.Observer(model=model, data=data, output_dir=tmp_path, keep_states=True, data_hz=200)
    observer.start_recording()
    for tick in range(12):
        if tick in (3, 8):
            mujoco.mj_resetData(model, data)
            observer.mark_reset()
        data.ctrl[0] = np.sin(tick)
        with observer.step():
            mujoco.mj_step(model, data)
    observer.end_current_episode(True)
    observer.stop_recording()
    assert observer.session_path is not None
    lr.trim(observer.session_path, tmp_path / "new", start=1, end=4)
    cut = check_session(tmp_path / "new").episode(0).states()
    assert (cut.about["ended"], cut.about["resets"]) == (False, [2])
    assert np.isnan(cut.states[-1]).all()
    assert np.isfinite(cut.states[:-1]).all()
    # The commands before the reset are known.
    assert cut.commands[:, 0].tolist() == np.sin(np.arange(1, 8)).tolist()
    assert np.array_equal(np.concatenate([part.commands[:, 0] for part in cut.parts()])[:-1], cut.commands[:, 0])


def test_sessions_with_and_without_do_not_go_together(session: Path, tmp_path: Path) -> None:
    wrapped = lr.RecordSession(Cart(), output_dir=tmp_path, data_hz=25)
    wrapped.reset(seed=1)
    push(wrapped, 4)
    wrapped.end_episode(success=True)
    wrapped.close()
    assert wrapped.session_path is not None
    with pytest.raises(lr.FormatError, match="states_path"):
        lr.merge([session, wrapped.session_path], tmp_path / "new")
    for path, settings in ((wrapped.session_path, {"keep_states": True}), (session, {})):
        again = lr.RecordSession(Cart(), resume=path, data_hz=25, **settings)  # type: ignore[arg-type]
        again.reset(seed=2)
        with pytest.raises(lr.SettingsError, match="states_path"):
            push(again, 1)


def test_a_session_that_is_gone_on_with_goes_on_to_keep_them(session: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(session, tmp_path / session.name)
    env = Cart()
    wrapped = lr.RecordSession(env, resume=copy, keep_states=True, data_hz=25)
    wrapped.reset(seed=9)
    push(wrapped, 6)
    wrapped.end_episode(success=True)
    wrapped.close()
    assert np.array_equal(states(copy, 3).states, env.states)
    assert [len(e.states()) for e in check_session(copy)] == [*TICKS, 6]


def test_what_was_cut_short_is_recovered_with_its_states(session: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(session, tmp_path / session.name)
    shutil.rmtree(copy / "meta")
    left = copy / "states/chunk-000/file-003.parquet.tmp"
    left.write_bytes(b"begun")
    assert states(copy, 2).states.shape[0] == TICKS[2] + 1
    [done] = lr.recover(copy)
    assert (str(done.verdict), done.episodes, [one.file for one in done.set_aside]) == (
        "recovered",
        3,
        ["states/chunk-000/file-003.parquet.tmp"],
    )
    assert [len(e.states()) for e in check_session(copy)] == list(TICKS)


def test_an_episode_whose_states_are_torn_is_not_whole(session: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(session, tmp_path / session.name)
    shutil.rmtree(copy / "meta")
    torn = copy / "states/chunk-000/file-002.parquet"
    torn.write_bytes(torn.read_bytes()[:-20])
    [done] = lr.recover(copy)
    assert done.episodes == 2
    assert len(check_session(copy)) == 2


def test_what_is_somebodys_own_in_a_folder_of_that_name_stays(session: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(session, tmp_path / session.name)
    (copy / "states/notes.txt").write_text("mine")
    check_session(copy)
    assert str(lr.recover(copy)[0].verdict) == "complete"
    assert (copy / "states/notes.txt").read_text() == "mine"


def test_lerobot_is_given_none_and_that_is_said(session: Path, tmp_path: Path) -> None:
    view = lr.lerobot_view(session, tmp_path / "view")
    assert "states" in view.left_out
    assert not (tmp_path / "view/states").exists()
    listed = next((tmp_path / "view/meta/episodes").rglob("*.parquet"))
    assert not [n for n in pq.read_schema(listed).names if n.startswith("states/")]
    assert "states_path" not in lr.Session(tmp_path / "view").info
    assert not [fault for fault in faults(tmp_path / "view") if "states" in f"{fault.file} {fault.message}"]


def test_sums_are_of_them_too(session: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(session, tmp_path / session.name)
    lr.checksum(copy)
    assert "states/chunk-000/file-000.parquet" in (copy / "meta/checksums.json").read_text()
    file = copy / "states/chunk-000/file-000.parquet"
    content = bytearray(file.read_bytes())
    content[40] ^= 1
    file.write_bytes(content)
    assert any(f.file == "states/chunk-000/file-000.parquet" for f in faults(copy))
