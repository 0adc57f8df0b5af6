"""Memory that no state holds: it is said, and replaying does not hide it."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np

import lucky_recorder as lr
from lucky_recorder.recorder import trail
from lucky_recorder.testing import check_session
from tests.capture.mujoco.test_states import ASLEEP, PID, sleeps
from tests.recorder.physics import Cart, push


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


def test_plugins_are_said(tmp_path: Path) -> None:
    wrapped = lr.RecordSession(Cart(xml=PID), output_dir=tmp_path, keep_states=True)
    wrapped.reset(seed=3)
    push(wrapped, 20)
    wrapped.end_episode(success=True)
    wrapped.close()
    assert wrapped.session_path is not None
    states = check_session(wrapped.session_path).episode(0).states()
    assert states.about["plugins"] == ["mujoco.pid"]
    found = lr.replay(wrapped.session_path, 0)
    assert found == (20, None, 0, 0, (f"{trail.REMEMBERING}plugin mujoco.pid",))
    assert np.isfinite(states.states).all()
