"""What a camera shows: groups and flags are MuJoCo's, in colour, depth and masks alike, and of that camera alone."""

from __future__ import annotations

import copy
import itertools
import re
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.settings.visual import RND_FLAGS, VIS_FLAGS
from tests.capture.drawing import HEIGHT, WIDTH, Film
from tests.capture.models import WHOLE_STATE, state

# Something for every flag to show or hide: contacts, a weld, an actuator with activation, a tendon, a light, a hull.
SCENE = """
<mujoco><visual><quality shadowsize="512"/><map haze="0.5"/>
  <scale contactwidth="2" constraint="1" camera="2" light="2"/></visual>
<asset><texture name="sky" type="skybox" builtin="gradient" rgb1="0 0 1" rgb2="1 1 0" width="32" height="32"/>
  <texture name="check" type="2d" builtin="checker" rgb1="1 0 0" rgb2="0 1 0" width="32" height="32"/>
  <material name="check" texture="check" reflectance="0.4"/>
  <mesh name="star" vertex="0 0 0 .3 0 0 0 .3 0 0 0 .3 .05 .05 .05" face="0 2 1 0 1 3 0 3 2 1 2 3"/></asset>
<worldbody><light pos="0 -1 3" dir="0 .3 -1"/><light pos=".5 .6 .9" dir="0 0 -1"/>
  <camera name="seen" pos="0 -2.2 1.4" xyaxes="1 0 0 0 .5 1"/>
  <camera name="other" pos="-.9 .3 .3"/>
  <geom name="floor" type="plane" size="3 3 .1" material="check"/>
  <geom name="collision" group="3" type="box" size=".15 .15 .15" pos="-.5 0 .5" rgba="1 1 0 1"/>
  <geom name="visual" group="1" type="box" size=".1 .1 .1" pos=".6 0 .4" rgba="0 1 1 1"/>
  <site name="mark" group="4" pos="0 0 .9" size=".1" rgba="1 0 1 1"/>
  <site name="anchor" pos="0 .5 .8" size=".03" zaxis="0 0 -1"/>
  <body name="ball" pos="0 0 .18"><freejoint/><geom size=".2" rgba="1 .5 0 1"/><site name="top" pos="0 0 .2"/></body>
  <body name="door" pos=".2 .4 .5"><joint name="hinge" axis="0 0 1"/><geom name="star" type="mesh" mesh="star"/></body>
  <body name="pinned" pos="-.7 -.2 .5"><freejoint/><geom size=".05"/></body>
  <body name="cloth" pos="-.2 .3 .8"><flexcomp name="cl" type="grid" count="3 3 1" spacing=".1 .1 .1" radius=".02"
    dim="2" mass=".1"/></body>
</worldbody>
<deformable><skin name="skin" rgba="0 0 1 1" vertex="0 0 0 .2 0 0 .2 0 .2" face="0 1 2 0 2 1">
  <bone body="door" bindpos=".2 .4 .5" bindquat="1 0 0 0" vertid="0 1 2" vertweight="1 1 1"/></skin></deformable>
<tendon><spatial width=".01"><site site="top"/><site site="anchor"/></spatial></tendon>
<equality><weld body1="pinned" body2="ball"/></equality>
<actuator><general joint="hinge" dyntype="integrator" ctrlrange="-1 1" gainprm="1"/></actuator>
<sensor><rangefinder site="anchor"/></sensor></mujoco>"""
pytestmark = pytest.mark.filterwarnings("ignore")


def scene_in_contact() -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    data.ctrl[:] = 1
    mujoco.mj_step(model, data, 5)
    data.xfrc_applied[model.body("pinned").id] = 0, 0, 200, 0, 0, 0
    return model, data


def references(model: mujoco.MjModel, data: mujoco.MjData, *chosen: dict[str, Any]) -> list[np.ndarray]:
    """MuJoCo's own colours with each choice of what is shown."""
    model, shown = copy.copy(model), mujoco.MjData(model)
    mujoco.mj_setState(model, shown, state(model, data), WHOLE_STATE)
    mujoco.mj_forward(model, shown)
    model.vis.global_.offwidth, model.vis.global_.offheight = WIDTH, HEIGHT
    with mujoco.Renderer(model, HEIGHT, WIDTH) as renderer:
        plain = renderer.scene.flags.copy()
        return [_drawn(renderer, shown, plain, **fields) for fields in chosen]


def _drawn(renderer: mujoco.Renderer, shown: mujoco.MjData, plain: np.ndarray, **fields: Any) -> np.ndarray:
    option, flags = mujoco.MjvOption(), fields.get("flags", {})
    for name in ("geom_groups", "site_groups"):
        if name in fields:
            getattr(option, name[:4] + "group")[:] = np.isin(np.arange(6), fields[name])
    for name, is_on in flags.items():
        if name in VIS_FLAGS:
            option.flags[int(getattr(mujoco.mjtVisFlag, f"mjVIS_{name.upper()}"))] = is_on
    renderer.scene.flags[:] = plain
    for _ in range(2):
        renderer.update_scene(shown, "seen", option)
    for name, is_on in flags.items():
        if name in RND_FLAGS:
            renderer.scene.flags[int(getattr(mujoco.mjtRndFlag, f"mjRND_{name.upper()}"))] = is_on
    return renderer.render().copy()


def reference(model: mujoco.MjModel, data: mujoco.MjData, **fields: Any) -> np.ndarray:
    return references(model, data, fields)[0]


def seen(name: str = "seen", **fields: Any) -> lr.Camera:
    return lr.Camera(name, source="seen", width=WIDTH, height=HEIGHT, **fields)


def test_the_flags_are_mujocos() -> None:
    of_vis = {name.removeprefix("mjVIS_").lower() for name in mujoco.mjtVisFlag.__members__ if name.startswith("mjVIS")}
    of_rnd = {name.removeprefix("mjRND_").lower() for name in mujoco.mjtRndFlag.__members__ if name.startswith("mjRND")}
    assert of_vis - set(VIS_FLAGS) == {"pertobj", "select"}
    assert of_rnd - set(RND_FLAGS) == {"depth", "segment", "idcolor"}
    assert set(VIS_FLAGS) <= of_vis
    assert set(RND_FLAGS) <= of_rnd


def _default(name: str) -> bool:
    if name in VIS_FLAGS:
        return bool(mujoco.MjvOption().flags[int(getattr(mujoco.mjtVisFlag, f"mjVIS_{name.upper()}"))])
    return bool(mujoco.MjvScene().flags[int(getattr(mujoco.mjtRndFlag, f"mjRND_{name.upper()}"))])


@pytest.fixture(scope="module")
def films() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Each flag turned over: our picture and MuJoCo's."""
    model, data = scene_in_contact()
    flags = [{name: not _default(name)} for name in (*VIS_FLAGS, *RND_FLAGS)]
    cameras = [seen(next(iter(flag)), flags=flag) for flag in flags]
    with Film(model, data, [seen("default"), *cameras]) as film:
        pictures = film.frame()
    ours = dict(zip(("default", *VIS_FLAGS, *RND_FLAGS), pictures, strict=True))
    theirs = references(model, data, {}, *({"flags": flag} for flag in flags))
    return {name: (ours[name], picture) for name, picture in zip(ours, theirs, strict=True)}


@pytest.mark.parametrize("name", ["default", *VIS_FLAGS, *RND_FLAGS])
def test_a_flag_does_what_it_does_in_mujoco(films: dict[str, tuple[np.ndarray, np.ndarray]], name: str) -> None:
    ours, theirs = films[name]
    np.testing.assert_array_equal(ours, theirs)


# What has nothing to show in this scene, or only in another light or from another side.
QUIET = {
    "default", "convexhull", "sclinertia", "contactsplit", "meshbvh", "sdfiter", "fog", "additive", "cull_face",
    "activation", "flexvert", "flexedge", "flexface", "haze", "rangefinder", "post_processing",
}  # fmt: skip


def test_a_flag_changes_the_picture(films: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    plain = films["default"][0]
    same = {name for name, (ours, _) in films.items() if np.array_equal(ours, plain)}
    assert same <= QUIET, same - QUIET


@pytest.mark.parametrize(
    "groups",
    [{"geom_groups": (3,)}, {"geom_groups": ()}, {"site_groups": (4,)}, {"geom_groups": (0, 3), "site_groups": ()}],
)
def test_groups_are_mujocos_in_colour_depth_and_masks(groups: dict[str, Any]) -> None:
    model, data = scene_in_contact()
    masks = ["floor", "collision", "visual", "ball"]
    cameras = [seen("plain"), seen("chosen", masks=masks, depth_mode="separate", **groups), seen("again")]
    with Film(model, data, cameras, record_masks=True) as film:
        pictures = film.look()
        depth, labels = film.surfaces(pictures[1])
        plain, chosen, again = film.draw(pictures)
    np.testing.assert_array_equal(chosen, reference(model, data, **groups))
    np.testing.assert_array_equal(plain, reference(model, data))
    np.testing.assert_array_equal(plain, again)
    shown = groups.get("geom_groups", (0, 1, 2))
    for label, name in enumerate(masks, 1):
        group = int(model.geom_group[model.geom(name).id]) if name != "ball" else 0
        assert (labels == label).any() == (group in shown), name
    if shown == ():
        # The skin, the cloth and the tendon are left, and the sky lies behind the floor that is not there.
        assert (depth == 0).mean() > 0.5


def test_hidden_geoms_are_not_in_depth() -> None:
    model, data = scene_in_contact()
    cameras = [seen("with", geom_groups=(0, 1, 3), depth_mode="depth_only"), seen("without", depth_mode="depth_only")]
    with Film(model, data, cameras) as film:
        pictures = film.look()
        near, far = (film.surfaces(picture)[0] for picture in pictures)
        for picture in pictures:
            picture.release()
    # The box of group 3 stands before the floor, and nothing else differs.
    assert 20 < (near < far - 0.01).sum() < near.size / 4
    assert (near <= far + 1e-6).all()


def test_scenes_of_the_pool_carry_no_flag_to_the_next_camera() -> None:
    model, data = scene_in_contact()
    cameras = [seen("wire", flags={"wireframe": True, "shadow": False}), seen("plain")]
    with Film(model, data, cameras) as film:
        rounds = [film.frame() for _ in range(3)]
    for (wire, plain), (again_wire, again_plain) in itertools.pairwise(rounds):
        np.testing.assert_array_equal(wire, again_wire)
        np.testing.assert_array_equal(plain, again_plain)
    assert not np.array_equal(*rounds[0])


@pytest.fixture(scope="module")
def depths() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of each flag turned over, the depth before any colour was drawn, and after it.

    Of a scene whose colours and surfaces may share a pass: no sky, no mirror, one sample a pixel.
    """
    bare = re.sub(r'<texture name="sky".*?/>', "", SCENE, flags=re.DOTALL).replace('reflectance="0.4"', "")
    model = mujoco.MjModel.from_xml_string(bare)
    model.vis.quality.offsamples = 0
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 5)
    names = [*VIS_FLAGS, *RND_FLAGS]
    cameras = [seen(name, flags={name: not _default(name)}, depth_mode="separate") for name in names]
    with Film(model, data, cameras) as film:
        before, after = [], []
        for picture in film.look():
            before.append(film.surfaces(picture)[0])
            picture.release()
        for picture in film.look():
            film.in_worker(film.source.renderer.color, picture)
            after.append(film.surfaces(picture)[0])
            picture.release()
    return dict(zip(names, zip(before, after, strict=True), strict=True))


@pytest.mark.parametrize("flag", [*VIS_FLAGS, *RND_FLAGS])
def test_depth_is_the_same_whether_colours_are_drawn_first_or_not(
    depths: dict[str, tuple[np.ndarray, np.ndarray]], flag: str
) -> None:
    before, after = depths[flag]
    np.testing.assert_array_equal(before, after)


def test_a_flag_that_the_installed_mujoco_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = scene_in_contact()
    monkeypatch.setattr("lucky_recorder.capture.mujoco.snapshot.VIS_FLAGS", ("no_such",))
    camera = seen()
    object.__setattr__(camera, "flags", (("no_such", True),))
    with pytest.raises(lr.SettingsError, match=r"camera 'seen': flags='no_such': MuJoCo \d.*has no such flag"):
        Film(model, data, [camera])


@pytest.mark.parametrize("mark", ["contactpoint", "contactforce", "joint", "com", "inertia", "camera", "light"])
def test_a_mark_is_before_the_camera_as_anything_else_and_belongs_to_no_object(mark: str) -> None:
    model, data = scene_in_contact()
    fields: dict[str, Any] = {"masks": ["ball", "floor"], "depth_mode": "separate"}
    cameras = [seen("plain", **fields), seen("marked", flags={mark: True}, **fields)]
    with Film(model, data, cameras, record_masks=True) as film:
        pictures = film.look()
        (depth, labels), (marked_depth, marked_labels) = (film.surfaces(picture) for picture in pictures)
        plain, marked = film.draw(pictures)
    changed = depth != marked_depth
    assert changed.any()
    before, behind = marked_depth[changed], depth[changed]
    assert ((before < behind) | (behind == 0)).all()
    assert not marked_labels[changed].any()
    np.testing.assert_array_equal(labels[~changed], marked_labels[~changed])
    assert not np.array_equal(plain, marked)


@pytest.mark.parametrize(("name", "flags"), [("cl", ("flexskin", "flexedge")), ("skin", ("skin",))])
def test_what_is_soft_is_hidden_by_its_flags(name: str, flags: tuple[str, ...]) -> None:
    model, data = scene_in_contact()
    fields: dict[str, Any] = {"masks": [name], "depth_mode": "separate"}
    cameras = [seen("plain", **fields), seen("without", flags=dict.fromkeys(flags, False), **fields)]
    with Film(model, data, cameras, record_masks=True) as film:
        pictures = film.look()
        (depth, labels), (far, none) = (film.surfaces(picture) for picture in pictures)
        plain, without = film.draw(pictures)
    assert labels.any()
    assert not none.any()
    changed = np.abs(far - depth) > 1e-6
    assert changed.any()
    assert (labels[changed] == 1).all()
    assert not np.array_equal(plain, without)
