"""What a camera shows: groups of geoms and sites, and MuJoCo's visual flags by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import SupportsIndex

from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import validators as v

# MuJoCo's mjtVisFlag and mjtRndFlag, as far as a recorded picture has a use for them; a test compares the two. Who is
# selected belongs to somebody at a viewer; the passes of depth and segments are streams of their own.
VIS_FLAGS = (
    "convexhull", "texture", "joint", "camera", "actuator", "activation", "light", "tendon", "rangefinder",
    "constraint", "inertia", "sclinertia", "pertforce", "contactpoint", "island", "contactforce", "contactsplit",
    "transparent", "autoconnect", "com", "static", "skin", "flexvert", "flexedge", "flexface", "flexskin", "bodybvh",
    "meshbvh", "sdfiter",
)  # fmt: skip
RND_FLAGS = (
    "shadow", "wireframe", "reflection", "additive", "skybox", "fog", "haze", "cull_face", "post_processing",
)  # fmt: skip
# What these draw follows from contacts and what collides, which placing all bodies does not compute.
FORWARD_FLAGS = frozenset({"contactpoint", "contactforce", "contactsplit", "island", "bodybvh", "meshbvh", "sdfiter"})
_GROUPS = 6
_TABLE = "give a table of true and false by name, such as dict(contactpoint=True)"


def optional_groups(value: Iterable[SupportsIndex] | None, *, field: str = "geom_groups") -> tuple[int, ...] | None:
    """Accept groups, kept in ascending order; None for MuJoCo's own choice."""
    if value is None:
        return None
    return tuple(sorted(v.several(value, _group, field=field)))


def _group(value: SupportsIndex, *, field: str) -> int:
    return v.whole(value, 0, _GROUPS - 1, field=field)


def visual_flags(
    value: Mapping[str, v.Flag] | Iterable[tuple[str, v.Flag]], *, field: str = "flags"
) -> tuple[tuple[str, bool], ...]:
    """Accept a table of flags, kept as sorted pairs so that settings stay hashable."""
    if not isinstance(value, Mapping | tuple | list):
        raise SettingsError.of(field, value, _TABLE)
    try:
        flags = dict(value)
    except (TypeError, ValueError):
        raise SettingsError.of(field, value, _TABLE) from None
    for name in flags:
        if name not in (*VIS_FLAGS, *RND_FLAGS):
            known = ", ".join(sorted((*VIS_FLAGS, *RND_FLAGS)))
            raise SettingsError.of(field, {name: flags[name]}, f"unknown flag; known: {known}")
    return tuple(sorted((name, v.boolean(on, field=f"{field}.{name}")) for name, on in flags.items()))
