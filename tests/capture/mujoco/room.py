"""A room with a rover that carries a lidar: scans of it, and a session of them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

import lucky_recorder as lr
from lucky_recorder.capture.mujoco import bounds
from lucky_recorder.capture.mujoco.lidar import Caster, Scan
from lucky_recorder.settings import sensors
from lucky_recorder.testing import check_session
from tests.capture.models import state

ROOM = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="20 20 0.1"/>
    <site name="corner" pos="0 0 1"/>
    <body name="rover" pos="0 0 0.5">
      <freejoint name="rover"/>
      <geom name="hull" type="box" size="0.3 0.2 0.1" mass="1"/>
      <site name="lidar" pos="0 0 0.05" euler="0 0 30"/>
      <body name="arm" pos="0 0 0.4"><joint name="arm"/><geom name="mast" type="capsule" size="0.03 0.1"/></body>
    </body>
    <body name="box" pos="3 0.4 0.8" euler="10 20 30">
      <geom name="box" type="box" size="0.5 0.4 0.3"/>
      <geom name="knob" type="sphere" size="0.2" pos="0 0 0.2"/>
      <geom name="lid" type="box" size="0.6 0.5 0.02" pos="0 0 0.5" euler="0 0 5"/>
    </body>
    <body name="ball" pos="-2 -2 0.5"><geom name="ball" size="0.5"/></body>
  </worldbody>
</mujoco>
"""
GRID: dict[str, Any] = {"azimuth": (-180, 180, 90), "elevation": (-20, 20, 9)}


def room() -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(ROOM)
    data = mujoco.MjData(model)
    data.qpos[:3] = 0.1, -0.2, 0.6
    data.qpos[3:7] = np.array([0.9, 0.1, -0.2, 0.3]) / np.linalg.norm([0.9, 0.1, -0.2, 0.3])
    return model, data


def scan_of(model: mujoco.MjModel, data: mujoco.MjData, frame: int = 0, **fields: Any) -> Scan:
    lidar = lr.Lidar("Top", **{"site": "lidar", **GRID, **fields})
    private = copy.copy(model)
    bounds.refresh(private)
    noise = sensors.noise(0, "seed 0", "lidar-Top", frame)
    return Caster(lidar, private).cast(state(model, data), noise)


def record(tmp_path: Path, model: mujoco.MjModel, data: mujoco.MjData, ticks: int = 3, **settings: Any) -> lr.Session:
    fields: dict[str, Any] = {"data_hz": 50, "mode": "full_scene", "lidars": [{"name": "Top", "site": "lidar", **GRID}]}
    observer = lr.Observer(output_dir=tmp_path, model=model, data=data, **{**fields, **settings})
    observer.start_recording()
    for _ in range(ticks):
        observer.tick()
        mujoco.mj_step(model, data, 10)
    observer.end_current_episode(success=True)
    observer.stop_recording()
    assert observer.session_path is not None
    return check_session(observer.session_path)
