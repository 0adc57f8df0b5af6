"""States that are kept: those that the simulation went through, and what they cannot bring back is said."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder import trail
from lucky_recorder.testing import check_session
from tests.recorder.physics import EVERYTHING, XML, Cart, push, state


def kept(env: Any, tmp_path: Path, steps: int = 30, **settings: Any) -> lr.Session:
    session = lr.RecordSession(env, output_dir=tmp_path, keep_states=True, **settings)
    session.reset(seed=3)
    push(session, steps)
    session.end_episode(success=True)
    session.close()
    return check_session(session.session_path)


def test_states_are_those_that_the_simulation_went_through(tmp_path: Path) -> None:
    env = Cart()
    session = kept(env, tmp_path)
    episode = session.episode(0)
    states = episode.states()
    assert session.has_states
    assert len(states) == 30
    assert np.array_equal(states.states, env.states)
    assert np.array_equal(states.commands, env.commands)
    assert states.not_brought_back == ()
    about = states.about
    assert (about["mujoco"], about["timestep"], about["physics_steps"]) == (mujoco.__version__, 0.005, 4)
    assert about["sizes"] == {
        **dict.fromkeys(("na", "neq", "nuserdata", "npluginstate"), 0),
        **{"state": states.states.shape[1], "nq": 2, "nv": 2, "nu": 1, "nbody": 4, "nmocap": 1},
    }
    assert (about["hz"], about["ticks_per_step"], about["ended"], about["resets"]) == ("50", 1, True, [])


def test_the_model_is_there_once_for_each_content(tmp_path: Path) -> None:
    env = Cart()
    wrapped = lr.RecordSession(env, output_dir=tmp_path, keep_states=True)
    for gravity in (-9.81, -9.81, -1.6):
        env.model.opt.gravity[2] = gravity
        wrapped.reset(seed=1)
        push(wrapped, 5)
        wrapped.end_episode(success=True)
    wrapped.close()
    session = check_session(wrapped.session_path)
    models = [episode.model() for episode in session]
    assert models[0] == models[1] != models[2]
    names = {file.name for file in (session.path / "states/models").iterdir()}
    assert names == {f"{hashlib.sha256(one).hexdigest()}.mjb" for one in models}
    read = mujoco.MjModel.from_binary_path("m.mjb", {"m.mjb": models[2]})
    assert read.opt.gravity[2] == -1.6
    assert all(episode.states().not_brought_back == () for episode in session)


def test_nothing_is_kept_where_nobody_asks(tmp_path: Path) -> None:
    wrapped = lr.RecordSession(Cart(), output_dir=tmp_path)
    wrapped.reset(seed=1)
    push(wrapped, 3)
    wrapped.end_episode(success=True)
    wrapped.close()
    session = check_session(wrapped.session_path)
    assert not session.has_states
    assert not (session.path / "states").exists()
    assert not [name for name in session.episodes.column_names if "states" in name]
    with pytest.raises(lr.FormatError, match="episode 0 has no states: record with keep_states=True"):
        session.episode(0).states()


def test_rows_are_the_same_with_and_without(tmp_path: Path) -> None:
    def rows(folder: str, **settings: Any) -> Any:
        wrapped = lr.RecordSession(Cart(), output_dir=tmp_path / folder, **settings)
        wrapped.reset(seed=1)
        push(wrapped, 12)
        wrapped.end_episode(success=True)
        wrapped.close()
        return check_session(wrapped.session_path).episode(0).rows()

    assert rows("with", keep_states=True).equals(rows("without"))


def lighter(env: Cart) -> None:
    env.model.body_mass[1] *= 0.99


def steered(env: Cart) -> None:
    env.data.ctrl[0] -= 0.1 * env.data.qvel[0] + 0.01


def held(env: Cart) -> None:
    env.data.xfrc_applied[1, 0] = 0.3 * env.steps + 0.1


def placed(env: Cart) -> None:
    env.data.qpos[0] += 0.01


LACKS: dict[str, tuple[dict[str, Callable[[Cart], None]], list[str]]] = {
    "the model": ({"before": lighter}, [trail.MODEL_CHANGED]),
    "commands within a step": ({"within": steered}, [trail.NOT_FOLLOWING]),
    "forces": ({"before": held}, [trail.NOT_FOLLOWING]),
    "by hand": ({"before": placed}, [trail.NOT_FOLLOWING]),
    "by hand, within": ({"within": placed}, [trail.NOT_FOLLOWING]),
}


@pytest.mark.parametrize("name", LACKS)
def test_what_states_cannot_bring_back_is_said(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    happens, lacks = LACKS[name]
    with caplog.at_level(logging.WARNING, "lucky_recorder"):
        session = kept(Cart(**happens), tmp_path)
    assert list(session.episode(0).states().not_brought_back) == lacks
    told = [r.getMessage() for r in caplog.records if "cannot bring an episode back" in r.getMessage()]
    assert len(told) == len(lacks)


def test_a_callback_is_said_and_is_called_no_more_often(tmp_path: Path) -> None:
    def run(is_kept: bool) -> tuple[int, lr.Session | None]:
        calls, env = 0, Cart()

        def control(model: Any, data: Any) -> None:
            nonlocal calls
            calls += 1
            data.ctrl[:] = -data.qvel[0]

        mujoco.set_mjcb_control(control)
        try:
            session = kept(env, tmp_path) if is_kept else None
            if session is None:
                env.reset(seed=3)
                push(env, 30)
        finally:
            mujoco.set_mjcb_control(None)
        return calls, session

    calls, session = run(is_kept=True)
    assert calls == run(is_kept=False)[0]
    assert session is not None
    assert session.episode(0).states().not_brought_back == (f"{trail.CALLED}mjcb_control",)


def test_one_warning_is_enough(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wrapped = lr.RecordSession(Cart(before=placed), output_dir=tmp_path, keep_states=True)
    for seed in range(3):
        wrapped.reset(seed=seed)
        push(wrapped, 4)
        wrapped.end_episode(success=True)
    wrapped.close()
    assert sum("cannot bring an episode back" in r.getMessage() for r in caplog.records) == 1


@pytest.mark.parametrize("mode", ["tick", "step"])
def test_an_observer_keeps_them_too(mode: str, tmp_path: Path) -> None:
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    observer = lr.Observer(model=model, data=data, output_dir=tmp_path, keep_states=True, data_hz=200)
    observer.start_recording()
    states, commands = [], []
    for k in range(40):
        data.ctrl[0] = np.sin(k)
        states.append(state(model, data))
        commands.append(data.ctrl.copy())
        if mode == "tick":
            observer.tick()
            mujoco.mj_step(model, data)
        else:
            with observer.step():
                mujoco.mj_step(model, data)
    states.append(state(model, data))
    observer.end_current_episode(True)
    observer.stop_recording()
    episode = check_session(observer.session_path).episode(0)
    assert np.array_equal(episode.states().states, states)
    assert np.array_equal(episode.states().commands, commands)
    assert episode.states().not_brought_back == ()
    assert episode.states().about["ended"] is True


def test_a_last_state_that_nobody_knows_is_missing(tmp_path: Path) -> None:
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    observer = lr.Observer(model=model, data=data, output_dir=tmp_path, keep_states=True, data_hz=200)
    observer.start_recording()
    for _ in range(3):
        observer.tick()
        mujoco.mj_step(model, data)
    mujoco.mj_resetData(model, data)
    observer.end_current_episode(True)
    observer.stop_recording()
    states = check_session(observer.session_path).episode(0).states()
    assert states.about["ended"] is False
    assert np.isnan(states.states[-1]).all()
    assert np.isfinite(states.states[:-1]).all()
    file = next(states_files(observer.session_path))
    assert pq.read_table(file, partitioning=None)["state"].null_count == 1


def states_files(path: Path | None) -> Any:
    assert path is not None
    return (path / "states").glob("chunk-*/*.parquet")


def test_a_reset_in_an_episode_is_noted(tmp_path: Path) -> None:
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    observer = lr.Observer(model=model, data=data, output_dir=tmp_path, keep_states=True, data_hz=200)
    observer.start_recording()
    for k in range(25):
        if k in (1, 20):
            mujoco.mj_resetData(model, data)
            data.qpos[0] = 0.2
            observer.mark_reset()
        with observer.step():
            mujoco.mj_step(model, data)
    observer.end_current_episode(True)
    observer.stop_recording()
    states = check_session(observer.session_path).episode(0).states()
    assert states.about["resets"] == [1, 20]
    assert states.not_brought_back == ()


def test_a_long_episode_waits_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail, "MOST_HELD_BYTES", 5000)
    monkeypatch.setattr("lucky_recorder.session.states._PART_BYTES", 40_000)
    env = Cart()
    states = kept(env, tmp_path, 3333).episode(0).states()
    assert np.array_equal(states.states, env.states)
    assert np.array_equal(states.commands, env.commands)
    parts = list(states.parts())
    assert [part.first for part in parts] == sorted({part.first for part in parts})
    assert np.array_equal(np.concatenate([part.states for part in parts]), env.states)


def test_ticks_inside_of_a_step_have_states_of_their_own(tmp_path: Path) -> None:
    wrapped: Any = lr.RecordSession(
        gym.make("InvertedPendulum-v5", reset_noise_scale=0.01),
        output_dir=tmp_path,
        keep_states=True,
        data_hz=50,
    )
    wrapped.reset(seed=1)
    for _ in range(5):
        wrapped.step(np.zeros(1, np.float32))
    wrapped.end_episode(success=True)
    wrapped.close()
    states = check_session(wrapped.session_path).episode(0).states()
    about = states.about
    assert (len(states), about["ticks_per_step"], about["physics_steps"]) == (10, 2, 1)
    assert states.not_brought_back == ()


def test_a_model_of_other_states_within_an_episode_leaves_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def grow(env: Cart) -> None:
        if env.steps == 3:
            env.model = mujoco.MjModel.from_xml_string(XML.replace("<worldbody>", '<size nuserdata="7"/><worldbody>'))
            env.data, before = mujoco.MjData(env.model), env.data
            env.data.time, env.data.qpos[:], env.data.qvel[:] = before.time, before.qpos, before.qvel

    session = kept(Cart(before=grow), tmp_path, 8)
    assert not session.episode(0).has_states
    assert any("its model was replaced by one of other states" in r.getMessage() for r in caplog.records)


def test_without_a_simulation_there_are_none(tmp_path: Path) -> None:
    from_gym: Any = gym.make("CartPole-v1")
    wrapped = lr.RecordSession(from_gym, output_dir=tmp_path, keep_states=True, mode="custom", gym_columns=True)
    with pytest.raises(lr.SettingsError, match="keep_states=True: no MuJoCo model was found"):
        wrapped.reset()
    assert not list(tmp_path.iterdir())


def test_each_lane_keeps_its_own(tmp_path: Path) -> None:
    carts = [Cart(), Cart(xml=XML.replace('mass="1"', 'mass="2"'))]
    vector = gym.vector.SyncVectorEnv([lambda: carts[0], lambda: carts[1]])
    wrapped: Any = lr.RecordSession(vector, output_dir=tmp_path, keep_states=True)
    wrapped.reset(seed=4)
    for k in range(9):
        wrapped.step(np.full((2, 1), np.sin(k)))
    for lane in range(2):
        wrapped.end_episode(lane, success=True)
    wrapped.close()
    session = check_session(wrapped.session_path)
    assert len({episode.model() for episode in session}) == 2
    for episode in session:
        assert episode.lane is not None
        assert np.array_equal(episode.states().states, carts[episode.lane].states)
        assert lr.replay(session, episode.index).is_same


@pytest.mark.parametrize("step", [0, 3])
def test_data_that_are_replaced_within_a_step_go_on(step: int, tmp_path: Path) -> None:
    def anew(env: Cart) -> None:
        if env.steps == step:
            before, env.model = env.data, mujoco.MjModel.from_xml_string(XML)
            env.data = mujoco.MjData(env.model)
            mujoco.mj_setState(env.model, env.data, state(env.model, before), EVERYTHING)

    env = Cart(before=anew)
    states = kept(env, tmp_path, 8).episode(0).states()
    assert np.array_equal(states.states, env.states)
    assert np.array_equal(states.commands, env.commands)
    assert states.not_brought_back == ()
