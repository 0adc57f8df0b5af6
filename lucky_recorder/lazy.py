"""Lazy doors: modules that are slow to import, or may be missing, and are imported when something of theirs is used."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


class _Door(ModuleType):
    """Stands for a module until one of its names is asked for.

    Nothing is kept here but the module's name: each look-up goes to the module itself, so that what a test replaces
    there is replaced for all. Where a name is needed often, bind it once.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


def lazy(name: str) -> Any:
    """Return what stands for a module, and imports it when one of its names is first asked for.

    A type checker cannot see through it; show it the module itself::

        if TYPE_CHECKING:
            import av
        else:
            av = lazy("av")

    Args:
        name: The module's full name.
    """
    return _Door(name)
