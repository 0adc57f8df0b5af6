"""Notices: what a user is warned of, shown at the line of the user's own that led there."""

from __future__ import annotations

import contextlib
import inspect
import threading
import warnings
from collections.abc import Iterator

# A gymnasium wrapper around the recorder is not the user's own line either, nor is what leaves a block of `held`.
_NOT_THE_USERS = ("lucky_recorder", "gymnasium", "contextlib")

Notice = tuple[str, type[Warning]]


class _Held(threading.local):
    """What is to be told of later in this thread; None where it is told of at once."""

    notices: list[Notice] | None = None


_HELD = _Held()


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Tell of everything at the end of a block: where warnings are errors, none of them leaves it half done.

    All is told of, also where the first of it raises; what the block itself raises goes before.
    """
    if _HELD.notices is not None:
        yield
        return
    notices: list[Notice] = []
    _HELD.notices = notices
    try:
        yield
    except BaseException:
        _HELD.notices = None
        with contextlib.suppress(Warning):
            _tell_all(notices)
        raise
    finally:
        _HELD.notices = None
    _tell_all(notices)


def _tell_all(notices: list[Notice]) -> None:
    """Tell of several things; the first that is an error is raised last."""
    raised: Warning | None = None
    for message, category in notices:
        try:
            tell(message, category)
        except Warning as error:
            raised = raised or error
    if raised is not None:
        raise raised


def tell(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn of something, at the nearest line that is neither the recorder's nor gymnasium's; see `held`."""
    if _HELD.notices is not None:
        _HELD.notices.append((message, category))
        return
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USERS:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
