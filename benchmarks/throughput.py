"""CPU of recording against the bare floor: the same states drawn and encoded by hand, in one thread.

Prints the ratio of the sums of CPU time, floor over recorder, of interleaved ABBA pairs: 1.00 would be a free recorder.

    python benchmarks/throughput.py [--pairs 20] [--frames 100]
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import mujoco
import numpy as np

import lucky_recorder as lr
from lucky_recorder.capture.draw.context import make_context
from lucky_recorder.envs import scene_path
from lucky_recorder.video.encoder import VideoEncoder


class Floor:
    """What cannot be left out: scene, picture, pixels, encoded frame."""

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        self.model, self.width, self.height = model, width, height
        self.gl = make_context()
        prepared = copy.copy(model)
        prepared.vis.global_.offwidth, prepared.vis.global_.offheight = width, height
        self.context = mujoco.MjrContext(prepared, mujoco.mjtFontScale.mjFONTSCALE_100)
        self.scene = mujoco.MjvScene(model, 2000)
        self.pixels = np.empty((height, width, 3), np.uint8)
        self.viewport = mujoco.MjrRect(0, 0, width, height)
        self.camera = mujoco.MjvCamera()
        self.camera.type, self.camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, 0
        self.option = mujoco.MjvOption()

    def run(self, data: mujoco.MjData, frames: int, path: Path) -> None:
        self.gl.gl.make_current()
        encoder = VideoEncoder(path, width=self.width, height=self.height, fps=Fraction(50))
        for k in range(frames):
            drive(self.model, data, k)
            mujoco.mjv_updateScene(
                self.model, data, self.option, None, self.camera, mujoco.mjtCatBit.mjCAT_ALL, self.scene
            )
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self.context)
            mujoco.mjr_render(self.viewport, self.scene, self.context)
            mujoco.mjr_readPixels(self.pixels, None, self.viewport, self.context)
            encoder.write(self.pixels, bottom_up=True)
        encoder.close()


def drive(model: mujoco.MjModel, data: mujoco.MjData, k: int) -> None:
    data.ctrl[:] = 0.5 * np.sin(k / 15 + np.arange(model.nu))
    mujoco.mj_step(model, data, 10)


def record(observer: lr.Observer, model: mujoco.MjModel, data: mujoco.MjData, frames: int) -> None:
    for k in range(frames):
        observer.tick()
        drive(model, data, k)
    observer.end_current_episode(success=True)
    observer.flush()


def compare(width: int, height: int, pairs: int, frames: int) -> None:
    model = mujoco.MjModel.from_xml_path(str(scene_path("pick_cube")))
    data = mujoco.MjData(model)
    with tempfile.TemporaryDirectory() as folder:
        floor = Floor(model, width, height)
        camera = lr.Camera("front", width=width, height=height)
        observer = lr.Observer(output_dir=folder, data_hz=50, model=model, data=data, cameras=[camera])
        observer.start_recording()
        floor_cpu, ours_cpu = [], []

        def bare() -> None:
            mujoco.mj_resetData(model, data)
            start = time.process_time()
            floor.run(data, frames, Path(folder) / "floor.mp4")
            floor_cpu.append(time.process_time() - start)

        def ours() -> None:
            mujoco.mj_resetData(model, data)
            start = time.process_time()
            record(observer, model, data, frames)
            ours_cpu.append(time.process_time() - start)

        bare(), ours(), floor_cpu.clear(), ours_cpu.clear()
        for pair in range(pairs):
            for run in (bare, ours) if pair % 2 else (ours, bare):
                run()
        observer.stop_recording()
    a, b = sum(floor_cpu) / pairs / frames * 1e3, sum(ours_cpu) / pairs / frames * 1e3
    print(f"{width}x{height}: floor {a:.2f} ms, recorder {b:.2f} ms of CPU a frame; floor/recorder {a / b:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--frames", type=int, default=100)
    arguments = parser.parse_args()
    for width, height in ((320, 240), (640, 480)):
        compare(width, height, arguments.pairs, arguments.frames)


if __name__ == "__main__":
    main()
