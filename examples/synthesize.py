"""Synthesize data: colours, light, camera and the cube's size change between episodes, and every stream is recorded."""

import argparse

import gymnasium as gym
import numpy as np

import lucky_recorder as lr

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--output-dir", default=".")
parser.add_argument("--episodes", type=int, default=5)
arguments = parser.parse_args()
env = lr.RecordSession(
    gym.make("LuckyRecorder/PickCube-v0"),
    output_dir=arguments.output_dir,
    cameras=[
        lr.Camera("front", width=160, height=120, depth_mode="rgbd", masks=("cube", "hand")),
        lr.Camera("stereo", "front", width=160, height=120, depth_mode="depth_only", sensor_model="ActiveStereo"),
    ],
    record_masks=True,
    lidars=[dict(name="hand", site="grasp", pattern="solid_state", rate=10, noise_m=0.001, record_video_proxy=True)],
)
model = env.unwrapped.model
home = {"camera": model.camera("front").pos.copy(), "cube": model.geom("cube").size.copy()}
with env:
    policy = env.unwrapped.expert()
    for seed in range(arguments.episodes):
        random = np.random.default_rng(seed)
        model.geom("cube").rgba[:3], model.geom("table").rgba[:3] = random.uniform(0.1, 0.9, (2, 3))
        model.geom("cube").size[:] = home["cube"] * random.uniform(0.8, 1.1)
        model.light("lamp").diffuse[:] = random.uniform(0.3, 0.8)
        model.light("lamp").dir[:2] = random.uniform(-0.5, 0.5, 2)
        model.camera("front").pos[:] = home["camera"] + random.uniform(-0.04, 0.04, 3)
        obs, info = env.reset(seed=seed)
        done = False
        while not done:
            obs, reward, terminated, truncated, info = env.step(policy(obs))
            done = terminated or truncated or env.unwrapped.tick >= 100
print(env.session_path)
