"""What is to be drawn of a session's states later, as ``info.json`` says it (an addition of ours).

The settings that decide it are ``to_draw``; where its cameras stood when the session began is ``to_draw_calibration``.
Whoever draws it takes both away.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lucky_recorder.episode.schema import ToDraw
from lucky_recorder.errors import FormatError, shown

TO_DRAW, CALIBRATION = "to_draw", "to_draw_calibration"


def said(to_draw: ToDraw | None) -> dict[str, Any]:
    """Return what ``info.json`` says; nothing where nothing is to be drawn."""
    return {} if to_draw is None else {TO_DRAW: dict(to_draw.settings), CALIBRATION: dict(to_draw.calibration)}


def read(info: Mapping[str, Any], where: Path) -> ToDraw | None:
    """Return what an ``info.json`` says is to be drawn; None where nothing is.

    Args:
        info: Its content.
        where: Its path, for the error.

    Raises:
        FormatError: If it does not say it as it should.
    """
    if TO_DRAW not in info:
        return None
    settings, calibration = info[TO_DRAW], info.get(CALIBRATION, {})
    if not isinstance(settings, dict) or not isinstance(calibration, dict):
        raise FormatError(f"{where}: {TO_DRAW}={shown(settings)}: expected settings by their names")
    if not all(isinstance(one, dict) for one in calibration.values()):
        raise FormatError(f"{where}: {CALIBRATION}={shown(calibration)}: expected an object for each stream")
    return ToDraw(settings, calibration)


def taken_away(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return an ``info.json`` that says nothing of it."""
    return {name: value for name, value in info.items() if name not in (TO_DRAW, CALIBRATION)}
