"""Playing commands without states: as far as rows say what the simulation was, it goes the same way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.rollouts.open_loop import NOT_EXACT, open_loop
from tests.recorder import trajectories
from tests.recorder.trajectories import given, live, simulate

# What rows do not say, such as where the hand is, touches nothing.
XML = trajectories.XML.replace('contype="0"', 'contype="0" conaffinity="0"')

# Its commands are on the scale of its joint.
SERVO = XML.replace('type="slide"', 'type="slide" range="-1 2"').replace(
    "<motor", '<position kp="20" ctrllimited="true"'
)
TWO = SERVO.replace(
    '<body name="hand"',
    '<body name="other" pos="0 1 0"><joint name="y" type="slide" axis="1 0 0" range="-1 1"/><geom size=".1"/></body>'
    '<body name="hand"',
).replace("</actuator>", '<position name="pull" joint="y" kp="9" ctrlrange="-5 5" ctrllimited="true"/></actuator>')


def said(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["replay", *map(str, arguments)])
    return done.exit_code, done.output


@pytest.mark.parametrize("xml", [XML, SERVO], ids=["as it is", "mapped"])
@pytest.mark.parametrize("number", [0, 1])
def test_where_rows_say_all_it_goes_the_same_way(xml: str, number: int, tmp_path: Path) -> None:
    session = live(tmp_path, xml=xml.replace('gravcomp="1"', ""), mode="full_scene")
    found = open_loop(session, number)
    assert found.rows == (11, 6)[number]
    assert [drift.joint for drift in found.drifts] == ["x", "swing"]
    assert all(drift.most < 1e-9 for drift in found.drifts)
    assert found.model.parent == session / "meta/models"
    assert not lr.Session(session).has_states


def test_what_rows_do_not_say_is_drift(tmp_path: Path) -> None:
    session = live(tmp_path, (40,), xml=XML.replace('contype="0"', 'contype="0" mass="2"', 1))
    found = open_loop(session, 0)
    assert [drift.joint for drift in found.drifts] == ["x"]
    # The other joint is in no row: it hung at an angle.
    assert found.worst.most > 1e-4
    assert 0 < found.worst.row < 40
    assert found.worst.most >= found.worst.last
    code, told = said(session, 0, "--open-loop")
    assert code == 0
    assert f"episode 0: 39 rows played in {found.model}; {NOT_EXACT}" in told
    assert f"x: off by {found.worst.last:.3g} at the end, at most by {found.worst.most:.3g}, in row" in told


def test_a_reset_within_puts_it_into_place_again(tmp_path: Path) -> None:
    # Of a session that goes on at rest after the fourth row.
    one = simulate((9,), XML)
    before = one._replace(
        states=[np.concatenate([one.states[0][:4], one.states[0][:6]])],
        ctrl=[np.concatenate([one.ctrl[0][:4], one.ctrl[0][:5]])],
    )
    session = given(tmp_path, before, mode="full_scene", resets=[[0, 4]])
    found = open_loop(session, 0)
    assert (found.rows, found.resets) == (7, (4,))
    assert found.worst.most < 1e-9
    assert "put into place again at the rows of the ticks 4" in said(session, 0, "--open-loop")[1]


def test_several_robots_have_their_own_joints(tmp_path: Path) -> None:
    session = live(tmp_path, xml=TWO, robots=["cart", "other"])
    assert [drift.joint for drift in open_loop(session, 0).drifts] == ["x", "y"]
    assert open_loop(session, 0).drifts[1].most < 1e-9


def test_another_model_may_be_named(tmp_path: Path) -> None:
    session = live(tmp_path, xml=SERVO, mode="full_scene", save_model=False)
    with pytest.raises(lr.SettingsError, match="the session has not kept its model; name its file with --model"):
        open_loop(session, 0)
    (tmp_path / "same.xml").write_text(SERVO)
    (tmp_path / "heavy.xml").write_text(SERVO.replace('mass="1"', 'mass="3"'))
    assert open_loop(session, 0, tmp_path / "same.xml").worst.most < 1e-9
    assert open_loop(session, 0, tmp_path / "heavy.xml").worst.most > 0.01
    mujoco.mj_saveModel(mujoco.MjModel.from_xml_string(SERVO), str(tmp_path / "same.mjb"))
    assert said(session, 1, "--open-loop", "--model", tmp_path / "same.mjb")[0] == 0


def other_joints(session: Path, folder: Path) -> dict[str, Any]:
    (folder / "m.xml").write_text(XML.replace('name="swing"', 'name="swung"'))
    return {"model": folder / "m.xml"}


def other_steps(session: Path, folder: Path) -> dict[str, Any]:
    (folder / "m.xml").write_text(XML.replace('timestep="0.005"', 'timestep="0.003"'))
    return {"model": folder / "m.xml"}


def no_model(session: Path, folder: Path) -> dict[str, Any]:
    return {"model": folder / "none.xml"}


def broken_model(session: Path, folder: Path) -> dict[str, Any]:
    for file in (session / "meta/models").iterdir():
        file.write_bytes(file.read_bytes()[:-8] + b"\1" * 8)
    return {}


def nobody_says(session: Path, folder: Path) -> dict[str, Any]:
    (session / "meta/provenance.json").write_text(json.dumps({"recordings": []}))
    return {}


REFUSED: dict[Callable[..., Any], tuple[type[Exception], str]] = {
    other_joints: (lr.SettingsError, "model=.*m.xml': has other joints than those that the rows are of"),
    other_steps: (
        lr.SettingsError,
        "steps 333.333 times a second, and rows come at 50 Hz: no whole number of its steps",
    ),
    no_model: (lr.SettingsError, "model=.*none.xml': MuJoCo does not read it"),
    broken_model: (lr.FormatError, r"meta/models/.*: holds another model than its name says \(its sha256 differs\)"),
    nobody_says: (lr.SettingsError, "the session has not kept its model; name its file with --model"),
}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.__name__)
def test_what_cannot_be_played_is_refused(case: Any, tmp_path: Path) -> None:
    kind, told = REFUSED[case]
    session = live(tmp_path, xml=XML, mode="full_scene")
    with pytest.raises(kind, match=told):
        open_loop(session, 0, **case(session, tmp_path))


def test_rows_without_commands_are_refused(tmp_path: Path) -> None:
    session = live(tmp_path, xml=XML, mode="custom", columns=[lr.Column("x", "qpos:x")])
    with pytest.raises(lr.SettingsError, match="its rows hold no commands and positions of joints"):
        open_loop(session, 0)
    with pytest.raises(IndexError):
        open_loop(session, 7)


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    session = live(tmp_path, xml=XML)
    assert "--verify=True: compares states to the bit" in said(session, 0, "--open-loop", "--verify")[1]
    assert "is for --open-loop" in said(session, 0, "--model", "m.xml")[1]
    assert said(session, 7, "--open-loop")[0] == 2


def test_an_environment_of_gymnasium_s_drifts_little(tmp_path: Path) -> None:
    env: Any = lr.RecordSession(gym.make("InvertedPendulum-v5"), output_dir=tmp_path, mode="full_scene")
    env.reset(seed=1)
    for k in range(10):
        env.step(np.full(1, 0.1 * np.sin(k), np.float32))
    env.end_episode(success=True)
    env.close()
    found = open_loop(env.session_path, 0)
    assert [drift.joint for drift in found.drifts] == ["slider", "hinge"]
    assert 0 < found.worst.most < 0.1
