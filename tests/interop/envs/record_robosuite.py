"""robosuite on MuJoCo 3.3.7: wrapped model and data, a new model at every reset, success by ``_check_success()``."""

from __future__ import annotations

import home

# robosuite holds numpy below 2, and pyarrow dropped that with 25.
home.run_at_home("robosuite", "mujoco==3.3.7", "robosuite==1.5.2", "h5py", "pyarrow<25")

import functools  # noqa: E402
import logging  # noqa: E402
import warnings  # noqa: E402
from typing import Any  # noqa: E402

import robosuite  # noqa: E402
from proof import prove  # noqa: E402
from robosuite.wrappers import GymWrapper  # noqa: E402

logging.getLogger("robosuite_logs").setLevel(logging.ERROR)
# Of the spaces it declares, none of it about the recorder.
warnings.filterwarnings("ignore", message=".*precision lowered by casting", category=UserWarning)


def make(task: str, robots: Any, **options: Any) -> Any:
    env = robosuite.make(
        task, robots=robots, has_renderer=False, has_offscreen_renderer=False, use_camera_obs=False, seed=1, **options
    )
    return GymWrapper(env)


def lift_the_cube(env: Any) -> None:
    """Put the cube where robosuite's own ``_check_success()`` finds it lifted."""
    bare = env.unwrapped
    bare.sim.data.set_joint_qpos(bare.cube.joints[0], [0.0, 0.0, 1.3, 1.0, 0.0, 0.0, 0.0])


for control_freq in (20, 50):
    lift = functools.partial(make, "Lift", "Panda", control_freq=control_freq)
    for mode in ("robot_arm", "full_scene"):
        session = prove("Lift", lift, lift_the_cube, mode=mode, gym_columns=True)
        assert session.hz == control_freq, session.hz
        # The last episode is still open when the environment is closed, and that is no success.
        assert [episode.success for episode in session] == [True, False]
assert not any(episode.success for episode in prove("Lift", lift, mode="robot_arm"))

peg = functools.partial(make, "TwoArmPegInHole", ["Panda", "Panda"])
session = prove("TwoArmPegInHole", peg, mode="robot_arm")
assert session.features["action"]["shape"] == [14]
print("robosuite records.")
