"""A model with all that can be recorded of it, simulated beforehand: states, commands, and the same recorded live."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np

import lucky_recorder as lr
from tests.recorder.physics import EVERYTHING, XML, state

HZ = 50
STEPS = 4
FRONT = lr.Camera("front", source=lr.FreeCamera(distance=3.0, azimuth=90, elevation=-20), width=64, height=48)
RICH = (
    XML.replace('mocap="true"><geom size=".02"', 'mocap="true"><geom size=".3"')
    .replace(
        "</worldbody>",
        '<light pos="0 0 3"/><camera name="side" pos="0 -2 .5" xyaxes="1 0 0 0 0 1"/><site name="eye" pos="0 0 1"/>'
        "</worldbody>",
    )
    .replace(
        "</mujoco>", '<sensor><velocimeter name="speed" site="eye"/><jointpos name="at" joint="x"/></sensor></mujoco>'
    )
)


class Simulated(NamedTuple):
    """Episodes that were simulated.

    Attributes:
        model: The model.
        states: Of each episode, the state before each tick and the one after the last, shape ``(ticks + 1, size)``.
        ctrl: Of each episode, the commands of each tick, shape ``(ticks, nu)``.
    """

    model: mujoco.MjModel
    states: list[np.ndarray]
    ctrl: list[np.ndarray]

    def qpos(self) -> list[np.ndarray]:
        return [one[:, 1 : 1 + self.model.nq] for one in self.states]

    def qvel(self) -> list[np.ndarray]:
        return [one[:, 1 + self.model.nq : 1 + self.model.nq + self.model.nv] for one in self.states]


def simulate(lengths: tuple[int, ...] = (12, 7), xml: str = XML) -> Simulated:
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    states, ctrl = [], []
    for number, length in enumerate(lengths):
        begin(model, data, number)
        own = [state(model, data)]
        for tick in range(length):
            data.ctrl[:] = command(tick)
            mujoco.mj_step(model, data, STEPS)
            own.append(state(model, data))
        states.append(np.array(own))
        ctrl.append(np.array([[command(tick)] * model.nu for tick in range(length)]))
    return Simulated(model, states, ctrl)


def begin(model: mujoco.MjModel, data: mujoco.MjData, number: int) -> None:
    mujoco.mj_resetData(model, data)
    data.qpos[:] = 0.1 * (number + 1)
    data.mocap_pos[:] = [0.2 * number, 0.3, 0.1]


def command(tick: int) -> float:
    return float(np.sin(0.7 * tick + 0.2) * 3)


def live(path: Path, lengths: tuple[int, ...] = (12, 7), xml: str = XML, **settings: Any) -> Path:
    """Record the same simulation while it is simulated."""
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    fields = {"control_hz": HZ, "output_dir": path, **settings}
    observer = lr.Observer(model=model, data=data, **fields)
    observer.start_recording()
    for number, length in enumerate(lengths):
        begin(model, data, number)
        observer.mark_reset()
        for tick in range(length):
            with observer.step():
                data.ctrl[:] = command(tick)
                mujoco.mj_step(model, data, STEPS)
        observer.end_current_episode(success=number % 2 == 0)
    observer.stop_recording()
    assert observer.session_path is not None
    return observer.session_path


def given(path: Path, one: Simulated, **settings: Any) -> Path:
    """Record it from its states and commands."""
    fields = {"success": [n % 2 == 0 for n in range(len(one.states))], "output_dir": path, **settings}
    return lr.record_trajectories(one.model, states=one.states, ctrl=one.ctrl, **fields)


__all__ = [
    "EVERYTHING",
    "FRONT",
    "HZ",
    "RICH",
    "STEPS",
    "XML",
    "Simulated",
    "begin",
    "command",
    "given",
    "live",
    "simulate",
]
