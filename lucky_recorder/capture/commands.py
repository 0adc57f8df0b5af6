"""The way back from the ``action`` column to the simulator's commands (spec: What each recorder mode records)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, NDArray

from lucky_recorder.capture.door import simulator

if TYPE_CHECKING:
    import mujoco


def commands_to_ctrl(model: mujoco.MjModel, action: ArrayLike, actuators: Sequence[int] | None = None) -> NDArray[Any]:
    """Turn recorded ``action`` values back into the commands for ``data.ctrl``.

    Args:
        model: The model the action was recorded on.
        action: Values of the ``action`` column, shape ``(…, n)``.
        actuators: The ids of the actuators that take the ``n`` commands; default: all of the model's.

    Returns:
        Commands, float64, shape ``(…, n)``: the inverse of the mapping, to rounding; commands outside their control
        range were clamped when they were recorded.
    """
    if actuators is None:
        return simulator.CommandMap.of_all(model).to_ctrl(action)
    return simulator.CommandMap.of(model, actuators).to_ctrl(action)
