"""Models small enough to read, and what the recorder makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np

from lucky_recorder.capture.source import Source, open_source
from lucky_recorder.envs import scene_path
from lucky_recorder.recorder.lane import Lane
from lucky_recorder.settings.camera import Camera
from lucky_recorder.settings.recorder import RecorderSettings

WHOLE_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
OVERVIEW = Camera("overview", width=64, height=48)


def scene(name: str) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(scene_path(name)))


def arm(
    actuators: str,
    joints: str = '<joint name="pan" axis="0 0 1" range="-1 2"/>',
    extra: str = "",
    inside: str = "",
) -> mujoco.MjModel:
    """A model of one body with some joints, and actuators."""
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco model="one"><compiler angle="radian" autolimits="true"/><worldbody><site name="anchor" pos="0 0 1"/>
        <body name="link">{joints}<geom size="0.1"/><site name="hand" pos="0.1 0 0"/>{inside}</body></worldbody>
        {extra}<actuator>{actuators}</actuator></mujoco>"""
    )


def settings(mode: str = "robot_arm", **fields: Any) -> RecorderSettings:
    return RecorderSettings(**{"mode": mode, "data_hz": 50, **fields})


def source_of(
    model: mujoco.MjModel, mode: str = "robot_arm", data: mujoco.MjData | None = None, **fields: Any
) -> Source:
    return open_source(settings(mode, **fields), model, mujoco.MjData(model) if data is None else data)


def features(model: mujoco.MjModel, mode: str = "robot_arm", **fields: Any) -> dict[str, Any]:
    """The columns of a model's rows, by name."""
    return {field.name: field for field in source_of(model, mode, **fields).schema.columns}


def rows(source: Source, steps: int, act: Callable[[int], Any]) -> dict[str, np.ndarray]:
    """Record some ticks of a source without a session and return its columns; ``act`` is called between the halves."""
    lane = Lane(source, 0, lambda tick, pictures: None)
    for step in range(steps):
        lane.look()
        act(step)
        lane.settle()
    return lane.buffer.finish(source.columns, source.schema, source.entity_ids).columns


def moving() -> tuple[mujoco.MjModel, mujoco.MjData]:
    """A scene whose joints all move."""
    model = scene("joint_zoo")
    data = mujoco.MjData(model)
    data.qvel[:] = np.linspace(-2, 2, model.nv)
    mujoco.mj_step(model, data, 20)
    return model, data


STRUCTS = ("vis", "stat", "opt", "warning", "timer", "contact")
VISUAL = ("global_", "quality", "headlight", "map", "scale", "rgba")
# Others than numbers, and what older releases of MuJoCo show of memory that is not in use.
PASSED_OVER = ("bind", "bind_scalar", "model", "efc_AR_rownnz", "efc_AR_rowadr", "efc_AR_colind", "efc_AR")


def contents(struct: Any) -> dict[str, bytes]:
    """Every number that an MjModel or MjData holds, as bytes."""
    held = {}
    for name in dir(struct):
        if name.startswith("_") or name in PASSED_OVER:
            continue
        try:
            value = getattr(struct, name)
        except (AttributeError, RuntimeError):
            continue
        if isinstance(value, np.ndarray):
            held[name] = value.tobytes()
        elif isinstance(value, int | float | bytes):
            held[name] = repr(value).encode()
        elif name in (*STRUCTS, *VISUAL) and not callable(value):
            held |= {f"{name}.{key}": inner for key, inner in contents(value).items()}
    return held


def state(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    values = np.empty(mujoco.mj_stateSize(model, WHOLE_STATE))
    mujoco.mj_getState(model, data, values, WHOLE_STATE)
    return values


def forward(model: mujoco.MjModel, values: np.ndarray) -> mujoco.MjData:
    """What follows from a stored state."""
    data = mujoco.MjData(model)
    mujoco.mj_setState(model, data, values, WHOLE_STATE)
    mujoco.mj_forward(model, data)
    return data


def names_of(items: Sequence[Any]) -> list[str]:
    return [item.name for item in items]
