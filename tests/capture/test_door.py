"""The door to MuJoCo: who has none records without it, and what is behind it is what the other rooms expect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lucky_recorder.capture.mujoco as simulator
from lucky_recorder.capture import columns, door
from lucky_recorder.capture.mujoco import quantities
from lucky_recorder.episode.keys import MODES, MUJOCO_SOURCES

RECORD = """
import sys
import numpy as np
import lucky_recorder as lr
from lucky_recorder.testing import CountEnv

env = lr.RecordSession(
    CountEnv(2, render_mode="rgb_array"), output_dir=sys.argv[1], mode="custom", gym_columns=True, success="terminated",
    columns=[lr.Column("count", "gym:obs"), lr.Column("own", lambda moment: 1.0)],
    cameras=[lr.Camera("screen", source="render", width=64, height=48)],
)
env.reset(seed=0)
for _ in range(2):
    env.step(np.zeros(1, np.float32))
env.close()
print(len(lr.Session(env.session_path).episodes), *sorted({"mujoco", "OpenGL"} & set(sys.modules)))
"""


def test_an_environment_without_mujoco_is_recorded_without_it(tmp_path: Path) -> None:
    program = [sys.executable, "-W", "error", "-c", RECORD, str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1"]


def test_all_that_is_behind_the_door_is_named_there() -> None:
    assert sorted(simulator.__all__) == sorted(set(simulator.__all__))
    for name in simulator.__all__:
        assert getattr(door.simulator, name) is getattr(simulator, name)


def test_every_mode_has_its_columns_and_every_source_its_place() -> None:
    assert set(columns._OF_MODE) == set(MODES)
    assert set(quantities._QUANTITIES) == set(MUJOCO_SOURCES)
