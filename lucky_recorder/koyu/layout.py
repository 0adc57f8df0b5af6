"""Where everything lies inside a koyu dataset, and what its parts are called (spec: The format, The vocabulary)."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from lucky_recorder.errors import FormatError, shown
from lucky_recorder.storage.names import part

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
EPISODES = "episodes"
OVERLAYS = "overlays"
LOCK = ".lock"
# Sums of all other files, where somebody has asked for them. Beside the manifest: bundles stay as they were committed.
CHECKSUMS = "checksums.json"
DATA = "data.parquet"
SIDECAR = "episode.json"
TEMPORARY = ".tmp-"
VIDEO_SUFFIX = ".mp4"
STEP = "step"
# From here on a reward, 0 to 1, stands for success.
GOOD_REWARD = 0.5
_BUNDLE_NAME = re.compile(r"ep_[0-9a-f]{32}")
_LONGEST_SLUG = 48


def bundle_name(capture_id: str) -> str:
    """Return the name of a bundle's folder, which is also its id in the manifest."""
    return part(f"ep_{capture_id}")


def is_bundle_name(name: str) -> bool:
    """Tell whether a name is one that `bundle_name` gives."""
    return bool(_BUNDLE_NAME.fullmatch(name))


def video_name(key: str) -> str:
    """Return the name of a video: its feature key and ``.mp4``."""
    return part(key) + VIDEO_SUFFIX


def slug(description: str) -> str:
    """Return the short name of a task: lower-case words of any script, joined by hyphens; ``task`` if there are none.

    One that had to be cut ends in six digits of the description's hash, so that two long ones stay apart.
    """
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", description).lower())
    whole = "-".join(words) or "task"
    if len(whole) <= _LONGEST_SLUG:
        return whole
    digest = hashlib.blake2b(description.encode(), digest_size=3).hexdigest()
    return f"{whole[: _LONGEST_SLUG - 7].rstrip('-')}-{digest}"


def refuse_other_versions(content: Mapping[str, Any], where: str, missing_is_fine: bool = False) -> None:
    """Refuse what a version of the format wrote that this reader does not understand (spec: Evolution rules).

    Raises:
        FormatError: If ``schema_version`` is not 1.
    """
    version = content.get("schema_version")
    if version is None and missing_is_fine:
        return
    if type(version) is not int or version != SCHEMA_VERSION:
        raise FormatError(
            f"{where}: schema_version={shown(version)}: only {SCHEMA_VERSION} is understood here; "
            "a newer lucky_recorder may read it"
        )
