"""RecordSession: environments that reset themselves, inside the last step or in the one after it."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv
from tests.recorder.resetting import KINDS, ROBOT, Books, Hard, NextStep, SameStep, WarmsUp, drive

# Every length, the shortest too; an odd number of them, so that an extra reset does not leave one out.
LENGTHS = [2, 1, 3, 5, 1]
# All of them twice, with the steps that only reset.
STEPS = 30
EITHER = pytest.mark.parametrize("calls_reset", [False, True], ids=["never resets", "resets"])
pytestmark = pytest.mark.filterwarnings(
    "ignore:the environment reset itself inside a step", "ignore:.*steps came after one that had ended"
)


def on_wall(count: int) -> int:
    """What the camera ``wall`` shows of a count."""
    return 100 * (count // 100 % 2) + count % 100 % 30


def compare(books: Books, read: list[Any], counts: Any) -> None:
    """Compare what was read back with the books: rows, commands, flags and frames, episode by episode."""
    expected = books.recorded()
    assert [counts(e)["rows"] for e in read] == [[row.count for row in rows] for rows in expected]
    assert [e.rows["gym.action"].tolist() for e in read] == [[row.action for row in rows] for rows in expected]
    assert [e.rows["next.done"].tolist() for e in read] == [[row.is_done for row in rows] for rows in expected]
    assert [e.rows["frame_flags"].tolist() for e in read] == [[3] + [1] * (len(rows) - 1) for rows in expected]
    assert [e.meta["episode_index"] for e in read] == list(range(len(expected)))
    for episode in read:
        found = counts(episode)
        assert found.get("state", found["rows"]) == found["rows"]
        assert found.get("seen", found["rows"]) == found["rows"]
        assert found.get("wall") in (None, [on_wall(count) for count in found["rows"]])
        if "action" in episode.rows:
            assert episode.rows["action"][:, 0].tolist() == episode.rows["gym.action"].tolist()


@EITHER
@pytest.mark.parametrize("kind", KINDS)
def test_rows_commands_and_frames_are_those_of_their_episode(
    record: Any, read_back: Any, counts: Any, seen: Any, wall: Any, kind: str, calls_reset: bool
) -> None:
    inner = CountEnv(LENGTHS, succeeds=lambda n: n % 3 != 1, mujoco=True, render_mode="rgb_array")
    env = record(KINDS[kind](inner), cameras=[seen, wall], **ROBOT)
    books = Books(env, inner)
    drive(books, STEPS, calls_reset)
    env.end_episode()
    env.close()
    episodes = read_back(env.session_path)
    compare(books, episodes, counts)
    assert [e.meta["success"] for e in episodes] == [rows[0].count // 100 % 3 != 1 for rows in books.recorded()]
    if kind != "plain" or calls_reset:
        assert len(episodes) > 4
    is_seeded = (calls_reset and "same" in kind) or kind == "plain"
    assert lr.Session(env.session_path).info["bit_reproducible"] in ((False,) if not is_seeded else (True, False))


# Without a simulation nothing tells of a reset that is not declared.
WITHOUT = [kind for kind in KINDS if not kind.endswith("undeclared")]


@pytest.mark.parametrize(
    ("has_simulation", "kind", "calls_reset"),
    [(True, *one) for one in itertools.product(KINDS, [False, True])]
    + [(False, kind, number % 2 == 0) for number, kind in enumerate(WITHOUT)],
)
def test_where_rows_hold_nothing_of_the_simulation_after_a_step_none_is_lost(
    record: Any, read_back: Any, counts: Any, kind: str, calls_reset: bool, has_simulation: bool
) -> None:
    inner = CountEnv(LENGTHS, mujoco=has_simulation)
    env = record(KINDS[kind](inner), gym_columns=True)
    books = Books(env, inner, keeps_last=True)
    drive(books, STEPS, calls_reset)
    env.end_episode()
    env.close()
    compare(books, read_back(env.session_path), counts)


@EITHER
@pytest.mark.parametrize("length", [2, 3, 5])
@pytest.mark.parametrize("wrap", [SameStep, NextStep])
def test_a_time_limit_inside(
    record: Any, read_back: Any, counts: Any, wrap: Any, length: int, calls_reset: bool
) -> None:
    inner = CountEnv(None, mujoco=True)
    env = record(wrap(TimeLimit(inner, length)), **ROBOT)
    books = Books(env, inner)
    drive(books, 4 * length, calls_reset)
    env.close()
    compare(books, read_back(env.session_path), counts)


@EITHER
@pytest.mark.parametrize("make", [Hard, WarmsUp])
@pytest.mark.parametrize("wrap", [SameStep, NextStep])
def test_a_reset_that_makes_everything_anew_or_lets_the_world_settle(
    record: Any, read_back: Any, counts: Any, wall: Any, wrap: Any, make: Any, calls_reset: bool
) -> None:
    inner = make(LENGTHS, mujoco=True)
    env = record(wrap(inner), cameras=[wall], **ROBOT)
    books = Books(env, inner)
    drive(books, STEPS, calls_reset)
    env.close()
    compare(books, read_back(env.session_path), counts)


class Restless(CountEnv):
    """Resets itself inside every third step without a word."""

    def step(self, action: Any) -> Any:
        _, reward, _, _, info = super().step(action)
        if self.t == 3:
            self.reset()
        return self._observation(), reward, False, False, info


def test_a_reset_inside_a_step_that_nobody_calls_an_end(record: Any, read_back: Any, counts: Any, wall: Any) -> None:
    inner = Restless(None, succeeds=lambda n: n % 2 == 0, mujoco=True)
    env = record(inner, cameras=[wall], **ROBOT)
    books = Books(env, inner)
    drive(books, 12, calls_reset=False)
    env.close()
    episodes = read_back(env.session_path)
    compare(books, episodes, counts)
    assert [e.meta["success"] for e in episodes] == [True, False, True, False]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "plain"])
def test_episodes_are_numbered_by_those_that_began(record: Any, read_back: Any, counts: Any, kind: str) -> None:
    inner = CountEnv(3, mujoco=True)
    asked: list[int] = []
    env = record(KINDS[kind](inner), episode_trigger=lambda n: asked.append(n) or n in (1, 3), **ROBOT)
    books = Books(env, inner)
    drive(books, 20, calls_reset=False)
    env.close()
    read = read_back(env.session_path)
    books.episodes = [rows for rows in books.episodes if rows and rows[0].count // 100 in (1, 3)]
    compare(books, read, counts)
    assert asked == list(range(len(asked)))


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("kind", ["same step, undeclared", "same step, final_obs", "next step, undeclared"])
def test_a_skipped_episode_of_any_length_is_one(
    record: Any, read_back: Any, counts: Any, kind: str, length: int
) -> None:
    inner = CountEnv([length, length, 4, 4], mujoco=True)
    env = record(KINDS[kind](inner), episode_trigger=lambda n: n >= 2, **ROBOT)
    books = Books(env, inner)
    drive(books, 12, calls_reset=False)
    env.close()
    books.episodes = books.episodes[2:]
    compare(books, read_back(env.session_path), counts)


@pytest.mark.parametrize("total", [1, 3])
def test_the_session_ends_after_so_many_episodes_also_of_those_that_began_by_themselves(
    record: Any, read_back: Any, total: int
) -> None:
    inner = CountEnv(4, mujoco=True)
    env = record(SameStep(inner), total_episodes=total, **ROBOT)
    books = Books(env, inner)
    drive(books, 20, calls_reset=False)
    assert not env.is_recording
    env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [
        [100 * n, 100 * n + 1, 100 * n + 2] for n in range(total)
    ]


@pytest.mark.parametrize("says", [True, False])
def test_a_verdict_after_a_step_that_reset_is_of_the_episode_that_it_ended(
    record: Any, read_back: Any, says: bool
) -> None:
    env = record(SameStep(CountEnv(3, succeeds=not says, mujoco=True)), **ROBOT)
    books = Books(env, env.unwrapped)
    books.reset(seed=0)
    for t in range(3):
        books.step(t)
    env.end_episode(success=says)
    for t in range(3):
        books.step(t)
    env.close()
    assert [(e.rows["obs"].tolist(), e.meta["success"]) for e in read_back(env.session_path)] == [
        ([0, 1], says),
        ([100, 101], not says),
    ]


def test_what_is_said_between_two_episodes_is_of_the_next(record: Any, read_back: Any) -> None:
    env = record(SameStep(CountEnv(4, mujoco=True)), tasks=["one", "two"], **ROBOT)
    books = Books(env, env.unwrapped)
    books.reset(seed=0)
    for t in range(4):
        books.step(t)
    env.set_task(1)
    env.hold()
    for t in range(2):
        books.step(t)
    env.close()
    first, second = read_back(env.session_path)
    assert first.rows["task_index"].tolist() == [0] * 3
    assert second.rows["task_index"].tolist() == [1] * 2
    assert second.rows["frame_flags"].tolist() == [2, 1]


def test_commands_of_steps_that_are_recorded_in_parts(record: Any, read_back: Any) -> None:
    """A camera is faster than the environment, and a row is read once more when its step is over: not after a reset."""
    inner = gym.make("LuckyRecorder/PickCube-v0", max_episode_steps=3)
    names = [inner.unwrapped.model.actuator(i).name for i in range(2)]
    columns = [lr.Column(f"{how}.{n}", f"ctrl:{n}", allow_nan=how == "nan") for n in names for how in ("plain", "nan")]
    camera = {"name": "front", "width": 64, "height": 48, "frame_rate": 100}
    env = record(SameStep(inner), mode="robot_arm", cameras=[camera], columns=columns, success="terminated")
    env.reset(seed=0)
    for _ in range(6):
        env.step(np.full(inner.action_space.shape, 0.5, np.float32))
    env.close()
    episodes = read_back(env.session_path)
    assert len(episodes) == 2
    for episode in episodes:
        rows = episode.rows
        assert len(rows["index"]) == 3
        for name in names:
            assert rows[f"plain.{name}"].tolist() == rows[f"nan.{name}"].tolist()
        assert all((rows[f"plain.{name}"] != 0).all() for name in names)


def test_looking_begins_the_next_episode(record: Any, read_back: Any, counts: Any, wall: Any) -> None:
    env = record(SameStep(CountEnv(3, mujoco=True)), cameras=[wall], **ROBOT)
    books = Books(env, env.unwrapped)
    books.reset(seed=0)
    for t in range(7):
        looked = env.observe()
        assert looked["observation.state"].tolist() == [looked["obs"]] == [env.unwrapped.count]
        books.step(t)
    env.close()
    compare(books, read_back(env.session_path), counts)


@EITHER
@pytest.mark.parametrize("kind", ["same step, undeclared", "same step, final_info", "next step, undeclared"])
def test_a_row_that_stands_for_several_steps(
    record: Any, read_back: Any, counts: Any, kind: str, calls_reset: bool
) -> None:
    inner = CountEnv([5, 4, 3], mujoco=True)
    env = record(KINDS[kind](inner), data_hz=25, **ROBOT)
    # The step that resets is no row of its own only if a row begins with it.
    books = Books(env, inner, keeps_last=True)
    drive(books, 24, calls_reset)
    env.end_episode()
    env.close()
    episodes = read_back(env.session_path)
    loses = "same" in kind
    expected = []
    for rows in books.recorded():
        pairs = [rows[k : k + 2] for k in range(0, len(rows), 2)]
        if loses and len(pairs[-1]) == 1 and rows[-1].is_done:
            pairs.pop()
        expected.append(pairs)
    assert [e.rows["obs"].tolist() for e in episodes] == [[p[0].count for p in pairs] for pairs in expected]
    assert [e.rows["action"][:, 0].tolist() for e in episodes] == [[p[0].action for p in pairs] for pairs in expected]
    rewards = [[float(sum(row.count % 100 for row in p)) for p in pairs] for pairs in expected]
    assert [e.rows["next.reward"].tolist() for e in episodes] == rewards
    assert [e.rows["next.done"].tolist() for e in episodes] == [
        [any(row.is_done for row in p) for p in pairs] for pairs in expected
    ]


def test_bundles_of_episodes_that_began_by_themselves(record: Any, read_back: Any, tmp_path: Any) -> None:
    inner = CountEnv([4, 3], succeeds=lambda n: n != 1, mujoco=True)
    env = record(SameStep(inner), koyu={"name": "counts", "collection_mode": "synthetic"}, **ROBOT)
    books = Books(env, inner)
    drive(books, 14, calls_reset=False)
    env.close()
    with lr.koyu.Dataset(env.koyu_path) as dataset:
        bundles = [
            (dataset.columns(n)["action"][:, 0].tolist(), dataset.sidecar(n)["reward"])
            for n in range(len(dataset.episodes))
        ]
    assert bundles == [([row.action for row in one], float(n != 1)) for n, one in enumerate(books.recorded())]
    assert len(bundles) == 4


def test_lost_steps_are_told_of_once(record: Any) -> None:
    inner = CountEnv(2, mujoco=True)
    env = record(SameStep(inner), **ROBOT)
    with pytest.warns(RuntimeWarning, match="reset itself inside a step") as caught:
        drive(Books(env, inner), 12, calls_reset=False)
    assert len(caught) == 1
    assert caught[0].filename.endswith("resetting.py")
    env.close()


@pytest.mark.parametrize("settings", [ROBOT, {"gym_columns": True}], ids=["robot", "custom"])
def test_episodes_of_one_step_that_reset_inside_of_it_are_not_lost_without_a_word(record: Any, settings: Any) -> None:
    inner = CountEnv(1, mujoco=True)
    env = record(SameStep(inner), **settings)
    with pytest.warns(RuntimeWarning, match="reset itself inside a step"):
        drive(Books(env, inner), 4, calls_reset=False)
    env.close()
    assert env.session_path is None


def test_steps_after_done_are_counted_in_one_warning(record: Any, read_back: Any) -> None:
    inner = CountEnv(3, mujoco=True)
    env = record(inner, **ROBOT)
    books = Books(env, inner)
    books.reset(seed=0)
    for t in range(10):
        books.step(t)
    with pytest.warns(RuntimeWarning, match="^7 steps came after one") as caught:
        books.reset(seed=1)
    assert len([one for one in caught if "came after" in str(one.message)]) == 1
    for t in range(5):
        books.step(t)
    with pytest.warns(RuntimeWarning, match="^2 steps came after one"):
        env.close()
    assert [e.rows["obs"].tolist() for e in read_back(env.session_path)] == [[0, 1, 2], [100, 101, 102]]


def test_actions_are_the_commands_and_not_what_the_reset_left(record: Any, read_back: Any) -> None:
    inner = CountEnv(4, mujoco=True)
    env = record(SameStep(inner), columns=[lr.Column("command", "ctrl:push")])
    drive(Books(env, inner), 8, calls_reset=False)
    env.close()
    assert [e.rows["command"].tolist() for e in read_back(env.session_path)] == [[0.5, 1.5, 2.5], [4.5, 5.5, 6.5]]
    assert np.array_equal(inner.data.ctrl, [0])


class ResetsAndGoesOn(NextStep):
    """Resets at the beginning of the step after the last one, and then takes the step."""

    def step(self, action: Any) -> Any:
        if self.is_over:
            self.reset()
        return super().step(action)


def steps(env: Any, count: int) -> None:
    for t in range(count):
        env.step(np.full(1, t + 0.5, np.float32))


@pytest.mark.parametrize("make", [CountEnv, Hard, WarmsUp])
def test_a_first_step_that_nobody_can_look_into_is_told_of_once(record: Any, read_back: Any, make: Any) -> None:
    env = record(ResetsAndGoesOn(make(3, mujoco=True)), **ROBOT)
    env.reset(seed=0)
    with pytest.warns(RuntimeWarning, match="at the beginning of the step .* call env.reset") as caught:
        steps(env, 12)
    assert len(caught) == 1
    env.close()
    episodes = read_back(env.session_path)
    assert [e.rows["obs"].tolist() for e in episodes] == [[0, 1, 2], [101, 102], [201, 202], [301, 302]]
    assert [e.rows["action"][:, 0].tolist() for e in episodes[1:]] == [[4.5, 5.5], [7.5, 8.5], [10.5, 11.5]]
