"""How much must follow from a state before it is looked at: no more is computed than is recorded."""

from __future__ import annotations

from enum import IntEnum

from lucky_recorder.settings.recorder import RecorderSettings

# Sources of columns that need no more than the places of bodies and sites.
_PLACES = {"xpos", "xquat", "site_xpos"}


class Sync(IntEnum):
    """How much of the private data must follow from the state."""

    NOTHING = 0
    KINEMATICS = 1
    FORWARD = 2


def level_of(settings: RecorderSettings) -> Sync:
    """Return what the recorded columns and cameras need."""
    kinds = {str(c.source).partition(":")[0] for c in settings.columns if isinstance(c.source, str)}
    if settings.record_data and ("sensor" in kinds or any(c.is_called for c in settings.columns)):
        return Sync.FORWARD
    has_places = settings.record_data and bool(kinds & _PLACES)
    return Sync.KINEMATICS if has_places or needs_gl(settings) else Sync.NOTHING


def needs_gl(settings: RecorderSettings) -> bool:
    """Tell whether pictures are drawn here, rather than by the environment's own ``render()``."""
    return any(camera.source != "render" for camera in settings.recorded_cameras)
