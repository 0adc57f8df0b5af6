"""Handing a session to the Rerun viewer, which reads the format by itself."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

from lucky_recorder.errors import FormatError, StateError, StorageError
from lucky_recorder.session.reader import Session

INSTALL = "pip install 'lucky-recorder[view]'"
OLDEST = (0, 38)
"""Rerun before this one refuses a folder that has a column of bytes, such as ``frame_flags``."""


def show(session: str | Path) -> int:
    """Open a session in the Rerun viewer, and wait until it is closed.

    Returns:
        The viewer's exit status.

    Raises:
        FormatError: If the folder is no session that can be shown.
        StateError: If the Rerun viewer is not installed, or too old.
    """
    folder = _showable(session)
    _require_rerun()
    return subprocess.run([sys.executable, "-m", "rerun", str(folder)], check=False).returncode


def save(session: str | Path, recording: str | Path) -> None:
    """Write what the viewer would show into an ``.rrd`` file: a recording per episode. Needs no display.

    Raises:
        FormatError: If the folder is no session that can be shown.
        StateError: If the Rerun viewer is not installed, or too old.
        StorageError: If the file cannot be written.
    """
    folder, file = _showable(session), Path(recording)
    rerun = _require_rerun()
    if not file.parent.is_dir():
        raise StorageError(f"{file}: there is no folder {file.parent}")
    stream = rerun.RecordingStream(folder.name, send_properties=False)
    stream.save(file)
    stream.log_file_from_path(folder)
    stream.disconnect()


def _showable(path: str | Path) -> Path:
    session = Session(path)
    if session.is_video_only:
        why = "a session without rows (video only, lidar only)"
        raise FormatError(f"{session.path}: {why}; open its .mp4 files in any player")
    if not len(session):
        raise FormatError(f"{session.path}: lists no episode: there is nothing to show")
    return session.path.absolute()


def _require_rerun() -> Any:
    if importlib.util.find_spec("rerun") is None:
        raise StateError(f"the Rerun viewer is not installed: {INSTALL}")
    rerun = importlib.import_module("rerun")
    if tuple(map(int, rerun.__version__.split(".")[:2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise StateError(f"Rerun {rerun.__version__} cannot show a session, {wanted} and later can: {INSTALL}")
    return rerun
