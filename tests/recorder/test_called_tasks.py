"""Tasks that a callable says: when it is asked, and what it is given to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.rollouts.evaluate import evaluate
from lucky_recorder.testing import CountEnv
from tests.recorder.saying import KEY, Says, listed, tasks_of
from tests.recorder.stepping import steps


def by_position(moment: Any) -> str:
    """Say the task by where the counter stands."""
    return "Low" if moment.data.qpos[0] % 100 < 2 else "High"


def test_it_is_asked_before_each_row_and_given_what_is_known_then(record: Any, run: Any, read_back: Any) -> None:
    asked = []

    def say(moment: Any) -> str:
        seen = int(moment.obs[0]), int(moment.data.qpos[0]), moment.env.count, moment.robot, moment.info.get(KEY)
        asked.append(seen)
        return f"at {moment.obs[0]:g}"

    env = record(Says(lambda e, t: f"info {e}.{t}", 3, mujoco=True), mode="robot_arm", task=say)
    run(env, episodes=2)
    env.close()
    counts = [(e, t, 100 * e + t) for e in (0, 1) for t in range(3)]
    # The info is that of the reset, or of the step before: what the coming step returns is not known yet.
    assert asked == [(count, count, count, "", f"info {e}.{t}") for e, t, count in counts]
    found = tasks_of(env.session_path, read_back(env.session_path))
    assert found == [[f"at {100 * e + t}" for t in range(3)] for e in (0, 1)]


def test_none_lets_the_task_stay_also_from_one_episode_to_the_next(record: Any, run: Any, read_back: Any) -> None:
    said = {1: "Pick", 102: "Place"}
    env = record(CountEnv(4), task=lambda moment: said.get(int(moment.obs[0])), tasks=["Wait"])
    with pytest.warns(UserWarning, match=r"the callable gave None, so nothing says .* let it say the first"):
        run(env, episodes=2)
    env.close()
    found = tasks_of(env.session_path, read_back(env.session_path))
    assert found == [["Wait", "Pick", "Pick", "Pick"], ["Pick", "Pick", "Place", "Place"]]


def test_rows_slower_than_steps_ask_once_a_row(record: Any, run: Any, read_back: Any) -> None:
    asked = []
    env = record(CountEnv(4), data_hz=25, task=lambda moment: asked.append(moment.obs[0]) or f"{moment.obs[0]:g}")
    run(env)
    env.close()
    assert asked == [0, 2]
    assert tasks_of(env.session_path, read_back(env.session_path)) == [["0", "2"]]


@pytest.mark.parametrize("name", ["reward", "action", "terminated", "done", "success"])
def test_what_the_step_says_is_refused(record: Any, run: Any, name: str) -> None:
    env = record(CountEnv(3), task=lambda moment: str(getattr(moment, name)))
    with pytest.raises(lr.CaptureError, match=rf"^task=.*: moment\.{name} is known after the step"):
        run(env)


@pytest.mark.parametrize("value", ["", 5, ["Pick"], False])
def test_what_is_no_text_fails_its_episode_only(record: Any, run: Any, read_back: Any, value: Any) -> None:
    said = [*["Pick"] * 2, value, *[None] * 4]
    env = record(CountEnv(4), task=lambda moment: said.pop(0))
    with pytest.raises(lr.CaptureError, match=r"^task=.*: the callable gave "):
        run(env)
    run(env)
    env.close()
    assert tasks_of(env.session_path, read_back(env.session_path)) == [["Pick"] * 2, ["Pick"] * 4]


def test_what_it_raises_fails_its_episode_only(record: Any, run: Any, read_back: Any) -> None:
    env = record(CountEnv(4), task=lambda moment: "Pick" if moment.obs[0] != 2 else [][0])
    with pytest.raises(IndexError):
        run(env)
    run(env)
    env.close()
    assert tasks_of(env.session_path, read_back(env.session_path)) == [["Pick"] * 2, ["Pick"] * 4]


def test_an_observer_asks_it_too_by_its_name(bare: Any, read_back: Any) -> None:
    observer, advance = bare(task=f"{__name__}:by_position")
    observer.start_recording()
    advance(4)
    observer.end_current_episode(success=True)
    advance(2)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    found = tasks_of(observer.session_path, read_back(observer.session_path))
    assert found == [["Low", "Low", "High", "High"], ["High", "High"]]
    assert listed(observer.session_path) == ["Low", "High"]


def test_all_robots_of_a_tick_share_it(tmp_path: Path, read_back: Any) -> None:
    arm = '<body name="{0}"><joint name="{0}" type="slide"/><geom size=".1"/></body>'
    drive = '<motor name="{0}" joint="{0}"/>'
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody>{}</worldbody><actuator>{}</actuator></mujoco>".format(
            *("".join(part.format(name) for name in ("left", "right")) for part in (arm, drive))
        )
    )
    data = mujoco.MjData(model)
    with lr.Observer(
        output_dir=tmp_path,
        data_hz=500,
        robots=["left", "right"],
        columns=[lr.Column("robot", lambda m: m.robot == "right", "bool")],
        task=lambda moment: f"{moment.robot}{moment.data.time > 0.0015}",
        model=model,
        data=data,
    ) as observer:
        observer.start_recording()
        for _ in range(3):
            observer.tick()
            mujoco.mj_step(model, data)
        observer.end_current_episode(success=True)
    episodes = read_back(observer.session_path)
    assert tasks_of(observer.session_path, episodes) == [["False", "False", "True", "True", "True", "True"]]
    assert episodes[0].rows["robot"].tolist() == [False, True] * 3


@pytest.mark.parametrize("source", ["info:task", f"info:{KEY}"])
def test_an_observer_has_no_infos(bare: Any, tmp_path: Path, source: str) -> None:
    observer, _ = bare(task=source)
    with pytest.raises(lr.SettingsError, match=rf"^task='{source}': there is no Gymnasium environment .* a callable"):
        observer.start_recording()
    assert list(tmp_path.iterdir()) == []


def test_a_function_that_is_not_there_is_refused_before_anything_is_written(record: Any, tmp_path: Path) -> None:
    env = record(CountEnv(3), task="tests.recorder.saying:nothing")
    with pytest.raises(lr.SettingsError, match=r"^task='tests.recorder.saying:nothing': cannot be imported"):
        env.reset()
    assert list(tmp_path.iterdir()) == []


def test_a_callback_of_mujoco_is_not_called_for_it(bare: Any, tmp_path: Path) -> None:
    observer, _ = bare(task=by_position)
    mujoco.set_mjcb_control(lambda model, data: None)
    try:
        with pytest.raises(lr.SettingsError, match=r"^task=.*mjcb_control.* use 'info:KEY', or list the tasks"):
            observer.start_recording()
    finally:
        mujoco.set_mjcb_control(None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("source", [by_position, f"info:{KEY}"], ids=["callable", "info"])
def test_a_policy_is_told_the_task_of_the_row_that_it_acts_in(record: Any, read_back: Any, source: Any) -> None:
    env = record(
        Says(lambda e, t: "Low" if t < 2 else "High", 4, mujoco=True, succeeds=True), mode="robot_arm", task=source
    )
    told = []

    def policy(observation: dict[str, Any]) -> Any:
        told.append(observation["task_description"])
        return np.zeros(1, np.float32)

    evaluate(env, policy, action="gym", episodes=2)
    env.close()
    found = tasks_of(env.session_path, read_back(env.session_path))
    assert found == [["Low", "Low", "High", "High"]] * 2 == [told[:4], told[4:]]


def test_what_it_is_given_cannot_be_changed_by_the_environment(record: Any, read_back: Any) -> None:
    seen = []
    env = record(Says(lambda e, t: f"{t}", 3), task=lambda moment: seen.append(moment.info) or "Pick")
    env.reset()
    steps(env, 3)
    env.close()
    assert [info[KEY] for info in seen] == ["0", "1", "2"]
