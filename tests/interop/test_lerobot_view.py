"""LeRobot opens the copy that is made for it, of sessions that it does not open as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.lerobot.rules import check_lerobot
from lucky_recorder.video.decode import decode_all
from tests.interop.conftest import LeRobot, Truth
from tests.interop.test_lerobot import compare_pictures, load

SIZE = {"width": 64, "height": 48}
EVERYTHING = {
    "cameras": [
        lr.Camera("front", **SIZE, depth_mode="rgbd", masks=["cube", "hand"]),
        lr.Camera("fast", source="front", **SIZE, frame_rate=100),
        lr.Camera("slow", source="front", **SIZE, frame_rate=25, depth_mode="depth_only", sensor_model="ActiveStereo"),
    ],
    "record_masks": True,
    "lidars": [lr.Lidar("hand", site="grasp", rate=10, azimuth=(-30, 30, 8), elevation=(-5, 5, 4))],
    "columns": [lr.Column("lone", lambda moment: moment.data.qpos[:1], shape=(1,))],
    "gym_columns": True,
}


def record(folder: Path, name: str, **settings: object) -> Path:
    env = lr.RecordSession(gym.make(f"LuckyRecorder/{name}"), output_dir=folder, **settings)
    policy = env.unwrapped.expert()
    for episode in range(3):
        obs, _ = env.reset(seed=episode)
        for _ in range(5 + episode):
            obs, *_ = env.step(policy(obs))
        env.end_episode(success=episode != 1)
    env.close()
    return env.session_path


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("everything"), "PickCube-v0", **EVERYTHING)


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    arms = {"robots": ["left_base", "right_base"], "cameras": [lr.Camera("front", **SIZE)]}
    return record(tmp_path_factory.mktemp("twins"), "TwinArms-v0", **arms)


@pytest.fixture
def opened(lerobot: LeRobot, tmp_path: Path) -> Callable[..., tuple[Truth, dict[str, np.ndarray], Path]]:
    """Make a view, and return it with what LeRobot hands out of it."""

    def opened(session: Path, **options: object) -> tuple[Truth, dict[str, np.ndarray], Path]:
        assert check_lerobot(session) != []
        view = lr.lerobot_view(session, tmp_path / "view", **options)
        lerobot.drive("view", view.path, tmp_path)
        return Truth(view.path), load(tmp_path / "items.npz"), tmp_path / "depth.npz"

    return opened


def compare_columns(found: dict[str, np.ndarray], truth: Truth) -> None:
    for name, values in truth.rows.items():
        expected = values.astype(np.float32 if values.dtype.kind == "f" else values.dtype)
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


def test_a_session_with_everything_switched_on(opened: Callable[..., tuple], everything: Path) -> None:
    truth, found, _ = opened(everything)
    assert set(found) == {*truth.rows, "observation.images.front", "observation.images.fast", "task"}
    compare_columns(found, truth)
    compare_pictures(found["observation.images.front"], truth.frames["observation.images.front"])
    fast = [decode_all(e.video_path("fast"))[: 2 * e.data_ticks : 2] for e in truth.session]
    compare_pictures(found["observation.images.fast"], np.concatenate(fast))


def test_depth_is_handed_out_in_millimetres(opened: Callable[..., tuple], everything: Path, lerobot: LeRobot) -> None:
    if lerobot.version == "0.4.4":
        pytest.skip("it has no depth")
    truth, found, depth = opened(everything, depth=True)
    compare_columns(found, truth)
    codes = np.concatenate([decode_all(e.video_path("front_depth")) for e in lr.Session(everything)])
    handed_out = load(depth)["observation.images.front_depth"]
    assert codes.max() > 500
    np.testing.assert_allclose(handed_out, codes, atol=17)


@pytest.mark.parametrize("robot", ["left_base", "right_base"])
def test_one_robot_of_two(opened: Callable[..., tuple], twins: Path, robot: str) -> None:
    truth, found, _ = opened(twins, robot=robot)
    assert len(found["index"]) == 5 + 6 + 7
    compare_columns(found, truth)
    compare_pictures(found["observation.images.front"], truth.frames["observation.images.front"])
