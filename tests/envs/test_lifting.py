"""The sample environments keep gymnasium's contract, reproduce from a seed and know success."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import lucky_recorder.envs
from lucky_recorder.envs.lifting import HOLD_TICKS, LiftingEnv
from lucky_recorder.envs.pick_cube import PickCubeEnv

ENV_IDS = ["LuckyRecorder/PickCube-v0", "LuckyRecorder/TwinArms-v0"]


@pytest.fixture(params=ENV_IDS)
def env(request: pytest.FixtureRequest) -> Iterator[gymnasium.Env]:
    env = gymnasium.make(request.param)
    yield env
    env.close()


def roll(env: gymnasium.Env, ticks: int, seed: int | None) -> list[np.ndarray]:
    """Observations and rewards of an expert's episode."""
    policy = env.unwrapped.expert()
    obs, _ = env.reset(seed=seed)
    seen = [obs]
    for _ in range(ticks):
        obs, reward, *_ = env.step(policy(obs))
        seen += [obs, np.array(reward)]
    return seen


@pytest.mark.filterwarnings("ignore:.*Box observation space m:UserWarning")
@pytest.mark.filterwarnings("ignore:.*For Box action spaces, we recommend:UserWarning")
def test_keeps_gymnasiums_contract(env: gymnasium.Env) -> None:
    check_env(env.unwrapped, skip_render_check=True)


def test_spaces_and_rate(env: gymnasium.Env) -> None:
    model = env.unwrapped.model
    assert env.action_space.shape == (model.nu,)
    np.testing.assert_array_equal(env.action_space.low, model.actuator_ctrlrange[:, 0].astype(np.float32))
    assert env.observation_space.dtype == np.float64
    assert env.unwrapped.dt == pytest.approx(1 / env.metadata["render_fps"], abs=1e-12)
    assert env.spec.max_episode_steps == 120


def test_a_seed_reproduces_every_episode_after_it(env: gymnasium.Env) -> None:
    first = roll(env, 20, seed=3) + roll(env, 20, seed=None)
    again = roll(env, 20, seed=3) + roll(env, 20, seed=None)
    other = roll(env, 1, seed=4)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])
    assert not np.array_equal(first[0], first[41])


def test_cubes_lie_apart_from_one_episode_to_the_next(env: gymnasium.Env) -> None:
    poses = np.array([env.reset(seed=seed)[0][env.unwrapped.arms[0].cube_qpos] for seed in range(20)])
    assert (poses[:, :2].std(axis=0) > 0.01).all()
    assert poses[:, 6].std() > 0.3
    np.testing.assert_allclose(np.linalg.norm(poses[:, 3:], axis=1), 1, atol=1e-12)


def test_success_is_said_every_tick_and_ends_the_episode_once_held(env: gymnasium.Env) -> None:
    policy = env.unwrapped.expert()
    obs, info = env.reset(seed=0)
    verdicts = [info["is_success"]]
    terminated = False
    while not terminated:
        obs, _, terminated, truncated, info = env.step(policy(obs))
        assert not truncated
        verdicts.append(info["is_success"])
    assert {type(verdict) for verdict in verdicts} == {bool}
    assert verdicts[-HOLD_TICKS:] == [True] * HOLD_TICKS
    assert not any(verdicts[:30])


def test_a_cube_in_the_air_that_nobody_holds_is_no_success() -> None:
    env = PickCubeEnv()
    env.reset(seed=0)
    env.data.qpos[env.arms[0].cube_qpos][2] += 0.3
    *_, info = env.step(env.model.key("home").ctrl)
    assert env.data.qpos[env.arms[0].cube_qpos][2] > 0.2
    assert info == {"is_success": False}


def test_reward_grows_with_the_cube(env: gymnasium.Env) -> None:
    rewards = roll(env, 50, seed=1)[2::2]
    assert rewards[0] < rewards[20] < 1
    assert rewards[-1] > 1.5


@pytest.mark.parametrize("camera_name", ["front", "wrist"])
def test_renders_the_right_way_up_in_the_right_colours(camera_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "egl")
    env = gymnasium.make(ENV_IDS[0], render_mode="rgb_array", width=320, height=240, camera_name=camera_name)
    env.reset(seed=1)
    red, green, blue = (env.render()[..., channel].astype(int) for channel in range(3))
    env.close()
    cube = (red > 120) & (green < 60) & (blue < 60)
    arm = (red > 150) & (green > 60) & (green < 140) & (blue < 60)
    assert cube.sum() > 100
    assert arm.sum() > 500
    below = np.nonzero(cube)[0].mean() - np.nonzero(arm)[0].mean()
    assert below > 0 if camera_name == "front" else below < 0


def test_a_pickled_env_is_made_anew() -> None:
    env = PickCubeEnv(width=64, height=48)
    copy = pickle.loads(pickle.dumps(env))
    assert isinstance(copy, LiftingEnv)
    assert copy.width == 64
    np.testing.assert_array_equal(copy.reset(seed=2)[0], env.reset(seed=2)[0])


def test_the_package_says_what_it_offers() -> None:
    assert sorted(lucky_recorder.envs.__all__) == lucky_recorder.envs.__all__
    assert all(hasattr(lucky_recorder.envs, name) for name in lucky_recorder.envs.__all__)
