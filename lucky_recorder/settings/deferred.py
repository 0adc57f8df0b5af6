"""Drawing later: what a session keeps of the settings for whoever draws it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.settings.recorder import RecorderSettings

# All that decides what is drawn, and how it is written.
DRAWN_BY = (
    *("cameras", "lidars", "record_cameras", "record_color_video", "record_masks", "render_quality"),
    *("video_format", "hardware_encoder", "video_preset", "seed", "metadata_every"),
)


def drawn_by(settings: RecorderSettings) -> dict[str, Any]:
    """Return the settings that decide what is drawn, as plain JSON values."""
    said = settings.to_dict()
    return {name: said[name] for name in DRAWN_BY}


def read_drawn_by(said: object, where: str) -> Mapping[str, Any]:
    """Return them as they were kept in a file that anyone may have made.

    Args:
        said: What the file says.
        where: Where it says so, for the error.

    Raises:
        FormatError: If these are no such settings.
    """
    if not isinstance(said, dict) or not said.keys() <= set(DRAWN_BY):
        raise FormatError(f"{where}: does not say what is to be drawn")
    try:
        RecorderSettings.from_dict({"record_data": True, **said})
    except SettingsError as error:
        raise FormatError(f"{where}: {error}") from error
    return said
