"""Whatever is in a scene, and at whatever rates: what is drawn afterwards is what would have been drawn at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from tests.recorder.physics import Cart, push
from tests.rollouts.test_render import SMALL, XML, assert_same

HEAD = """<mujoco><option timestep="0.005"/><visual><quality shadowsize="256" offsamples="0"/></visual>
<worldbody><light pos="0 0 3"/><geom name="floor" type="plane" size="2 2 .1"/>
<camera name="side" pos="0 -2 .8" xyaxes="1 0 0 0 .4 1"/>"""
BALL = '<body name="ball" pos="0 0 .09"><freejoint/><geom name="ball" size=".1" rgba="1 0 0 .6"/>'
SCENES: dict[str, tuple[str, dict[str, Any]]] = {
    "contacts": (
        f"{HEAD}{BALL}</body></worldbody></mujoco>",
        {"flags": {"contactpoint": True, "contactforce": True, "transparent": True}},
    ),
    "a rangefinder": (
        f'{HEAD}{BALL}<site name="s" euler="0 90 0"/></body></worldbody>'
        '<sensor><rangefinder site="s"/></sensor></mujoco>',
        {},
    ),
    "a cloth": (
        f'{HEAD}<body name="hang" pos="0 0 .4"><flexcomp name="cloth" type="grid" count="4 4 1" '
        'spacing=".1 .1 .1" radius=".02" dim="2"><edge equality="true"/></flexcomp></body></worldbody></mujoco>',
        {"masks": ["cloth"]},
    ),
    "a tendon, and activations": (
        f'{HEAD}<site name="a" pos="0 0 1"/>{BALL}<site name="b"/></body></worldbody>'
        '<tendon><spatial name="t" limited="true" range="0 .9" width=".02"><site site="a"/><site site="b"/></spatial>'
        '</tendon><actuator><general tendon="t" dyntype="filter" dynprm=".1" gainprm="-5"/></actuator></mujoco>',
        {"flags": {"activation": True}, "depth_mode": "rgbd"},
    ),
    "a light and a camera that follow": (
        f'{HEAD}{BALL}<light pos="0 0 1" mode="track"/><camera name="t" mode="trackcom" pos="0 -1 .5"/></body>'
        "</worldbody></mujoco>",
        {"source": "t"},
    ),
}


def simulated(folder: Path, xml: str, camera: dict[str, Any], **settings: Any) -> Path | None:
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    cameras = [{"name": "side", **SMALL, **camera}]
    has_masks = "masks" in camera
    observer = lr.Observer(
        model=model, data=data, output_dir=folder, mode="full_scene", data_hz=100, cameras=cameras,
        record_masks=has_masks, **settings,
    )  # fmt: skip
    observer.start_recording()
    for k in range(8):
        data.qvel[:1] = 0.2 * k
        data.ctrl[:] = np.sin(k)
        observer.tick()
        mujoco.mj_step(model, data, 2)
    observer.end_current_episode(True)
    observer.stop_recording()
    return observer.session_path


@pytest.mark.parametrize("name", SCENES)
def test_whatever_is_in_a_scene(tmp_path: Path, name: str) -> None:
    xml, camera = SCENES[name]
    later = simulated(tmp_path / "later", xml, camera, render="deferred")
    assert later is not None
    lr.render(later, tmp_path / "drawn")
    assert_same(simulated(tmp_path / "live", xml, camera, keep_states=True), tmp_path / "drawn")


RATES: dict[str, dict[str, Any]] = {
    "rows slower than pictures": {"data_hz": 25, "cameras": [{"name": "side", "frame_rate": 50, **SMALL}]},
    "pictures slower than rows": {"cameras": [{"name": "side", "frame_rate": "50/3", **SMALL}]},
    "a quality, and another format": {
        "cameras": [{"name": "side", **SMALL}], "render_quality": "fast", "video_format": "hevc", "metadata_every": 1,
    },
    "poses in the rows": {"cameras": [{"name": "ride", "record_pose": True, **SMALL}]},
    "many episodes in a file": {"cameras": [{"name": "side", **SMALL}], "episodes_per_file": 2, "seed": 5},
}  # fmt: skip


@pytest.mark.parametrize("name", RATES)
def test_at_whatever_rates(tmp_path: Path, name: str) -> None:
    paths = []
    for when in ({"render": "deferred"}, {"keep_states": True}):
        env = lr.RecordSession(Cart(xml=XML), output_dir=tmp_path / next(iter(when)), **RATES[name], **when)
        for seed in range(3):
            env.reset(seed=seed)
            push(env, 5)
            # Within the episode: it goes on.
            if seed == 1:
                env.reset(seed=7, options={"keep_episode": True})
            push(env, 2)
            env.end_episode(success=True)
        env.close()
        paths.append(env.session_path)
    assert paths[0] is not None
    lr.render(paths[0], tmp_path / "drawn")
    assert_same(paths[1], tmp_path / "drawn")
