"""Whatever a user changes in a model between two episodes shows, as it would in a renderer made after the change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.mujoco import assets
from lucky_recorder.capture.mujoco.assets import AssetWatch
from tests.capture.drawing import Film, Pixels, reference

ROOM = """
<mujoco>
  <visual>
    <quality shadowsize="256" offsamples="0" numslices="12" numstacks="6"/>
    <map fogstart="1" fogend="6"/><rgba fog="1 0 0 1"/>
  </visual>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="0.3 0.5 0.7" rgb2="0 0 0" width="16" height="96"/>
    <texture name="checks" type="2d" builtin="checker" rgb1="0.1 0.2 0.3" rgb2="0.9 0.8 0.7" width="32" height="32"/>
    <texture name="fade" type="2d" builtin="gradient" rgb1="0.9 0.2 0.3" rgb2="0.1 0.8 0.7" width="32" height="32"/>
    <texture name="cross" type="cube" builtin="flat" rgb1="0.1 0.9 0.3" mark="cross" width="16" height="96"/>
    <material name="floor" texture="checks" texrepeat="4 4" reflectance="0.3"/>
    <material name="cube" texture="cross"/>
    <material name="tiles" texture="checks" texuniform="true" texrepeat="3 3"/>
    <material name="faded" texture="fade"/>
    <mesh name="wedge" vertex="0 0 0 .3 0 0 0 .3 0 0 0 .3" texcoord="0 0 1 0 0 1 1 1"/>
    <mesh name="spike" vertex="0 0 0 .1 0 0 0 .1 0 0 0 .4"/>
    <hfield name="hills" nrow="4" ncol="4" size=".4 .4 .2 .05" elevation="0 1 0 1  1 0 1 0  0 1 0 1  1 0 1 0"/>
    <skin name="coat" vertex="0 0 0 .3 0 0 0 .3 0 0 0 .3" face="0 1 2 0 2 3 0 3 1 1 3 2" material="faded"
      texcoord="0 0 1 0 0 1 1 1">
      <bone body="toy" bindpos="0 0 .5" bindquat="1 0 0 0" vertid="0 1 2 3" vertweight="1 1 1 1"/>
    </skin>
  </asset>
  <worldbody>
    <light name="lamp" pos="0 -1 3"/>
    <light name="sun" pos="1 -1 3" type="directional" dir="0 .3 -1"/>
    <camera name="eye" pos="0.1 -1.9 0.9" xyaxes="1 0 0 0 .25 1" fovy="60"/>
    <geom name="floor" type="plane" size="0 0 .1" material="floor" pos="0 0 -.2"/>
    <geom name="wall" type="plane" size="1 1 .1" material="tiles" pos="-1.2 3 0" zaxis="0 -1 .5"/>
    <geom name="hills" type="hfield" hfield="hills" pos="-.6 .8 0" rgba="0 1 1 1"/>
    <site name="hook" pos=".6 0 1.1" size=".05"/>
    <body name="toy" pos="0 0 .5">
      <freejoint/>
      <geom name="ball" size=".1"/>
      <geom name="wedge" type="mesh" mesh="wedge" pos=".4 0 0" material="faded"/>
      <geom name="spike" type="mesh" mesh="spike" pos=".2 0 .3" rgba="1 0 0 1"/>
      <geom name="box" type="box" size=".1 .1 .1" pos="-.4 0 0" material="cube"/>
      <site name="toy"/>
    </body>
    <body name="stand" pos="-.3 .3 0"><geom name="stand" type="box" size=".1 .05 .2" material="tiles"/></body>
  </worldbody>
  <tendon><spatial name="rope" width=".02" rgba="1 0 1 1"><site site="hook"/><site site="toy"/></spatial></tendon>
</mujoco>
"""


def _set(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)


def _fill(array: Any, value: Any) -> None:
    array[:] = value


TRAVELS: dict[str, Callable[[Any], None]] = {
    "colour": lambda m: _fill(m.geom("ball").rgba, (1, 0, 0, 1)),
    "material colour": lambda m: _fill(m.mat("faded").rgba, (0.2, 1, 0.2, 1)),
    "light position": lambda m: _fill(m.light("lamp").pos, (2, -1, 2)),
    "light colour": lambda m: _fill(m.light("sun").diffuse, (0, 0.2, 1)),
    "light switched off": lambda m: _fill(m.light("lamp").active, 0),
    "headlight": lambda m: _fill(m.vis.headlight.ambient, (0.5, 0.1, 0.1)),
    "camera position": lambda m: _fill(m.cam("eye").pos, (0.3, -1.5, 0.8)),
    "camera direction": lambda m: _fill(m.cam("eye").quat, (0.8, 0.55, 0.1, 0)),
    "field of view": lambda m: _fill(m.cam("eye").fovy, 70),
    "body position": lambda m: _fill(m.body("stand").pos, (0.3, -0.3, 0.1)),
    "geom size": lambda m: _fill(m.geom("box").size, (0.2, 0.05, 0.1)),
    "tendon width": lambda m: _fill(m.tendon_width, 0.1),
    "skin vertices": lambda m: _fill(m.skin_vert, m.skin_vert * 1.5),
    "nearest distance": lambda m: _set(m.vis.map, "znear", 1.5),
}
UPLOADED: dict[str, Callable[[Any], None]] = {
    "texture": lambda m: _fill(m.tex("checks").data, 255 - m.tex("checks").data),
    "cube texture": lambda m: _fill(m.tex("cross").data, 90),
    "sky": lambda m: _fill(m.tex("sky").data, 200),
    "mesh vertices": lambda m: _fill(m.mesh_vert, m.mesh_vert * 1.4),
    "mesh normals": lambda m: _fill(m.mesh_normal, -m.mesh_normal),
    "mesh faces": lambda m: _fill(m.mesh_face, m.mesh_face[:, ::-1].copy()),
    "mesh texture coordinates": lambda m: _fill(m.mesh_texcoord, m.mesh_texcoord * 0.3),
    "which texture coordinate": lambda m: _fill(m.mesh_facetexcoord, m.mesh_facetexcoord[:, ::-1].copy()),
    "height field": lambda m: _fill(m.hfield_data, 1 - m.hfield_data),
}
DEEP: dict[str, Callable[[Any], None]] = {
    "texture of a material": lambda m: _fill(m.mat("floor").texid, m.mat("faded").texid),
    "texture repeat": lambda m: _fill(m.mat("floor").texrepeat, (9, 2)),
    "texture scaling": lambda m: _fill(m.mat("tiles").texuniform, 0),
    "skin texture coordinates": lambda m: _fill(m.skin_texcoord, m.skin_texcoord * 0.3),
    "skin faces": lambda m: _fill(m.skin_face, m.skin_face[:, ::-1].copy()),
    "height field size": lambda m: _fill(m.hfield_size, m.hfield_size * 1.4),
    "size of a plane": lambda m: _fill(m.geom("wall").size, (0.4, 0.3, 0.1)),
    "material of an infinite plane": lambda m: _fill(m.geom("floor").matid, m.mat("faded").id),
    "farthest distance": lambda m: _set(m.vis.map, "zfar", 5.0),
    "shadow reach": lambda m: _set(m.vis.map, "shadowclip", 0.2),
    "shadow sharpness": lambda m: _set(m.vis.quality, "shadowsize", 64),
    "samples": lambda m: _set(m.vis.quality, "offsamples", 4),
    "roundness": lambda m: _set(m.vis.quality, "numslices", 5),
    "extent": lambda m: _set(m.stat, "extent", 3.0),
}
# Held, but no picture shows them: MuJoCo's scenes are without fog and wireframes unless asked.
UNSEEN: dict[str, Callable[[Any], None]] = {
    "fog distance": lambda m: _set(m.vis.map, "fogend", 3.0),
    "fog colour": lambda m: _fill(m.vis.rgba.fog, (0, 1, 0, 1)),
    "line width": lambda m: _set(m.vis.global_, "linewidth", 9.0),
}


@pytest.fixture(scope="module")
def room() -> Iterator[tuple[mujoco.MjModel, mujoco.MjData, Film, Pixels]]:
    """A model, its data, the film of it, and what it looks like. Whoever changes the model changes it back."""
    model = mujoco.MjModel.from_xml_string(ROOM)
    data = mujoco.MjData(model)
    with Film(model, data, [lr.Camera("eye", width=64, height=48)]) as film:
        yield model, data, film, reference(model, data, "eye")


@pytest.fixture
def unchanged(room: Any) -> Iterator[Any]:
    """The room, and its model put back afterwards."""
    model, _, film, before = room
    arrays = {n: getattr(model, n).copy() for n in dir(model) if _is_array(model, n)}
    scalars = [
        (o, n, getattr(o, n))
        for o in (model.vis.map, model.vis.quality, model.stat)
        for n in dir(o)
        if _is_number(o, n)
    ]
    colours = {n: getattr(model.vis.rgba, n).copy() for n in ("fog", "haze")}
    headlight = model.vis.headlight.ambient.copy()
    yield room
    for name, values in arrays.items():
        getattr(model, name)[...] = values
    for owner, name, value in scalars:
        setattr(owner, name, value)
    for name, values in colours.items():
        getattr(model.vis.rgba, name)[:] = values
    model.vis.headlight.ambient[:] = headlight
    film.begin()
    np.testing.assert_array_equal(film.frame()[0], before)


def _is_array(owner: Any, name: str) -> bool:
    value = getattr(owner, name)
    return isinstance(value, np.ndarray) and value.flags.writeable


def _is_number(owner: Any, name: str) -> bool:
    return not name.startswith("_") and isinstance(getattr(owner, name), int | float)


@pytest.mark.parametrize("name", [*TRAVELS, *UPLOADED, *DEEP])
def test_a_change_between_two_episodes_shows(unchanged: Any, name: str) -> None:
    model, data, film, before = unchanged
    np.testing.assert_array_equal(film.frame()[0], before)
    (TRAVELS | UPLOADED | DEEP)[name](model)
    change = film.begin()
    after = film.frame()[0]
    assert (after != before).any(), "the change is to be seen"
    np.testing.assert_array_equal(after, reference(model, data, "eye"))
    if name in TRAVELS:
        assert change is None
    else:
        assert change.is_deep == (name in DEEP)


@pytest.mark.parametrize("name", UNSEEN)
def test_fog_and_lines_are_held_too(name: str) -> None:
    model = mujoco.MjModel.from_xml_string(ROOM)
    held = AssetWatch(model)
    UNSEEN[name](model)
    change = held.change()
    assert change is not None
    assert change.is_deep
    other = mujoco.MjModel.from_xml_string(ROOM)
    assets.apply(other, change)
    assert not AssetWatch(other).change()
    held_by_other = AssetWatch(other)
    UNSEEN[name](other)
    assert held_by_other.change() is None


def test_only_what_has_changed_is_uploaded() -> None:
    model = mujoco.MjModel.from_xml_string(ROOM)
    held = AssetWatch(model)
    assert held.change() is None
    model.tex("fade").data[3] = 1
    model.tex("sky").data[-1] = 7
    change = held.change()
    assert change is not None
    assert change.textures == (model.tex("sky").id, model.tex("fade").id)
    assert (change.meshes, change.hfields, change.is_deep) == ((), (), False)
    assert list(change.arrays) == ["tex_data"]
    model.mesh_vert[model.mesh("spike").vertadr[0]] += 0.1
    change = held.change()
    assert change is not None
    assert (change.textures, change.meshes) == ((), (model.mesh("spike").id,))
    model.mesh_face[0] = model.mesh_face[0][::-1].copy()
    model.hfield_data[-1] = 0.5
    change = held.change()
    assert change is not None
    assert (change.meshes, change.hfields) == ((model.mesh("wedge").id,), (0,))
    assert held.change() is None


def test_the_size_of_a_box_travels_and_is_no_change() -> None:
    model = mujoco.MjModel.from_xml_string(ROOM)
    held = AssetWatch(model)
    model.geom("box").size[:] = 0.3
    model.geom("box").matid[:] = 0
    assert held.change() is None


def test_a_change_holds_copies() -> None:
    model = mujoco.MjModel.from_xml_string(ROOM)
    held = AssetWatch(model)
    model.hfield_data[0] = 0.25
    change = held.change()
    assert change is not None
    model.hfield_data[0] = 0.75
    assert change.arrays["hfield_data"][0] == 0.25
    second = held.change()
    assert second is not None
    assert second.arrays["hfield_data"][0] == 0.75


def test_a_change_and_its_undoing_is_none() -> None:
    model = mujoco.MjModel.from_xml_string(ROOM)
    held = AssetWatch(model)
    model.hfield_data[0] += 1
    model.hfield_data[0] -= 1
    assert held.change() is None


def test_applying_a_change_makes_the_copy_what_the_model_is() -> None:
    model, copy = (mujoco.MjModel.from_xml_string(ROOM) for _ in range(2))
    held = AssetWatch(model)
    for change_it in (UPLOADED | DEEP).values():
        change_it(model)
    change = held.change()
    assert change is not None
    assets.apply(copy, change)
    assert AssetWatch(copy).change() is None
    for name in change.arrays:
        np.testing.assert_array_equal(getattr(copy, name), getattr(model, name), err_msg=name)
    assert copy.vis.map.fogend == model.vis.map.fogend
    assert copy.stat.extent == model.stat.extent
    np.testing.assert_array_equal(copy.vis.rgba.fog, model.vis.rgba.fog)


def test_a_model_without_any_of_it_never_changes() -> None:
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><joint/><geom size='0.1'/></body></worldbody></mujoco>"
    )
    held = AssetWatch(model)
    model.geom_rgba[:] = 0.5
    assert held.change() is None
