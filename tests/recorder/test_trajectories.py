"""Trajectories: what is recorded of states and commands is what is recorded of the simulation that made them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.door import simulator
from lucky_recorder.recorder import buffer, trail, walk
from lucky_recorder.testing import check_session
from tests.recorder.trajectories import FRONT, HZ, RICH, XML, Simulated, given, live, simulate
from tests.same import bytes_of


def speed(moment: Any) -> np.ndarray:
    return moment.data.sensor("speed").data.copy()


def rise(moment: Any) -> float:
    return float(moment.data.body("cart").xpos[0] + moment.data.time)


SIDE = lr.Camera("side", width=64, height=48, depth_mode="rgbd", masks=["cart"], frame_rate=10)
NOISY = lr.Camera(
    "front",
    source=FRONT.source,
    width=64,
    height=48,
    depth_mode="separate",
    sensor_model="ActiveStereo",
    record_pose=True,
)
KINDS: dict[str, dict[str, Any]] = {
    "arm": {},
    "scene, slower rows": {"mode": "full_scene", "data_hz": 10},
    "custom": {
        "mode": "custom",
        "columns": [lr.Column("q", "qpos:swing"), lr.Column("v", "qvel:x"), lr.Column("u", "ctrl:push")],
    },
    "looked at": {
        "columns": [
            lr.Column("at", "sensor:at"),
            lr.Column("place", "xpos:cart", shape=(3,)),
            lr.Column("speed", speed, shape=(3,)),
            lr.Column("rise", rise, when="after"),
        ]
    },
    "pictures": {
        "cameras": [NOISY, SIDE],
        "record_masks": True,
        "lidars": [lr.Lidar("eye", rate=25)],
        "render_quality": "fastest",
        "xml": RICH,
    },
}


def session_of(path: Path) -> dict[str, bytes]:
    """Every byte of a session, but for what says when it was."""
    return bytes_of(path)


@pytest.mark.parametrize("is_kept", [False, True], ids=["rows", "states"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_session_that_was_recorded_live(kind: str, is_kept: bool, tmp_path: Path) -> None:
    settings = {**KINDS[kind], "keep_states": is_kept}
    xml = settings.pop("xml", RICH if kind == "looked at" else XML)
    recorded = given(tmp_path / "given", simulate(xml=xml), **settings)
    check_session(recorded)
    assert session_of(recorded) == session_of(live(tmp_path / "live", xml=xml, **settings))


@pytest.mark.parametrize("kind", ["arm", "scene, slower rows", "custom"])
@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
def test_many_ticks_at_once_are_the_same_as_one_by_one(
    kind: str, is_long: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = (1024, 2500, 1) if is_long else (1, 5)
    if is_long:
        monkeypatch.setattr(trail, "MOST_HELD_BYTES", 9000)
        monkeypatch.setattr(buffer, "MOST_HELD_BYTES", 9000)
    simulated = simulate(lengths)
    settings = {**KINDS[kind], "keep_states": True, "resets": [[0], [0, 3], []], "policy_period": 3}
    settings["resets"] = settings["resets"][: len(lengths)]
    sessions = []
    for is_stepped in (False, True):
        if is_stepped:
            monkeypatch.setattr(walk, "_stands_in_states", lambda source: False)
        sessions.append(session_of(given(tmp_path / str(is_stepped), simulated, **settings)))
    assert sessions[0] == sessions[1]


def as_list(one: Simulated) -> dict[str, Any]:
    return {"states": one.states, "ctrl": one.ctrl}


def as_arrays(one: Simulated) -> dict[str, Any]:
    return {"states": np.array(one.states), "ctrl": np.array(one.ctrl)}


def as_objects(one: Simulated) -> dict[str, Any]:
    states = np.empty(2, object)
    states[:] = one.states
    return {"states": states, "ctrl": one.ctrl}


def as_generators(one: Simulated) -> dict[str, Any]:
    return {"states": iter(one.states), "ctrl": (ctrl for ctrl in one.ctrl), "success": iter([True, False])}


class Elsewhere:
    """An array of another library, that shares its memory."""

    def __init__(self, values: Any) -> None:
        self._values = np.array(values)

    def __dlpack__(self, **asked: Any) -> Any:
        return self._values.__dlpack__(**asked)

    def __dlpack_device__(self) -> Any:
        return self._values.__dlpack_device__()


def as_shared(one: Simulated) -> dict[str, Any]:
    return {"states": Elsewhere(one.states), "ctrl": [Elsewhere(ctrl) for ctrl in one.ctrl]}


def as_views(one: Simulated) -> dict[str, Any]:
    return {"states": np.asfortranarray(one.states), "ctrl": [np.repeat(ctrl, 2, 1)[:, ::2] for ctrl in one.ctrl]}


def as_parts(one: Simulated) -> dict[str, Any]:
    parts = {"time": [s[:, :1] for s in one.states], "qpos": one.qpos(), "qvel": one.qvel()}
    return {"states": {**parts, "mocap_pos": [s[:, -7:-4] for s in one.states]}, "ctrl": one.ctrl}


WAYS = [as_list, as_arrays, as_objects, as_generators, as_shared, as_views]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_arrays_come_in_many_ways(way: Any, tmp_path: Path) -> None:
    one = simulate((9, 9))
    fields = {"success": [True, False], **way(one)}
    path = lr.record_trajectories(one.model, output_dir=tmp_path / "given", keep_states=True, **fields)
    assert session_of(path) == session_of(live(tmp_path / "live", (9, 9), keep_states=True))


@pytest.mark.filterwarnings("ignore:the model has mocap bodies")
def test_parts_of_states_are_put_where_they_belong(tmp_path: Path) -> None:
    one = simulate(xml=RICH)
    cameras = {"cameras": [FRONT], "render_quality": "fastest"}
    whole = given(tmp_path / "whole", one, **cameras)
    physics = [np.concatenate([s[:, :1], q, v], 1) for s, q, v in zip(one.states, one.qpos(), one.qvel(), strict=True)]
    apart = {"ctrl": one.ctrl, "success": [True, False], **cameras}
    paths = [
        lr.record_trajectories(one.model, states=physics, output_dir=tmp_path / "1", **apart),
        lr.record_trajectories(
            one.model, qpos=one.qpos(), qvel=one.qvel(), control_hz=HZ, output_dir=tmp_path / "2", **apart
        ),
    ]
    rows = [lr.Session(path).episode(1).rows() for path in (whole, *paths)]
    assert rows[0].equals(rows[1])
    assert rows[0].equals(rows[2])
    # Where the mocap body is, only whole states say.
    pictures = [np.array(list(lr.Session(p).episode(0).frames("observation.images.front"))) for p in (whole, *paths)]
    assert (pictures[0] != pictures[1]).any()
    assert (pictures[1] == pictures[2]).all()
    moved = np.array([0, 0.3, 0.1])
    told = {"qpos": one.qpos(), "qvel": one.qvel(), "mocap_pos": [np.tile(moved, (13, 1)), np.tile(moved, (8, 1))]}
    told["mocap_quat"] = [np.tile([1.0, 0, 0, 0], (n, 1)).reshape(n, 1, 4) for n in (13, 8)]
    path = lr.record_trajectories(one.model, states=told, control_hz=HZ, output_dir=tmp_path / "3", **apart)
    assert (np.array(list(lr.Session(path).episode(0).frames("observation.images.front"))) == pictures[0]).all()


@pytest.mark.filterwarnings("ignore:the model has mocap bodies")
@pytest.mark.parametrize("is_stepped", [False, True])
def test_what_is_not_given_of_a_state_is_as_in_fresh_data_or_follows(
    is_stepped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_stepped:
        monkeypatch.setattr(walk, "_stands_in_states", lambda source: False)
    one = simulate((1100,))
    layout = simulator.StateLayout(one.model)
    whole, physics = one.states[0], slice(0, 1 + one.model.nq + one.model.nv)
    path = lr.record_trajectories(
        one.model, states=[whole[:, physics]], ctrl=one.ctrl, success=True, keep_states=True, output_dir=tmp_path
    )
    kept = check_session(path).episode(0).states()
    for part, place in layout.parts.items():
        wanted = np.tile(layout.fresh[place], (1101, 1)) if part in ("warmstart", "mocap_pos") else whole[:, place]
        assert np.array_equal(kept.states[:, place], wanted), part
    # Without the solver's warm start nobody steps to the same last bit.
    assert kept.not_brought_back == (trail.NOT_FOLLOWING,)


def test_bodies_that_nobody_places_are_told_of_once(tmp_path: Path) -> None:
    one = simulate()
    apart = {"qpos": one.qpos(), "qvel": one.qvel(), "ctrl": one.ctrl, "control_hz": HZ}
    with pytest.warns(RuntimeWarning, match="the model has mocap bodies, and nothing says their mocap_pos") as told:
        lr.record_trajectories(one.model, success=True, output_dir=tmp_path, **apart)
    assert len(told) == 1


def test_states_of_single_precision_have_even_times(tmp_path: Path) -> None:
    one = simulate((400,))
    one.states[0][:, 0] += 80
    single = [s.astype(np.float32) for s in one.states]
    for states in (single, [s.astype(np.float64) for s in single]):
        path = lr.record_trajectories(one.model, states=states, ctrl=one.ctrl, success=True, output_dir=tmp_path)
        session = check_session(path)
        assert session.hz == HZ
        assert np.array_equal(np.array(session.episode(0).rows()["observation.state"].to_pylist()), single[0][:-1, 1:2])


def test_slower_rows_are_every_so_many_ticks(tmp_path: Path) -> None:
    one = simulate((21,))
    session = check_session(given(tmp_path, one, data_hz=10))
    rows = session.episode(0).rows()
    assert np.array_equal(np.array(rows["observation.state"].to_pylist())[:, 0], one.states[0][:-1:5, 1])
    assert np.array_equal(np.array(rows["action"].to_pylist()), one.ctrl[0][::5])


# What stands after the last tick.


@pytest.mark.parametrize("is_stepped", [False, True])
def test_the_last_state_is_no_row_and_is_kept(
    is_stepped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_stepped:
        monkeypatch.setattr(walk, "_stands_in_states", lambda source: False)
    one = simulate((12,))
    known = check_session(given(tmp_path, one, keep_states=True)).episode(0)
    cut = one._replace(states=[one.states[0][:-1]])
    unknown = check_session(given(tmp_path, cut, keep_states=True)).episode(0)
    gap = one._replace(states=[np.concatenate([one.states[0][:-1], np.full_like(one.states[0][:1], np.nan)])])
    assert known.length == unknown.length == 12
    assert np.array_equal(known.states().states, one.states[0])
    assert known.states().about["ended"] is True
    assert lr.replay(lr.Session(known.path if hasattr(known, "path") else known.states_path().parents[2]), 0).is_same
    for episode in (unknown, check_session(given(tmp_path, gap, keep_states=True)).episode(0)):
        assert episode.states().about["ended"] is False
        assert np.array_equal(episode.states().states[:-1], one.states[0][:-1])


def test_success_may_be_asked_of_the_last_state(tmp_path: Path) -> None:
    one, seen = simulate(), []

    def has_moved(moment: Any) -> bool:
        seen.append((moment.data.time, float(moment.data.qpos[0]), float(moment.data.body("cart").xpos[0])))
        return len(seen) == 2

    session = check_session(given(tmp_path, one, success=has_moved))
    assert [episode.success for episode in session] == [False, True]
    assert seen == [(s[-1, 0], s[-1, 1], s[-1, 1]) for s in one.states]


def test_a_failing_function_ends_the_episode_as_failed(tmp_path: Path) -> None:
    def fails(moment: Any) -> bool:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        given(tmp_path, simulate(), success=fails)
    (path,) = tmp_path.glob("DataSessions/*")
    assert check_session(path).episodes["end_reason"].to_pylist() == ["error"]


# What else is said of episodes.


def test_flags_tasks_and_verdicts(tmp_path: Path) -> None:
    one = simulate((6, 6, 6))
    session = check_session(
        given(
            tmp_path,
            one,
            tasks=["Push", "Pull"],
            task_index=[1, 0, 1],
            success=np.array([1, 0, 1]),
            resets=[[], [0], np.array([0, 4])],
            new_policy_step=np.eye(3, 6),
        )
    )
    assert [episode.tasks for episode in session] == [("Pull",), ("Push",), ("Pull",)]
    assert session.episodes["success"].to_pylist() == [True, False, True]
    assert session.episodes["seed"].to_pylist() == [None] * 3
    flags = [episode.rows()["frame_flags"].to_pylist() for episode in session]
    assert flags == [[1, 0, 0, 0, 0, 0], [2, 1, 0, 0, 0, 0], [2, 0, 1, 0, 2, 0]]


def test_the_settings_of_a_recording_hold(tmp_path: Path) -> None:
    one = simulate((4, 5, 6, 7, 8))
    settings = {"episode_trigger": lambda n: n != 1, "total_episodes": 2, "discard_and_retry_failed": True}
    session = check_session(given(tmp_path, one, success=[False, True, True, True, True], **settings))
    assert [episode.length for episode in session] == [6, 7]
    more = check_session(given(Path(), simulate((3,)), resume=session.path, output_dir="."))
    assert [episode.length for episode in more] == [6, 7, 3]


def test_an_iterator_may_change_the_model_between_episodes(tmp_path: Path) -> None:
    one = simulate()

    def states() -> Iterator[np.ndarray]:
        for number, values in enumerate(one.states):
            one.model.opt.gravity[2] = -number
            yield values

    path = lr.record_trajectories(
        one.model, states=states(), ctrl=one.ctrl, success=True, keep_states=True, output_dir=tmp_path
    )
    assert len({episode.model() for episode in check_session(path)}) == 2


def test_uneven_ticks_are_counted_where_they_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = simulate((9,))
    one.states[0][4:, 0] += 0.003
    for is_stepped in (False, True):
        if is_stepped:
            monkeypatch.setattr(walk, "_stands_in_states", lambda source: False)
        with pytest.warns(RuntimeWarning, match=r"^1 steps lasted another time than 0\.02 s"):
            assert check_session(given(tmp_path, one, uneven_steps="allow")).hz == HZ


def test_nothing_of_it_stays_in_memory(tmp_path: Path) -> None:
    one = simulate((3,))
    given(tmp_path, one)
    gc.collect()
    assert not [found for found in gc.get_objects() if type(found) is walk.Walk]
