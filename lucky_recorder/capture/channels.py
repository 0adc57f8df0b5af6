"""Raw channels: what is copied at every tick. Columns derive from them when an episode is finished."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as declared
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.command import CommandMap
from lucky_recorder.capture.moment import Moment
from lucky_recorder.errors import CaptureError
from lucky_recorder.schema import Field

Phase = Literal["before", "after"]


@dataclass(frozen=True)
class Channel:
    """One raw quantity, read once a tick.

    Attributes:
        name: Unique among the channels.
        phase: ``before`` the step, or ``after`` it.
        shape: Shape of one reading.
        dtype: Numpy dtype name of one reading.
        view: An array that always shows the present value; it is copied.
        read: Else, a function that returns the value at a moment.
        nullable: Whether a reading may be None.
        merge: Where a row stands for several steps: how a later step's reading joins the row's.
    """

    name: str
    phase: Phase
    shape: tuple[int, ...]
    dtype: str
    view: NDArray[Any] | None = declared(default=None, compare=False)
    read: Callable[[Moment], Any] | None = declared(default=None, compare=False)
    nullable: bool = False
    merge: Literal["sum", "or"] | None = None


@dataclass(frozen=True)
class Column:
    """A column of the rows and how it follows from a channel.

    Attributes:
        field: The column's schema.
        channel: The channel it is derived from.
        select: Which elements of the channel, per robot: shape ``(robots, size)``; None: all of it, the same for all.
        is_command: Whether the channel's values are commands, to be mapped onto the joints' scale.
        per_robot: Whether the channel already has an entry per robot.
    """

    field: Field
    channel: Channel
    select: NDArray[np.intp] | None = declared(default=None, compare=False)
    is_command: bool = False
    per_robot: bool = False

    def derive(self, raw: NDArray[Any], robots: int, commands: CommandMap | None) -> NDArray[Any]:
        """Return the column's values, shape ``(ticks * robots, *shape)``, from the channel's, shape ``(ticks, …)``."""
        ticks = len(raw)
        values = commands.to_action(raw) if self.is_command and commands is not None else raw
        if self.select is not None:
            values = values.reshape(ticks, -1)[:, self.select]
        elif not self.per_robot:
            values = np.repeat(values[:, None], robots, axis=1)
        return np.ascontiguousarray(values.reshape(ticks * robots, *self.field.shape), self.field.dtype)


def exact(name: str, value: Any, shape: tuple[int, ...], dtype: str, allow_nan: bool) -> NDArray[Any]:
    """Return a reading as an array of the declared shape and dtype, losing nothing.

    Raises:
        CaptureError: If the shape differs, the value does not fit the dtype, or it is NaN or infinite unasked.
    """
    given = np.asarray(value)
    if given.size == 1 and shape in ((), (1,)):
        given = given.reshape(shape)
    if given.shape != shape:
        raise CaptureError(f"column {name!r}: the source gave shape {given.shape}, declared is {shape}")
    if given.dtype.kind not in "biuf":
        raise CaptureError(f"column {name!r}: the source gave {value!r}, which is no number")
    with np.errstate(all="ignore"):
        settled = given.astype(dtype)
    if settled.dtype.kind == "f":
        if not allow_nan and not np.isfinite(settled).all():
            raise CaptureError(f"column {name!r}: {value!r} is not finite as {dtype}; set allow_nan=True to record it")
    elif not np.array_equal(settled, given):
        raise CaptureError(f"column {name!r}: {value!r} does not fit {dtype}; declare a dtype that holds it")
    return settled
