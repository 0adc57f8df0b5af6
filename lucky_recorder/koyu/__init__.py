"""The koyu format: bundles, one per episode, and the dataset they make."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lucky_recorder.koyu.manifest import rebuild
    from lucky_recorder.koyu.overlays import Overlay, Span, read_overlay, write_overlay
    from lucky_recorder.koyu.reader import Dataset

_HOMES = {
    "Dataset": "reader",
    "Overlay": "overlays",
    "Span": "overlays",
    "read_overlay": "overlays",
    "rebuild": "manifest",
    "write_overlay": "overlays",
}

__all__ = ["Dataset", "Overlay", "Span", "read_overlay", "rebuild", "write_overlay"]


def __getattr__(name: str) -> Any:
    """Import a public name from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
