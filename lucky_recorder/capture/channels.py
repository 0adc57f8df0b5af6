"""Raw channels: what is copied at every tick. Columns are derived from them when an episode has ended.

Deriving waits until then because the thread that steps the simulation has no time for it; the worker has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as declared
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.moment import Moment
from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import CaptureError, shown

Phase = Literal["before", "after"]
Merge = Literal["sum", "or"]
Read = Callable[[Moment], Any]


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
        is_returned: Whether an ``after`` reading is of what the step returned, such as the reward: that is known also
            where the simulation was reset inside of the step.
        merge: Where a row stands for several steps: how a later step's reading joins the row's.
    """

    name: str
    phase: Phase
    shape: tuple[int, ...]
    dtype: str
    # Left out of ==, which for arrays gives an array and no single answer.
    view: NDArray[Any] | None = declared(default=None, compare=False)
    read: Callable[[Moment], Any] | None = declared(default=None, compare=False)
    nullable: bool = False
    merge: Merge | None = None
    is_returned: bool = False


class Commands(Protocol):
    """The mapping of commands onto the joints' scale."""

    def to_action(self, ctrl: NDArray[Any]) -> NDArray[np.float64]:
        """Map commands, shape ``(…, n)``, to the values of the ``action`` column."""


@dataclass(frozen=True)
class DerivedColumn:
    """A column of the rows and how it follows from a channel.

    Attributes:
        field: The column's schema.
        channel: The channel it is derived from.
        select: Which elements of the channel, per robot: shape ``(robots, size)``, or ``(1, size)`` where they are the
            same for all; None: all of it, the same for all.
        is_command: Whether the channel's values are commands, to be mapped onto the joints' scale.
        per_robot: Whether the channel already has an entry per robot.
    """

    field: Field
    channel: Channel
    select: NDArray[np.intp] | None = declared(default=None, compare=False)
    is_command: bool = False
    per_robot: bool = False

    def derive(self, raw: NDArray[Any], robots: int, commands: Commands | None) -> NDArray[Any]:
        """Return the column's values, shape ``(ticks * robots, *shape)``, from the channel's, shape ``(ticks, …)``."""
        ticks = len(raw)
        values = commands.to_action(raw) if self.is_command and commands is not None else raw
        if self.select is not None:
            values = values.reshape(ticks, -1)[:, self.select]
        elif not self.per_robot:
            values = values[:, None]
        values = np.broadcast_to(values, (ticks, robots, *values.shape[2:]))
        return np.ascontiguousarray(values.reshape(ticks * robots, *self.field.shape), self.field.dtype)


def exactly(name: str, shape: tuple[int, ...], dtype: str, allow_nan: bool) -> Callable[[Any], Any]:
    """Return a function that gives what `exact` gives, and is quick where a reading needs no change.

    What it returns may be the reading itself: copy it before the source is asked again.
    """
    plain = {"float64": float, "bool": bool}.get(dtype) if shape == () else None
    settled = np.dtype(dtype)

    def settle(value: Any) -> Any:
        # The difference is 0 for every finite number, and NaN for NaN and infinity.
        if type(value) is plain and value - value == 0:
            return value
        # numpy keeps one object for each plain dtype, so `is` finds it. The few others go the long way.
        is_settled = type(value) is np.ndarray and value.dtype is settled and value.shape == shape
        if is_settled and np.isfinite(value).all():
            return value
        return exact(name, value, shape, dtype, allow_nan)

    return settle


def exact(name: str, value: Any, shape: tuple[int, ...], dtype: str, allow_nan: bool) -> NDArray[Any]:
    """Return a reading as a new array of the declared shape and dtype, losing nothing.

    Raises:
        CaptureError: If the shape differs, the value does not fit the dtype, or it is NaN or infinite unasked.
    """
    given = _as_array(name, value)
    # Environments give a single number bare, or in a list or an array of one: all mean the same.
    if given.size == 1 and shape in ((), (1,)):
        given = given.reshape(shape)
    if given.shape != shape:
        raise CaptureError(f"column {name!r}: the source gave shape {given.shape}, declared is {shape}")
    settled = given.copy() if given.dtype == dtype else _cast(name, value, given, dtype)
    if not allow_nan and settled.dtype.kind == "f" and not np.isfinite(settled).all():
        raise CaptureError(f"column {name!r}: {shown(value)} is not finite; set allow_nan=True to record it")
    return settled


def _cast(name: str, value: Any, given: NDArray[Any], dtype: str) -> NDArray[Any]:
    # numpy would warn of the same values that are refused below with a reason.
    with np.errstate(all="ignore"):
        settled = given.astype(dtype)
        if not _is_kept(given, settled):
            raise CaptureError(f"column {name!r}: {shown(value)} does not fit {dtype}; declare a dtype that holds it")
    return settled


def _as_array(name: str, value: Any) -> NDArray[Any]:
    try:
        given = np.asarray(value)
    except ValueError as error:  # a list of lists of several lengths
        raise CaptureError(f"column {name!r}: the source gave {shown(value)}: {error}") from error
    if given.dtype.kind not in "biuf":
        raise CaptureError(f"column {name!r}: the source gave {shown(value)}, which is no number")
    return given


def _is_kept(given: NDArray[Any], settled: NDArray[Any]) -> bool:
    """Tell whether a cast lost nothing; a float may be rounded to a shorter one, but not become infinite."""
    if given.dtype.kind == "f" and settled.dtype.kind == "f":
        return np.array_equal(np.isfinite(given), np.isfinite(settled))
    # Both ways. 2**53 + 1 compares equal to its float64, and only the way back shows the loss. 2**64 - 1 survives the
    # way to int64 and back, and only the first comparison shows that it became -1.
    return np.array_equal(settled, given) and np.array_equal(settled.astype(given.dtype), given)
