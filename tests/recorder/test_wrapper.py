"""RecordSession: what each call of a Gymnasium environment means to a session, read back from its files."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from gymnasium.wrappers import Autoreset, TimeLimit

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv, MemorySink, check_session


def steps(env: Any, count: int, action: float = 0.0) -> None:
    for _ in range(count):
        env.step(np.array([action], np.float32))


# Rows.


@pytest.mark.parametrize("mode", ["robot_arm", "full_scene", "custom"])
def test_row_k_is_the_state_before_step_k_with_its_command(
    record: Any, run: Any, read_back: Any, counts: Any, seen: Any, wall: Any, mode: str
) -> None:
    env = record(
        CountEnv([3, 4], mujoco=True, render_mode="rgb_array"),
        mode=mode,
        cameras=[seen, wall],
        gym_columns=True,
        columns=[lr.Column("obs", "gym:obs"), lr.Column("ctrl", "ctrl:push"), lr.Column("joint", "qpos:count")],
    )
    run(env, episodes=2)
    env.close()
    for number, episode in enumerate(read_back(env.session_path)):
        length, first = 3 + number, 100 * number
        rows = episode.rows
        states = [first + t for t in range(length)]
        assert rows["obs"].tolist() == rows["joint"].tolist() == states
        assert rows["gym.action"].tolist() == rows["ctrl"].tolist() == list(range(length))
        assert rows["next.reward"].tolist() == list(range(length))
        assert rows["next.done"].tolist() == [t == length - 1 for t in range(length)]
        assert rows["next.success"].all()
        assert rows["frame_index"].tolist() == list(range(length))
        assert rows["timestamp"].tolist() == [t / 50 for t in range(length)]
        assert rows["frame_flags"].tolist() == [3] + [1] * (length - 1)
        assert counts(episode)["seen"] == counts(episode)["wall"] == states
        if mode != "custom":
            assert rows["observation.state"][:, 0].tolist() == states
            assert rows["action"][:, 0].tolist() == list(range(length))


def test_the_environments_own_objects_come_back(record: Any) -> None:
    class Keeps(CountEnv):
        def reset(self, **options: Any) -> Any:
            self.returned = super().reset(**options)
            return self.returned

        def step(self, action: Any) -> Any:
            assert action is given
            self.returned = super().step(action)
            return self.returned

    inner, given = Keeps(2), np.zeros(1)
    env = record(inner)
    assert env.reset(seed=3, options={"anything": 1}) is inner.returned
    for _ in range(3):
        assert env.step(given) is inner.returned


def test_an_observation_that_is_overwritten_in_place_is_recorded_as_it_was(record: Any, read_back: Any) -> None:
    class Reuses(CountEnv):
        buffer = np.zeros(1)

        def _observation(self) -> Any:
            self.buffer[0] = self.count
            return self.buffer

    env = record(Reuses(3))
    env.reset()
    steps(env, 3)
    env.close()
    assert read_back(env.session_path)[0].rows["obs"].tolist() == [0, 1, 2]


def test_the_policys_action_may_be_reused_too(record: Any, read_back: Any) -> None:
    env = record(CountEnv(3), gym_columns=True)
    action = np.zeros(1, np.float32)
    env.reset()
    for t in range(3):
        action[0] = t
        env.step(action)
    env.close()
    assert read_back(env.session_path)[0].rows["gym.action"].tolist() == [0, 1, 2]


# Resets.


def test_done_freezes_the_rows_until_the_verdict(record: Any, read_back: Any) -> None:
    env = record(CountEnv(2))
    env.reset()
    steps(env, 5)
    assert env.recorder.take.lane.ticks == 2
    env.end_episode(success=False)
    steps(env, 2)
    env.reset()
    steps(env, 2)
    env.close()
    episodes = read_back(env.session_path)
    assert [(e.rows["obs"].tolist(), e.meta["success"]) for e in episodes] == [([0, 1], False), ([100, 101], True)]


def test_a_truncated_episode_is_frozen_too(record: Any, run: Any, read_back: Any) -> None:
    env = record(TimeLimit(CountEnv(None), 4))
    run(env, episodes=2)
    env.close()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(4, True)] * 2


def test_end_episode_records_nothing_until_reset(record: Any, read_back: Any) -> None:
    env = record(CountEnv(None))
    with pytest.raises(lr.StateError, match=r"end_episode\(\) needs an open episode.*call reset\(\)"):
        env.end_episode()
    env.reset()
    steps(env, 2)
    env.end_episode(success=True, reward=0.5)
    with pytest.raises(lr.StateError, match=r"end_episode\(\) needs an open episode"):
        env.end_episode(success=True)
    steps(env, 3)
    env.reset()
    steps(env, 1)
    with pytest.raises(lr.SettingsError, match="success='yes'"):
        env.end_episode(success="yes")
    with pytest.raises(lr.SettingsError, match="reward=7"):
        env.end_episode(success=True, reward=7)
    steps(env, 1)
    env.end_episode(success=True)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0, 1], [100, 101]]


def test_an_episode_ended_without_rows_takes_no_index(record: Any, read_back: Any) -> None:
    env = record(CountEnv(None), total_episodes=2)
    env.reset()
    env.end_episode(success=True)
    env.reset()
    steps(env, 1)
    env.close()
    assert [e.meta["episode_index"] for e in read_back(env.session_path)] == [0]


class Restarts(CountEnv):
    """A reset with an option starts the count again, but not the episode; remembers the options it was given."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.options = options
        self.episode -= bool(self.t) and options is not None
        return super().reset(seed=seed, options=options)


def test_a_reset_may_keep_the_episode(record: Any, read_back: Any) -> None:
    inner = Restarts(None, mujoco=True)
    env = record(inner, mode="robot_arm")
    env.reset(seed=0)
    steps(env, 3)
    env.reset(options={"keep_episode": True, "how": "gently"})
    assert inner.options == {"how": "gently"}
    steps(env, 2)
    env.reset()
    assert inner.options is None
    steps(env, 1)
    env.close()
    first, second = read_back(env.session_path)
    assert first.rows["observation.state"][:, 0].tolist() == [0, 1, 2, 0, 1]
    assert first.rows["frame_flags"].tolist() == [3, 1, 1, 3, 1]
    assert first.rows["timestamp"].tolist() == [0, 0.02, 0.04, 0.06, 0.08]
    assert second.rows["observation.state"][:, 0].tolist() == [100]


def test_a_false_option_keeps_nothing(record: Any, read_back: Any) -> None:
    inner = Restarts(None)
    env = record(inner)
    for keeps in (False, True, False):
        env.reset(options={"keep_episode": keeps})
        assert inner.options is None
        steps(env, 2)
    env.close()
    assert [e.meta["length"] for e in read_back(env.session_path)] == [4, 2]


@pytest.mark.parametrize("how", ["first", "done", "ended", "longest"])
def test_where_no_episode_is_open_keeping_it_is_a_reset_like_any_other(record: Any, read_back: Any, how: str) -> None:
    env = record(CountEnv(2), **({"max_episode_length_s": 0.02} if how == "longest" else {}))
    if how != "first":
        env.reset()
        steps(env, 2)
    if how == "ended":
        env.end_episode(success=True)
    env.reset(options={"keep_episode": True})
    steps(env, 1)
    env.close()
    lengths = {"first": [1], "done": [2, 1], "ended": [2, 1], "longest": [1, 1]}[how]
    assert [e.meta["length"] for e in read_back(env.session_path)] == lengths


def test_without_keeping_it_time_that_runs_backwards_fails_the_episode(record: Any, read_back: Any) -> None:
    env = record(CountEnv(None, mujoco=True), mode="robot_arm")
    env.reset()
    steps(env, 3)
    env.unwrapped.data.time = 0
    with pytest.raises(lr.CaptureError, match=r"time ran backwards.*mark_reset\(\)"):
        steps(env, 1)
    steps(env, 2)
    env.reset()
    steps(env, 1)
    env.end_episode(success=True)
    env.close()
    assert [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)] == [(3, False), (1, True)]


@pytest.mark.parametrize("step", [0, 1, 3])
def test_a_simulation_that_becomes_unstable_fails_the_episode(record: Any, read_back: Any, step: int) -> None:
    class Explodes(CountEnv):
        def step(self, action: Any) -> Any:
            if action[0] < 0:
                self.data.qvel[0] = 1e30
            return super().step(action)

    env = record(Explodes(None, mujoco=True), mode="robot_arm")
    env.reset()
    steps(env, step)
    with pytest.raises(lr.CaptureError, match=f"reset itself at tick {step} of the episode"):
        steps(env, 1, action=-1)
    steps(env, 1)
    env.reset()
    steps(env, 2)
    env.end_episode(success=True)
    env.close()
    episodes = [(e.meta["length"], e.meta["success"]) for e in read_back(env.session_path)]
    assert episodes == [(step, False)] * bool(step) + [(2, True)]


def test_a_step_that_raises_drops_its_half_row_and_fails_the_episode(
    record: Any, run: Any, read_back: Any, counts: Any, seen: Any, wall: Any
) -> None:
    class Breaks(CountEnv):
        def step(self, action: Any) -> Any:
            if self.count == 102:
                raise OSError("the gripper is stuck")
            return super().step(action)

    env = record(Breaks(4, mujoco=True, render_mode="rgb_array"), cameras=[seen, wall])
    run(env)
    env.reset()
    steps(env, 2)
    with pytest.raises(OSError, match="the gripper is stuck"):
        steps(env, 1)
    with pytest.raises(OSError, match="stuck"):
        steps(env, 1)
    run(env)
    env.close()
    episodes = read_back(env.session_path)
    assert [(e.rows["obs"].tolist(), e.meta["success"]) for e in episodes] == [
        ([0, 1, 2, 3], True),
        ([100, 101], False),
        ([200, 201, 202, 203], True),
    ]
    assert [counts(e)["seen"] for e in episodes] == [e.rows["obs"].tolist() for e in episodes]
    assert [len(e.frames["wall"]) for e in episodes] == [4, 2, 4]


def test_a_reset_that_raises_leaves_the_recorder_ready_for_the_next(record: Any, run: Any, read_back: Any) -> None:
    class Breaks(CountEnv):
        is_broken = True

        def reset(self, **options: Any) -> Any:
            if self.is_broken:
                raise OSError("no scene")
            return super().reset(**options)

    inner = Breaks(2)
    env = record(inner)
    with pytest.raises(OSError, match="no scene"):
        env.reset()
    assert env.session_path is None
    inner.is_broken = False
    run(env)
    inner.is_broken = True
    with pytest.raises(OSError, match="no scene"):
        env.reset()
    inner.is_broken = False
    run(env)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0, 1], [100, 101]]


# What is recorded at all.


def test_the_longest_episode_ends_as_failed_and_nothing_is_recorded_until_reset(
    record: Any, read_back: Any, counts: Any, seen: Any
) -> None:
    env = record(CountEnv(None, render_mode="rgb_array"), cameras=[seen], max_episode_length_s=0.06)
    for length in (9, 2, 5):
        env.reset()
        steps(env, length)
    env.close()
    episodes = read_back(env.session_path)
    assert [counts(e)["seen"] for e in episodes] == [[0, 1, 2], [100, 101], [200, 201, 202]]
    assert [e.rows["obs"].tolist() for e in episodes] == [[0, 1, 2], [100, 101], [200, 201, 202]]
    assert [e.meta["success"] for e in episodes] == [False, True, False]


@pytest.mark.parametrize(
    ("discards", "episodes"), [(False, [0, 100]), (True, [0, 200])], ids=["keeps failed", "discards failed"]
)
def test_after_so_many_kept_episodes_the_session_closes(
    record: Any, run: Any, read_back: Any, caplog: Any, discards: bool, episodes: list[int]
) -> None:
    env = record(CountEnv(2, succeeds=lambda n: n % 2 == 0), total_episodes=2, discard_and_retry_failed=discards)
    with caplog.at_level("WARNING", "lucky_recorder"):
        attempts = 0
        while attempts == 0 or env.is_recording:
            run(env)
            attempts += 1
        run(env, episodes=3)
    assert attempts == len(range(0, episodes[-1] + 1, 100)) + 1
    assert [r.getMessage() for r in caplog.records if r.name == "lucky_recorder"] == [
        f"total_episodes=2 reached: {env.session_path} is complete"
    ]
    path = env.session_path
    env.close()
    assert env.session_path == path
    assert [e.rows["obs"].tolist() for e in read_back(path)] == [[n, n + 1] for n in episodes]


def test_only_the_episodes_that_are_asked_for_are_recorded(record: Any, run: Any, read_back: Any) -> None:
    env = record(CountEnv(2), episode_trigger=lambda number: number in (1, 2, 5))
    env.reset()
    assert (env.session_path, env.is_recording) == (None, False)
    steps(env, 2)
    run(env, episodes=6)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[n, n + 1] for n in (100, 200, 500)]


def every_third(number: int) -> bool:
    return number % 3 == 0


def test_a_trigger_may_be_named(record: Any, run: Any, read_back: Any) -> None:
    env = record(CountEnv(1), episode_trigger=f"{__name__}:every_third")
    run(env, episodes=5)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0], [300]]


def test_an_episode_that_is_not_asked_for_stays_so_over_a_kept_reset(record: Any, read_back: Any) -> None:
    env = record(CountEnv(None), episode_trigger=lambda number: number == 1)
    env.reset()
    steps(env, 2)
    env.reset(options={"keep_episode": True})
    steps(env, 2)
    env.reset()
    steps(env, 3)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[200, 201, 202]]


def test_no_episode_asked_for_leaves_nothing(record: Any, run: Any, tmp_path: Path) -> None:
    env = record(episode_trigger=lambda number: False)
    run(env, episodes=3)
    env.close()
    assert (env.session_path, list(tmp_path.iterdir())) == (None, [])


# Tasks and flags.


def test_a_task_holds_from_the_call_on(record: Any, read_back: Any) -> None:
    env = record(CountEnv(4), tasks=["Pick", "Place", "Rest"])
    env.set_task(1)
    env.reset()
    steps(env, 2)
    env.set_task(2)
    steps(env, 2)
    env.reset()
    steps(env, 2)
    with pytest.raises(lr.SettingsError, match="task index=3"):
        env.set_task(3)
    env.close()
    first, second = read_back(env.session_path)
    assert first.rows["task_index"].tolist() == [1, 1, 2, 2]
    assert second.rows["task_index"].tolist() == [2, 2]
    assert (first.meta["tasks"], second.meta["tasks"]) == (["Place", "Rest"], ["Rest"])


def test_a_policy_that_runs_every_third_step_is_flagged_so(record: Any, read_back: Any) -> None:
    env = record(CountEnv(7), policy_period=3)
    for _ in range(2):
        env.reset()
        steps(env, 7)
    env.close()
    for episode in read_back(env.session_path):
        assert (episode.rows["frame_flags"] & 1).tolist() == [1, 0, 0, 1, 0, 0, 1]


def test_a_held_action_is_no_new_policy_step(record: Any, read_back: Any) -> None:
    env = record(CountEnv(None))
    env.reset()
    steps(env, 1)
    env.hold()
    env.hold()
    steps(env, 2)
    env.hold()
    env.reset()
    steps(env, 1)
    env.close()
    assert [e.rows["frame_flags"].tolist() for e in read_back(env.session_path)] == [[3, 0, 1], [3]]


# Rates.


@pytest.mark.parametrize(("data_hz", "every"), [(50, 1), (25, 2), (10, 5), ("50/3", 3)])
def test_a_row_may_stand_for_several_steps(
    record: Any, run: Any, read_back: Any, counts: Any, seen: Any, wall: Any, data_hz: Any, every: int
) -> None:
    env = record(
        CountEnv(9, mujoco=True, render_mode="rgb_array"),
        mode="robot_arm",
        data_hz=data_hz,
        cameras=[seen, wall],
        gym_columns=True,
        columns=[lr.Column("obs", "gym:obs")],
    )
    run(env)
    env.close()
    (episode,) = read_back(env.session_path)
    groups = [list(range(k, min(k + every, 9))) for k in range(0, 9, every)]
    firsts = [group[0] for group in groups]
    assert episode.rows["obs"].tolist() == episode.rows["action"][:, 0].tolist() == firsts
    assert counts(episode)["seen"] == counts(episode)["wall"] == firsts
    assert episode.rows["next.reward"].tolist() == [sum(group) for group in groups]
    assert episode.rows["next.done"].tolist() == [8 in group for group in groups]
    assert episode.rows["frame_index"].tolist() == list(range(len(groups)))
    assert np.allclose(episode.rows["timestamp"], np.array(firsts) / 50, rtol=0, atol=1e-9)
    info = lr.Session(env.session_path).info
    assert info["hz"] == info["fps"] == pytest.approx(50 / every)


def test_the_longest_episode_is_counted_in_rows_of_the_data_rate(record: Any, run: Any, read_back: Any) -> None:
    env = record(CountEnv(None), data_hz=25, max_episode_length_s=0.12)
    run(env, steps=20)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0, 2, 4]]


def test_a_kept_reset_between_two_rows_flags_the_next(record: Any, read_back: Any) -> None:
    env = record(Restarts(None, mujoco=True), mode="robot_arm", data_hz=25)
    env.reset()
    steps(env, 3)
    env.reset(options={"keep_episode": True, "how": "gently"})
    steps(env, 3)
    env.close()
    (episode,) = read_back(env.session_path)
    assert episode.rows["observation.state"][:, 0].tolist() == [0, 2, 1]
    assert episode.rows["frame_flags"].tolist() == [3, 1, 3]


@pytest.mark.parametrize(("frame_rate", "every"), [(25, 2), ("50/7", 7), (1, 50)])
@pytest.mark.parametrize("length", [1, 7, 15])
def test_a_slower_camera_takes_every_nth_row(
    record: Any, run: Any, read_back: Any, counts: Any, seen: Any, frame_rate: Any, every: int, length: int
) -> None:
    env = record(CountEnv(length, render_mode="rgb_array"), cameras=[{**seen, "frame_rate": frame_rate}])
    run(env)
    env.close()
    (episode,) = read_back(env.session_path)
    frames = counts(episode)["seen"]
    assert frames == list(range(0, length, every))
    ends = episode.meta["videos/observation.images.seen/to_timestamp"]
    assert ends == pytest.approx(len(frames) * every / 50, abs=1e-9)
    feature = lr.Session(env.session_path).info["features"]["observation.images.seen"]
    assert feature["info"]["video.fps"] == pytest.approx(50 / every)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"data_hz": 40},
            r"data_hz='40': does not divide the fastest rate here, 50 Hz, evenly; nearest that do: 25 or 50 Hz",
        ),
        ({"data_hz": 100}, r"data_hz='100': is above the fastest rate here; the nearest: 50 Hz"),
        (
            {"cameras": [{"name": "a", "source": "render", "frame_rate": 30}]},
            r"camera 'a': frame_rate='30'.*25 or 50 Hz",
        ),
        ({"cameras": [{"name": "a", "source": "render", "frame_rate": 60}]}, r"camera 'a': frame_rate='60'.*50 Hz"),
        ({"cameras": [{"name": "a"}]}, r"no MuJoCo model was found; use source='render'"),
        ({"mode": "robot_arm"}, r"mode='robot_arm': needs a MuJoCo model"),
        ({"mode": "full_scene"}, r"mode='full_scene': needs a MuJoCo model"),
        ({"robots": ["arm"]}, r"robots=.*no MuJoCo model"),
        ({"columns": [{"name": "a", "source": "sensor:force"}]}, r"column 'a': source='sensor:force'.*no MuJoCo model"),
        ({"columns": [{"name": "a", "source": "gym:obs.joints"}]}, r"column 'a': source"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_the_environment_is_refused_at_the_first_reset(
    record: Any, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    env = record(**settings)
    before = threading.active_count()
    with pytest.raises(lr.SettingsError, match=message):
        env.reset()
    assert (env.is_recording, env.session_path, list(tmp_path.iterdir())) == (False, None, [])
    assert threading.active_count() == before


def test_an_environment_without_a_rate_needs_one(record: Any, run: Any) -> None:
    class Timeless(CountEnv):
        metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

        def __init__(self) -> None:
            super().__init__()
            del self.dt

    env = record(Timeless())
    with pytest.raises(lr.SettingsError, match=r"data_hz=None: .*give the rate"):
        env.reset()
    env = record(Timeless(), data_hz=12)
    run(env)
    env.close()
    assert lr.Session(env.session_path).info["hz"] == 12


def without_a_rate(**fields: Any) -> CountEnv:
    env = CountEnv(4, mujoco=True, **fields)
    env.metadata = {"render_modes": ["rgb_array"]}
    del env.dt
    return env


def test_a_rate_that_nobody_states_is_read_off_the_first_step(record: Any, wall: Any) -> None:
    files = []
    for env in (without_a_rate(), CountEnv(4, mujoco=True)):
        recorded = record(env, mode="robot_arm", cameras=[wall], gym_columns=True)
        for seed in (0, 1):
            recorded.reset(seed=seed)
            done = False
            while not done:
                _, _, terminated, truncated, _ = recorded.step(np.full(1, 0.25, np.float32))
                done = terminated or truncated
        recorded.close()
        path = check_session(recorded.session_path).path
        files.append({p.relative_to(path): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()})
    assert files[0] == files[1]


def test_what_the_first_step_changes_in_place_is_recorded_as_it_was(record: Any) -> None:
    class InPlace(CountEnv):
        def reset(self, **fields: Any) -> Any:
            observation, info = super().reset(**fields)
            self.shown = observation.copy()
            return self.shown, info

        def step(self, action: Any) -> Any:
            observation, *rest = super().step(action)
            self.shown[:], action[:] = observation, 9
            return self.shown, *rest

    env = InPlace(3, mujoco=True)
    env.metadata = {"render_modes": []}
    del env.dt
    recorded = record(env, gym_columns=True)
    recorded.reset(seed=0)
    for _ in range(3):
        recorded.step(np.full(1, 0.25, np.float32))
    recorded.close()
    rows = lr.Session(recorded.session_path).episode(0).rows()
    assert rows["obs"].to_pylist() == [0, 1, 2]
    assert rows["gym.action"].to_pylist() == [0.25] * 3


def test_whatever_looks_at_the_environment_sees_what_was_there_before_the_first_step(
    record: Any, read_back: Any, counts: Any, seen: Any
) -> None:
    env = without_a_rate(render_mode="rgb_array")
    asked = lr.Column("asked", lambda moment: env.count)
    recorded = record(env, mode="robot_arm", cameras=[{**seen, "frame_rate": 25}], columns=[asked])
    recorded.reset(seed=0)
    steps(recorded, 4)
    recorded.close()
    (episode,) = read_back(recorded.session_path)
    assert episode.rows["asked"].tolist() == [0, 1, 2, 3]
    assert counts(episode)["seen"] == [0, 2]


def test_a_session_is_open_from_the_first_reset_whether_its_rate_is_known_or_not(
    record: Any, read_back: Any, wall: Any
) -> None:
    env = record(without_a_rate(), mode="robot_arm", cameras=[wall])
    env.reset(seed=0)
    path = env.session_path
    assert env.is_recording
    assert path is not None
    assert path.is_dir()
    seen = env.observe()
    env.end_episode(success=True)
    env.reset(seed=1)
    steps(env, 2)
    env.end_episode(success=True)
    env.close()
    assert env.session_path == path
    (episode,) = read_back(path)
    assert (episode.meta["length"], episode.meta["success"]) == (2, True)
    assert {key: value.shape for key, value in seen.items()} == {
        "observation.state": (1,),
        "observation.images.wall": (48, 64, 3),
    }


def test_where_no_step_was_taken_nothing_is_left(record: Any, tmp_path: Path) -> None:
    env = record(without_a_rate(), mode="robot_arm", koyu={"name": "cubes"})
    env.reset(seed=0)
    env.reset(seed=0)
    env.close()
    assert (env.is_recording, env.session_path, list(tmp_path.glob("DataSessions/*"))) == (False, None, [])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"camera": {"frame_rate": 40}}, r"camera 'wall': frame_rate='40': does not divide"),
        ({"camera": {"frame_rate": 25}, "koyu": {"name": "cubes"}}, "row i of a koyu bundle is frame i"),
    ],
)
def test_a_rate_that_does_not_fit_the_first_step_is_refused_and_leaves_nothing(
    record: Any, wall: Any, tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    env = record(without_a_rate(), mode="robot_arm", cameras=[{**wall, **fields.pop("camera")}], **fields)
    for _ in range(2):
        env.reset(seed=0)
        with pytest.raises(lr.SettingsError, match=message):
            steps(env, 1)
        assert (env.is_recording, env.session_path, list(tmp_path.glob("DataSessions/*"))) == (False, None, [])
        steps(env, 1)
    env.close()


def test_a_first_step_that_takes_no_time_needs_a_rate(record: Any) -> None:
    env = without_a_rate()
    env.step = lambda action: (env.observation_space.low, 0.0, False, False, {})  # type: ignore[method-assign]
    recorded = record(env, mode="robot_arm")
    recorded.reset(seed=0)
    with pytest.raises(lr.SettingsError, match="set data_hz"):
        recorded.step(np.zeros(1, np.float32))
    recorded.step(np.zeros(1, np.float32))
    recorded.close()


class Refuses(MemorySink):
    """A sink that says no as soon as it is told what rows are."""

    def __init__(self, root: Path, error: Exception) -> None:
        super().__init__(root)
        self.error = error

    def open(self, schema: Any, tasks: Any) -> None:
        raise self.error


@pytest.mark.parametrize("states_rate", [False, True])
@pytest.mark.parametrize("error", [lr.SettingsError("not these"), lr.StreamError("no disk"), ValueError("odd")])
def test_a_sink_that_refuses_leaves_no_session(
    record: Any, tmp_path: Path, states_rate: bool, error: Exception
) -> None:
    env = CountEnv(4, mujoco=True) if states_rate else without_a_rate()
    recorded = record(env, mode="robot_arm", koyu={"name": "cubes"}, sinks=[Refuses(tmp_path / "own", error)])

    def begin() -> None:
        recorded.reset(seed=0)
        steps(recorded, 1)

    for _ in range(2):
        with pytest.raises(type(error), match=str(error)):
            begin()
        assert (recorded.is_recording, recorded.session_path) == (False, None)
        assert not (tmp_path / "DataSessions").exists()
    recorded.close()


def test_a_dataset_that_refuses_after_the_first_step_leaves_no_session(record: Any, tmp_path: Path) -> None:
    first = record(CountEnv(2, mujoco=True), mode="robot_arm", koyu={"name": "cubes"}, formats=["koyu"], data_hz=25)
    first.reset(seed=0)
    steps(first, 2)
    first.close()
    env = record(without_a_rate(), mode="robot_arm", koyu={"name": "cubes"})
    env.reset(seed=0)
    with pytest.raises(lr.SettingsError, match="fps"):
        steps(env, 1)
    assert not (tmp_path / "DataSessions").exists()


def test_a_first_step_that_goes_wrong_teaches_no_rate(record: Any, read_back: Any) -> None:
    class Breaks(CountEnv):
        def step(self, action: Any) -> Any:
            if self.episode == 0:
                self.data.qvel[0] = np.nan
                mujoco.mj_step(self.model, self.data)
            return super().step(action)

    inner = Breaks(3, mujoco=True)
    inner.metadata = {"render_modes": []}
    del inner.dt
    env = record(inner, mode="robot_arm")
    env.reset(seed=0)
    with pytest.raises(lr.CaptureError, match="unstable"):
        steps(env, 1)
    env.reset(seed=1)
    steps(env, 3)
    env.close()
    (episode,) = read_back(env.session_path)
    assert episode.rows["timestamp"].tolist() == [0, 0.02, 0.04]


# An episode that ends while the environment steps.


@pytest.mark.parametrize(
    ("verb", "lengths"),
    [
        (lambda env: env.end_episode(success=True), [2, 3]),
        (lambda env: env.observer.end_current_episode(True), [2, 3]),
        (lambda env: env.observer.end_current_episode_begin_next(True), [2, 2, 3]),
    ],
    ids=["end_episode", "end_current_episode", "begin_next"],
)
def test_an_episode_that_ends_inside_a_step_has_no_row_of_it(
    record: Any, read_back: Any, counts: Any, seen: Any, verb: Any, lengths: list[int]
) -> None:
    class Asks(CountEnv):
        def step(self, action: Any) -> Any:
            if self.count == 2:
                verb(env)
            return super().step(action)

    env = record(Asks([5, 3], render_mode="rgb_array"), cameras=[seen])
    for length in (5, 3):
        env.reset(seed=length)
        steps(env, length)
    env.close()
    episodes = read_back(env.session_path)
    assert [len(e.rows["obs"]) for e in episodes] == lengths
    assert [counts(e)["seen"] for e in episodes] == [counts(e)["rows"] for e in episodes]
    assert counts(episodes[0])["rows"] == [0, 1]
    assert counts(episodes[-1])["rows"] == [100, 101, 102]


@pytest.mark.parametrize("wrap", [lambda env: env, Autoreset], ids=["plain", "autoreset"])
def test_steps_after_done_are_no_rows_whoever_begins_an_episode(record: Any, read_back: Any, wrap: Any) -> None:
    env = record(wrap(CountEnv(3)))
    env.reset(seed=0)
    steps(env, 3)
    env.observer.end_current_episode_begin_next(True)
    steps(env, 1)
    if wrap is not Autoreset:
        env.reset(seed=1)
    steps(env, 3)
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0, 1, 2], [100, 101, 102]]


# Discard and retry.


def test_a_discarded_attempt_leaves_nothing_and_its_index_is_used_again(
    record: Any, run: Any, read_back: Any, counts: Any, seen: Any, wall: Any
) -> None:
    env = record(
        CountEnv([12, 3, 5], succeeds=lambda n: n not in (0, 3, 4, 8), mujoco=True, render_mode="rgb_array"),
        cameras=[seen, wall],
        discard_and_retry_failed=True,
    )
    run(env, episodes=9)
    env.close()
    episodes = read_back(env.session_path)
    kept = [1, 2, 5, 6, 7]
    assert [e.meta["episode_index"] for e in episodes] == list(range(5))
    assert [counts(e)["rows"] for e in episodes] == [[100 * n + t for t in range([12, 3, 5][n % 3])] for n in kept]
    assert [counts(e)["seen"] for e in episodes] == [counts(e)["rows"] for e in episodes]
    assert np.concatenate([e.rows["index"] for e in episodes]).tolist() == list(range(3 + 5 + 5 + 12 + 3))
    videos = [p.name for p in sorted(env.session_path.glob("videos/*.wall/*/*"))]
    assert videos == [f"file-{n:03d}.mp4" for n in range(5)]


def test_failures_are_kept_unless_they_are_to_be_discarded(record: Any, run: Any, read_back: Any) -> None:
    env = record(CountEnv(2, succeeds=lambda n: n == 1))
    run(env, episodes=3)
    env.close()
    assert [e.meta["success"] for e in read_back(env.session_path)] == [False, True, False]
