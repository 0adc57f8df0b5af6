"""How much of the private data is computed at a tick: no more than what is recorded needs."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from lucky_recorder.settings.camera import Camera
from lucky_recorder.settings.column import Column
from lucky_recorder.settings.recorder import RecorderSettings

# Sources of columns for which the places of bodies and sites are enough.
_PLACES = {"xpos", "xquat", "site_xpos"}
# What to do where user code stands in the way of more than kinematics.
_COLUMNS_INSTEAD = (
    "record qpos:, qvel:, ctrl:, xpos:, xquat:, site_xpos:, gym:obs or info: instead; or do without the callback: call "
    "the controller in your own loop, inside `with observer.step():`, or in the environment's step"
)
_SUCCESS_INSTEAD = "use 'info:KEY' or 'terminated', or say it with env.end_episode(success=...)"
_TASK_INSTEAD = (
    "use 'info:KEY', or list the tasks and say which with env.set_task(i), observer.set_current_task_index(i)"
)
_FLAGS_INSTEAD = "leave these flags off: contacts and forces are drawn from the whole forward computation"
_CAMERAS_INSTEAD = "pictures show the rays of rangefinders, which are computed together with the sensors of type user"


class Sync(IntEnum):
    """How much of the private data is computed from the state, in rising order."""

    NOTHING = 0
    KINEMATICS = 1
    """Where bodies, sites, cameras and lights are."""
    PICTURES = 2
    """The same, and what rangefinders read: a picture shows their rays."""
    FORWARD = 3
    """Everything, by `mj_forward`."""


def level_of(settings: RecorderSettings) -> Sync:
    """Return what the recorded columns and cameras need now; cameras that are drawn later need nothing."""
    # A callable may look at anything, so everything is computed for it. Positions, velocities and commands are read
    # from the user's own data, and a lidar copies the state: they need nothing.
    if _forward_columns(settings) or settings.calls_task:
        return Sync.FORWARD
    # Contacts and forces are drawn only where a camera asks for them.
    if not settings.is_deferred and _forward_cameras(settings):
        return Sync.FORWARD
    if needs_gl(settings):
        return Sync.PICTURES
    has_places = settings.record_data and any(_kind(c) in _PLACES for c in settings.columns)
    return Sync.KINEMATICS if has_places or settings.posed_cameras else Sync.NOTHING


class Need(NamedTuple):
    """A setting that needs more of a simulation than its kinematics.

    Attributes:
        level: How much it needs.
        field: The setting's name.
        value: Its value.
        instead: What to set where that much cannot be computed.
    """

    level: Sync
    field: str
    value: object
    instead: str


def needs_of(settings: RecorderSettings, has_env: bool) -> Iterator[Need]:
    """Yield what needs more than kinematics, at every tick or at the verdict.

    What is drawn later counts too: no callback is installed then, and pictures would show something else.

    Args:
        settings: What is recorded.
        has_env: Whether there is an environment: only then ``success`` is asked.
    """
    for column in _forward_columns(settings):
        yield Need(Sync.FORWARD, f"column {column.name!r}: source", column.source, _COLUMNS_INSTEAD)
    for camera in _forward_cameras(settings):
        yield Need(Sync.FORWARD, f"camera {camera.name!r}: flags", dict(camera.flags), _FLAGS_INSTEAD)
    if has_env and settings.calls_success:
        yield Need(Sync.FORWARD, "success", settings.success, _SUCCESS_INSTEAD)
    if settings.calls_task:
        yield Need(Sync.FORWARD, "task", settings.task, _TASK_INSTEAD)
    if films_model(settings):
        cameras = tuple(c.name for c in settings.recorded_cameras)
        yield Need(Sync.PICTURES, "cameras", cameras, _CAMERAS_INSTEAD)


def _forward_columns(settings: RecorderSettings) -> list[Column]:
    return [c for c in settings.columns if settings.record_data and (c.is_called or _kind(c) == "sensor")]


def _forward_cameras(settings: RecorderSettings) -> list[Camera]:
    return [camera for camera in settings.recorded_cameras if camera.needs_forward]


def _kind(column: Column) -> str:
    return column.source.partition(":")[0] if isinstance(column.source, str) else ""


def needs_gl(settings: RecorderSettings) -> bool:
    """Tell whether pictures are drawn here and now, rather than later, or by the environment's own ``render()``."""
    return films_model(settings) and not settings.is_deferred


def films_model(settings: RecorderSettings) -> bool:
    """Tell whether there are cameras whose pictures are drawn of the model, now or later."""
    return any(camera.source != "render" for camera in settings.recorded_cameras)
