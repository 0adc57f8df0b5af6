"""Masks of what is soft: a flex or skin is labelled where it is drawn, as the object that its bodies belong to."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from tests.capture.drawing import Film

WIDTH, HEIGHT = 96, 64
# The tent is drawn unlit and unblended, so that its colour tells its pixels exactly.
VISUAL = """<visual><quality shadowsize="0" offsamples="0"/>
<headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual>"""
FLEX = 'name="tent" spacing=".1 .1 .1" rgba="0 1 0 1" mass="0.2"'
KINDS = {
    "rope": f'<flexcomp {FLEX} type="grid" count="9 1 1" radius=".03" dim="1"/>',
    "cloth": f'<flexcomp {FLEX} type="grid" count="5 5 1" radius=".02" dim="2"/>',
    "pinned cloth": f'<flexcomp {FLEX} type="grid" count="5 5 1" radius=".02" dim="2"><pin id="0 4"/></flexcomp>',
    "sponge": f'<flexcomp {FLEX} type="grid" count="3 3 3" radius="0" dim="3"/>',
    "smooth sponge": f'<flexcomp {FLEX} type="grid" count="3 3 3" radius=".03" dim="3" flatskin="false"/>',
    "rigid cloth": f'<flexcomp {FLEX} type="grid" count="5 5 1" radius=".01" dim="2" rigid="true"/>',
    "trilinear sponge": f'<flexcomp {FLEX} type="grid" count="3 3 3" radius=".01" dim="3" dof="trilinear"/>',
}
SKIN = """<deformable><skin name="tent" rgba="0 1 0 1" vertex="-.4 -.4 0 .4 -.4 0 .4 .4 0 -.4 .4 0" face="0 1 2 0 2 3">
<bone body="left" bindpos="-.4 0 0" bindquat="1 0 0 0" vertid="0 3" vertweight="1 1"/>
<bone body="right" bindpos=".4 0 0" bindquat="1 0 0 0" vertid="1 2" vertweight="1 1"/></skin></deformable>"""
BONES = """<body name="left" pos="-.4 0 0"><joint type="slide"/><geom size=".02" rgba="1 0 0 1"/></body>
<body name="right" pos=".4 0 0"><joint type="slide"/><geom size=".02" rgba="1 0 0 1"/></body>"""


def model_of(inside: str, outside: str = "") -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco>{VISUAL}<worldbody><geom name="floor" type="plane" size="3 3 .1" rgba="0 0 1 1"/>
        <camera name="seen" pos="0 -1.2 1.6" xyaxes="1 0 0 0 .6 1"/>
        <body name="top"><body name="mid" pos="0 0 .6">
        <geom name="knob" size=".05" rgba="1 0 0 1"/>{inside}</body></body>
        <body name="apart" pos="2 2 0"><joint/><geom size=".1" rgba="1 0 0 1"/></body></worldbody>{outside}</mujoco>"""
    )


MODELS = {**{kind: (flex, "") for kind, flex in KINDS.items()}, "skin": (BONES, SKIN)}


def drawn(model: mujoco.MjModel, masks: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Which pixels have the tent's colour, and all labels, of one state."""
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 5)
    seen = lr.Camera("seen", width=WIDTH, height=HEIGHT, masks=masks)
    with Film(model, data, [seen], record_masks=True) as film:
        [picture] = film.look()
        _, labels = film.surfaces(picture)
        [pixels] = film.draw([picture])
    return (pixels[..., 1] > 100) & (pixels[..., 0] < 100), labels


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("masks", [["mid"], ["top"], ["apart", "top"], ["floor", "tent"], ["tent", "apart"]])
@pytest.mark.parametrize("kind", MODELS)
def test_the_pixels_of_its_colour_are_the_labelled_pixels(kind: str, masks: list[str]) -> None:
    green, labels = drawn(model_of(*MODELS[kind]), masks)
    label = 1 + next(i for i, name in enumerate(masks) if name in ("mid", "top", "tent"))
    assert green.sum() > 40
    assert (labels[green] == label).all()
    named_alone = masks[label - 1] == "tent"
    if named_alone:
        assert ((labels == label) == green).all()


@pytest.mark.parametrize(("masks", "expected"), [(["tent", "top"], 2), (["top", "tent"], 2), (["mid", "top"], 2)])
@pytest.mark.parametrize("kind", ["cloth", "skin"])
def test_the_later_object_wins(kind: str, masks: list[str], expected: int) -> None:
    green, labels = drawn(model_of(*MODELS[kind]), masks)
    assert set(labels[green]) == {expected}


@pytest.mark.parametrize("kind", MODELS)
def test_what_no_object_holds_is_background(kind: str) -> None:
    green, labels = drawn(model_of(*MODELS[kind]), ["knob", "apart"])
    assert (labels[green] == 0).all()


@pytest.mark.parametrize(
    ("kind", "masks", "parts"),
    [
        ("skin", ["left"], "left and right"),
        ("skin", ["left", "right"], "right and left"),
        ("cloth", ["tent_7"], "tent_7 and tent_0"),
        ("trilinear sponge", ["tent_0_0_0"], "tent_0_0_0 and tent_0_0_1"),
    ],
)
def test_what_would_be_in_two_objects_is_refused_by_name(kind: str, masks: list[str], parts: str) -> None:
    model = model_of(*MODELS[kind])
    seen = lr.Camera("seen", width=WIDTH, height=HEIGHT, masks=masks)
    said = f"camera 'seen': masks='.* tent': it belongs to the bodies {parts}.*name 'tent' itself in masks"
    with pytest.raises(lr.SettingsError, match=said):
        Film(model, mujoco.MjData(model), [seen], record_masks=True)
    green, labels = drawn(model, [*masks, "tent"])
    assert set(labels[green]) == {len(masks) + 1}


FLEX_FLAGS = ("flexvert", "flexedge", "flexface", "flexskin")


@pytest.mark.parametrize(
    ("kind", "masks", "hiding"),
    [("skin", ["left"], ("skin",)), ("skin", ["right", "left"], ("skin",)), ("cloth", ["tent_7"], FLEX_FLAGS)],
)
def test_what_a_camera_hides_is_in_no_object(kind: str, masks: list[str], hiding: tuple[str, ...]) -> None:
    model = model_of(*MODELS[kind])

    def film(*off: str) -> Film:
        seen = lr.Camera("seen", width=WIDTH, height=HEIGHT, masks=masks, flags=dict.fromkeys(off, False))
        return Film(model, mujoco.MjData(model), [seen], record_masks=True)

    with film(*hiding) as hidden:
        [picture] = hidden.look()
        _, labels = hidden.surfaces(picture)
        [pixels] = hidden.draw([picture])
    assert ((pixels[..., 1] > 100) & (pixels[..., 0] < 100)).sum() == 0
    red = (pixels[..., 0] > 100) & (pixels[..., 1] < 100)
    assert set(labels[~red]) == {0}
    # One flag less, and it is drawn.
    with pytest.raises(lr.SettingsError, match="name 'tent' itself in masks"):
        film(*hiding[:-1])


def test_a_skin_without_a_name_is_called_by_its_number() -> None:
    model = model_of(BONES, SKIN.replace('name="tent" ', ""))
    with pytest.raises(lr.SettingsError, match="name 'skin_0' itself in masks"):
        drawn(model, ["left"])
    green, labels = drawn(model, ["left", "skin_0"])
    assert set(labels[green]) == {2}
