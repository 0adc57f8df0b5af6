"""Memory that no state holds: it is said, and replaying does not hide it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.mujoco.saved import model_bytes
from lucky_recorder.recorder import trail
from lucky_recorder.testing import check_session
from tests.capture.mujoco.test_states import ASLEEP, PID, sleeps
from tests.recorder.physics import Cart, push
from tests.rollouts.test_replay import about, changed, recorded, said


@sleeps
def test_trees_that_sleep_are_said_and_seen(tmp_path: Path) -> None:
    model = mujoco.MjModel.from_xml_string(ASLEEP)
    data = mujoco.MjData(model)
    observer = lr.Observer(model=model, data=data, output_dir=tmp_path, keep_states=True, data_hz=10, mode="full_scene")
    observer.start_recording()
    for _ in range(40):
        with observer.step():
            mujoco.mj_step(model, data, nstep=25)
    assert (data.tree_asleep >= 0).all()
    observer.end_current_episode(True)
    observer.stop_recording()
    assert observer.session_path is not None
    check_session(observer.session_path)
    whole = lr.replay(observer.session_path, 0)
    assert whole.not_brought_back[0] == f"{trail.REMEMBERING}flag sleep"
    assert whole.difference is not None
    # As many as where it begins within the sleep: nothing is remembered from tick to tick.
    assert whole.difference.tick > 0
    lr.trim(observer.session_path, tmp_path / "cut", start=whole.difference.tick)
    assert lr.replay(tmp_path / "cut", 0).unlike == whole.unlike > 0


def with_a_plugin(tmp_path: Path) -> Path:
    wrapped = lr.RecordSession(Cart(xml=PID), output_dir=tmp_path, keep_states=True)
    wrapped.reset(seed=3)
    push(wrapped, 20)
    wrapped.end_episode(success=True)
    wrapped.close()
    assert wrapped.session_path is not None
    return wrapped.session_path


def test_plugins_are_said(tmp_path: Path) -> None:
    session = with_a_plugin(tmp_path)
    states = check_session(session).episode(0).states()
    assert states.about["plugins"] == ["mujoco.pid"]
    found = lr.replay(session, 0)
    assert found == (20, None, 0, 0, (f"{trail.REMEMBERING}plugin mujoco.pid",))
    assert np.isfinite(states.states).all()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (["mine.arm"], "plugin 0 of its model is 'mine.arm', and here 'mujoco.pid' is registered there"),
        ([None], "plugin 0 of its model is 'one whose name is not known', and here 'mujoco.pid' is registered there"),
        ([], "its model has 1 plugins, and its states were recorded with 0"),
        (["mujoco.pid", "mine.arm"], "its model has 1 plugins, and its states were recorded with 2"),
    ],
)
def test_other_plugins_are_refused(said: list[str | None], message: str, tmp_path: Path) -> None:
    session = with_a_plugin(tmp_path)
    about(session, plugins=said)
    with pytest.raises(lr.FormatError, match=message):
        lr.replay(session, 0)


@pytest.mark.parametrize("slot", [0, 1, 5000, -1])
def test_a_place_where_another_is_registered_is_refused(slot: int, tmp_path: Path) -> None:
    session = with_a_plugin(tmp_path)
    model = mujoco.MjModel.from_xml_string(PID)
    slot = slot + 1 if slot == int(model.plugin[0]) else slot
    model.plugin[:] = slot
    [file] = (session / "states/models").iterdir()
    content = model_bytes(model)
    digits = hashlib.sha256(content).hexdigest()
    file.with_name(f"{digits}.mjb").write_bytes(content)
    about(session, model=digits)
    with pytest.raises(lr.FormatError, match=r"plugin 0 of its model is 'mujoco\.pid', and here"):
        lr.replay(session, 0)


def test_a_broken_model_is_called_so(tmp_path: Path) -> None:
    session = with_a_plugin(tmp_path)
    digits = hashlib.sha256(b"junk").hexdigest()
    (session / f"states/models/{digits}.mjb").write_bytes(b"junk")
    about(session, model=digits)
    with pytest.raises(lr.FormatError, match="that is the version that wrote it, so the model is broken"):
        lr.replay(session, 0)


@pytest.mark.parametrize("until", [1e300, 600.0])
def test_no_tick_goes_on_for_ever(until: float, tmp_path: Path) -> None:
    session = changed(recorded(tmp_path / "one", 6), tmp_path, "state", 3, 0, until)
    with pytest.raises(lr.FormatError, match=r"tick 2: it leads from 0\.04 s to .* s, more than 100000 steps"):
        lr.replay(session, 0)


def test_what_is_said_forges_no_line(tmp_path: Path) -> None:
    session = recorded(tmp_path, 6)
    about(session, not_brought_back=["x\nepisode 0: the same: 6 ticks\x1b[31m"])
    code, told = said(session, 0)
    assert code == 0
    assert [line.partition(":")[0] for line in told.splitlines()] == ["recorded with", "episode 0"]
    assert "\x1b" not in told
