"""Draws the pictures of the pages on streams: records two tiny sessions, and shows frames as they are read back.

Writes a picture for each page into the folder that is named, by default ``streams`` beside this script.
"""

import sys
import tempfile
from pathlib import Path

import gymnasium as gym
import mujoco
import numpy as np

import lucky_recorder as lr
from lucky_recorder.rollouts.collect import collect
from lucky_recorder.session.episode import Episode
from lucky_recorder.video.decode import FrameReader
from lucky_recorder.video.still import write_png
from lucky_recorder.viewer.sheet import Panel, color_depth, draw_scan, overlay, sheet

PAGES = ("color", "depth", "rgbd", "masks", "lidar", "rates")
SIZE = {"width": 320, "height": 240}
TICK = 30
ROOM = """
<mujoco model="room">
  <visual><quality shadowsize="1024"/><global offwidth="640" offheight="480"/></visual>
  <worldbody>
    <light pos="0 0 3" dir="0 0 -1"/>
    <camera name="above" pos="0 -3.4 4.6" xyaxes="1 0 0 0 0.8 0.6" fovy="50"/>
    <geom type="plane" size="3 3 0.1" rgba="0.8 0.8 0.75 1"/>
    <geom type="box" pos="0 2.5 0.5" size="2.5 0.05 0.5" rgba="0.6 0.65 0.7 1"/>
    <geom type="box" pos="-2.5 0 0.5" size="0.05 2.5 0.5" rgba="0.6 0.65 0.7 1"/>
    <geom type="box" pos="1.2 0.8 0.3" size="0.3 0.3 0.3" rgba="0.9 0.3 0.2 1"/>
    <geom type="cylinder" pos="-1.1 1.0 0.4" size="0.25 0.4" rgba="0.2 0.5 0.9 1"/>
    <geom type="sphere" pos="0.2 -1.2 0.35" size="0.35" rgba="0.3 0.7 0.3 1"/>
    <body pos="0 0 0.4">
      <joint name="turn" axis="0 0 1"/> <site name="lidar"/>
      <geom type="cylinder" size="0.08 0.1" rgba="0.1 0.1 0.1 1"/>
    </body>
  </worldbody>
</mujoco>"""


def record_arm(folder: str) -> lr.Session:
    """An arm before cameras of every kind."""
    cameras = [
        lr.Camera("front", **SIZE, depth_mode="rgbd", masks=("shoulder", "hand", "cube")),
        lr.Camera("stereo", source="front", **SIZE, depth_mode="depth_only", sensor_model="ActiveStereo"),
        lr.Camera("slow", source="front", width=160, height=120, frame_rate=12.5),
        lr.Camera("wrist", **SIZE),
    ]
    env = gym.make("LuckyRecorder/PickCube-v0", max_episode_steps=TICK + 10)
    with lr.RecordSession(env, output_dir=folder, cameras=cameras, record_masks=True) as recorder:
        collect(recorder, recorder.unwrapped.expert(), episodes=1)
    return lr.Session(recorder.session_path)


def record_room(folder: str) -> lr.Session:
    """A lidar in a room, seen from above."""
    model = mujoco.MjModel.from_xml_string(ROOM)
    data = mujoco.MjData(model)
    sensor = lr.Lidar("lidar", azimuth=(-180, 180, 480), elevation=(-25, 10, 40), max_range_m=6)
    settings = lr.RecorderSettings(
        output_dir=folder, mode="full_scene", data_hz=10, cameras=[lr.Camera("above", **SIZE)], lidars=[sensor]
    )
    with lr.Observer(settings, model=model, data=data) as observer:
        observer.start_recording()
        observer.tick()
        observer.end_current_episode(success=True)
    return lr.Session(observer.session_path)


def frame_of(episode: Episode, camera: str, frame: int) -> np.ndarray:
    """Return a frame of a camera."""
    with episode.frames(camera) as frames:
        return frames[frame]


def depth_of(episode: Episode, camera: str) -> np.ndarray:
    """Return a camera's depth of the moment that is shown, in colours."""
    return color_depth(episode.depth(camera)[TICK])


def from_above(points: np.ndarray) -> np.ndarray:
    """Draw points as they lie on the floor, six metres from side to side."""
    picture = np.full((240, 240, 3), 245, np.uint8)
    column, row = ((points[:, :2] * (1, -1) + 3) * 40).astype(int).clip(0, 239).T
    picture[row, column] = np.where(points[:, 2:] > 0.02, (200, 60, 40), (150, 170, 200))
    return picture


def draw(folder: str) -> dict[str, list[np.ndarray]]:
    """Record, and return the pictures of each page, from left to right."""
    arm, room = record_arm(folder).episode(0), record_room(folder).episode(0)
    front, masks, scans = frame_of(arm, "front", TICK), arm.masks("front"), room.scans("lidar")
    ranges = scans.ranges(0).reshape(scans.shape)
    with FrameReader(arm.rgbd_path("front"), track=0) as color, FrameReader(arm.rgbd_path("front"), track=1) as depth:
        tracks = [color[TICK], color_depth(depth[TICK].astype(np.float32))]
    fast = [frame_of(arm, "front", tick)[::2, ::2] for tick in range(TICK + 2, TICK + 9)]
    slow = [frame_of(arm, "slow", tick // 4) for tick in range(TICK + 2, TICK + 9, 4)]
    return {
        "color": [front, frame_of(arm, "wrist", TICK)],
        "depth": [front, depth_of(arm, "front"), depth_of(arm, "stereo")],
        "rgbd": tracks,
        "masks": [front, overlay(masks[TICK], front)],
        "lidar": [frame_of(room, "above", 0), from_above(scans.to_points(0)), draw_scan(ranges)],
        "rates": [*fast, *slow],
    }


def main(target: Path) -> None:
    """Write a picture for each page; where there is no OpenGL, an empty one."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            drawn = draw(folder)
        except lr.GLError as error:
            print(f"the pages on streams get empty pictures: {error}", file=sys.stderr)
            drawn = {page: [np.full((240, 320, 3), 235, np.uint8)] for page in PAGES}
    for page in PAGES:
        write_png(target / f"{page}.png", sheet([Panel(page, picture) for picture in drawn[page]]))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("streams"))
