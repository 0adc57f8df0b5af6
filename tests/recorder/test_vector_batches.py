"""Vector environments that only return batches: the same rows as from the environments themselves."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import lucky_recorder as lr
from lucky_recorder.testing import check_session
from tests.recorder.lanes import LENGTHS, OBS, SIZE, Lane, assert_recorded, custom, expected, run, vector

MODES = list(AutoresetMode)
STEPS = 13
EYE = lr.Camera("eye", source="render", **SIZE)


class Remote(gym.vector.VectorEnv[Any, Any, Any]):
    """Returns what a `SyncVectorEnv` returns, whose environments nobody can reach; infos in a form of its own."""

    def __init__(self, inner: SyncVectorEnv, form: str = "masked", declares: bool = True) -> None:
        self._inner, self._form = inner, form
        self.num_envs, self.render_mode = inner.num_envs, inner.render_mode
        self.metadata = dict(inner.metadata)
        if not declares:
            del self.metadata["autoreset_mode"]
        for name in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
            setattr(self, name, getattr(inner, name))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        observations, infos = self._inner.reset(seed=seed, options=options)
        return observations, self._formed(infos)

    def step(self, actions: Any) -> Any:
        *rest, infos = self._inner.step(actions)
        # Some clip in place what they are given.
        actions[:] = -1
        return (*rest, self._formed(infos))

    def render(self) -> Any:
        return self._inner.render()

    def close_extras(self, **kwargs: Any) -> None:
        self._inner.close()

    def _formed(self, infos: dict[str, Any]) -> Any:
        if self._form == "masked":
            return infos
        if self._form == "plain":
            return {key: value for key, value in infos.items() if not key.startswith("_")}
        return [_of_lane(infos, lane) for lane in range(self.num_envs)]


def _of_lane(infos: dict[str, Any], lane: int) -> dict[str, Any]:
    said = {key: value for key, value in infos.items() if not key.startswith("_") and infos[f"_{key}"][lane]}
    return {key: _of_lane(value, lane) if isinstance(value, dict) else value[lane] for key, value in said.items()}


@pytest.mark.parametrize("form", ["masked", "plain", "list"])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_the_same_rows_and_frames_from_batches(tmp_path: Path, mode: AutoresetMode, form: str) -> None:
    env = lr.RecordSession(Remote(vector(mode=mode), form), **custom(tmp_path, cameras=[EYE]))
    run(env, STEPS, mode)
    env.close()
    assert_recorded(env.session_path, expected(LENGTHS, STEPS, mode), ["eye"])


@pytest.mark.parametrize("mode", MODES)
def test_an_async_vector_environment(tmp_path: Path, mode: AutoresetMode) -> None:
    makers = [functools.partial(Lane, lane, n) for lane, n in enumerate(LENGTHS)]
    inner = AsyncVectorEnv(makers, context="spawn", autoreset_mode=mode)
    env = lr.RecordSession(inner, **custom(tmp_path, cameras=[EYE]))
    run(env, STEPS, mode)
    env.close()
    assert_recorded(env.session_path, expected(LENGTHS, STEPS, mode), ["eye"])


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_mode_that_is_not_declared_is_told_by_what_comes_and_said(tmp_path: Path, mode: AutoresetMode) -> None:
    env = lr.RecordSession(Remote(vector(mode=mode), declares=False), **custom(tmp_path))
    with pytest.warns(RuntimeWarning, match=f"does not say how it resets .* recorded as {mode.value}") as told:
        run(env, STEPS)
    assert len(told) == 1
    env.close()
    assert_recorded(env.session_path, expected(LENGTHS, STEPS, mode))


def test_a_mode_that_is_none_is_refused(tmp_path: Path) -> None:
    inner = Remote(vector())
    inner.metadata["autoreset_mode"] = "sometimes"
    with pytest.raises(lr.SettingsError, match=r"autoreset_mode.*sometimes"):
        lr.RecordSession(inner, **custom(tmp_path))


@pytest.mark.parametrize("mode", ["robot_arm", "full_scene"])
def test_what_is_out_of_reach_is_refused_with_the_remedy(tmp_path: Path, mode: str) -> None:
    with pytest.raises(lr.SettingsError, match=r"out of reach.*mode='custom'.*vectorization_mode='sync'"):
        lr.RecordSession(Remote(vector()), output_dir=tmp_path, mode=mode)
    assert not list(tmp_path.iterdir())


class Says(Lane):
    """Its info holds a number in its second step only, and something within a dict."""

    def _info(self) -> dict[str, Any]:
        rare = {"rare": float(self.count)} if self.t == 2 else {}
        return {**super()._info(), **rare, "deep": {"count": self.count}, "place": np.array([self.t, self.count])}


@pytest.mark.parametrize("form", ["taps", "masked", "list"])
@pytest.mark.parametrize("mode", MODES)
def test_infos_give_the_same_columns_in_every_form(tmp_path: Path, mode: AutoresetMode, form: str) -> None:
    inner = SyncVectorEnv([functools.partial(Says, lane, n) for lane, n in enumerate(LENGTHS)], autoreset_mode=mode)
    columns = [
        lr.Column("obs", "gym:obs", shape=(1,)),
        lr.Column("rare", "info:rare"),
        lr.Column("deep", "info:deep.count", dtype="int64"),
        lr.Column("place", "info:place", dtype="int64", shape=(2,)),
    ]
    env = lr.RecordSession(inner if form == "taps" else Remote(inner, form), **custom(tmp_path, columns=columns))
    run(env, STEPS, mode)
    env.close()
    session = check_session(env.session_path)
    for index, want in enumerate(expected(LENGTHS, STEPS, mode)):
        rows = session.episode(index).rows().to_pydict()
        after = [100 * want.episode + t + 1 for t in range(len(want.steps))]
        assert rows["deep"] == after
        assert rows["place"] == [[t + 1, count] for t, count in enumerate(after)]
        assert rows["rare"] == [float(count) if t == 1 else None for t, count in enumerate(after)]


@pytest.mark.parametrize("form", ["taps", "masked", "plain", "list"])
@pytest.mark.parametrize("mode", MODES)
def test_what_a_step_has_led_to_is_seen_in_every_mode(tmp_path: Path, mode: AutoresetMode, form: str) -> None:
    """Also where the vector environment has reset the lane in the same step: its last observation comes along."""
    judged: list[float] = []

    def success(moment: Any) -> bool:
        judged.append(float(moment.obs[0]))
        return bool(moment.obs[0] % 100 == 3)

    led_to = lr.Column("led_to", lambda moment: float(moment.obs[0]), when="after")
    inner = vector(mode=mode)
    env = lr.RecordSession(
        inner if form == "taps" else Remote(inner, form), **custom(tmp_path, columns=[OBS, led_to], success=success)
    )
    judged.clear()
    run(env, STEPS, mode)
    env.close()
    wanted, session = expected(LENGTHS, STEPS, mode), check_session(env.session_path)
    for index, want in enumerate(wanted):
        after = [100 * want.episode + t + 1 for t in range(len(want.steps))]
        assert session.episode(index).rows()["led_to"].to_pylist() == after
    done = {float(100 * one.episode + len(one.steps)) for one in wanted if one.is_done}
    assert done <= set(judged)
    said = [one.is_done and len(one.steps) == 3 for one in wanted]
    assert session.episodes["success"].to_pylist() == said


def test_nested_observations_are_taken_apart(tmp_path: Path) -> None:
    class Nested(Lane):
        def __init__(self, lane: int, length: int) -> None:
            super().__init__(lane, length)
            one = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
            self.observation_space = gym.spaces.Dict({"a": gym.spaces.Tuple((one, one)), "b": one})

        def _observation(self) -> Any:
            count = np.array([self.count], np.float64)
            return {"a": (count + 0.25, count + 0.5), "b": count}

    columns = [lr.Column(name, f"gym:obs.{name}", shape=(1,)) for name in ("a.0", "a.1", "b")]
    env = lr.RecordSession(
        Remote(SyncVectorEnv([functools.partial(Nested, lane, 3) for lane in range(2)])),
        output_dir=tmp_path,
        mode="custom",
        columns=columns,
    )
    run(env, 3)
    env.close()
    rows = check_session(env.session_path).episode(1).rows().to_pydict()
    assert np.ravel(rows["b"]).tolist() == [2000, 2001, 2002]
    assert np.ravel(rows["a.1"]).tolist() == [2000.5, 2001.5, 2002.5]


def test_a_step_that_raises_fails_every_open_episode(tmp_path: Path) -> None:
    inner = vector((None, None))
    remote = Remote(inner)
    env = lr.RecordSession(remote, **custom(tmp_path))
    run(env, 2)
    broken = inner.envs[1]
    broken.step = lambda action: 1 / 0
    with pytest.raises(ZeroDivisionError):
        env.step(np.zeros((2, 1), np.float32))
    del broken.step
    env.step(np.zeros((2, 1), np.float32))
    env.reset()
    env.step(np.zeros((2, 1), np.float32))
    env.close()
    session = check_session(env.session_path)
    assert [len(session.episode(i).rows()) for i in range(len(session))] == [2, 2, 1, 1]


def test_pictures_that_are_not_one_for_each_lane_are_refused(tmp_path: Path) -> None:
    remote = Remote(vector())
    remote.render = lambda: np.zeros((48, 64, 3), np.uint8)  # type: ignore[method-assign]
    env = lr.RecordSession(remote, **custom(tmp_path, cameras=[EYE]))
    with pytest.raises(lr.SettingsError, match=r"gives ndarray \(48, 64, 3\), and not one picture for each of the 3"):
        env.reset()
    env.close()
    assert not list(tmp_path.iterdir())


def test_a_mask_and_kept_episodes(tmp_path: Path) -> None:
    env = lr.RecordSession(Remote(vector([9, 9], AutoresetMode.DISABLED)), **custom(tmp_path))
    env.reset(seed=0)
    env.step(np.zeros((2, 1), np.float32))
    env.reset(options={"reset_mask": np.array([True, False]), "keep_episode": True})
    env.step(np.zeros((2, 1), np.float32))
    env.close()
    session = check_session(env.session_path)
    assert [np.ravel(session.episode(i).rows()["obs"].to_pylist()).tolist() for i in range(2)] == [
        [0, 100],
        [2000, 2001],
    ]


class Simulator(gym.Env[Any, Any]):
    """Many environments behind the face of one, as simulators on a GPU have it: batches, and no word of its mode."""

    def __init__(self, inner: Remote) -> None:
        self._inner, self.num_envs, self.render_mode = inner, inner.num_envs, inner.render_mode
        self.metadata, self.step_dt = {"render_modes": ["rgb_array"]}, 0.02
        for name in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
            setattr(self, name, getattr(inner, name))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._inner.reset(seed=seed, options=options)

    def step(self, actions: Any) -> Any:
        *rest, infos = self._inner.step(actions)
        # It keeps the last observation to itself.
        return (*rest, {key: value for key, value in infos.items() if key.strip("_") != "final_obs"})

    def render(self) -> Any:
        return self._inner.render()

    def close(self) -> None:
        self._inner.close()


def test_many_environments_behind_the_face_of_one(tmp_path: Path) -> None:
    class IsaacLike(Simulator):
        __module__ = "isaaclab.envs"

    inner = IsaacLike(Remote(vector(mode=AutoresetMode.SAME_STEP)))
    with pytest.warns(RuntimeWarning, match="as one of isaaclab it is recorded as SameStep"):
        env = lr.RecordSession(inner, **custom(tmp_path, cameras=[EYE]))
    assert env.unwrapped is inner
    run(env, STEPS)
    env.close()
    assert_recorded(env.session_path, expected(LENGTHS, STEPS, AutoresetMode.SAME_STEP), ["eye"])


def test_one_that_is_forgotten_is_closed_at_once(tmp_path: Path) -> None:
    kept = [lr.RecordSession(Remote(vector((None, None))), **custom(tmp_path))]
    kept[0].reset()
    kept[0].step(np.zeros((2, 1), np.float32))
    path = kept[0].session_path
    with pytest.warns(RuntimeWarning, match=r"close\(\) was not called") as told:
        kept.clear()
    assert len(told) == 1
    assert len(check_session(path)) == 2
