"""Faces for vector environments whose environments are recorded already, in other processes.

What records there is in a room above this one. So it says here which vector environments it knows, as long as it is
there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol


class Known(Protocol):
    """What is known of a vector environment."""

    @property
    def face(self) -> Callable[..., Any]:
        """What is put around it."""


Find = Callable[[Any], Known | None]

_offered: list[weakref.WeakMethod[Find]] = []


def offer(find: Find) -> None:
    """Have a method asked what it knows of a vector environment, as long as its object is there."""
    _offered[:] = [offered for offered in _offered if offered() is not None]
    _offered.append(weakref.WeakMethod(find))


def known(env: Any) -> Known | None:
    """Return what is known of a vector environment; None if nobody knows it.

    Raises:
        SettingsError: If it cannot have a face.
    """
    asked = (find(env) for find in (offered() for offered in list(_offered)) if find is not None)
    return next((found for found in asked if found is not None), None)
