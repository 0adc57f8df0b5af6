"""Sessions that were recorded without rows: nothing in them says so, it is known by what is there and what is not."""

from __future__ import annotations

from pathlib import Path

from lucky_recorder.session import layout
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.storage.write import TEMPORARY

# What every writer of metadata calls its files; a note of somebody's is none.
_METADATA = (".json", ".jsonl", ".parquet")


def is_video_only(path: Path) -> bool:
    """Tell whether a session was recorded without rows: finished videos or scans, no metadata and no trace of rows."""
    files = Folder(path)
    if any(_is_metadata(name) for name in files.files("meta")):
        return False
    data = files.files("data")
    if any(map(layout.is_of_rows, data)):
        return False
    videos = any(not name.endswith(TEMPORARY) for name in files.files("videos"))
    return videos or any(map(layout.SCAN_PART.fullmatch, data))


def kind(path: Path) -> str:
    """Say in two words what there is of a session that was recorded without rows."""
    files = Folder(path).files("videos")
    return "video only" if any(not name.endswith(TEMPORARY) for name in files) else "lidar only"


def _is_metadata(name: str) -> bool:
    """Tell whether a file is metadata: sums of the session's files are none, and may be all that is there."""
    is_sums = name in (layout.CHECKSUMS_PATH, layout.UNFINISHED_SUMS)
    return not is_sums and (name.endswith(_METADATA) or layout.is_own_file(name))
