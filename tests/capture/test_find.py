"""Fakes have the shapes of the libraries they stand for: where those keep their simulation, how they say their rate."""

from __future__ import annotations

import weakref
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

from lucky_recorder.capture import find as resolve
from lucky_recorder.errors import SettingsError

XML = "<mujoco><worldbody><body><joint/><geom size='0.1'/></body></worldbody></mujoco>"


@pytest.fixture
def pair() -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(XML)
    return model, mujoco.MjData(model)


class Wrapped:
    """A wrapper of a model or data that hands its attributes through, as robosuite's and dm_control's do."""

    def __init__(self, **inner: Any) -> None:
        vars(self).update(inner)


class DmPhysics:
    """dm_control: wrapped model and data, the real ones under ``ptr``; its physics is handed out as a weak proxy."""

    def __init__(self, model: Any, data: Any) -> None:
        self.model, self.data = Wrapped(ptr=model), Wrapped(ptr=data, model=Wrapped(ptr=model))


class DmEnvironment:
    def __init__(self, model: Any, data: Any) -> None:
        self._owned = DmPhysics(model, data)

    @property
    def physics(self) -> Any:
        return weakref.proxy(self._owned)

    def control_timestep(self) -> float:
        return 0.03


def dm_control(model: Any, data: Any) -> Any:
    return DmEnvironment(model, data)


def robosuite(model: Any, data: Any) -> Any:
    inner = Wrapped(_model=model)
    sim = SimpleNamespace(model=inner, data=Wrapped(_model=inner, _data=data))
    return SimpleNamespace(sim=sim, control_freq=20, control_timestep=0.05, model=SimpleNamespace(mujoco_robots=[]))


def robosuite_whose_data_holds_the_bare_model(model: Any, data: Any) -> Any:
    return SimpleNamespace(sim=SimpleNamespace(model=Wrapped(_model=model), data=Wrapped(_model=model, _data=data)))


def metaworld(model: Any, data: Any) -> Any:
    return SimpleNamespace(unwrapped=SimpleNamespace(model=model, data=data, dt=0.0125))


def gym_hil(model: Any, data: Any) -> Any:
    return SimpleNamespace(_model=model, _data=data, control_dt=0.1)


def playground(model: Any, data: Any) -> Any:
    return SimpleNamespace(env=SimpleNamespace(_env=SimpleNamespace(mj_model=model, mj_data=data)))


def aloha(model: Any, data: Any) -> Any:
    return SimpleNamespace(_env=DmEnvironment(model, data))


FAKES = [dm_control, robosuite, robosuite_whose_data_holds_the_bare_model, metaworld, gym_hil, playground, aloha]


@pytest.mark.parametrize("fake", FAKES)
def test_the_simulation_is_found_wherever_a_library_keeps_it(fake: Any, pair: tuple[Any, Any]) -> None:
    found = resolve.find_simulation(fake(*pair))
    assert found is not None
    assert found.model is pair[0]
    assert found.data is pair[1]


def test_behind_a_gymnasium_wrapper_too(pair: tuple[Any, Any]) -> None:
    class Adapter(gym.Env[Any, Any]):
        def __init__(self) -> None:
            self._env = DmEnvironment(*pair)

    found = resolve.find_simulation(gym.Wrapper(gym.Wrapper(Adapter())))
    assert found == pair


def test_the_outermost_pair_counts(pair: tuple[Any, Any]) -> None:
    inner = mujoco.MjModel.from_xml_string(XML)
    env = SimpleNamespace(
        env=SimpleNamespace(model=pair[0], data=pair[1], env=SimpleNamespace(model=inner, data=mujoco.MjData(inner)))
    )
    assert resolve.find_simulation(env) == pair


@pytest.mark.parametrize(
    "env",
    [
        None,
        object(),
        SimpleNamespace(model="a model", data="some data"),
        SimpleNamespace(model=Wrapped(ptr=3), data=Wrapped(ptr=4)),
        SimpleNamespace(sim=SimpleNamespace(model=None, data=None)),
    ],
)
def test_what_only_looks_like_a_simulation_is_none(env: Any) -> None:
    assert resolve.find_simulation(env) is None


def test_a_model_without_its_data_is_no_pair(pair: tuple[Any, Any]) -> None:
    assert resolve.find_simulation(SimpleNamespace(model=pair[0])) is None
    assert resolve.find_simulation(SimpleNamespace(model=pair[1], data=pair[0])) is None


def test_properties_that_raise_are_passed_over(pair: tuple[Any, Any]) -> None:
    class Touchy:
        @property
        def model(self) -> Any:
            raise RuntimeError("not before reset")

        @property
        def dt(self) -> Any:
            raise RuntimeError("not before reset")

        env = SimpleNamespace(model=pair[0], data=pair[1], dt=0.02)

    assert resolve.find_simulation(Touchy()) == pair
    assert resolve.control_rate(Touchy()) == 50


def test_environments_that_hold_each_other_end_the_search() -> None:
    one, other = SimpleNamespace(), SimpleNamespace()
    one.env, other.env = other, one
    assert resolve.find_simulation(one) is None


def test_proxies_made_anew_at_every_look_hide_nothing(pair: tuple[Any, Any]) -> None:
    """Objects that are gone once looked at leave their ids to others: those must still be looked at."""

    class Deep:
        def __init__(self, depth: int) -> None:
            self.depth = depth
            if depth == 0:
                self.model, self.data = pair

        @property
        def env(self) -> Any:
            return Deep(self.depth - 1) if self.depth else None

    assert resolve.find_simulation(Deep(20)) == pair


@pytest.mark.parametrize(
    ("env", "rate"),
    [
        (SimpleNamespace(dt=0.02), 50),
        (SimpleNamespace(dt=0.015), Fraction(200, 3)),
        (SimpleNamespace(dt=np.float64(0.015)), Fraction(200, 3)),
        (SimpleNamespace(dt=1 / 30), 30),
        (SimpleNamespace(dt=0.0125), 80),
        (SimpleNamespace(control_timestep=lambda: 0.03), Fraction(100, 3)),
        (SimpleNamespace(control_timestep=0.05), 20),
        (SimpleNamespace(control_dt=0.1), 10),
        (SimpleNamespace(control_freq=20), 20),
        (SimpleNamespace(control_frequency=12.5), Fraction(25, 2)),
        (SimpleNamespace(unwrapped=SimpleNamespace(dt=0.04)), 25),
        (SimpleNamespace(env=SimpleNamespace(_env=SimpleNamespace(control_freq=20))), 20),
        (SimpleNamespace(dt=lambda: 0.02, control_freq=20), 20),
        (SimpleNamespace(dt=None, control_dt=0.5), 2),
        (SimpleNamespace(dt=0, control_dt=0.5), 2),
        (SimpleNamespace(dt=True, control_dt=0.5), 2),
        (SimpleNamespace(dt="fast", control_dt=0.5), 2),
    ],
)
def test_the_control_rate_as_an_environment_says_it(env: Any, rate: Fraction | int) -> None:
    assert resolve.control_rate(env) == rate


@pytest.mark.parametrize(
    ("fake", "rate"),
    [(dm_control, Fraction(100, 3)), (robosuite, 20), (metaworld, 80), (gym_hil, 10), (aloha, Fraction(100, 3))],
)
def test_the_control_rate_of_each_library(fake: Any, rate: Fraction | int, pair: tuple[Any, Any]) -> None:
    assert resolve.control_rate(fake(*pair)) == rate


@pytest.mark.parametrize("env", [None, SimpleNamespace(), SimpleNamespace(control_timestep=lambda: 1 / 0)])
def test_an_environment_that_does_not_say_its_rate_has_none(env: Any) -> None:
    assert resolve.control_rate(env) is None


def test_a_step_that_is_no_time_is_an_error_that_names_control_hz() -> None:
    with pytest.raises(SettingsError, match="set control_hz"):
        resolve.control_rate(SimpleNamespace(dt=float("inf")))


@pytest.mark.parametrize(
    ("id_", "rate"), [("Humanoid-v5", Fraction(200, 3)), ("HalfCheetah-v5", 20), ("LuckyRecorder/PickCube-v0", 50)]
)
def test_gymnasiums_own_environments(id_: str, rate: Fraction | int) -> None:
    env = gym.make(id_)
    found = resolve.find_simulation(env)
    assert found is not None
    assert found.model is env.unwrapped.model
    assert resolve.control_rate(env) == rate
    env.close()


@pytest.mark.parametrize(
    ("metadata", "rate"),
    [
        ({"render_fps": 30}, 30),
        ({"render_fps": 29.97}, Fraction(2997, 100)),
        ({}, None),
        (None, None),
        ({"render_fps": None}, None),
    ],
)
def test_the_frame_rate_of_an_environment_without_a_clock(metadata: Any, rate: Any) -> None:
    assert resolve.frame_rate(SimpleNamespace(metadata=metadata)) == rate
    assert resolve.frame_rate(object()) is None


# Whether it is still there.


@pytest.mark.parametrize("fake", FAKES)
def test_a_simulation_that_was_found_is_still_there(fake: Any, pair: tuple[Any, Any]) -> None:
    located = resolve.locate_simulation(fake(*pair))
    assert located is not None
    assert located.found == pair
    assert located.is_still_there()
    assert located.is_still_there()


def held(pair: tuple[Any, Any]) -> list[tuple[Any, Any, str, str]]:
    """Environments, the object in them that holds the simulation, and by which attributes."""
    plain = SimpleNamespace(model=pair[0], data=pair[1])
    deep = SimpleNamespace(_env=SimpleNamespace(physics=DmPhysics(*pair)))
    suite = robosuite(*pair)
    return [
        (plain, plain, "model", "data"),
        (SimpleNamespace(env=SimpleNamespace(_env=plain)), plain, "model", "data"),
        (deep, deep._env.physics.model, "ptr", ""),
        (deep, deep._env.physics.data, "", "ptr"),
        (suite, suite.sim.model, "_model", ""),
        (suite, suite.sim.data, "", "_data"),
    ]


@pytest.mark.parametrize("which", range(6))
@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("how", ["another", "none", "gone"])
def test_a_simulation_that_was_replaced_is_not(pair: tuple[Any, Any], which: int, part: int, how: str) -> None:
    env, holder, *names = held(pair)[which]
    located = resolve.locate_simulation(env)
    assert located is not None
    if not names[part]:
        pytest.skip("this object holds the other one")
    if how == "gone":
        delattr(holder, names[part])
    else:
        model = mujoco.MjModel.from_xml_string(XML)
        another = (model, mujoco.MjData(model))[part]
        setattr(holder, names[part], another if how == "another" else None)
    assert not located.is_still_there()


@pytest.mark.parametrize("name", ["sim", "_env", "physics"])
def test_an_object_on_the_way_that_was_replaced_is_seen(pair: tuple[Any, Any], name: str) -> None:
    env = SimpleNamespace(**{name: SimpleNamespace(model=pair[0], data=pair[1])})
    located = resolve.locate_simulation(env)
    assert located is not None
    setattr(env, name, SimpleNamespace(model=pair[0], data=mujoco.MjData(pair[0])))
    assert not located.is_still_there()
    again = resolve.locate_simulation(env)
    assert again is not None
    assert again.is_still_there()


def test_behind_gymnasiums_wrappers_one_look_is_short(pair: tuple[Any, Any]) -> None:
    class Bare(gym.Env[Any, Any]):
        model, data = pair

    env: Any = Bare()
    for _ in range(10):
        env = gym.Wrapper(env)
    located = resolve.locate_simulation(env)
    assert located is not None
    env.unwrapped.data = mujoco.MjData(pair[0])
    assert not located.is_still_there()
