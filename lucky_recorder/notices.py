"""Notices: what a user is warned of, shown at the line of the user's own that led there."""

from __future__ import annotations

import inspect
import warnings

# A gymnasium wrapper around the recorder is not the user's own line either.
_NOT_THE_USERS = ("lucky_recorder", "gymnasium")


def tell(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn of something, at the nearest line that is neither the recorder's nor gymnasium's."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USERS:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
