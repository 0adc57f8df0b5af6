"""Trajectories that cannot be recorded are refused by name, before anything is written of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import check_session
from tests.recorder.trajectories import HZ, XML, Simulated, given, simulate

Change = Callable[[Simulated, dict[str, Any]], None]
LEG = '<mujoco><worldbody><body><joint/><geom size=".1"/></body></worldbody></mujoco>'
MUSCLE = XML.replace("<motor", "<intvelocity actrange='-1 1'").replace('ctrlrange="-5 5"', 'kp="1"')


def put(one: Simulated, what: str, number: int, place: Any, value: float) -> None:
    (one.states if what == "states" else one.ctrl)[number][place] = value


def without(*names: str, **more: Any) -> Change:
    def change(one: Simulated, asked: dict[str, Any]) -> None:
        for name in names:
            del asked[name]
        asked.update(more)

    return change


def on(what: str, number: int, place: Any, value: float) -> Change:
    return lambda one, asked: put(one, what, number, place, value)


def instead(**made: Callable[[Simulated], Any]) -> Change:
    return lambda one, asked: asked.update({name: make(one) for name, make in made.items()})


def other_model(one: Simulated, asked: dict[str, Any]) -> None:
    asked["model"] = mujoco.MjModel.from_xml_string(LEG)


def muscles(one: Simulated, asked: dict[str, Any]) -> None:
    asked["model"] = mujoco.MjModel.from_xml_string(MUSCLE)
    del asked["states"]
    asked.update(qpos=one.qpos(), qvel=one.qvel(), control_hz=HZ)


def in_pictures(one: Simulated, asked: dict[str, Any]) -> None:
    asked["states"] = [s.astype(str) for s in one.states]


REFUSED: dict[str, tuple[Change, str]] = {
    "no model": (without(model="scene.xml"), r"model='scene.xml': give a mujoco.MjModel"),
    "another model": (other_model, r"states\[0\]: 41 values a tick; a state of this model, with nq=1 and nv=1, has \d"),
    "nothing": (without("states"), "states: nothing is given; give states, or qpos and qvel"),
    "no velocities": (instead(states=lambda o: None, qpos=lambda o: o.qpos()), "qvel: is not given, and the other of"),
    "twice": (instead(qpos=lambda o: o.qpos()), "qpos: stands in the states too; leave one of the two out"),
    "an unknown part": (
        instead(states=lambda o: {"qpos": 1, "qvel": 1, "pose": 1}),
        "no part 'pose'; they have: time,",
    ),
    "activations": (muscles, r"the model has 1 activations; give states, or states=\{"),
    "no commands": (without("ctrl"), r"ctrl: is not given, and the model takes 1 commands; give data.ctrl of each"),
    "no episode": (instead(states=lambda o: []), r"states=\[\]: there is no episode in it"),
    "an iterator of none": (instead(states=lambda o: iter([]), ctrl=lambda o: iter([])), "states: there is no episode"),
    "a text": (without(states="states.h5"), "states='states.h5': give an array with an axis of episodes in front"),
    "one episode": (
        instead(states=lambda o: o.states[0]),
        r"states: is of shape \(13, 41\), without an axis of episodes; .* give states=\[\.\.\.\]",
    ),
    "an axis too many": (instead(states=lambda o: [np.array([s]) for s in o.states]), "give one axis less"),
    "texts": (in_pictures, r"states\[0\]: holds <U32; give float64"),
    "masked": (
        instead(states=lambda o: [np.ma.masked_greater(s, 0.1) for s in o.states]),
        r"states\[0\]: some of its values are masked",
    ),
    "none of one": (
        instead(ctrl=lambda o: [o.ctrl[0], None]),
        r"ctrl\[1\]: is of shape \(\), and not of \(ticks, values\)",
    ),
    "fewer commands": (instead(ctrl=lambda o: o.ctrl[:1]), "ctrl: is of 1 episodes, and states of 2; give as many"),
    "fewer, seen late": (instead(ctrl=lambda o: iter(o.ctrl[:1])), "ctrl: is of 1 episodes, and states of more"),
    "fewer verdicts": (without(success=[True]), "success: is of 1 episodes, and states of 2"),
    "no ticks": (instead(states=lambda o: [o.states[0][:0], o.states[1]]), r"states\[0\]: has no tick"),
    "other ticks": (
        instead(ctrl=lambda o: [c[:-1] for c in o.ctrl]),
        r"states\[0\]: has 13 ticks, and ctrl\[0\] 11; give as many, or one state more",
    ),
    "other commands": (
        instead(ctrl=lambda o: [np.repeat(c, 2, 1) for c in o.ctrl]),
        r"ctrl\[0\]: 2 values a tick; the model takes 1 commands",
    ),
    "a NaN": (
        on("states", 1, (3, 2), np.nan),
        r"states\[1\]: qpos of joint 'swing' is nan at tick 3; leave the episode",
    ),
    "a NaN at the end": (on("states", 1, (7, 3), np.nan), r"states\[1\]: qvel of joint 'x' is nan at tick 7"),
    "a command": (on("ctrl", 0, (2, 0), -np.inf), r"ctrl\[0\]: command 0 is -inf at tick 2; leave the episode out"),
    "time that is none": (on("states", 0, (2, 0), np.inf), r"states\[0\]: time is inf at tick 2"),
    "time back": (
        on("states", 0, (5, 0), 0.01),
        r"states\[0\]: time runs backwards, from 0.08 s to 0.01 s, at tick 5; begin another episode there, or ",
    ),
    "an uneven tick": (
        on("states", 1, (5, 0), 0.105),
        r"states\[1\]: tick 4 lasts 0.025 s, and not 0.02 s \(50 Hz\): its time stamps would be wrong",
    ),
    "another rate": (without(control_hz=40), r"states\[0\]: tick 0 lasts 0.02 s, and not 0.025 s \(40 Hz\)"),
    "a rate between": (without(data_hz=20), "data_hz='20': does not divide the rate of the ticks, 50 Hz, evenly"),
    "no rate": (
        instead(states=lambda o: None, qpos=lambda o: o.qpos(), qvel=lambda o: o.qvel()),
        "data_hz=None: the states do not say how long a tick is",
    ),
    "too long": (without(max_episode_length_s=0.2), "max_episode_length_s=0.2: episode 0 lasts 0.24 s; leave it out"),
    "no verdict": (without(success=[True, None]), r"success\[1\]=None: give True or False"),
    "resets": (without(resets=[[0], [7]]), r"resets\[1\]=\[7\]: give ticks of the episode, from 0 to 6"),
    "who has run": (
        without(new_policy_step=[[1] * 12, [2] * 7]),
        r"new_policy_step\[1\]=.*: give True or False for each",
    ),
    "a task": (without(task_index=[0, 3]), "task index=3: give 0 to 0"),
    "an open end": (
        instead(states=lambda o: [s[:-1] for s in o.states], success=lambda o: lambda moment: True),
        "success: is asked after the last tick, and episode 0 has no state after it; give one state more",
    ),
    "a column after the end": (
        instead(
            states=lambda o: [s[:-1] for s in o.states],
            columns=lambda o: [lr.Column("late", lambda moment: 0.0, when="after")],
        ),
        "column 'late': is asked after the last tick, and episode 0 has no state after it",
    ),
    "a column after a reset": (
        without(resets=[[0], [0, 3]], columns=[lr.Column("late", lambda moment: 0.0, when="after")]),
        "column 'late': is asked after each tick, and nobody knows the state that a reset in episode 1 has taken",
    ),
    "what has no environment": (without(gym_columns=True), "gym_columns=True: there is no Gymnasium environment"),
}


@pytest.mark.filterwarnings("ignore:the model has mocap bodies")
@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    change, told = REFUSED[name]
    one = simulate()
    asked: dict[str, Any] = {"states": one.states, "ctrl": one.ctrl, "success": True, "model": one.model}
    change(one, asked)
    with pytest.raises(lr.SettingsError, match=told):
        lr.record_trajectories(output_dir=tmp_path, **asked)
    # The commands that end too early were found when an episode was there.
    assert bool(list(tmp_path.iterdir())) is (name in ("fewer, seen late", "a task"))


class OnAnotherDevice:
    """A tensor whose memory is a graphics card's."""

    def __dlpack__(self, **asked: Any) -> Any:
        raise BufferError("it is on cuda:0")

    def __dlpack_device__(self) -> Any:
        return 2, 0


def test_memory_of_another_device_is_refused(tmp_path: Path) -> None:
    one = simulate()
    with pytest.raises(lr.SettingsError, match=r"its memory cannot be read .*; give a copy .* x\.detach\(\)\.cpu\(\)"):
        lr.record_trajectories(one.model, states=OnAnotherDevice(), ctrl=one.ctrl, success=True, output_dir=tmp_path)


def test_an_iterator_leaves_the_episodes_before_the_one_that_is_refused(tmp_path: Path) -> None:
    one = simulate((3, 4, 5))
    put(one, "states", 2, (1, 1), np.nan)

    def states() -> Iterator[np.ndarray]:
        yield from one.states

    told = r"states\[2\]: qpos of joint 'x' is nan at tick 1; .*; the 2 episodes before it are in .*session_"
    with pytest.raises(lr.SettingsError, match=told):
        lr.record_trajectories(one.model, states=states(), ctrl=one.ctrl, success=True, output_dir=tmp_path)
    (path,) = tmp_path.glob("DataSessions/*")
    assert [episode.length for episode in check_session(path)] == [3, 4]


def test_what_an_iterator_raises_is_raised(tmp_path: Path) -> None:
    one = simulate((3, 4))

    def states() -> Iterator[np.ndarray]:
        yield one.states[0]
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="the file ends here"):
        lr.record_trajectories(one.model, states=states(), ctrl=one.ctrl, success=True, output_dir=tmp_path)
    (path,) = tmp_path.glob("DataSessions/*")
    assert len(check_session(path)) == 1


def test_a_column_that_cannot_be_recorded_fails_its_episode(tmp_path: Path) -> None:
    columns = [
        lr.Column("root", lambda moment: np.sqrt(0.15 - moment.data.time) if moment.data.time < 0.15 else np.nan)
    ]
    with pytest.raises(lr.CaptureError, match="column 'root': nan is not finite"):
        given(tmp_path, simulate((12,)), columns=columns)
    (path,) = tmp_path.glob("DataSessions/*")
    session = check_session(path)
    assert session.episodes["end_reason"].to_pylist() == ["error"]
    assert session.episode(0).length == 8
