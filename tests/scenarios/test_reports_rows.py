"""What has bitten people who record simulations, by the number of the report: the values of a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv, check_session


def test_report_01_observations_are_paired_with_the_action_chosen_on_them(
    record: Any, run: Any, read_back: Any
) -> None:
    env = record(CountEnv(3), gym_columns=True)
    run(env, episodes=2)
    env.close()
    first, second = read_back(env.session_path)
    assert first.rows["obs"].tolist() == first.rows["gym.action"].tolist() == [0, 1, 2]
    assert second.rows["obs"].tolist() == [100, 101, 102]
    assert second.rows["gym.action"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("env_id", ["LuckyRecorder/PickCube-v0", "LuckyRecorder/TwinArms-v0"])
def test_report_05_positions_are_those_of_the_stored_state(tmp_path: Path, env_id: str) -> None:
    inner = gym.make(env_id)
    model = inner.unwrapped.model
    site, body = model.site(0).name, model.body(model.nbody - 1).name
    columns = [lr.Column("site", f"site_xpos:{site}", shape=3), lr.Column("body", f"xpos:{body}", shape=3)]
    env = lr.RecordSession(inner, output_dir=tmp_path, mode="full_scene", columns=columns)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(20):
        env.step(env.action_space.sample())
    data = mujoco.MjData(model)
    env.close()
    rows = check_session(env.session_path).episode(0).rows()
    for qpos, at, where in zip(*(rows[c].to_pylist() for c in ("observation.state", "site", "body")), strict=True):
        data.qpos[:] = qpos
        mujoco.mj_forward(model, data)
        assert np.allclose(data.site(site).xpos, at, rtol=0, atol=1e-12)
        assert np.allclose(data.body(body).xpos, where, rtol=0, atol=1e-12)


def test_report_23_declared_info_keys_are_null_where_they_are_absent(record: Any, run: Any) -> None:
    class Talks(CountEnv):
        def _info(self) -> dict[str, Any]:
            said = {"score": float(self.t)} if self.t != 2 else {"score": None}
            return {**super()._info(), **({} if self.t == 3 else said), "never declared": object()}

    env = record(
        Talks(4), columns=[lr.Column("score", "info:score"), lr.Column("absent", "info:absent", dtype="int64")]
    )
    run(env)
    env.close()
    session = check_session(env.session_path)
    rows = session.episode(0).rows()
    assert rows["score"].to_pylist() == [1.0, None, None, 4.0]
    assert rows["absent"].to_pylist() == [None] * 4
    assert str(rows.schema.field("absent").type) == "int64"
    assert session.stats["score"]["count"] == [2]
    assert session.stats["score"]["mean"] == [2.5]
