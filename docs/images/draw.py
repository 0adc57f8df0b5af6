"""Draws pick_cube.png beside this script: frames of a recorded episode, as they are read back from its videos."""

import tempfile
from pathlib import Path

import gymnasium as gym
import numpy as np
from PIL import Image

import lucky_recorder as lr
from lucky_recorder.rollouts.collect import collect

CAMERAS = ("front", "wrist")
SHOWN = 4

with tempfile.TemporaryDirectory() as folder:
    cameras = [lr.Camera(name, width=240, height=180) for name in CAMERAS]
    with lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0"), output_dir=folder, cameras=cameras) as env:
        collect(env, env.unwrapped.expert(), episodes=1)
    episode = lr.Session(env.session_path).episode(0)
    ticks = np.linspace(0, episode.data_ticks - 1, SHOWN).astype(int)
    rows = []
    for name in CAMERAS:
        with episode.frames(name) as frames:
            rows.append(np.hstack([frames[int(tick)] for tick in ticks]))

picture = Image.fromarray(np.vstack(rows)).quantize(128)
picture.save(Path(__file__).with_name("pick_cube.png"), optimize=True)
