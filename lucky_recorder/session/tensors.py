"""Items as torch's tensors where torch is installed: the one place that imports it to read."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import numpy as np

from lucky_recorder.errors import SettingsError
from lucky_recorder.lazy import lazy

torch: Any = lazy("torch")


def is_wanted(as_torch: bool | None) -> bool:
    """Tell whether items are to be tensors: by default where torch is installed, which is not imported for that.

    Raises:
        SettingsError: If they are to be, and torch is not installed.
    """
    is_there = importlib.util.find_spec("torch") is not None
    if as_torch and not is_there:
        raise SettingsError.of("as_torch", as_torch, "torch is not installed; pip install torch, or leave it out")
    return is_there if as_torch is None else bool(as_torch)


def tensors(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item with tensors in place of its arrays and numbers; what is text stays text."""
    return {key: _tensor(value) for key, value in item.items()}


def _tensor(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    return torch.as_tensor(value) if isinstance(value, np.generic) else value
