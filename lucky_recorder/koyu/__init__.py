"""The koyu format: bundles, one per episode, and the dataset they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lucky_recorder.lazy import names as _names

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


__getattr__ = _names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
