"""What a recorder's settings accept, field by field: the converters of `RecorderSettings`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, SupportsIndex

from lucky_recorder.episode import keys
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.camera import Camera
from lucky_recorder.settings.column import Column
from lucky_recorder.settings.declare import instance
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.settings.lidar import Lidar

FORMATS = ("session", "koyu")
PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")
_QUALITIES = ("model", "fast", "fastest")
_DRONE = (
    "the Drone recorder mode does not produce a usable dataset; "
    "use robot_arm, full_scene, or custom with columns of your own"
)
_RENDERINGS = ("live", "deferred")
_UNEVEN = ("refuse", "allow")
_SUCCESS = "give 'auto', 'terminated', 'info:KEY', a callable, or 'module:function'"
_TASK = "give 'info:KEY', a callable, or 'module:function'; what is known beforehand is a list: tasks=[...]"
# Python refuses longer waits on some systems (`threading.TIMEOUT_MAX`), and only when it is time to wait.
_LONGEST_WAIT_S = 1_000_000
_MOST_FILES = 1000


def mode(value: str, *, field: str = "mode") -> str:
    """Accept a recorder mode; ``drone`` is refused with its reason."""
    if isinstance(value, str) and value == "drone":
        raise SettingsError.of(field, value, _DRONE)
    return v.one_of(value, tuple(keys.MODES), field=field)


def files(value: SupportsIndex, *, field: str = "files_per_chunk") -> int:
    """Accept how many files, or episodes, go together."""
    return v.whole(value, 1, _MOST_FILES, field=field)


def success(value: str | Callable[..., Any], *, field: str = "success") -> str | Callable[..., Any]:
    """Accept what says the verdict."""
    if callable(value) or v.is_callable_name(value):
        return value
    if isinstance(value, str) and (value in ("auto", "terminated") or v.is_keyed(value, "info")):
        return value
    raise SettingsError.of(field, value, _SUCCESS)


def task(value: str | Callable[..., Any] | None, *, field: str = "task") -> str | Callable[..., Any] | None:
    """Accept what says the task of each row, or None."""
    if value is None or is_function(value) or v.is_keyed(value, "info"):
        return value
    raise SettingsError.of(field, value, _TASK)


def is_function(value: object) -> bool:
    """Tell whether a setting is a function, given or named; ``"info:KEY"`` is written like the name of one."""
    return callable(value) or (v.is_callable_name(value) and not v.is_keyed(value, "info"))


def trigger(
    value: str | Callable[[int], bool] | None, *, field: str = "episode_trigger"
) -> str | Callable[[int], bool] | None:
    """Accept what chooses the episodes that are recorded, or None for all."""
    if value is None or callable(value) or v.is_callable_name(value):
        return value
    raise SettingsError.of(field, value, "give a callable of the episode number, or 'module:function'")


def video_format(value: str, *, field: str = "video_format") -> str:
    """Accept a codec of colour video."""
    return v.one_of(value, keys.VIDEO_FORMATS, field=field)


def preset(value: str, *, field: str = "video_preset") -> str:
    """Accept a preset of the encoder."""
    return v.one_of(value, PRESETS, field=field)


def quality(value: str, *, field: str = "render_quality") -> str:
    """Accept how well pictures are drawn."""
    return v.one_of(value, _QUALITIES, field=field)


def rendering(value: str, *, field: str = "render") -> str:
    """Accept when pictures are drawn."""
    return v.one_of(value, _RENDERINGS, field=field)


def uneven(value: str, *, field: str = "uneven_steps") -> str:
    """Accept what becomes of a step that lasts another time than the first."""
    return v.one_of(value, _UNEVEN, field=field)


def wait(value: v.Number, *, field: str = "worker_timeout_s") -> float:
    """Accept a longest wait in seconds."""
    seconds = v.positive(value, field=field)
    if seconds > _LONGEST_WAIT_S:
        raise SettingsError.of(field, value, f"give at most {_LONGEST_WAIT_S} seconds")
    return seconds


def columns(value: Iterable[Column | Mapping[str, Any]], *, field: str = "columns") -> tuple[Column, ...]:
    """Accept columns of the user's own, built or as tables of their fields."""
    return v.several(value, partial(instance, kind=Column), field=field, unique=False)


def cameras(value: Iterable[Camera | Mapping[str, Any]], *, field: str = "cameras") -> tuple[Camera, ...]:
    """Accept cameras, built or as tables of their fields."""
    cameras = v.several(value, partial(instance, kind=Camera), field=field, unique=False)
    v.portable((camera.name for camera in cameras), field=field)
    return cameras


def lidars(value: Iterable[Lidar | Mapping[str, Any]], *, field: str = "lidars") -> tuple[Lidar, ...]:
    """Accept lidars, built or as tables of their fields."""
    lidars = v.several(value, partial(instance, kind=Lidar), field=field, unique=False)
    v.portable((lidar.name for lidar in lidars), field=field)
    return lidars


def koyu(value: KoyuSettings | Mapping[str, Any] | None, *, field: str = "koyu") -> KoyuSettings | None:
    """Accept what bundles say of themselves, or None."""
    return None if value is None else instance(value, KoyuSettings, field=field)


def _format(value: str, *, field: str = "formats") -> str:
    return v.one_of(value, FORMATS, field=field)


def formats(value: Iterable[str] | None, *, field: str = "formats") -> tuple[str, ...] | None:
    """Accept the formats that are written, or None for what follows from ``koyu``."""
    return None if value is None else v.several(value, _format, field=field)
