"""Every MuJoCo environment of Gymnasium and ours, recorded in several ways, for the comparison with a run alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np

import lucky_recorder as lr
from lucky_recorder.testing import check_koyu, check_session
from tests.scenarios.tracing import Trace, compare, watch

GYMNASIUM = [
    "Ant-v5",
    "HalfCheetah-v5",
    "Hopper-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
    "InvertedDoublePendulum-v5",
    "InvertedPendulum-v5",
    "Pusher-v5",
    "Reacher-v5",
    "Swimmer-v5",
    "Walker2d-v5",
]
OURS = ["LuckyRecorder/PickCube-v0", "LuckyRecorder/TwinArms-v0"]
ENVS = [*GYMNASIUM, *OURS]
STUMBLE = ("Ant-", "Hopper-", "Humanoid-", "Walker2d-")
STEPS = 300


def make(env_id: str, folder: Path, size: int) -> gym.Env[Any, Any]:
    """Make an environment with a site for a lidar and a sensor in it; they change nothing of its physics."""
    options: dict[str, Any] = {"render_mode": "rgb_array", "width": size, "height": size}
    env: Any = gym.make(env_id, **options, **({} if env_id in OURS else equipped(env_id, folder)))
    # Its own pictures are drawn as fast as a CPU can.
    quality = env.unwrapped.model.vis.quality
    quality.shadowsize, quality.offsamples = 0, 0
    return env


def equipped(env_id: str, folder: Path) -> dict[str, Any]:
    """Return the options of an environment of Gymnasium whose model has a site and a sensor."""
    # Else an episode is over in a few steps.
    options: dict[str, Any] = {"terminate_when_unhealthy": False} if env_id.startswith(STUMBLE) else {}
    file = folder / f"{env_id}.xml"
    if not file.exists():
        bare: Any = gym.make(env_id).unwrapped
        spec = mujoco.MjSpec.from_file(bare.fullpath)
        bare.close()
        spec.worldbody.add_site(name="eye", pos=[0, 0, 1.5])
        spec.add_sensor(
            name="weight",
            type=mujoco.mjtSensor.mjSENS_SUBTREECOM,
            objtype=mujoco.mjtObj.mjOBJ_BODY,
            objname=spec.worldbody.first_body().name,
        )
        spec.compile()
        file.write_text(spec.to_xml())
    return {"xml_file": str(file), **options}


def height(moment: Any) -> float:
    """A column that has all that follows from the state computed."""
    return float(moment.data.xpos[1, 2])


def led_to(moment: Any) -> float:
    """A column that looks at the simulation after the step."""
    return float(moment.data.qpos[0] + moment.reward)


def every_stream(env: Any, size: int, rows_every: int = 1) -> dict[str, Any]:
    """Return the settings that record all there is: every kind of stream and of column, in both formats.

    Args:
        env: The environment.
        size: Of its pictures, in pixels.
        rows_every: Steps to a row, a frame and a scan.
    """
    inner = env.unwrapped
    model = inner.model
    camera = {"source": lr.FreeCamera(), "width": size, "height": size}
    space = env.observation_space
    lasts = model.opt.timestep * inner.frame_skip if hasattr(inner, "frame_skip") else 0.02
    hz = Fraction(1 / lasts).limit_denominator(100)
    return {
        "mode": "full_scene",
        "gym_columns": True,
        "success": "terminated",
        "data_hz": hz / rows_every,
        "record_masks": True,
        "cameras": [
            {"name": "all", "depth_mode": "rgbd", "masks": [model.body(1).name], "record_pose": True, **camera},
            {"name": "noisy", "depth_mode": "depth_only", "sensor_model": "ActiveStereo", **camera},
            {"name": "own", "source": "render", "width": size, "height": size},
        ],
        "lidars": [
            {
                "name": "scans",
                "site": model.site(0).name,
                "noise_m": 0.01,
                "azimuth": (-180, 180, 12),
                "elevation": (-10, 10, 3),
                "record_video_proxy": True,
            }
        ],
        "columns": [
            lr.Column("height", height),
            lr.Column("led_to", led_to, when="after"),
            lr.Column("obs", "gym:obs", shape=space.shape, dtype=str(space.dtype)),
            lr.Column("said", "info:is_success" if "LuckyRecorder" in env.spec.id else "info:reward_survive"),
            lr.Column("place", f"xpos:{model.body(1).name}", shape=(3,)),
            *(lr.Column("felt", f"sensor:{model.sensor(k).name}", shape=(3,)) for k in range(model.nsensor)),
        ],
        "koyu": {"name": "bundles"},
    }


# How a run is recorded, by name: whoever adds a way to record adds it here.
Recording = Callable[[Any, int], dict[str, Any]]
RECORDINGS: dict[str, Recording] = {
    "every stream at every step": lambda env, size: every_stream(env, size),
    "every stream at every tenth step": lambda env, size: every_stream(env, size, 10),
    "rows": lambda env, size: {
        name: value
        for name, value in every_stream(env, size).items()
        if name not in ("cameras", "record_masks", "koyu")
    },
    # In a row of its own: nothing else looks at the simulation.
    "states": lambda env, size: {"mode": "full_scene", "success": "terminated", "keep_states": True},
    "every stream, and states": lambda env, size: {**every_stream(env, size, 10), "keep_states": True},
}


def alone(env_id: str, folder: Path, size: int, steps: int = STEPS) -> Trace:
    """Run an environment without a recorder."""
    return _run(make(env_id, folder, size), steps)


def recorded(env_id: str, folder: Path, size: int, recording: Recording, steps: int = STEPS) -> Trace:
    """Run an environment with a recorder, and check what was written."""
    env = make(env_id, folder, size)
    output_dir = folder / f"{env_id}-{len(list(folder.iterdir()))}"
    wrapped = lr.RecordSession(env, output_dir=output_dir, render_quality="fastest", **recording(env, size))
    trace = _run(wrapped, steps)
    session = check_session(wrapped.session_path, decode=False)
    assert sum(episode.data_ticks for episode in session) >= steps // 10
    for episode in session if session.has_states else ():
        found = lr.replay(session, episode.index)
        assert (found.difference, found.left_out, found.not_brought_back) == (None, 0, ())
        assert found.ticks == len(episode.states()) >= episode.data_ticks
    if wrapped.koyu_path is not None:
        check_koyu(wrapped.koyu_path, decode=False).close()
    return trace


def _run(env: Any, steps: int) -> Trace:
    # What everybody draws from: a recorder must not.
    random.seed(7)
    np.random.seed(7)
    try:
        return watch(env, 2, steps // 2, picture_every=50)
    finally:
        env.close()


def is_undisturbed(env_id: str, folder: Path, size: int, names: list[str], steps: int = STEPS) -> None:
    """Compare a run alone with runs that are recorded in some ways."""
    theirs = alone(env_id, folder, size, steps)
    for name in names:
        compare(recorded(env_id, folder, size, RECORDINGS[name], steps), theirs)
