"""The scripted expert succeeds, fails when told to, and leaves the simulation alone."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import gymnasium
import mujoco
import numpy as np
import pytest

import lucky_recorder.envs  # noqa: F401, makes gymnasium know the environments
from lucky_recorder.envs.expert import LiftingExpert, Phase, smooth_path
from lucky_recorder.envs.pick_cube import PickCubeEnv
from lucky_recorder.errors import SettingsError


@pytest.fixture(params=["LuckyRecorder/PickCube-v0", "LuckyRecorder/TwinArms-v0"])
def env(request: pytest.FixtureRequest) -> Iterator[gymnasium.Env]:
    env = gymnasium.make(request.param)
    yield env
    env.close()


@pytest.fixture
def pick_cube() -> PickCubeEnv:
    return PickCubeEnv()


def play(env: gymnasium.Env, policy: LiftingExpert, seed: int) -> tuple[bool, int]:
    """Whether the episode succeeded, and its ticks."""
    obs, info = env.reset(seed=seed)
    ticks, done = 0, False
    while not done:
        obs, _, terminated, truncated, info = env.step(policy(obs))
        done = terminated or truncated
        ticks += 1
    return info["is_success"], ticks


def first_actions(env: PickCubeEnv, policy: LiftingExpert, seeds: range) -> np.ndarray:
    """What the policy does first in each episode; it shows where the policy sets out for."""
    return np.array([policy(env.reset(seed=seed)[0]) for seed in seeds])


def whole_state(env: PickCubeEnv) -> list[np.ndarray]:
    signature = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(env.model, signature))
    mujoco.mj_getState(env.model, env.data, state, signature)
    derived = (env.data.xpos, env.data.site_xpos, env.data.cdof, env.data.qacc, env.data.contact.geom)
    return [state, *(array.copy() for array in derived)]


def test_succeeds_in_about_sixty_ticks(env: gymnasium.Env) -> None:
    policy = env.unwrapped.expert()
    verdicts, ticks = zip(*(play(env, policy, seed) for seed in range(12)), strict=True)
    assert sum(verdicts) >= 11
    assert 50 <= np.mean(ticks) <= 70
    assert len(set(ticks)) > 1


def test_fails_when_told_to_until_time_is_up(env: gymnasium.Env) -> None:
    policy = env.unwrapped.expert(fail=1.0)
    assert [play(env, policy, seed) for seed in range(4)] == [(False, 120)] * 4


def test_misses_as_often_as_asked_keyed_by_seed_and_scene(pick_cube: PickCubeEnv) -> None:
    seeds = range(24)
    sure = first_actions(pick_cube, pick_cube.expert(), seeds)
    seven = first_actions(pick_cube, pick_cube.expert(fail=0.5, seed=7), seeds)
    backwards = first_actions(pick_cube, pick_cube.expert(fail=0.5, seed=7), seeds[::-1])
    eight = first_actions(pick_cube, pick_cube.expert(fail=0.5, seed=8), seeds)
    assert 6 <= (seven != sure).any(axis=1).sum() <= 18
    np.testing.assert_array_equal(backwards[::-1], seven)
    assert not np.array_equal(eight, seven)


def test_no_seed_counts_as_zero(pick_cube: PickCubeEnv) -> None:
    unseeded, zero = (first_actions(pick_cube, pick_cube.expert(0.5, seed), range(8)) for seed in (None, 0))
    np.testing.assert_array_equal(unseeded, zero)


def test_leaves_the_simulation_alone(pick_cube: PickCubeEnv) -> None:
    obs, _ = pick_cube.reset(seed=0)
    before = whole_state(pick_cube)
    policy = pick_cube.expert(fail=0.5, seed=1)
    policy(obs)
    assert all(np.array_equal(a, b) for a, b in zip(before, whole_state(pick_cube), strict=True))


def test_a_run_is_bit_equal_whoever_else_is_asked() -> None:
    runs = []
    for onlooker in (False, True):
        env = PickCubeEnv()
        obs, _ = env.reset(seed=5)
        policy, other = env.expert(), env.expert(fail=1.0)
        for _ in range(30):
            if onlooker:
                other(obs)
            obs, *_ = env.step(policy(obs))
        runs.append(whole_state(env))
    assert all(np.array_equal(a, b) for a, b in zip(*runs, strict=True))


def test_notices_a_new_episode_by_itself(pick_cube: PickCubeEnv) -> None:
    policy = pick_cube.expert()
    for seed in (0, 1):
        obs, _ = pick_cube.reset(seed=seed)
        np.testing.assert_array_equal(policy(obs), pick_cube.expert()(obs))
        obs, *_ = pick_cube.step(policy(obs))
        policy(obs)


def test_reset_plans_anew_from_where_the_arm_is(pick_cube: PickCubeEnv) -> None:
    obs, _ = pick_cube.reset(seed=0)
    policy = pick_cube.expert()
    for _ in range(20):
        obs, *_ = pick_cube.step(policy(obs))
    held_back = policy(obs)
    policy.reset()
    np.testing.assert_allclose(policy(obs)[:5], obs[:5], atol=0.05)
    assert not np.array_equal(policy(obs), held_back)


def test_stays_where_it_is_once_the_plan_is_over(pick_cube: PickCubeEnv) -> None:
    obs, _ = pick_cube.reset(seed=0)
    policy = pick_cube.expert(fail=1.0)
    actions = []
    for _ in range(100):
        actions.append(policy(obs))
        obs, *_ = pick_cube.step(actions[-1])
    assert pick_cube.action_space.contains(actions[-1])
    np.testing.assert_array_equal(actions[-1], actions[-20])


def test_survives_pickling(pick_cube: PickCubeEnv) -> None:
    obs, _ = pick_cube.reset(seed=0)
    policy = pick_cube.expert(fail=0.3, seed=4)
    expected = policy(obs)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(policy))(obs), expected)


@pytest.mark.parametrize(("field", "value"), [("fail", 1.5), ("fail", -0.1), ("fail", float("nan")), ("seed", -1)])
def test_a_wrong_setting_is_refused(pick_cube: PickCubeEnv, field: str, value: float) -> None:
    with pytest.raises(SettingsError, match=f"{field}={value!r}"):
        pick_cube.expert(**{field: value})


def test_a_smooth_path_starts_softly_and_ends_at_every_target() -> None:
    start, there, back = np.zeros(6), np.ones(6), np.full(6, 0.5)
    path = smooth_path(start, (Phase(10, there), Phase(5, back)))
    assert path.shape == (15, 6)
    np.testing.assert_allclose(path[9], there, atol=1e-12)
    np.testing.assert_allclose(path[14], back, atol=1e-12)
    steps = np.diff(path[:10, 0])
    assert path[0, 0] < steps.max() / 4
    assert (steps > 0).all()
