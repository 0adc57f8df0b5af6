"""Masks: every pixel of the file is the label of the object that MuJoCo's own renderer sees there."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.draw.masks import Labels
from lucky_recorder.testing import check_session
from tests.capture.drawing import Film
from tests.capture.models import scene, state
from tests.capture.surfaces import Mirror

WIDTH, HEIGHT = 96, 64


def geoms_of(model: mujoco.MjModel, name: str) -> list[int]:
    """The geoms of a body and of everything below it, or the geom of that name."""
    bodies = {b for b in range(model.nbody) if model.body(b).name == name}
    if not bodies:
        return [model.geom(name).id]
    for body in range(1, model.nbody):
        if int(model.body_parentid[body]) in bodies:
            bodies.add(body)
    return [g for g in range(model.ngeom) if int(model.geom_bodyid[g]) in bodies]


def camera(source: str, masks: list[str], **fields: Any) -> lr.Camera:
    return lr.Camera("seen", source=source, masks=masks, **{"width": WIDTH, "height": HEIGHT, **fields})


@pytest.mark.parametrize("samples", [0, 4])
@pytest.mark.parametrize(
    ("model", "source", "masks"),
    [
        ("pick_cube", "front", ["base", "cube", "table"]),
        ("pick_cube", "front", ["world", "cube"]),
        ("pick_cube", "wrist", ["hand", "fixed_jaw", "moving_jaw", "cube"]),
        ("pick_cube", "front", ["cube", "base", "hand"]),
        ("pick_cube", "front", ["hand", "base"]),
        ("joint_zoo", "overview", ["finger", "wheel", "puck", "floor", "fingertip"]),
    ],
)
def test_labels_are_mujocos_segmentation(model: str, source: str, masks: list[str], samples: int) -> None:
    loaded = scene(model)
    loaded.vis.quality.offsamples = samples
    data = mujoco.MjData(loaded)
    if loaded.nkey:
        mujoco.mj_resetDataKeyframe(loaded, data, 0)
    objects = [geoms_of(loaded, name) for name in masks]
    seen = camera(source, masks)
    with Film(loaded, data, [seen], record_masks=True) as film, Mirror(loaded, WIDTH, HEIGHT) as mirror:
        for _ in range(2):
            [picture] = film.look()
            _, labels = film.surfaces(picture)
            picture.release()
            mirror.show(state(loaded, data), source)
            assert labels.dtype == np.uint8
            np.testing.assert_array_equal(labels, mirror.labels(objects))
            assert len(np.unique(labels)) >= 2
            mujoco.mj_step(loaded, data, 40)


BOXES = """
<mujoco><visual><quality shadowsize="0" offsamples="0"/></visual><worldbody>
  <camera name="top" pos="0 0 3" fovy="60"/><light pos="0 0 3"/>
  <body name="thing"><joint name="slide" type="slide"/><geom name="a" size="0.3 0.3 0.1" type="box"/>
    <body name="part" pos="0.6 0 0"><geom name="thing" size="0.2 0.2 0.1" type="box"/>
      <body pos="0 0.6 0"><geom name="b" size="0.2 0.2 0.1" type="box"/></body></body>
    <site name="mark" type="box" size="0.1 0.1 0.2"/></body>
  <geom name="glass" type="box" size="0.2 0.2 0.05" pos="-0.8 0 0" rgba="1 1 1 0.2"/>
</worldbody></mujoco>
"""


def labels_of(masks: list[str]) -> np.ndarray:
    model = mujoco.MjModel.from_xml_string(BOXES)
    with Film(model, mujoco.MjData(model), [camera("top", masks)], record_masks=True) as film:
        [picture] = film.look()
        labels: np.ndarray = film.surfaces(picture)[1]
        return labels


def counts(labels: np.ndarray) -> dict[int, int]:
    return dict(zip(*(part.tolist() for part in np.unique(labels, return_counts=True)), strict=True))


def test_a_body_is_everything_below_it_and_comes_before_a_geom_of_its_name() -> None:
    whole, part, geoms = labels_of(["thing"]), labels_of(["part"]), labels_of(["a", "b", "glass"])
    assert counts(whole)[1] > counts(part)[1] > counts(geoms)[2] > 0
    assert set(counts(geoms)) == {0, 1, 2, 3}


def test_where_objects_overlap_the_later_one_wins() -> None:
    first, last = labels_of(["part", "thing"]), labels_of(["thing", "part"])
    assert set(counts(first)) == {0, 2}
    assert set(counts(last)) == {0, 1, 2}
    assert ((first == 2) == (last > 0)).all()


def test_a_site_before_an_object_is_background_as_mujoco_segments_it() -> None:
    labels = labels_of(["a"])
    centre = labels[HEIGHT // 2, WIDTH // 2]
    assert centre == 0
    assert counts(labels)[1] > 50


def test_255_objects_have_a_label_each() -> None:
    geoms = "".join(f'<geom name="g{i}" pos="{i % 16} {i // 16} 0" size="0.45" type="sphere"/>' for i in range(256))
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><visual><quality shadowsize="0" offsamples="0"/></visual><worldbody>
        <camera name="top" pos="7.5 7.5 20" fovy="60"/>{geoms}<body name="b"><joint/><geom size="0.01"/></body>
        </worldbody></mujoco>"""
    )
    masks = [f"g{i}" for i in range(255)]
    with Film(model, mujoco.MjData(model), [camera("top", masks, height=96)], record_masks=True) as film:
        labels = film.surfaces(film.look()[0])[1]
    assert set(counts(labels)) == set(range(256))
    with pytest.raises(lr.SettingsError, match=r"x: masks=.*name 1 to 255"):
        Labels(model, [f"g{i}" for i in range(256)], "x: masks")


@pytest.mark.parametrize("name", ["cupe", "slide", "mark"])
def test_a_name_that_is_neither_a_body_nor_a_geom_is_refused(name: str) -> None:
    model = mujoco.MjModel.from_xml_string(BOXES)
    with pytest.raises(
        lr.SettingsError, match=f"camera 'seen': masks='{name}': the model has neither a body nor a geom"
    ):
        Film(model, mujoco.MjData(model), [camera("top", ["thing", name])], record_masks=True)


def test_masks_that_are_not_recorded_are_not_drawn() -> None:
    model = mujoco.MjModel.from_xml_string(BOXES)
    with Film(model, mujoco.MjData(model), [camera("top", ["thing"])]) as film:
        assert film.look()[0].labels is None


# In the file.


def test_the_file_holds_the_labels_that_were_drawn_in_every_pixel(record: Any) -> None:
    size = {"width": 96, "height": 64}
    masks = ["base", "cube", "moving_jaw"]
    cameras = [
        lr.Camera("front", masks=masks, **size),
        lr.Camera("wrist", masks=["cube"], depth_mode="rgbd", frame_rate=25, **size),
        lr.Camera("plain", source="front", masks=["cube"], record_masks=False, **size),
    ]
    env = record(gym.make("LuckyRecorder/PickCube-v0"), mode="robot_arm", record_masks=True, cameras=cameras)
    expert = env.unwrapped.expert(seed=0)
    states = []
    observation, _ = env.reset(seed=1)
    for _ in range(12):
        states.append(state(env.unwrapped.model, env.unwrapped.data))
        observation, *_ = env.step(expert(observation))
    model = env.unwrapped.model
    env.close()
    path = env.session_path
    session = check_session(path)
    episode = session.episode(0)
    front, wrist = episode.masks("front"), episode.masks("wrist")
    assert (len(front), len(wrist)) == (12, 6)
    with Mirror(model, 96, 64) as mirror:
        for k, known in enumerate(states):
            mirror.show(known, "front")
            np.testing.assert_array_equal(front[k], mirror.labels([geoms_of(model, name) for name in masks]))
            if k % 2 == 0:
                mirror.show(known, "wrist")
                np.testing.assert_array_equal(wrist[k // 2], mirror.labels([geoms_of(model, "cube")]))
    assert front.labels == {0: "background", 1: "base", 2: "cube", 3: "moving_jaw"}
    twin = json.loads((path / "videos/observation.masks.front/chunk-000/file-000.json").read_text())
    assert twin == {"0": "background", "1": "base", "2": "cube", "3": "moving_jaw"}
    assert not (path / "videos/observation.masks.plain").exists()
    assert not any("masks" in key or "rgbd" in key for key in session.info["features"])
    assert not any("masks" in name or "rgbd" in name for name in session.episodes.column_names)
    for frames in (front, wrist):
        frames.close()
