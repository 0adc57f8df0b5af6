"""Replaying episodes: bit for bit what was recorded, or where it is not. All of Gymnasium's: `test_undisturbed`."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.rollouts.replay import Difference
from lucky_recorder.testing import check_session
from tests.recorder.physics import XML, Cart, Happening, push

FILE = "states/chunk-000/file-000.parquet"


def recorded(folder: Path, steps: int = 40, **happens: Happening) -> Path:
    wrapped = lr.RecordSession(Cart(**happens), output_dir=folder, keep_states=True)
    wrapped.reset(seed=3)
    push(wrapped, steps)
    wrapped.end_episode(success=True)
    wrapped.close()
    assert wrapped.session_path is not None
    return wrapped.session_path


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("replayed"))


def said(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["replay", *map(str, arguments)])
    return done.exit_code, done.output


def changed(session: Path, tmp_path: Path, column: str, tick: int, value: int, add: float) -> Path:
    """Change one number of a copy's states."""
    copy = shutil.copytree(session, tmp_path / session.name)
    table = pq.read_table(copy / FILE, partitioning=None)
    rows = table[column].to_pylist()
    rows[tick][value] += add
    number = table.column_names.index(column)
    changed = table.set_column(number, column, pa.array(rows, pa.list_(pa.float64())))
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), copy / FILE)
    return copy


def test_an_episode_is_the_same_again_to_the_bit(session: Path) -> None:
    assert lr.replay(session, 0) == (40, None, 0, 0, ())
    assert lr.replay(lr.Session(session), 0).is_same
    assert (
        said(session, 0)
        == said(session, 0, "--verify")
        == (0, "episode 0: the same: 40 ticks, every state to the bit\n")
    )


def test_the_first_tick_that_differs_is_named_and_by_how_much(session: Path, tmp_path: Path) -> None:
    # Time comes first of a state, then both positions.
    copy = changed(session, tmp_path, "state", 17, 2, 1e-9)
    was = lr.Session(session).episode(0).states().states[17, 2]
    found = lr.replay(copy, 0)
    assert found.difference == Difference(16, "qpos of joint 'swing'", was + 1e-9, was)
    assert found.difference.by == pytest.approx(1e-9, rel=1e-6)
    # What leads there, and what comes of it.
    assert (found.ticks, found.unlike) == (40, 2)
    code, told = said(copy, 0, "--verify")
    assert code == 1
    assert "tick 16, qpos of joint 'swing': recorded " in told
    assert "differs by 1e-09; of 40 ticks 2 do not follow" in told
    assert said(copy, 0)[0] == 0


def test_another_command_is_found(session: Path, tmp_path: Path) -> None:
    found = lr.replay(changed(session, tmp_path, "ctrl", 30, 0, 0.5), 0)
    assert found.difference is not None
    assert (found.difference.tick, found.difference.what, found.unlike) == (30, "qpos of joint 'x'", 1)


def steered(env: Cart) -> None:
    env.data.ctrl[0] -= 0.1 * env.data.qvel[0] + 0.01


def test_what_states_cannot_bring_back_is_told_with_it(tmp_path: Path) -> None:
    path = recorded(tmp_path, 12, within=steered)
    found = lr.replay(path, 0)
    assert (found.is_same, found.unlike) == (False, 12)
    assert len(found.not_brought_back) == 1
    assert "recorded with: a tick does not follow from its state and its commands" in said(path, 0)[1]


def test_what_is_given_to_a_step_is_taken_from_the_record(tmp_path: Path) -> None:
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    observer = lr.Observer(model=model, data=data, output_dir=tmp_path, keep_states=True, data_hz=200)
    observer.start_recording()
    for tick in range(30):
        data.ctrl[0], data.xfrc_applied[1, 0], data.mocap_pos[0, 0] = np.sin(tick), np.cos(tick), 0.1 * tick
        if tick == 20:
            mujoco.mj_resetData(model, data)
            observer.mark_reset()
        with observer.step():
            mujoco.mj_step(model, data)
    observer.end_current_episode(True)
    observer.stop_recording()
    assert observer.session_path is not None
    assert lr.replay(observer.session_path, 0) == (29, None, 0, 1, ())
    assert "not stepped: 1 ticks" in said(observer.session_path, 0)[1]


def about(copy: Path, **fields: Any) -> None:
    table = pq.read_table(copy / FILE, partitioning=None)
    key = b"lucky_recorder.states"
    note = json.dumps({**json.loads(table.schema.metadata[key]), **fields}).encode()
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, key: note}), copy / FILE)


def test_a_model_of_another_version_names_the_one_that_reads_it(session: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(session, tmp_path / session.name)
    [model] = (copy / "states/models").iterdir()
    content = bytearray(model.read_bytes())
    content[4] ^= 1
    model.write_bytes(content)
    with pytest.raises(lr.FormatError, match="holds another model than its name says"):
        lr.replay(copy, 0)
    digits = hashlib.sha256(content).hexdigest()
    model.rename(model.with_name(f"{digits}.mjb"))
    about(copy, model=digits, mujoco="3.0.0")
    with pytest.raises(lr.FormatError, match=r"the model of MuJoCo 3\.0\.0 cannot be read.* install mujoco==3\.0\.0"):
        lr.replay(copy, 0)
    assert said(copy, 0)[0] == 2


def test_states_that_are_not_of_the_model_are_refused(session: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(session, tmp_path / session.name)
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    content = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, content)
    digits = hashlib.sha256(content.tobytes()).hexdigest()
    (copy / f"states/models/{digits}.mjb").write_bytes(content.tobytes())
    about(copy, model=digits)
    with pytest.raises(lr.FormatError, match="its model has"):
        lr.replay(copy, 0)


def test_without_states_nothing_is_replayed(tmp_path: Path) -> None:
    wrapped = lr.RecordSession(Cart(), output_dir=tmp_path)
    wrapped.reset(seed=1)
    push(wrapped, 4)
    wrapped.end_episode(success=True)
    wrapped.close()
    assert wrapped.session_path is not None
    with pytest.raises(lr.FormatError, match="has no states: record with keep_states=True"):
        lr.replay(wrapped.session_path, 0)
    assert said(wrapped.session_path, 0)[0] == 2
    assert said(wrapped.session_path, 7)[0] == 2


def lifting(folder: Path) -> lr.RecordSession:
    return lr.RecordSession(
        gym.make("LuckyRecorder/PickCube-v0", max_episode_steps=12), output_dir=folder, keep_states=True
    )


def swaying(observation: Any) -> np.ndarray:
    return np.full(6, np.sin(float(np.sum(observation[:3]))) * 0.3)


def test_what_workers_have_recorded_is_replayed(tmp_path: Path) -> None:
    summary = lr.collect(functools.partial(lifting, tmp_path), swaying, episodes=3, workers=2)
    assert summary.path is not None
    session = check_session(summary.path)
    assert [lr.replay(session, index) for index in range(3)] == [(12, None, 0, 0, ())] * 3
    assert len(list((session.path / "states/models").iterdir())) == 1
