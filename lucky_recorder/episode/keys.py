"""Every name and limit that more than one room needs, once.

The keys are the vocabulary of the two formats (spec: Data columns, Video streams, The vocabulary). The checks repeat
some of them, and say so: a check that used the writer's constants would not find a wrong one.
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
TASK = "task"

FLAG_NAMES = ("new_policy_step", "post_reset")
NEW_POLICY_STEP, POST_RESET = 1, 2
DEFAULT_TASK = "Default Task"

# Streams: the prefix of a feature key, and what follows the camera's Output Name.
OBSERVATION = "observation."
IMAGES, MASKS = "observation.images.", "observation.masks."
# How the names of columns begin that LeRobot takes for what a policy reads or gives: with a dot after it, or without.
OBSERVED = "observation"
POLICY_FEATURES = (OBSERVED, ACTION)
# A camera's pose in every row: the prefix of the column.
POSES = "observation.camera_pose."
DEPTH_SUFFIX, RGBD_SUFFIX = "_depth", "_rgbd"
LIDAR_PREFIX = "lidar-"
VIDEOS, DATA, STATES = "videos/", "data/", "states/"
SESSIONS = "DataSessions"

# How colour can be asked to be encoded, and how depth always is, in the words of ``video.codec``.
H264, DEPTH_CODEC = "h264", "ffv1"
VIDEO_FORMATS = (H264, "hevc", "av1")

# The key in a data file's footer under which it carries its episodes' rows of meta/episodes.
FOOTER = b"lucky_recorder.episodes"
# And the key under which it carries all else that meta/ says of the session, as it stood then.
SESSION_FOOTER = b"lucky_recorder.session"

# The key in the footer of a file of states under which it says what they are of, and what they cannot bring back.
STATES_FOOTER = b"lucky_recorder.states"
# What it says there of the noise of depth cameras and lidars: what that is keyed by, beside the seed of the settings.
NOISE = "noise"

# What a column of one's own may hold: numpy's names, and text, which ``features`` and LeRobot call a string.
NUMBERS = ("float64", "float32", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")
TEXT = "string"
DTYPES = (*NUMBERS, TEXT)


def image_key(camera: str) -> str:
    """Return the feature key of a camera's colour stream, by its Output Name; with `DEPTH_SUFFIX`, of its depth."""
    return IMAGES + camera


def mask_key(camera: str) -> str:
    """Return the key, and folder, of a camera's masks."""
    return MASKS + camera


def pose_key(camera: str) -> str:
    """Return the column of a camera's pose, by its Output Name."""
    return POSES + camera


def lidar_key(name: str) -> str:
    """Return what a lidar's files are called by, before their number."""
    return LIDAR_PREFIX + name


# Where a row of meta/episodes itself stands.
META_CHUNK, META_FILE = "meta/episodes/chunk_index", "meta/episodes/file_index"


def video_column(key: str, part: str) -> str:
    """Return the column of ``meta/episodes`` that says a part of where a stream's video is, such as ``file_index``."""
    return f"{VIDEOS}{key}/{part}"


# Where a column of one's own may come from: the part before the colon.
MUJOCO_SOURCES = ("sensor", "qpos", "qvel", "ctrl", "xpos", "xquat", "site_xpos")
SOURCES = (*MUJOCO_SOURCES, "gym", "info")


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

# Chunk numbers have three digits: paths are sorted as text by those who read them.
LARGEST_CHUNK = 999

# Limits. A mask's ids are bytes, and 0 is the background.
MOST_LABELS = 255
# Scenes between the two threads: this bounds memory, and so how far the worker may lag behind.
MOST_SCENES = 16
# Its square is still a float64, which statistics need.
LARGEST_MAGNITUDE = 1e150
# Bytes of one text, as UTF-8: a row is a small thing, and whole files belong elsewhere.
LONGEST_TEXT = 1 << 16
