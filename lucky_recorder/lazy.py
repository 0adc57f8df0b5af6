"""Lazy doors: modules that are slow to import, or may be missing, and are imported when something of theirs is used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
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


def names(package: str, homes: Mapping[str, str], rooms: Collection[str] = ()) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``: each of its public names is imported from its home when first asked for.

    Args:
        package: The package's ``__name__``.
        homes: By public name, the module below the package that defines it.
        rooms: Modules below the package that are public themselves.
    """

    def find(name: str) -> Any:
        if name in rooms:
            return importlib.import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
