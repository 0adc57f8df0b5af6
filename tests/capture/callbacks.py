"""Callbacks that count their calls, and a model whose `mj_forward` calls every kind of them."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import mujoco

KINDS = tuple(sorted(name.removeprefix("get_") for name in dir(mujoco) if name.startswith("get_mjcb_")))
# How a kind answers where it must; the others answer nothing.
_ANSWERS = {"mjcb_time": 0.0, "mjcb_contactfilter": 0, "mjcb_act_dyn": 0.0, "mjcb_act_gain": 1.0, "mjcb_act_bias": 0.0}

# Balls that touch, an actuator and sensors that are the user's, a flex, a tendon, a rangefinder, a camera and a site.
CALLING = """
<mujoco model="calling">
  <option timestep="0.002"/>
  <worldbody>
    <geom type="plane" size="2 2 .1"/><light pos="0 0 3"/>
    <camera name="eye" pos="0 -2 1" xyaxes="1 0 0 0 .5 1"/>
    <site name="wall" pos="1 0 2"/><site name="lidar" pos="0 0 1"/>
    <body name="slider" pos="0 0 .1"><joint name="slide" type="slide" range="-1 1" limited="true"/>
      <geom size=".1" mass="1"/><site name="tip"/></body>
    <body name="ball" pos="0 .15 .1"><freejoint/><geom size=".1"/></body>
    <body pos="1 0 1"><joint name="arm" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 .2 0 0" size=".02"/><site name="hand" pos=".2 0 0"/></body>
    <flexcomp name="cloth" type="grid" count="3 3 1" spacing=".1 .1 .1" pos="-.6 0 .4" dim="2" radius=".01" mass=".1">
      <edge equality="true"/></flexcomp>
  </worldbody>
  <tendon><spatial name="rope"><site site="wall"/><site site="hand"/></spatial></tendon>
  <actuator>
    <general name="own" joint="slide" dyntype="user" gaintype="user" biastype="user" actdim="1"/>
    <motor name="lift" joint="slide" ctrlrange="-50 50" ctrllimited="true"/>
    <motor name="turn" joint="arm"/>
  </actuator>
  <sensor>
    SENSORS
    <actuatorfrc name="force" actuator="lift"/>
  </sensor>
</mujoco>
"""
USER_SENSORS = """
    <user name="at_positions" dim="1" needstage="pos"/><user name="at_velocities" dim="1" needstage="vel"/>
    <user name="at_forces" dim="1" needstage="acc"/>"""
RANGEFINDER = '<rangefinder name="far" site="hand"/>'


def calling(sensors: str = USER_SENSORS + RANGEFINDER) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(CALLING.replace("SENSORS", sensors))
    return model, mujoco.MjData(model)


@contextlib.contextmanager
def counted(*kinds: str) -> Iterator[Counter[str]]:
    """Install callbacks that only count their calls; they are taken away at the end."""
    calls: Counter[str] = Counter()

    def counting(kind: str) -> Any:
        def callback(*given: Any) -> Any:
            calls[kind] += 1
            return _ANSWERS.get(kind)

        return callback

    with contextlib.ExitStack() as stack:
        for kind in kinds:
            stack.enter_context(called_back(kind, counting(kind)))
        yield calls


@contextlib.contextmanager
def called_back(kind: str, callback: Any) -> Iterator[None]:
    """Install one callback; it is taken away at the end."""
    install = getattr(mujoco, f"set_{kind}")
    install(callback)
    try:
        yield
    finally:
        install(None)


@contextlib.contextmanager
def called_back_from_c(kind: str) -> Iterator[None]:
    """Install a pointer to a function of C's, as a C library does: Python's `get_mjcb_control` knows nothing of it."""
    library = ctypes.CDLL(str(sys.modules[mujoco.mj_forward.__module__].__file__))
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda model, data: None)
    place = ctypes.c_void_p.in_dll(library, kind)
    place.value = ctypes.cast(function, ctypes.c_void_p).value
    try:
        yield
    finally:
        place.value = None
