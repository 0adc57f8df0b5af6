"""The index of a dataset that someone else may have written: all of it comes from ``manifest.json``."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode import keys, limits
from lucky_recorder.errors import FormatError, shown
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.begun import refuse_begun
from lucky_recorder.storage.untrusted import Folder

# Ids and camera keys become paths.
_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_NUMERIC = re.compile(r"(float|u?int)(8|16|32|64)|bool")


class Feature(NamedTuple):
    """What a feature key stands for.

    Attributes:
        key: The feature key: the column's name, or the video's without ``.mp4``.
        shape: The shape of one row's value; ``(height, width, 3)`` of a camera.
    """

    key: str
    shape: tuple[int, ...]

    @property
    def is_camera(self) -> bool:
        """Whether it is a camera's stream."""
        return self.key.startswith(keys.IMAGES)


class Entry(NamedTuple):
    """What the manifest says of an episode.

    Attributes:
        id: The episode's id; its bundle's folder has this name, or any other.
        length: Rows, and frames of every video.
        task: Short name of the task.
        task_description: The task in words.
    """

    id: str
    length: int
    task: str = ""
    task_description: str = ""


class Index(NamedTuple):
    """What the manifest says of a dataset.

    Attributes:
        manifest: The content of ``manifest.json``.
        features: The features that rows are made of, by key.
        episodes: The episodes.
        starts: The index of each episode's first row, int64, shape ``(episodes + 1,)``; the last is the row count.
    """

    manifest: dict[str, Any]
    features: dict[str, Feature]
    episodes: tuple[Entry, ...]
    starts: NDArray[np.int64]

    def place(self, row: int) -> tuple[int, int]:
        """Return the episode a row belongs to, and its step within it."""
        episode = int(np.searchsorted(self.starts, row, side="right")) - 1
        return episode, row - int(self.starts[episode])


def read_index(folder: Folder) -> Index:
    """Read ``manifest.json``; no bundle is touched.

    Raises:
        FormatError: If there is none, or it is not what the format says.
    """
    if not folder.path.is_dir():
        raise FormatError(f"{folder.path}: no such folder; give the path of a dataset")
    refuse_begun(folder.path)
    if not folder.has(layout.MANIFEST):
        raise FormatError(
            f"{folder.path}: has no {layout.MANIFEST}; `lucky-recorder koyu index` makes it of the bundles"
        )
    manifest = folder.json(layout.MANIFEST)
    path = folder.path / layout.MANIFEST
    layout.refuse_other_versions(manifest, str(path), missing_is_fine=True)
    listed = manifest.get("episodes")
    if not isinstance(listed, list):
        raise FormatError(f"{path}: episodes={shown(listed)}: expected a list")
    episodes = tuple(_entry(one, f"{path}: episodes[{i}]") for i, one in enumerate(listed))
    if len({e.id for e in episodes}) < len(episodes):
        raise FormatError(f"{path}: an episode is listed twice")
    starts = np.concatenate([[0], np.cumsum([e.length for e in episodes], dtype=np.int64)]).astype(np.int64)
    return Index(manifest, read_features(manifest.get("features"), str(path)), episodes, starts)


def read_features(features: object, where: str) -> dict[str, Feature]:
    """Read the features that rows are made of; those of a kind that is not known are left out.

    Raises:
        FormatError: If one is broken.
    """
    if not isinstance(features, dict):
        raise FormatError(f"{where}: features={shown(features)}: expected an object")
    read = (_feature(key, value, f"{where}: features[{shown(key)}]") for key, value in features.items())
    return {f.key: f for f in read if f is not None}


def _feature(key: str, value: object, where: str) -> Feature | None:
    if not isinstance(value, dict):
        raise FormatError(f"{where}: {shown(value)}: expected an object with dtype and shape")
    dtype, shape = value.get("dtype"), value.get("shape")
    is_camera = key.startswith(keys.IMAGES)
    is_column = isinstance(dtype, str) and _NUMERIC.fullmatch(dtype) and key not in (layout.STEP, keys.TIMESTAMP)
    if not (is_camera or is_column):
        return None
    if is_camera and not _SAFE_NAME.fullmatch(key):
        raise FormatError(f"{where}: is no camera's name")
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n <= 1 << 24 for n in shape):
        raise FormatError(f"{where}: shape={shown(shape)}: expected a list of lengths")
    if math.prod(shape) > 1 << 28 or (is_camera and len(shape) != 3):
        raise FormatError(f"{where}: shape={shown(shape)}: is no row's value")
    return Feature(key, tuple(shape))


def _entry(one: object, where: str) -> Entry:
    if not isinstance(one, dict):
        raise FormatError(f"{where}: {shown(one)}: expected an object with id and length")
    name, length = one.get("id"), one.get("length")
    if not isinstance(name, str) or not _SAFE_NAME.fullmatch(name) or ".." in name:
        raise FormatError(f"{where}: id={shown(name)}: is no episode's name")
    if type(length) is not int or not 0 <= length <= limits.MOST_ROWS:
        raise FormatError(f"{where}: length={shown(length)}: expected a number of rows")
    return Entry(name, length, *(_text(one.get(key), f"{where}: {key}") for key in ("task", "task_description")))


def _text(value: object, where: str) -> str:
    """Return a text; none where there is none."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FormatError(f"{where}={shown(value)}: expected a text")
    return value
