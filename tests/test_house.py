"""What import-linter cannot see: what is imported when the rooms are, lazy doors and all."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import lucky_recorder

OPTIONAL = ["mujoco", "OpenGL", "rerun", "torch"]
SIMULATOR_ROOMS = ("lucky_recorder.capture.mujoco", "lucky_recorder.capture.draw", "lucky_recorder.envs.")


def test_every_other_room_can_be_entered_without_a_simulator() -> None:
    names = [module.name for module in pkgutil.walk_packages(lucky_recorder.__path__, "lucky_recorder.")]
    rooms = [name for name in names if not name.startswith(SIMULATOR_ROOMS)]
    assert len(rooms) > 100
    program = (
        "import importlib, sys\n"
        f"for room in {rooms}: importlib.import_module(room)\n"
        f"print([name for name in {OPTIONAL} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
