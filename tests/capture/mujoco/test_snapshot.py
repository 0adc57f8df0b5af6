from __future__ import annotations

import contextlib
import itertools
import threading
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.mujoco import snapshot
from lucky_recorder.capture.mujoco.snapshot import ScenePool
from lucky_recorder.episode.keys import MOST_SCENES
from lucky_recorder.errors import WorkerStalledError
from tests.capture.drawing import HEIGHT, WIDTH, Film, reference
from tests.capture.models import contents, moving, scene, source_of

PLANE = """
<mujoco>
  <visual><quality shadowsize="256" offsamples="0"/></visual>
  <asset>
    <texture name="checks" type="2d" builtin="checker" rgb1="0.1 0.2 0.3" rgb2="0.9 0.8 0.7" width="32" height="32"/>
    <material name="floor" texture="checks" texrepeat="4 4"/>
  </asset>
  <worldbody>
    <light pos="0 -1 3"/>
    <geom type="plane" size="0 0 0.1" material="floor"/>
    <camera name="far" pos="9 -7 2" xyaxes="1 0 0 0 0.4 0.9"/>
    <body name="rider" pos="0 0 0.5">
      <freejoint/><geom size="0.1"/><camera name="near" pos="0 -1 0.4" xyaxes="1 0 0 0 0.4 0.9"/>
    </body>
  </worldbody>
</mujoco>
"""


def camera(name: str = "overview", **fields: Any) -> lr.Camera:
    return lr.Camera(name, **{"width": WIDTH, "height": HEIGHT, **fields})


def test_a_snapshot_shows_the_state_it_was_taken_in_whatever_happens_before_it_is_drawn() -> None:
    model, data = moving()
    with Film(model, data, [camera()]) as film:
        known, taken = [], []
        for _ in range(4):
            known.append(reference(model, data, "overview"))
            taken.append(film.look())
            mujoco.mj_step(model, data, 25)
        for expected, pictures in zip(known, taken, strict=True):
            [pixels] = film.draw(pictures)
            np.testing.assert_array_equal(pixels, expected)
        assert any((a != b).any() for a, b in itertools.pairwise(known))


def test_a_snapshot_does_not_lag_behind_qpos() -> None:
    """After mj_step the user's own data still has the poses of the step before: drawn as they are, they would lag."""
    model, data = moving()
    model.vis.global_.offwidth, model.vis.global_.offheight = WIDTH, HEIGHT
    mujoco.mj_step(model, data)
    with mujoco.Renderer(model, HEIGHT, WIDTH) as renderer:
        renderer.update_scene(data, "overview")
        lagging = renderer.render()
    with Film(model, data, [camera()]) as film:
        [pixels] = film.frame()
    assert (pixels != lagging).any()
    np.testing.assert_array_equal(pixels, reference(model, data, "overview"))


def test_which_camera_used_a_scene_before_does_not_matter() -> None:
    model = mujoco.MjModel.from_xml_string(PLANE)
    data = mujoco.MjData(model)
    data.qvel[:3] = 3, 2, 0
    with Film(model, data, [camera("near"), camera("far")]) as film:
        for _ in range(3):
            for name, pixels in zip(("near", "far"), film.frame(), strict=True):
                np.testing.assert_array_equal(pixels, reference(model, data, name), err_msg=name)
            mujoco.mj_step(model, data, 50)
        pictures = film.look()
        first = film.draw(pictures)
        film.draw(film.look())
        for again, pixels in zip(film.draw(film.look()), first, strict=True):
            np.testing.assert_array_equal(again, pixels)


def test_taking_snapshots_touches_nothing_of_the_users() -> None:
    model, data = moving()
    before = contents(model), contents(data)
    with Film(
        model, data, [camera(), camera("free", source=lr.FreeCamera(), width=80)], render_quality="fastest"
    ) as film:
        film.begin()
        film.frame()
        film.frame()
    assert (contents(model), contents(data)) == before


def test_only_cameras_that_are_due_look() -> None:
    model, data = moving()
    cameras = [
        camera("all", source="overview"),
        camera("half", source="overview", frame_rate=25),
        camera("tenth", source="overview", frame_rate=5),
    ]
    source = source_of(model, "full_scene", data, cameras=cameras)
    assert source.sync is not None
    assert source.snapshot is not None
    source.sync()
    due = []
    for tick in range(21):
        pictures = source.snapshot(tick)
        due.append([p.camera for p in pictures])
        for picture in pictures:
            picture.release()
    assert due == [[0] + [1] * (t % 2 == 0) + [2] * (t % 10 == 0) for t in range(21)]


def test_no_more_than_sixteen_scenes_are_in_flight() -> None:
    pool = ScenePool(scene("joint_zoo"), 2, timeout_s=0.05)
    taken = [pool.borrow() for _ in range(MOST_SCENES)]
    assert MOST_SCENES == 16
    assert len({id(s) for s in taken}) == 16
    with pytest.raises(WorkerStalledError, match=r"worker_timeout_s=0\.05"):
        pool.borrow()
    pool.give_back(taken[3])
    assert pool.borrow() is taken[3]


def test_taking_a_scene_waits_until_one_is_given_back() -> None:
    pool = ScenePool(scene("joint_zoo"), 1, timeout_s=30)
    taken = [pool.borrow() for _ in range(MOST_SCENES)]
    threading.Thread(target=pool.give_back, args=(taken[5],)).start()
    assert pool.borrow() is taken[5]


def test_as_many_cameras_as_there_are_can_look_at_one_tick() -> None:
    pool = ScenePool(scene("joint_zoo"), 20, timeout_s=0.01)
    taken = [pool.borrow() for _ in range(20)]
    assert len({id(s) for s in taken}) == 20


def test_a_scene_that_an_interrupt_has_lost_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = moving()
    strikes = itertools.chain([True, True, False] * MOST_SCENES, itertools.repeat(False))
    working = mujoco.mjv_updateScene

    def interrupted(*given: Any) -> None:
        working(*given)
        if next(strikes):
            raise KeyboardInterrupt

    monkeypatch.setattr(mujoco, "mjv_updateScene", interrupted)
    source = source_of(model, "full_scene", data, cameras=[camera()], worker_timeout_s=0.2)
    assert source.sync is not None
    assert source.snapshot is not None
    source.sync()
    taken = []
    for tick in range(3 * MOST_SCENES):
        with contextlib.suppress(KeyboardInterrupt):
            taken += source.snapshot(tick)
    # All that there may be are to be had, and not one more.
    assert len(taken) == MOST_SCENES
    with pytest.raises(WorkerStalledError):
        source.snapshot(0)
    taken.pop().release()
    assert len(source.snapshot(0)) == 1


def crowded(count: int = 40) -> mujoco.MjModel:
    """Slack ropes, each drawn as many geoms, more of them than a model's own geoms foretell."""
    ropes = "".join(
        f"""<spatial name="r{i}" limited="true" range="0 {1 + i / 100}" width="0.003">
        <site site="a{i}"/><site site="b{i}"/></spatial>"""
        for i in range(count)
    )
    sites = "".join(
        f'<site name="a{i}" pos="{i / 50 - 0.7} 0 1"/><site name="b{i}" pos="{i / 50 - 0.5} 0.2 1"/>'
        for i in range(count)
    )
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco><visual><quality shadowsize="0" offsamples="0" numslices="30" numstacks="2"/></visual>
        <worldbody><light pos="0 -1 3"/>
        <body><joint/><geom size="0.05"/></body>
        <camera name="overview" pos="0 -2 1" xyaxes="1 0 0 0 0.4 0.9"/>{sites}</worldbody>
        <tendon>{ropes}</tendon></mujoco>"""
    )


def test_slack_ropes_are_foreseen(capfd: pytest.CaptureFixture[str]) -> None:
    model = crowded()
    data = mujoco.MjData(model)
    with Film(model, data, [camera()]) as film:
        [picture] = film.look()
        assert picture.scene.ngeom > 1000
        np.testing.assert_array_equal(film.draw([picture])[0], reference(model, data, "overview"))
    assert "maxgeom" not in capfd.readouterr().err


def test_a_scene_that_is_too_small_is_replaced_by_a_larger_one(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)  # where MuJoCo logs that the first was too small
    monkeypatch.setattr(snapshot, "_SPARE_GEOMS", -1200)
    model = crowded()
    data = mujoco.MjData(model)
    known = reference(model, data, "overview")
    with Film(model, data, [camera(), camera("again", source="overview")]) as film:
        for _ in range(2):
            pictures = film.look()
            assert all(1000 < p.scene.ngeom < p.scene.maxgeom < 5000 for p in pictures)
            for pixels in film.draw(pictures):
                np.testing.assert_array_equal(pixels, known)


def test_a_pool_grows_once_not_with_every_scene_that_is_too_small() -> None:
    pool = ScenePool(scene("joint_zoo"), 4, timeout_s=1)
    small = [pool.borrow() for _ in range(4)]
    sizes = [pool.larger(s).maxgeom for s in small]
    assert sizes == [2 * small[0].maxgeom] * 4
