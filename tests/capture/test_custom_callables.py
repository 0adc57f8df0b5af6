"""Columns of the user's own making: what a callable sees, what it may return, and how that is stored."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.errors import CaptureError, SettingsError
from lucky_recorder.testing import CountEnv
from tests.capture.models import features, forward, rows, scene, source_of, state


def speed(moment: Any) -> float:
    """A column of the user's own, found by its name."""
    return float(moment.data.qvel[0])


def test_a_callable_by_its_name_or_itself() -> None:
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    data.qvel[0] = 0.75
    columns = [lr.Column("a", f"{__name__}:speed"), lr.Column("b", speed), lr.Column("c", lambda m: m.data.time)]
    derived = rows(source_of(model, "custom", data, columns=columns), 1, lambda step: None)
    assert (derived["a"].tolist(), derived["b"].tolist(), derived["c"].tolist()) == ([0.75], [0.75], [0.0])


def test_a_callable_that_cannot_be_imported_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"column 'c': source='no\.such:thing'.*cannot be imported"):
        features(scene("joint_zoo"), "custom", columns=[lr.Column("c", "no.such:thing")])


def test_a_callable_sees_everything_that_follows_from_the_state() -> None:
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    data.qvel[:] = 1
    mujoco.mj_step(model, data, 10)
    known = forward(model, state(model, data))
    columns = [
        lr.Column("acc", lambda m: m.data.qacc, shape=(model.nv,)),
        lr.Column("sensors", lambda m: m.data.sensordata, shape=(model.nsensordata,)),
    ]
    derived = rows(source_of(model, "custom", data, columns=columns), 1, lambda step: None)
    np.testing.assert_array_equal(derived["acc"][0], known.qacc)
    np.testing.assert_array_equal(derived["sensors"][0], known.sensordata)


def test_a_callable_is_asked_once_per_robot() -> None:
    model = scene("twin_arms")
    data = mujoco.MjData(model)
    data.qpos[[0, 6]] = 0.25, 0.5

    def pan(moment: Any) -> float:
        return float(moment.data.joint(moment.robot.replace("base", "shoulder_pan")).qpos[0])

    columns = [lr.Column("pan", pan), lr.Column("hand", lambda m: m.data.body(m.robot).xpos, shape=(3,))]
    derived = rows(
        source_of(model, data=data, robots=("left_base", "right_base"), columns=columns), 2, lambda step: None
    )
    assert derived["pan"].tolist() == [0.25, 0.5] * 2
    np.testing.assert_allclose(derived["hand"][:2, 1], [0.17, -0.17])


def test_a_callable_may_reuse_its_array() -> None:
    held = np.zeros(2)

    def fill(moment: Any) -> Any:
        held[:] = len(moment.robot), moment.data.time
        return held

    model = scene("twin_arms")
    data = mujoco.MjData(model)

    def act(step: int) -> None:
        data.time += 0.02

    robots = ("left_base", "right_base")
    source = source_of(model, data=data, robots=robots, columns=[lr.Column("c", fill, shape=(2,))])
    assert rows(source, 2, act)["c"].tolist() == [[9, 0], [10, 0], [9, 0.02], [10, 0.02]]


@pytest.mark.parametrize(
    ("source", "column", "why"),
    [
        (lambda m: [1, 2], {}, r"shape \(2,\)"),
        (lambda m: 1.0, {"shape": (2,)}, r"shape \(\)"),
        (lambda m: None, {}, "no number"),
        (lambda m: "x", {}, "no number"),
        (lambda m: np.nan, {}, "not finite"),
        (lambda m: np.inf, {"dtype": "float32"}, "not finite"),
        (lambda m: 300, {"dtype": "uint8"}, "does not fit uint8"),
        (lambda m: 0.5, {"dtype": "int64"}, "does not fit int64"),
    ],
)
def test_what_a_callable_may_not_return(source: Any, column: dict[str, Any], why: str) -> None:
    made = source_of(scene("joint_zoo"), "custom", columns=[lr.Column("mine", source, **column)])
    with pytest.raises(CaptureError, match=f"column 'mine'.*{why}"):
        rows(made, 1, lambda step: None)


def test_an_error_of_a_callable_reaches_the_caller_and_fails_the_episode(record: Any, read_back: Any) -> None:
    def late(moment: Any) -> float:
        if moment.obs[0] == 2:
            raise ZeroDivisionError("mine")
        return 1.0

    env = record(CountEnv(length=5), columns=[lr.Column("c", late)])
    env.reset()
    env.step(np.zeros(1))
    env.step(np.zeros(1))
    with pytest.raises(ZeroDivisionError, match="mine"):
        env.step(np.zeros(1))
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.meta["success"] is False
    assert len(episode.rows["c"]) == 2


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]
)
@pytest.mark.parametrize("shape", [(), (2,), (2, 2)])
def test_every_dtype_and_shape_comes_back_from_the_file(
    record: Any, read_back: Any, run: Any, dtype: str, shape: tuple[int, ...]
) -> None:
    given = [(np.arange(np.prod(shape, dtype=int)).reshape(shape) + t) % 2 for t in range(3)]
    env = record(CountEnv(), columns=[lr.Column("c", lambda m: given[int(m.obs[0]) % 100], dtype=dtype, shape=shape)])
    run(env)
    env.close()
    [episode] = read_back(env.session_path)
    assert episode.rows["c"].reshape(3, *shape).tolist() == np.array(given, dtype).tolist()
    schema = pq.read_schema(env.session_path / "data/chunk-000/file-000.parquet")
    leaf = schema.field("c").type
    while hasattr(leaf, "value_type"):
        leaf = leaf.value_type
    assert str(leaf).replace("float", "float32").replace("double", "float64") == dtype
