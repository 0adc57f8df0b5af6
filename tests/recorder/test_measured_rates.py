"""RecordSession: how long a step lasts is measured, whatever the environment says of itself."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv

ROBOT: dict[str, Any] = {"mode": "robot_arm", "gym_columns": True, "columns": [lr.Column("obs", "gym:obs")]}
XML = """<mujoco><option gravity="0 0 0"/><worldbody><body><joint name="j" type="slide"/><geom size=".1"/></body>
</worldbody><actuator><general joint="j" gainprm="0"/></actuator></mujoco>"""


class Beats(gym.Env[Any, Any]):
    """Each step lasts as long as it is told to, in so many physics steps; the last length is that of all that follow.

    Args:
        lasts: Seconds of the steps, in turn.
        parts: Physics steps in each.
        ends: After how many steps the episode is over.
        **says: What it says of its rate, by attribute.
    """

    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    observation_space = gym.spaces.Box(0, np.inf, (1,), np.float64)

    def __init__(self, lasts: Sequence[float] | float, parts: int = 1, ends: int = -1, **says: Any) -> None:
        self.metadata = {"render_fps": says.pop("render_fps")} if "render_fps" in says else {}
        self.lasts = [lasts] if isinstance(lasts, float) else list(lasts)
        self.parts, self.ends = parts, ends
        self.model = mujoco.MjModel.from_xml_string(XML)
        self.data = mujoco.MjData(self.model)
        vars(self).update(says)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        mujoco.mj_resetData(self.model, self.data)
        self.t = 0
        return np.zeros(1), {}

    def step(self, action: Any) -> Any:
        self.model.opt.timestep = self.lasts[min(self.t, len(self.lasts) - 1)] / self.parts
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, self.parts)
        self.t += 1
        return np.full(1, float(self.t)), 0.0, self.t == self.ends, False, {"success": True}


class Repeats(gym.Wrapper[Any, Any, Any, Any]):
    """Repeats each action, and stops where the episode is over."""

    def __init__(self, env: Any, times: int) -> None:
        super().__init__(env)
        self.times = times

    def step(self, action: Any) -> Any:
        for _ in range(self.times):
            result = self.env.step(action)
            if result[2] or result[3]:
                break
        return result


def act(env: Any, steps: int) -> None:
    env.reset(seed=0)
    for t in range(steps):
        env.step(np.full(1, t / 100, np.float32))


def finish(env: Any, read_back: Any) -> Any:
    env.end_episode(success=True)
    env.close()
    (episode,) = read_back(env.session_path)
    return episode


def check(env: Any, read_back: Any, rate: Fraction, rows: int) -> None:
    episode = finish(env, read_back)
    assert episode.rows["observation.state"].shape == (rows, 1)
    assert episode.rows["gym.action"] == pytest.approx([t / 100 for t in range(rows)])
    assert episode.rows["timestamp"] == pytest.approx([float(k / rate) for k in range(rows)], abs=1e-9)
    info = lr.Session(env.session_path).info
    assert info["hz"] == info["fps"] == pytest.approx(float(rate), rel=1e-12)


RATES = [Fraction(r) for r in ("1/3", 1, "5/2", 10, "24000/1001", "30000/1001", 50, 60, "200/3", 500, 1000, 2000)]


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("parts", [1, 7])
def test_any_rate_is_measured(record: Any, read_back: Any, rate: Fraction, parts: int) -> None:
    env = record(Beats(float(1 / rate), parts), **ROBOT)
    act(env, 40)
    check(env, read_back, rate, 40)


@pytest.mark.parametrize("lasts", [np.float32(0.02), np.float32(0.002) * 10, 0.1 * 3 - 0.28])
def test_a_step_that_was_rounded_is_the_rate_that_was_meant(record: Any, read_back: Any, lasts: Any) -> None:
    env = record(Beats(float(lasts), dt=lasts), **ROBOT)
    act(env, 500)
    check(env, read_back, Fraction(50), 500)


TRUE = [
    {},
    {"dt": 0.02},
    {"dt": np.float32(0.02)},
    {"control_timestep": lambda: 0.02},
    {"control_freq": 50},
    {"control_frequency": 50.0, "render_fps": 50},
]
WRONG = [
    ({"dt": 0.002}, "dt=0.002"),
    ({"dt": 0.04}, "dt=0.04"),
    ({"control_timestep": lambda: 0.03}, "control_timestep=0.03"),
    ({"control_freq": 20}, "control_freq=20"),
    ({"render_fps": 30}, "render_fps=30"),
    ({"dt": 0.02, "control_freq": 20, "render_fps": 500}, "control_freq=20, render_fps=500"),
]


@pytest.mark.parametrize("says", TRUE, ids=lambda says: "-".join(says) or "nothing")
def test_what_is_true_is_not_spoken_of(record: Any, read_back: Any, says: dict[str, Any]) -> None:
    env = record(Beats(0.02, **says), **ROBOT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        act(env, 5)
    check(env, read_back, Fraction(50), 5)


@pytest.mark.parametrize(("says", "told"), WRONG)
def test_what_is_wrong_is_told_of_once_and_recorded_as_it_is(
    record: Any, read_back: Any, says: dict[str, Any], told: str
) -> None:
    env = record(Beats(0.02, **says), **ROBOT)
    with pytest.warns(
        RuntimeWarning, match=rf"the environment states {told}, but a step lasts 0\.02 s .* is 50 Hz"
    ) as caught:
        act(env, 5)
    assert len(caught) == 1
    assert Path(caught[0].filename) == Path(__file__)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        act(env, 5)
        env.end_episode(success=True)
    env.close()
    assert [e.rows["timestamp"].tolist() for e in read_back(env.session_path)] == [[0, 0.02, 0.04, 0.06, 0.08]] * 2


@pytest.mark.parametrize("times", [2, 4])
@pytest.mark.parametrize("ends", [-1, 9])
def test_a_repeated_action_lasts_as_long_as_its_steps(record: Any, read_back: Any, times: int, ends: int) -> None:
    env = record(Repeats(CountEnv(ends if ends > 0 else None, mujoco=True), times), **ROBOT)
    steps = -(-9 // times)
    with pytest.warns(RuntimeWarning, match=r"states render_fps=50, dt=0\.02, but a step lasts"):
        act(env, steps)
    episode = finish(env, read_back)
    # The last one may be cut short: no time stamp depends on how long it was.
    assert episode.rows["obs"].tolist() == list(range(0, 9, times))
    assert episode.rows["timestamp"] == pytest.approx([0.02 * times * k for k in range(steps)], abs=1e-9)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (50, r"data_hz='50': is above .* measured \(a step lasts 0\.04 s\); the nearest: 25 Hz"),
        (10, r"data_hz='10': does not divide .* measured \(a step lasts 0\.04 s\), 25 Hz, .*: 25/3 or 25/2 Hz"),
    ],
)
def test_a_data_rate_that_does_not_divide_the_measured_one_leaves_nothing(
    record: Any, tmp_path: Path, asked: int, message: str
) -> None:
    env = record(Beats(0.04), data_hz=asked, **ROBOT)
    for _ in range(2):
        with pytest.raises(lr.SettingsError, match=message):
            act(env, 1)
    assert not env.is_recording
    env.close()
    assert list(tmp_path.glob("DataSessions/*")) == []


@pytest.mark.parametrize("asked", [25, 12.5, "25/3", 5])
def test_a_data_rate_that_divides_the_measured_one(record: Any, read_back: Any, asked: Any) -> None:
    env = record(Repeats(CountEnv(None, mujoco=True), 2), data_hz=asked, **ROBOT)
    with pytest.warns(RuntimeWarning, match="states render_fps=50, dt"):
        act(env, 10)
    episode, every = finish(env, read_back), int(25 / Fraction(asked))
    assert episode.rows["obs"].tolist() == list(range(0, 20, 2 * every))
    assert episode.rows["timestamp"] == pytest.approx([0.04 * k for k in range(0, 10, every)], abs=1e-9)


# Steps that are unlike the others.


@pytest.mark.parametrize("at", [1, 2, 6])
@pytest.mark.parametrize("other", [0.01, 0.0201, 0.04])
def test_a_step_of_another_length_fails_its_episode_only(record: Any, read_back: Any, at: int, other: float) -> None:
    inner = Beats([0.02] * at + [other, 0.02])
    env = record(inner, **ROBOT)
    with pytest.raises(
        lr.CaptureError, match=rf"tick {at} .* lasted {other} s .* the others 0\.02 s \(50 Hz\)"
    ) as caught:
        act(env, 8)
    assert "uneven_steps='allow'" in str(caught.value)
    assert "data_hz" not in str(caught.value)
    inner.lasts = [0.02]
    act(env, 3)
    env.end_episode(success=True)
    env.close()
    episodes = read_back(env.session_path)
    assert [(len(e.rows["obs"]), e.meta["success"]) for e in episodes] == [(at, False), (3, True)]


def test_a_first_step_unlike_the_others(record: Any, read_back: Any) -> None:
    env = record(Beats([0.03, 0.02]), **ROBOT)
    with pytest.raises(lr.CaptureError, match=r"tick 1 .* lasted 0\.02 s .* the others 0\.03 s \(100/3 Hz\)"):
        act(env, 3)
    env.close()
    env = record(Beats([0.03, 0.02]), control_hz=50, uneven_steps="allow", **ROBOT)
    act(env, 3)
    env.end_episode(success=True)
    with pytest.warns(RuntimeWarning, match=r"^1 steps lasted another time than 0\.02 s"):
        env.close()
    (episode,) = read_back(env.session_path)
    assert episode.rows["timestamp"].tolist() == [0, 0.02, 0.04]


def test_uneven_steps_may_be_allowed_and_are_counted(
    record: Any, read_back: Any, caplog: pytest.LogCaptureFixture
) -> None:
    env = record(Beats([0.02, 0.02, 0.04, 0.01, 0.02]), uneven_steps="allow", **ROBOT)
    act(env, 6)
    act(env, 6)
    env.end_episode(success=True)
    with (
        caplog.at_level(logging.WARNING, "lucky_recorder"),
        pytest.warns(RuntimeWarning, match="^4 steps lasted") as told,
    ):
        env.close()
    assert len(told) == 1
    assert [r.message for r in caplog.records] == [str(told[0].message)]
    assert str(env.session_path) in caplog.text
    assert [e.rows["timestamp"].tolist() for e in read_back(env.session_path)] == [[0, 0.02, 0.04, 0.06, 0.08, 0.1]] * 2


@pytest.mark.parametrize("last", [0.002, 0.01])
def test_a_last_step_may_be_shorter(record: Any, read_back: Any, last: float) -> None:
    env = record(Beats([0.02] * 4 + [last], ends=5), **ROBOT)
    act(env, 5)
    episode = finish(env, read_back)
    assert episode.rows["timestamp"].tolist() == [0, 0.02, 0.04, 0.06, 0.08]
    assert episode.rows["next.done"].tolist() == [False] * 4 + [True]


@pytest.mark.parametrize(("began", "lasts", "rate"), [(1.7e9, 0.02, 50), (5000.0, 0.008333, "1000000/8333")])
def test_a_rate_is_the_same_however_late_the_simulations_clock_is(
    record: Any, read_back: Any, began: float, lasts: float, rate: Any
) -> None:
    class Late(Beats):
        def reset(self, **options: Any) -> Any:
            result = super().reset(**options)
            self.data.time = began
            return result

    env = record(Late(lasts), **ROBOT)
    act(env, 4)
    check(env, read_back, Fraction(rate), 4)


def test_a_rate_holds_for_hours(record: Any, read_back: Any) -> None:
    """Times are rounded more and more coarsely the longer a simulation runs."""
    inner = Beats(1 / 60)
    env = record(inner, **ROBOT)
    act(env, 2)
    env.end_episode(success=True)
    env.reset()
    inner.data.time = 100_000.0
    for _ in range(50):
        env.step(np.zeros(1, np.float32))
    env.end_episode(success=True)
    env.close()
    assert [len(e.rows["obs"]) for e in read_back(env.session_path)] == [2, 50]


# What is stated by the settings.


@pytest.mark.parametrize("control", [12, "25/2"])
def test_where_no_simulation_is_found_control_hz_says_it(record: Any, run: Any, read_back: Any, control: Any) -> None:
    inner = CountEnv(4)
    inner.metadata = {"render_modes": []}
    del inner.dt
    env = record(inner, control_hz=control)
    run(env)
    env.close()
    (episode,) = read_back(env.session_path)
    assert episode.rows["timestamp"] == pytest.approx([float(k / Fraction(control)) for k in range(4)], abs=1e-9)


def test_control_hz_goes_before_what_an_environment_without_a_simulation_says(
    record: Any, run: Any, read_back: Any
) -> None:
    env = record(CountEnv(4), control_hz=20, data_hz=10)
    run(env)
    env.close()
    (episode,) = read_back(env.session_path)
    assert (episode.rows["obs"].tolist(), episode.rows["timestamp"].tolist()) == ([0, 2], [0, 0.1])


def test_control_hz_that_contradicts_the_simulation_is_refused(record: Any, tmp_path: Path, read_back: Any) -> None:
    env = record(Beats(0.04), control_hz=50, **ROBOT)
    with pytest.raises(lr.SettingsError, match=r"control_hz='50': but a step lasts 0\.04 s .* 25 Hz; leave it out, or"):
        act(env, 1)
    env.close()
    assert list(tmp_path.glob("DataSessions/*")) == []
    env = record(Beats(0.04), control_hz=25, **ROBOT)
    act(env, 3)
    check(env, read_back, Fraction(25), 3)


class Still(Beats):
    """Moves its simulation without letting its time pass."""

    def step(self, action: Any) -> Any:
        result = super().step(action)
        self.data.time = 0
        return result


def test_a_simulation_whose_time_stands_still_needs_a_rate(record: Any, read_back: Any, tmp_path: Path) -> None:
    env = record(Still(0.02), **ROBOT)
    with pytest.raises(lr.SettingsError, match=r"nothing here says how long a step is; .*control_hz"):
        act(env, 1)
    env.close()
    assert list(tmp_path.glob("DataSessions/*")) == []
    env = record(Still(0.02), control_hz=50, **ROBOT)
    act(env, 4)
    check(env, read_back, Fraction(50), 4)
    env = record(Still(0.02), data_hz=50, **ROBOT)
    # It may be that another simulation is the one that moves.
    with pytest.warns(RuntimeWarning, match="time stood still in the first step.*another MjData"):
        act(env, 4)
    check(env, read_back, Fraction(50), 4)


def test_a_simulation_that_begins_to_move_fails_the_episode(record: Any, read_back: Any) -> None:
    class Wakes(Beats):
        def step(self, action: Any) -> Any:
            result = super().step(action)
            if self.t <= 3:
                self.data.time = 0
            return result

    env = record(Wakes(0.02), control_hz=50, **ROBOT)
    with pytest.raises(lr.CaptureError, match="stands still"):
        act(env, 6)
    env.close()
    assert [(len(e.rows["obs"]), e.meta["success"]) for e in read_back(env.session_path)] == [(3, False)]


# Steps that are taken in parts.


def test_a_policy_s_action_that_is_clipped_in_place_is_recorded_as_it_was_sent(record: Any, read_back: Any) -> None:
    """Where rows are made inside the step, they are made after the environment has changed the action."""

    class Clips(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            np.clip(action, -0.25, 0.25, out=action)
            return super().step(action)

    inner = gym.make("LuckyRecorder/PickCube-v0", max_episode_steps=5)
    env = record(Clips(inner), data_hz=100, gym_columns=True, columns=[], mode="robot_arm")
    env.reset(seed=0)
    env.step(np.full(inner.action_space.shape, 0.75, np.float32))
    env.close()
    (episode,) = read_back(env.session_path)
    assert episode.rows["gym.action"].tolist() == [[0.75] * inner.action_space.shape[0]] * 2
