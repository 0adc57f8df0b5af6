"""Every name and limit that more than one room needs, once.

The keys are the vocabulary of the two formats (spec: Data columns, Video streams, The vocabulary). The checkers know
some of these a second time; where they do, they say so: what judges a writer must not believe it.
"""

from __future__ import annotations

from typing import NamedTuple

# Columns of the rows.
INDEX, TIMESTAMP, EPISODE_INDEX = "index", "timestamp", "episode_index"
FRAME_INDEX, TASK_INDEX, FRAME_FLAGS = "frame_index", "task_index", "frame_flags"
ACTION, STATE = "action", "observation.state"
GYM_ACTION, REWARD, DONE, SUCCESS = "gym.action", "next.reward", "next.done", "next.success"
GYM_COLUMNS = (GYM_ACTION, REWARD, DONE, SUCCESS)
VECTORS = (ACTION, STATE)

FLAG_NAMES = ("new_policy_step", "post_reset")
NEW_POLICY_STEP, POST_RESET = 1, 2
DEFAULT_TASK = "Default Task"

# Streams: the prefix of a feature key, and what follows the camera's Output Name.
IMAGES, MASKS = "observation.images.", "observation.masks."
DEPTH_SUFFIX, RGBD_SUFFIX = "_depth", "_rgbd"
LIDAR_PREFIX = "lidar-"
VIDEOS, DATA = "videos/", "data/"

# Under which name a data file's footer carries its episodes' rows of meta/episodes.
FOOTER = b"lucky_recorder.episodes"

# What a column of one's own may hold: numpy's names.
DTYPES = ("float64", "float32", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")


class ModeLabel(NamedTuple):
    """What the rows and ``info.json`` call a recorder mode.

    Attributes:
        entity_column: Name of the column that says whose row it is.
        label: The fixed label in ``info.json``.
    """

    entity_column: str
    label: str


MODES = {
    "robot_arm": ModeLabel("robot_id", "ur5e"),
    "full_scene": ModeLabel("sim_id", "mujoco_scene"),
    "custom": ModeLabel("entity_id", "custom"),
}
ENTITY_COLUMNS = tuple(mode.entity_column for mode in MODES.values())
LEADING = (INDEX, *ENTITY_COLUMNS, TIMESTAMP, EPISODE_INDEX, FRAME_INDEX, TASK_INDEX, FRAME_FLAGS)

# What Debian and Ubuntu call the libraries that draw without a screen.
GL_PACKAGES = ("libegl1", "libgl1-mesa-dri", "libopengl0")

# Limits.
MOST_LABELS = 255
MOST_SCENES = 16
MOST_ROWS = 100_000_000
LARGEST_MAGNITUDE = 1e150
