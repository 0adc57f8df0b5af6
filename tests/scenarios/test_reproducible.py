"""The recorder changes nothing about a run, and the same run gives the same bytes."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv, check_session
from tests.same import bytes_of
from tests.scenarios.tracing import compare, watch

SMALL = {"width": 64, "height": 48}
ENVS: dict[str, tuple[str, Sequence[dict[str, Any]]]] = {
    "pick_cube": ("LuckyRecorder/PickCube-v0", [{"name": "front", **SMALL}, {"name": "wrist", **SMALL}]),
    "ant": ("Ant-v5", [{"name": "track", **SMALL}, {"name": "free", "source": {}, **SMALL}]),
    "humanoid": ("Humanoid-v5", [{"name": "track", **SMALL}, {"name": "seen", "source": "render", **SMALL}]),
}


@pytest.fixture(autouse=True)
def no_viewer_is_left() -> None:
    """Have what earlier tests dropped freed now.

    A gymnasium viewer that was not closed frees its textures and buffers wherever garbage is collected, by their
    numbers, in whatever context is current there: those of the viewer that this test draws with.
    """
    gc.collect()


def cheap(env: Any) -> Any:
    """Have a model drawn as fast as a CPU can."""
    quality = env.unwrapped.model.vis.quality
    quality.shadowsize, quality.offsamples = 0, 0
    return env


def recorded(env: Any, tmp_path: Path, cameras: Any, **settings: Any) -> lr.RecordSession:
    column = lr.Column("height", lambda moment: moment.data.xpos[1, 2])
    return lr.RecordSession(
        env, output_dir=tmp_path, mode="full_scene", cameras=cameras, gym_columns=True, columns=[column], **settings
    )


@pytest.mark.parametrize("name", ENVS)
def test_a_run_with_the_recorder_is_the_run_without_it(tmp_path: Path, name: str) -> None:
    env_id, cameras = ENVS[name]
    free = [{**c, "source": lr.FreeCamera()} if c.get("source") == {} else c for c in cameras]
    options = {"render_mode": "rgb_array", **SMALL}
    plain, inner = cheap(gym.make(env_id, **options)), cheap(gym.make(env_id, **options))
    alone = watch(plain)
    env = recorded(inner, tmp_path, free, success="terminated", render_quality="fastest")
    model = mujoco.MjModel.__copy__(env.unwrapped.model)
    together = watch(env)
    env.observer.stop_recording()
    compare(together, alone)
    after = [e.render().tobytes() for e in (plain, env)]
    assert after[0] == after[1]
    compare(watch(env, 1, 4), watch(plain, 1, 4))
    for field in ("geom_rgba", "cam_pos", "light_pos", "qpos0", "tex_data", "actuator_ctrlrange"):
        assert np.array_equal(getattr(env.unwrapped.model, field), getattr(model, field)), field
    visual = [
        (m.vis.global_.offwidth, m.vis.global_.offheight, m.vis.quality.shadowsize)
        for m in (env.unwrapped.model, model)
    ]
    assert visual[0] == visual[1]
    session = check_session(env.session_path)
    assert [e.length for e in session] == [12, 12]
    for episode in session:
        assert [len(episode.frames(c)) for c in session.cameras] == [episode.length] * 2
    env.close()
    plain.close()


@pytest.mark.parametrize(
    "settings",
    [{"mode": "robot_arm"}, {"mode": "full_scene", "data_hz": 10}, {"mode": "custom", "gym_columns": True}],
    ids=lambda s: s["mode"],
)
def test_state_only_recording_changes_nothing_either(tmp_path: Path, settings: dict[str, Any]) -> None:
    plain = gym.make("LuckyRecorder/PickCube-v0", render_mode="rgb_array", **SMALL)
    env = lr.RecordSession(
        gym.make("LuckyRecorder/PickCube-v0", render_mode="rgb_array", **SMALL), output_dir=tmp_path, **settings
    )
    compare(watch(env), watch(plain))
    env.close()
    plain.close()
    check_session(env.session_path)


def test_an_environment_that_lets_derived_quantities_lag_keeps_them_lagging(tmp_path: Path, wall: Any) -> None:
    """The recorder looks through data of its own: what follows from the user's state is not brought up to date."""
    inner = CountEnv(None, mujoco=True)
    env = lr.RecordSession(
        inner, output_dir=tmp_path, cameras=[wall], columns=[lr.Column("z", "xpos:counter", shape=3)]
    )
    env.reset()
    for _ in range(3):
        env.step([0.0])
        lagging = inner.data.xpos.copy()
    env.step([0.0])
    env.close()
    assert lagging[-1, 2] != -1 - 3
    rows = check_session(env.session_path).episode(0).rows()
    assert [z[2] for z in rows["z"].to_pylist()] == [-1.0, -2.0, -3.0, -4.0]


# The same bytes.


def expert_session(tmp_path: Path, seeds: Sequence[int | None] = (4, 5), **settings: Any) -> Path:
    env = lr.RecordSession(
        gym.make("LuckyRecorder/PickCube-v0", max_episode_steps=20),
        output_dir=tmp_path,
        cameras=[lr.Camera("front", **SMALL), lr.Camera("wrist", frame_rate=25, **SMALL)],
        tasks=["Pick up the cube"],
        gym_columns=True,
        **settings,
    )
    expert = env.unwrapped.expert(seed=1)
    for seed in seeds:
        observation, _ = env.reset(seed=seed)
        done = False
        while not done:
            observation, _, terminated, truncated, _ = env.step(expert(observation))
            done = terminated or truncated
    env.close()
    assert env.session_path is not None
    return env.session_path


@pytest.mark.parametrize("settings", [{}, {"episodes_per_file": 2, "metadata_every": 1}], ids=["defaults", "grouped"])
def test_the_same_run_gives_the_same_bytes(tmp_path: Path, settings: dict[str, Any]) -> None:
    first, second = (bytes_of(expert_session(tmp_path / str(k), **settings)) for k in range(2))
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    assert json.loads(first["meta/info.json"])["bit_reproducible"] is True
    assert {name.split("/")[0] for name in first} == {"data", "meta", "videos"}


def test_another_seed_gives_other_bytes(tmp_path: Path) -> None:
    first, second = (bytes_of(expert_session(tmp_path / str(k), seeds=[k])) for k in range(2))
    same = {name for name in first if first[name] == second[name]}
    assert not any(name.startswith(("data/", "videos/", "meta/stats")) for name in same)


@pytest.mark.parametrize("seeds", [(None,), (1, None), (None, 1)], ids=repr)
def test_a_reset_without_a_seed_is_not_reproducible(tmp_path: Path, seeds: Any) -> None:
    env = lr.RecordSession(CountEnv(2), output_dir=tmp_path, mode="custom", gym_columns=True)
    for seed in seeds:
        env.reset(seed=seed)
        env.step([0.0])
    env.close()
    assert check_session(env.session_path).info["bit_reproducible"] is False


@pytest.mark.parametrize(("seed", "holds"), [(None, False), (7, True)])
def test_a_kept_reset_must_be_seeded_too(tmp_path: Path, seed: int | None, holds: bool) -> None:
    env = lr.RecordSession(CountEnv(None), output_dir=tmp_path, mode="custom", gym_columns=True)
    env.reset(seed=0)
    env.step([0.0])
    env.reset(seed=seed, options={"keep_episode": True})
    env.step([0.0])
    env.close()
    assert check_session(env.session_path).info["bit_reproducible"] is holds


def test_a_discarded_attempt_that_might_be_kept_the_next_time_is_not_reproducible(tmp_path: Path) -> None:
    env = lr.RecordSession(
        CountEnv(2, succeeds=lambda n: n > 0),
        output_dir=tmp_path,
        mode="custom",
        gym_columns=True,
        discard_and_retry_failed=True,
    )
    for seed in (None, 1):
        env.reset(seed=seed)
        env.step([0.0])
        env.step([0.0])
    env.close()
    session = check_session(env.session_path)
    assert (len(session), session.info["bit_reproducible"]) == (1, False)


@pytest.mark.parametrize(("is_software", "holds"), [(True, True), (False, False)])
def test_pictures_are_reproducible_only_where_a_cpu_draws(
    tmp_path: Path, wall: Any, monkeypatch: pytest.MonkeyPatch, is_software: bool, holds: bool
) -> None:
    from lucky_recorder.capture.draw.renderer import Renderer

    monkeypatch.setattr(Renderer, "is_software", property(lambda renderer: is_software))
    env = lr.RecordSession(CountEnv(2, mujoco=True), output_dir=tmp_path, cameras=[wall])
    env.reset(seed=0)
    env.step([0.0])
    env.close()
    assert check_session(env.session_path).info["bit_reproducible"] is holds


def test_pictures_of_the_environments_own_are_not_promised(tmp_path: Path, seen: Any) -> None:
    env = lr.RecordSession(
        CountEnv(2, render_mode="rgb_array"), output_dir=tmp_path, mode="custom", gym_columns=True, cameras=[seen]
    )
    env.reset(seed=0)
    env.step([0.0])
    env.close()
    assert check_session(env.session_path).info["bit_reproducible"] is False
