"""Looking at a MuJoCo simulation: what other rooms may use of it. They come through `lucky_recorder.capture.door`."""

from lucky_recorder.capture.mujoco.assets import AssetChange, AssetWatch
from lucky_recorder.capture.mujoco.bounds import refresh as refresh_bounds
from lucky_recorder.capture.mujoco.callbacks import installed as installed_callbacks
from lucky_recorder.capture.mujoco.camera import calibration_of, focal_of
from lucky_recorder.capture.mujoco.columns import arm_columns, scene_columns
from lucky_recorder.capture.mujoco.command import CommandMap
from lucky_recorder.capture.mujoco.given import Mover, StateLayout
from lucky_recorder.capture.mujoco.lidar import Caster, Scan, flexes_of, site_of
from lucky_recorder.capture.mujoco.poses import pose_columns
from lucky_recorder.capture.mujoco.pulse import pulse_of
from lucky_recorder.capture.mujoco.quantities import find_quantity
from lucky_recorder.capture.mujoco.replay import Replay
from lucky_recorder.capture.mujoco.restored import Restored
from lucky_recorder.capture.mujoco.robots import find_robots, has_bodies
from lucky_recorder.capture.mujoco.saved import SUFFIX as MODEL_SUFFIX
from lucky_recorder.capture.mujoco.saved import model_bytes, model_of, read_model
from lucky_recorder.capture.mujoco.simulation import Simulation
from lucky_recorder.capture.mujoco.snapshot import ScenePool, capture_camera, capture_state, hidden_kinds, scene_sizes
from lucky_recorder.capture.mujoco.states import StateReader
from lucky_recorder.capture.mujoco.substeps import Substeps

__all__ = [
    "MODEL_SUFFIX",
    "AssetChange",
    "AssetWatch",
    "Caster",
    "CommandMap",
    "Mover",
    "Replay",
    "Restored",
    "Scan",
    "ScenePool",
    "Simulation",
    "StateLayout",
    "StateReader",
    "Substeps",
    "arm_columns",
    "calibration_of",
    "capture_camera",
    "capture_state",
    "find_quantity",
    "find_robots",
    "flexes_of",
    "focal_of",
    "has_bodies",
    "hidden_kinds",
    "installed_callbacks",
    "model_bytes",
    "model_of",
    "pose_columns",
    "pulse_of",
    "read_model",
    "refresh_bounds",
    "scene_columns",
    "scene_sizes",
    "site_of",
]
