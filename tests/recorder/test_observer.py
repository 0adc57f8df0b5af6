"""The life cycle of a session on a bare model: every verb in every state, and what each leaves in the files."""

from __future__ import annotations

import copy
import gc
import json
import logging
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pandas as pd
import pytest

import lucky_recorder as lr
from lucky_recorder.recorder.observer import State
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.testing import MemorySink

IDLE, IN, BETWEEN = State.IDLE, State.IN_EPISODE, State.BETWEEN_EPISODES
VERBS = {
    "start_recording": (lambda o: o.start_recording(), {IDLE: IN}),
    "stop_recording": (lambda o: o.stop_recording(), {IN: IDLE, BETWEEN: IDLE}),
    "begin_episode": (lambda o: o.begin_episode(), {BETWEEN: IN}),
    "tick": (lambda o: o.tick(), {IN: IN, BETWEEN: IN}),
    "end_current_episode": (lambda o: o.end_current_episode(True), {IN: BETWEEN}),
    "end_current_episode_begin_next": (lambda o: o.end_current_episode_begin_next(True), {IN: IN}),
    "register_task": (lambda o: o.register_task("Stack the cubes"), {IDLE: IDLE}),
    "set_current_task_index": (lambda o: o.set_current_task_index(0), {IDLE: IDLE, IN: IN, BETWEEN: BETWEEN}),
    "mark_reset": (lambda o: o.mark_reset(), {IN: IN, BETWEEN: BETWEEN}),
    "flush": (lambda o: o.flush(), {IN: IN, BETWEEN: BETWEEN}),
}
CASES = [(verb, state) for verb in VERBS for state in State]


def lead_to(observer: lr.Observer, state: State) -> None:
    if state is not IDLE:
        observer.start_recording()
    if state is BETWEEN:
        observer.end_current_episode(True)
    assert observer.state is state


@pytest.mark.parametrize(("verb", "state"), CASES, ids=[f"{v}-{s.value}" for v, s in CASES])
def test_a_verb_works_in_its_states_and_says_the_state_in_all_others(bare: Any, verb: str, state: State) -> None:
    observer, _ = bare()
    lead_to(observer, state)
    call, leads_to = VERBS[verb]
    if state in leads_to:
        call(observer)
        assert observer.state is leads_to[state]
        assert observer.is_recording is (observer.state is not IDLE)
        return
    with pytest.raises(lr.StateError, match=rf"{verb}\(\) needs .*, but it is {state.value}") as raised:
        call(observer)
    assert observer.state is state
    assert ("start_recording() was not called yet" in str(raised.value)) is (state is IDLE)


def test_idle_says_why(bare: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    observer.stop_recording()
    with pytest.raises(lr.StateError, match=r"Idle: stop_recording\(\) was called"):
        advance()


def test_a_constructor_touches_nothing(bare: Any, tmp_path: Path) -> None:
    before = threading.active_count()
    observer, _ = bare(output_dir=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert threading.active_count() == before
    assert (observer.session_path, observer.is_recording, observer.counts, observer.koyu_path) == (
        None,
        False,
        None,
        None,
    )


def test_started_again_it_writes_another_session(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    paths = []
    for ticks in (2, 3):
        paths.append(observer.start_recording())
        advance(ticks)
        observer.end_current_episode(success=True)
        observer.stop_recording()
    assert paths[0] != paths[1] == observer.session_path
    assert [e.rows["observation.state"][:, 0].tolist() for p in paths for e in read_back(p)] == [[0, 1], [2, 3, 4]]
    assert {e.rows["index"][0] for p in paths for e in read_back(p)} == {0}


def test_two_observers_in_one_second_write_two_folders(bare: Any, read_back: Any) -> None:
    observers = [bare() for _ in range(3)]
    paths = {observer.start_recording() for observer, _ in observers}
    assert len(paths) == 3
    for number, (observer, advance) in enumerate(observers):
        advance(number + 1)
        observer.stop_recording()
        assert [e.meta["length"] for e in read_back(observer.session_path)] == [number + 1]


def test_a_tick_after_an_end_begins_the_next_episode(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    for ticks, success in ((3, True), (1, False), (2, True)):
        advance(ticks)
        observer.end_current_episode(success)
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    assert [e.rows["observation.state"][:, 0].tolist() for e in episodes] == [[0, 1, 2], [3], [4, 5]]
    assert [e.rows["action"][:, 0].tolist() for e in episodes] == [[0, 1, 2], [3], [4, 5]]
    assert [e.meta["success"] for e in episodes] == [True, False, True]
    assert [e.rows["timestamp"].tolist() for e in episodes] == [[0, 0.02, 0.04], [0], [0, 0.02]]


def test_end_and_begin_next_loses_no_tick(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    for _ in range(3):
        advance(2)
        observer.end_current_episode_begin_next(success=True)
        assert observer.state is IN
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    assert [e.rows["observation.state"][:, 0].tolist() for e in episodes] == [[0, 1], [2, 3], [4, 5]]


def test_an_episode_without_a_row_takes_no_index(bare: Any, read_back: Any) -> None:
    observer, advance = bare(total_episodes=2)
    observer.start_recording()
    for _ in range(3):
        observer.end_current_episode_begin_next(success=True)
    advance(2)
    observer.end_current_episode(success=True)
    observer.begin_episode()
    observer.end_current_episode(success=True)
    assert observer.is_recording
    observer.stop_recording()
    assert [(e.meta["episode_index"], e.meta["length"]) for e in read_back(observer.session_path)] == [(0, 2)]


def test_a_session_without_episodes_is_sound(bare: Any, read_back: Any) -> None:
    observer, _ = bare()
    observer.start_recording()
    observer.stop_recording()
    assert read_back(observer.session_path) == []


@pytest.mark.parametrize("discards", [False, True])
def test_a_stop_while_open_fails_the_episode(bare: Any, read_back: Any, discards: bool) -> None:
    observer, advance = bare(discard_and_retry_failed=discards)
    observer.start_recording()
    advance(2)
    observer.end_current_episode(success=True)
    advance(3)
    observer.stop_recording()
    kept = [(2, True)] if discards else [(2, True), (3, False)]
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == kept


@pytest.mark.parametrize("discards", [False, True])
def test_the_longest_episode_ends_as_failed_and_the_next_tick_begins_another(
    bare: Any, read_back: Any, discards: bool
) -> None:
    observer, advance = bare(max_episode_length_s=0.06, discard_and_retry_failed=discards)
    observer.start_recording()
    advance(8)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    rows = [(e.meta["success"], e.rows["observation.state"][:, 0].tolist()) for e in episodes]
    last = (True, [6, 7])
    assert rows == ([last] if discards else [(False, [0, 1, 2]), (False, [3, 4, 5]), last])


def test_an_episode_exactly_as_long_as_allowed_keeps_its_verdict(bare: Any, read_back: Any) -> None:
    observer, advance = bare(max_episode_length_s=0.06)
    observer.start_recording()
    advance(3)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(3, True)]


def test_the_session_stops_by_itself_with_one_notice(
    bare: Any, read_back: Any, caplog: pytest.LogCaptureFixture
) -> None:
    observer, advance = bare(total_episodes=2)
    observer.start_recording()
    with caplog.at_level(logging.WARNING, "lucky_recorder"):
        for _ in range(2):
            assert observer.is_recording
            advance(2)
            observer.end_current_episode_begin_next(success=False)
    assert observer.state is IDLE
    assert [r.getMessage() for r in caplog.records] == [
        f"total_episodes=2 reached: {observer.session_path} is complete"
    ]
    with pytest.raises(lr.StateError, match=r"tick\(\) needs .* it is Idle: .* by itself after total_episodes=2"):
        advance()
    assert [e.meta["length"] for e in read_back(observer.session_path)] == [2, 2]


def test_a_loop_while_recording_ends_without_an_error(bare: Any, read_back: Any) -> None:
    observer, advance = bare(total_episodes=2, max_episode_length_s=0.04)
    observer.start_recording()
    while observer.is_recording:
        advance()
    assert [e.rows["observation.state"][:, 0].tolist() for e in read_back(observer.session_path)] == [[0, 1], [2, 3]]


def test_discarded_episodes_do_not_count_towards_the_total(bare: Any, read_back: Any) -> None:
    observer, advance = bare(total_episodes=2, discard_and_retry_failed=True)
    observer.start_recording()
    for success in (False, True, False, False):
        advance(2)
        observer.end_current_episode(success)
        assert observer.is_recording
    advance(1)
    observer.end_current_episode(success=True)
    assert not observer.is_recording
    assert (observer.counts.kept, observer.counts.discarded, observer.counts.rows) == (2, 3, 3)
    episodes = read_back(observer.session_path)
    assert [e.rows["observation.state"][:, 0].tolist() for e in episodes] == [[2, 3], [8]]
    assert [e.meta["episode_index"] for e in episodes] == [0, 1]


# Tasks.


def test_tasks_are_numbered_listed_and_kept_from_the_call_on(bare: Any, read_back: Any) -> None:
    observer, advance = bare(tasks=["Pick"])
    assert [observer.register_task("Place"), observer.register_task("Stapeln, bitte: ⬒")] == [1, 2]
    observer.start_recording()
    advance(1)
    observer.set_current_task_index(2)
    advance(2)
    observer.set_current_task_index(np.int64(1))
    observer.end_current_episode(success=True)
    advance(2)
    observer.stop_recording()
    first, second = read_back(observer.session_path)
    assert first.rows["task_index"].tolist() == [0, 2, 2]
    assert second.rows["task_index"].tolist() == [1, 1]
    assert (first.meta["tasks"], second.meta["tasks"]) == (["Pick", "Stapeln, bitte: ⬒"], ["Place"])
    table = pd.read_parquet(observer.session_path / "meta/tasks.parquet")
    assert table["task_index"].to_dict() == {"Pick": 0, "Place": 1, "Stapeln, bitte: ⬒": 2}


def test_without_tasks_there_is_a_default_one(bare: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance()
    observer.stop_recording()
    assert pd.read_parquet(observer.session_path / "meta/tasks.parquet")["task_index"].to_dict() == {"Default Task": 0}


def test_a_task_may_be_registered_for_the_next_session(bare: Any) -> None:
    observer, _ = bare(tasks=["Pick"])
    first = observer.start_recording()
    observer.stop_recording()
    assert observer.register_task("Place") == 1
    second = observer.start_recording()
    observer.stop_recording()
    assert [lr.Session(p).tasks for p in (first, second)] == [["Pick"], ["Pick", "Place"]]


@pytest.mark.parametrize("index", [-1, 2, True, 1.0, "0", None], ids=repr)
@pytest.mark.parametrize("state", list(State), ids=lambda s: s.value)
def test_an_unknown_task_is_refused(bare: Any, index: Any, state: State) -> None:
    observer, _ = bare(tasks=["Pick", "Place"])
    lead_to(observer, state)
    with pytest.raises(lr.SettingsError, match=r"task index=.*give 0 to 1, or register the task before recording"):
        observer.set_current_task_index(index)


@pytest.mark.parametrize("description", ["", "  ", None, 3, "Pick"], ids=repr)
def test_a_task_that_is_empty_or_known_is_refused(bare: Any, description: Any) -> None:
    observer, _ = bare(tasks=["Pick"])
    with pytest.raises(lr.SettingsError, match="task="):
        observer.register_task(description)
    assert observer.register_task("Place") == 1


# Resets and flags.


def test_marked_rows_are_the_first_after_a_reset(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    observer.mark_reset()
    advance(2)
    observer.mark_reset()
    observer.mark_reset()
    advance(2, new_policy_step=False)
    observer.end_current_episode(success=True)
    advance(1)
    observer.end_current_episode(success=True)
    observer.mark_reset()
    advance(2)
    observer.stop_recording()
    flags = [e.rows["frame_flags"].tolist() for e in read_back(observer.session_path)]
    assert flags == [[3, 1, 2, 0], [1], [3, 1]]


def test_a_mark_does_not_outlive_its_session(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    observer.end_current_episode(success=True)
    observer.mark_reset()
    observer.stop_recording()
    observer.start_recording()
    advance()
    observer.stop_recording()
    assert [e.rows["frame_flags"].tolist() for e in read_back(observer.session_path)] == [[1]]


@pytest.mark.parametrize("between", [False, True], ids=["inside", "between"])
def test_one_robot_of_two_is_marked(tmp_path: Path, read_back: Any, between: bool) -> None:
    env = gym.make("LuckyRecorder/TwinArms-v0").unwrapped
    env.reset(seed=0)
    observer = lr.Observer(
        output_dir=tmp_path, data_hz=50, robots=["left_base", "right_base"], model=env.model, data=env.data
    )
    observer.start_recording()
    if between:
        observer.end_current_episode(success=True)
    observer.mark_reset("right_base")
    observer.tick()
    observer.tick()
    with pytest.raises(lr.SettingsError, match=r"robot='middle'.*known: left_base, right_base"):
        observer.mark_reset("middle")
    observer.stop_recording()
    (episode,) = read_back(observer.session_path)
    assert episode.rows["frame_flags"].reshape(2, 2).tolist() == [[1, 3], [1, 1]]
    assert episode.rows["frame_index"].tolist() == [0, 0, 1, 1]
    assert episode.meta["length"] == 4
    assert len(set(episode.rows["robot_id"].tolist())) == 2
    env.close()


def test_time_that_runs_backwards_fails_the_episode_and_names_mark_reset(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(3)
    observer.env.data.time = 0.0
    with pytest.raises(lr.CaptureError, match=r"time ran backwards, from 0\.04 s to 0 s, at tick 3.*mark_reset\(\)"):
        advance()
    assert observer.state is BETWEEN
    advance(2)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    assert [(e.meta["length"], e.meta["success"]) for e in episodes] == [(3, False), (2, True)]


def test_time_may_run_backwards_over_a_marked_reset(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(3)
    mujoco.mj_resetData(observer.env.model, observer.env.data)
    observer.mark_reset()
    advance(2)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    (episode,) = read_back(observer.session_path)
    assert episode.rows["frame_flags"].tolist() == [1, 1, 1, 3, 1]
    assert episode.rows["timestamp"].tolist() == [0, 0.02, 0.04, 0.06, 0.08]


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("array", ["qpos", "ctrl"])
def test_a_state_that_is_not_finite_is_refused(bare: Any, read_back: Any, array: str, value: float) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(2)
    getattr(observer.env.data, array)[0] = value
    with pytest.raises(lr.CaptureError, match=f"{array} holds NaN or infinity at tick 2"):
        observer.tick()
    observer.stop_recording()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(2, False)]


@pytest.mark.parametrize("tick", [1, 4], ids=["first-step", "later"])
def test_a_simulation_that_resets_itself_fails_the_episode(bare: Any, read_back: Any, tick: int) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(tick - 1)
    observer.tick()
    observer.env.data.qvel[0] = 1e30
    mujoco.mj_step(observer.env.model, observer.env.data, 10)
    with pytest.raises(lr.CaptureError, match=rf"reset itself.*at tick {tick}|at tick {tick}.*reset itself"):
        observer.tick()
    observer.mark_reset()
    advance(2)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    episodes = read_back(observer.session_path)
    assert [(e.meta["length"], e.meta["success"]) for e in episodes] == [(tick, False), (2, True)]


def test_where_mujoco_may_not_reset_itself_a_bad_state_is_found_all_the_same(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.env.model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    observer.start_recording()
    advance(2)
    observer.env.data.qvel[0] = np.nan
    mujoco.mj_step(observer.env.model, observer.env.data)
    with pytest.raises(lr.CaptureError, match="qpos holds NaN or infinity at tick 2"):
        observer.tick()
    observer.stop_recording()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(2, False)]


def test_ticks_at_another_rate_than_declared_are_warned_of_once(bare: Any, read_back: Any) -> None:
    observer, advance = bare(data_hz=25)
    observer.start_recording()
    with pytest.warns(RuntimeWarning, match=r"two ticks lie 0\.02 s .* rate 25 Hz says 0\.04 s.*set data_hz") as caught:
        advance(4)
    assert len(caught) == 1
    observer.stop_recording()
    assert len(read_back(observer.session_path)[0].rows["index"]) == 4


def test_a_warning_turned_into_an_error_costs_no_frame(bare: Any, read_back: Any, wall: Any) -> None:
    observer, advance = bare(data_hz=25, cameras=[wall])
    observer.start_recording()
    with pytest.raises(RuntimeWarning, match="two ticks lie"):
        advance(4)
    observer.stop_recording()
    (episode,) = read_back(observer.session_path)
    assert len(episode.frames["wall"]) == len(episode.rows["index"]) == 2
    assert episode.meta["success"] is False


# Verdicts.


@pytest.mark.parametrize("success", [None, "yes", 2, 0.5, "True", np.array([True, False])], ids=repr)
def test_a_verdict_that_is_no_truth_value_is_refused(bare: Any, success: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance()
    for verb in (observer.end_current_episode, observer.end_current_episode_begin_next):
        with pytest.raises(lr.SettingsError, match=r"success=.*give True or False"):
            verb(success)
    assert observer.state is IN


@pytest.mark.parametrize("reward", [-0.1, 1.1, np.nan, np.inf, "high"], ids=repr)
def test_a_reward_outside_0_to_1_is_refused(bare: Any, reward: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance()
    with pytest.raises(lr.SettingsError, match=r"reward=.*give a number from 0 to 1"):
        observer.end_current_episode(success=True, reward=reward)
    assert observer.state is IN


@pytest.mark.parametrize(("success", "kept"), [(np.True_, True), (1, True), (np.False_, False), (0, False)], ids=repr)
def test_verdict_and_reward_travel_with_the_episode(bare: Any, tmp_path: Path, success: Any, kept: bool) -> None:
    sink = MemorySink(tmp_path)
    observer, advance = bare(formats=(), sinks=[sink])
    observer.start_recording()
    advance()
    observer.end_current_episode(success, reward=0.75)
    observer.stop_recording()
    (record,) = sink.records
    assert (record.outcome.success, record.outcome.reward, record.outcome.reason) == (kept, 0.75, "verdict")
    assert record.outcome.success is kept
    assert sink.is_closed


# What a start needs.


def test_half_a_simulation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(lr.SettingsError, match="model and data: give both"):
        lr.Observer(output_dir=tmp_path, model=mujoco.MjModel.from_xml_string("<mujoco/>"))


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"data_hz": None}, "data_hz=None"),
        ({"cameras": [{"name": "nowhere"}]}, "camera 'nowhere': source"),
        ({"cameras": [{"name": "a", "source": "render"}]}, "camera 'a': source"),
        ({"gym_columns": True}, "gym_columns"),
        ({"columns": [{"name": "a", "source": "qpos:nowhere"}]}, "column 'a': source"),
        ({"columns": [{"name": "a", "source": "gym:reward"}]}, "column 'a': source"),
        ({"robots": ["nobody"]}, "robots"),
        ({"cameras": [{"name": "wall", "frame_rate": 40}]}, "camera 'wall': frame_rate"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_start_that_cannot_be_recorded_leaves_nothing(
    bare: Any, tmp_path: Path, settings: dict[str, Any], names: str
) -> None:
    observer, _ = bare(output_dir=tmp_path / "new", **settings)
    before = threading.active_count()
    with pytest.raises(lr.SettingsError, match=names):
        observer.start_recording()
    assert observer.state is IDLE
    assert not (tmp_path / "new").exists()
    assert threading.active_count() == before


def test_a_folder_that_cannot_be_made_leaves_the_observer_idle(bare: Any, tmp_path: Path, wall: Any) -> None:
    (tmp_path / "file").write_text("not a folder")
    observer, _ = bare(output_dir=tmp_path / "file", cameras=[wall])
    before = threading.active_count()
    with pytest.raises(lr.StorageError, match=str(tmp_path / "file")):
        observer.start_recording()
    assert observer.state is IDLE
    assert threading.active_count() == before


def test_a_machine_without_gl_leaves_nothing(
    bare: Any, tmp_path: Path, wall: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lucky_recorder.capture.draw import context as gl

    monkeypatch.setattr(gl, "_candidates", list)
    observer, advance = bare(output_dir=tmp_path / "new", cameras=[wall])
    with pytest.raises(lr.GLError, match="apt-get install"):
        observer.start_recording()
    assert observer.state is IDLE
    assert not (tmp_path / "new").exists()
    states, advance = bare(output_dir=tmp_path / "new", cameras=[{**wall, "enabled": False}])
    states.start_recording()
    advance()
    states.stop_recording()
    assert lr.Session(states.session_path).info["total_frames"] == 1


def test_a_simulation_without_mujoco_is_recorded_through_columns(tmp_path: Path, read_back: Any) -> None:
    clock = iter(range(10))
    observer = lr.Observer(
        output_dir=tmp_path, mode="custom", data_hz=10, columns=[lr.Column("n", lambda _: next(clock), dtype="int32")]
    )
    with observer:
        observer.start_recording()
        for _ in range(3):
            observer.tick()
        observer.end_current_episode(success=True)
    (episode,) = read_back(observer.session_path)
    assert episode.rows["n"].tolist() == [0, 1, 2]
    assert episode.rows["timestamp"].tolist() == [0, 0.1, 0.2]


def test_settings_may_be_a_mapping_or_an_object_with_fields_on_top(tmp_path: Path) -> None:
    settings = lr.RecorderSettings(output_dir=tmp_path, tasks=["Pick"])
    assert lr.Observer(settings, data_hz=50).settings == lr.Observer(settings.to_dict(), data_hz=50).settings
    with pytest.raises(lr.SettingsError, match="did you mean 'data_hz'"):
        lr.Observer(settings, data_hertz=50)


# Ends.


def test_flush_waits_until_ended_episodes_are_on_the_disk(bare: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    for _ in range(3):
        advance(2)
        observer.end_current_episode(success=True)
    observer.flush()
    assert len(list(observer.session_path.glob("data/*/file-*.parquet"))) == observer.counts.kept == 3
    observer.stop_recording()


def test_metadata_is_written_as_the_session_goes_on(bare: Any) -> None:
    observer, advance = bare(metadata_every=2)
    observer.start_recording()
    listed = []
    for _ in range(5):
        advance()
        observer.end_current_episode(success=True)
        observer.flush()
        info = observer.session_path / "meta/info.json"
        listed.append(json.loads(info.read_text())["total_episodes"] if info.exists() else None)
    observer.stop_recording()
    assert listed == [None, 2, 2, 4, 4]
    files = sorted(observer.session_path.glob("meta/episodes/*/*.parquet"))
    assert [len(pd.read_parquet(f)) for f in files] == [2, 2, 1]


def test_leaving_a_block_stops_the_session_also_with_an_error(bare: Any, read_back: Any) -> None:
    observer, advance = bare()

    def work() -> None:
        with observer as entered:
            assert entered is observer
            observer.start_recording()
            advance(2)
            raise KeyError("in the policy")

    with pytest.raises(KeyError, match="in the policy"):
        work()
    assert observer.state is IDLE
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(observer.session_path)] == [(2, False)]
    with observer:
        pass


def test_a_forgotten_observer_is_closed_with_one_warning(bare: Any, read_back: Any, tmp_path: Path) -> None:
    env = bare()[0].env
    observer = lr.Observer(output_dir=tmp_path / "forgotten", data_hz=50, model=env.model, data=env.data)
    observer.start_recording()
    observer.tick()
    path = observer.session_path
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del observer
        gc.collect()
    ours = [str(w.message) for w in caught if "lucky_recorder" in str(w.filename) or "close()" in str(w.message)]
    assert ours == [f"close() was not called on the recorder of {path}; its open episode was ended as failed"]
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(path)] == [(1, False)]


def test_what_fails_while_a_forgotten_observer_is_closed_is_in_the_warning(
    bare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(sink: SessionSink) -> None:
        raise lr.StorageError("meta/info.json: no room")

    monkeypatch.setattr(SessionSink, "close", close)
    env = bare()[0].env
    observer = lr.Observer(output_dir=tmp_path, data_hz=50, model=env.model, data=env.data)
    observer.start_recording()
    with pytest.warns(RuntimeWarning, match=r"close\(\) was not called .* as failed; meta/info\.json: no room"):
        del observer
    assert not any(t.name == "lucky_recorder" for t in threading.enumerate())


@pytest.mark.parametrize("state", list(State), ids=lambda s: s.value)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_it_can_be_neither_copied_nor_pickled_and_says_what_to_do(bare: Any, state: State, duplicate: Any) -> None:
    observer, _ = bare()
    lead_to(observer, state)
    with pytest.raises(lr.StateError, match="make one in each process"):
        duplicate(observer)
    assert observer.state is state


@pytest.mark.parametrize("is_seeded", [False, True])
def test_only_seeded_episodes_are_reproducible(bare: Any, is_seeded: bool) -> None:
    observer, advance = bare()
    observer.start_recording()
    observer.end_current_episode(success=True)
    for _ in range(2):
        observer.begin_episode(7 if is_seeded else None)
        advance()
        observer.end_current_episode(success=True)
    observer.stop_recording()
    assert lr.Session(observer.session_path).info["bit_reproducible"] is is_seeded


def test_an_episode_longer_than_a_block_is_whole(bare: Any, read_back: Any) -> None:
    observer, advance = bare()
    observer.start_recording()
    advance(2500)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    (episode,) = read_back(observer.session_path)
    assert episode.rows["observation.state"][:, 0].tolist() == list(range(2500))
    assert episode.rows["action"][:, 0].tolist() == list(range(2500))
    assert np.array_equal(episode.rows["timestamp"], np.round(np.arange(2500) * 20_000_000) / 1e9)
