"""How much of the private data is computed at a tick: no more than what is recorded needs."""

from __future__ import annotations

from enum import IntEnum

from lucky_recorder.settings.recorder import RecorderSettings

# Sources of columns for which the places of bodies and sites are enough.
_PLACES = {"xpos", "xquat", "site_xpos"}


class Sync(IntEnum):
    """How much of the private data is computed from the state, in rising order."""

    NOTHING = 0
    KINEMATICS = 1
    FORWARD = 2


def level_of(settings: RecorderSettings) -> Sync:
    """Return what the recorded columns and cameras need."""
    # A callable may look at anything, so everything is computed for it. Positions, velocities and commands are read
    # from the user's own data, and a lidar copies the state: they need nothing.
    kinds = {str(c.source).partition(":")[0] for c in settings.columns if isinstance(c.source, str)}
    if settings.record_data and ("sensor" in kinds or any(c.is_called for c in settings.columns)):
        return Sync.FORWARD
    # Contacts and forces are drawn only where a camera asks for them.
    if any(camera.needs_forward for camera in settings.recorded_cameras):
        return Sync.FORWARD
    has_places = settings.record_data and bool(kinds & _PLACES)
    return Sync.KINEMATICS if has_places or needs_gl(settings) else Sync.NOTHING


def needs_gl(settings: RecorderSettings) -> bool:
    """Tell whether pictures are drawn here, rather than by the environment's own ``render()``."""
    return any(camera.source != "render" for camera in settings.recorded_cameras)
