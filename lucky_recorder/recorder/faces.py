"""Faces for vector environments whose environments are recorded already, in other processes.

What records there is in a room above this one. So it says here which vector environments it knows, as long as it is
there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

Face = Callable[..., Any]
Find = Callable[[Any], Face | None]

_known: list[weakref.WeakMethod[Find]] = []


def offer(find: Find) -> None:
    """Have a method asked for the face of a vector environment, as long as its object is there."""
    _known[:] = [known for known in _known if known() is not None]
    _known.append(weakref.WeakMethod(find))


def found(env: Any) -> Face | None:
    """Return what makes the face of a vector environment; None if nobody knows it.

    Raises:
        SettingsError: If it cannot have one.
    """
    asked = (find(env) for find in (known() for known in list(_known)) if find is not None)
    return next((face for face in asked if face is not None), None)
