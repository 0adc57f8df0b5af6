"""Raw channels: what is copied at every tick. Columns are derived from them when an episode has ended.

Deriving waits until then because the thread that steps the simulation has no time for it; the worker has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import field as declared
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.moment import Moment
from lucky_recorder.episode.keys import LONGEST_TEXT, NUMBERS
from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import CaptureError, shown, text_of

# Before the name of a column of the user's own: it keeps its channel apart from those of the simulation's arrays, for a
# column may be called qpos.
OWN = "own:"

Phase = Literal["before", "after"]
Merge = Literal["sum", "or"]
Read = Callable[[Moment], Any]
Bounds = Mapping[type, tuple[Any, Any]]
# Up to so many values, Python adds them up sooner than numpy multiplies them.
FEW = 12


@dataclass(frozen=True)
class Channel:
    """One raw quantity, read once a tick.

    Attributes:
        name: Unique among the channels.
        phase: ``before`` the step, or ``after`` it.
        shape: Shape of one reading.
        dtype: Numpy dtype name of one reading; ``object`` for text, which has a shape of its own, never ``()``.
        view: An array that always shows the present value; it is copied.
        given: Else, a function that gives the value of a moment.
        settle: Makes of that what is recorded, or refuses it; None: it is recorded as it is given.
        bounds: Which given values are recorded as they are, without `settle`: see `bounds_of`.
        nullable: Whether a reading may be None.
        merge: Where a row stands for several steps: how a later step's reading joins the row's.
        looks_after: Whether it reads the private data after the step: they must be brought to that state.
        shows_state: Whether ``given`` reads an array of the simulation.
    """

    name: str
    phase: Phase
    shape: tuple[int, ...]
    dtype: str
    # Left out of ==, which for arrays gives an array and no single answer.
    view: NDArray[Any] | None = declared(default=None, compare=False)
    given: Read | None = declared(default=None, compare=False)
    settle: Callable[[Any], Any] | None = declared(default=None, compare=False)
    bounds: Bounds = declared(default_factory=dict, compare=False)
    nullable: bool = False
    merge: Merge | None = None
    looks_after: bool = False
    shows_state: bool = False

    @property
    def is_returned(self) -> bool:
        """Whether it is of what the step returned, such as the reward, and so is known whatever became of the state."""
        return not (self.view is not None or self.looks_after or self.shows_state)

    def read(self, moment: Moment) -> Any:
        """Return the value of a moment, of a channel that is no array; None where there is none."""
        assert self.given is not None
        value = self.given(moment)
        if self.settle is None or (value is None and self.nullable):
            return value
        return self.settle(value)

    def joined(self, held: NDArray[Any], value: Any) -> Any:
        """Return what a row holds of several steps, once a later step has given ``value``.

        Raises:
            CaptureError: If the sum is larger than the dtype holds.
        """
        if self.merge == "or":
            return held | value
        # As plain numbers, which do not wrap around; what was NaN or infinite before may stay so.
        total, added = held.item(), np.asarray(value).item()
        allow_nan = not (math.isfinite(total) and math.isfinite(added))
        remedy = (
            f"it is the sum of {total:g} and {added:g}, of steps of one row, and larger than {self.dtype} holds; "
            "record a row of every step, by data_hz, or smaller values"
        )
        return exact(self.name.removeprefix(OWN), total + added, self.shape, self.dtype, allow_nan, remedy)


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
        dtype = object if self.field.is_text else self.field.dtype
        return np.ascontiguousarray(values.reshape(ticks * robots, *self.field.shape), dtype)


def bounds_of(shape: tuple[int, ...], dtype: str) -> Bounds:
    """Return which plain numbers a single value of a dtype holds as they are: by class, the least and the largest.

    `exact` would change nothing about them. NaN is within no bounds; of arrays and texts there is none.
    """
    if shape != () or dtype not in NUMBERS:
        return {}
    whole = (int, np.int64, np.int32)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return {bool: (False, True), np.bool_: (False, True), int: (0, 1)}
    if kind.kind != "f":
        limits = np.iinfo(kind)
        return {bool: (False, True)} | dict.fromkeys(whole, (int(limits.min), int(limits.max)))
    # A float64 may be rounded to a float32, and must not become infinite.
    largest, largest32 = float(np.finfo(kind).max), float(np.finfo(np.float32).max)
    exact_up_to = 1 << (np.finfo(kind).nmant + 1)
    return (
        dict.fromkeys((bool, np.bool_), (False, True))
        | dict.fromkeys((float, np.float64), (-largest, largest))
        | {np.float32: (-largest32, largest32)}
        | dict.fromkeys(whole, (-exact_up_to, exact_up_to))
    )


def exactly(
    name: str, shape: tuple[int, ...], dtype: str, allow_nan: bool, remedy: str | None = None
) -> Callable[[Any], Any]:
    """Return a function that gives what `exact` gives, and is quick where a reading needs no change.

    What it returns may be the reading itself: copy it before the source is asked again.
    """
    plain = {"float64": float, "bool": bool}.get(dtype) if shape == () else None
    settled = np.dtype(dtype)
    is_finite = (lambda value: True) if allow_nan or settled.kind != "f" else _finiteness(shape)

    def settle(value: Any) -> Any:
        # The difference is 0 for every finite number, and NaN for NaN and infinity.
        if type(value) is plain and value - value == 0:
            return value
        # numpy keeps one object for each plain dtype, so `is` finds it. The few others go the long way.
        is_settled = type(value) is np.ndarray and value.dtype is settled and value.shape == shape
        if is_settled and is_finite(value):
            return value
        return exact(name, value, shape, dtype, allow_nan, remedy)

    return settle


def _finiteness(shape: tuple[int, ...]) -> Callable[[NDArray[Any]], bool]:
    """Return a function that tells of an array whether it is finite; of one with huge values it may say that it is not.

    One number tells it of all: `np.isfinite` takes as long as a whole row.
    """
    isfinite = math.isfinite
    if len(shape) == 1 and shape[0] <= FEW:
        return lambda value: isfinite(sum(value.tolist()))
    return lambda value: isfinite((flat := value.reshape(-1)).dot(flat))


def exact(
    name: str, value: Any, shape: tuple[int, ...], dtype: str, allow_nan: bool, remedy: str | None = None
) -> NDArray[Any]:
    """Return a reading as a new array of the declared shape and dtype, losing nothing.

    Args:
        name: The column's, for the error.
        value: The reading.
        shape: The declared shape.
        dtype: The declared dtype.
        allow_nan: Whether NaN and infinity may be.
        remedy: What the error tells to do, where the column is not one that the user has declared.

    Raises:
        CaptureError: If the shape differs, the value does not fit the dtype, or it is NaN or infinite unasked.
    """
    given = _as_array(name, value)
    # Environments give a single number bare, or in a list or an array of one: all mean the same.
    if given.size == 1 and shape in ((), (1,)):
        given = given.reshape(shape)
    if given.shape != shape:
        raise CaptureError(f"column {name!r}: the source gave shape {given.shape}, declared is {shape}")
    settled = given.copy() if given.dtype == dtype else _cast(name, value, given, dtype, remedy)
    if not allow_nan and settled.dtype.kind == "f" and not np.isfinite(settled).all():
        told = remedy or "set allow_nan=True to record it"
        raise CaptureError(f"column {name!r}: {shown(value)} is not finite; {told}")
    return settled


def text(source: str, value: Any) -> str | None:
    """Return a reading as a text; None where there is none.

    Args:
        source: What has given it, for the error.
        value: The reading.

    Raises:
        CaptureError: If it is no text, longer than 64 KiB as UTF-8, or holds half a character.
    """
    # numpy has texts of its own, and arrays of one: both mean the same.
    plain = value.item() if isinstance(value, np.ndarray | np.str_) and value.size == 1 else value
    if plain is None:
        return None
    if not isinstance(plain, str):
        raise CaptureError(f"{source} gave {shown(value)}, which is no text; give a str, or None")
    try:
        size = len(plain.encode())
    except UnicodeEncodeError as error:
        why = "which holds half a character (a surrogate); give proper Unicode"
        raise CaptureError(f"{source} gave {shown(value)}, {why}") from error
    if size > LONGEST_TEXT:
        remedy = f"at most {LONGEST_TEXT} are recorded: shorten it, or keep such texts in files of your own"
        raise CaptureError(f"{source} gave a text of {size} bytes; {remedy}")
    return str(plain)


def _cast(name: str, value: Any, given: NDArray[Any], dtype: str, remedy: str | None) -> NDArray[Any]:
    # numpy would warn of the same values that are refused below with a reason.
    with np.errstate(all="ignore"):
        settled = given.astype(dtype)
        if not _is_kept(given, settled):
            told = remedy or "declare a dtype that holds it"
            raise CaptureError(f"column {name!r}: {shown(value)} does not fit {dtype}; {told}")
    return settled


def _as_array(name: str, value: Any) -> NDArray[Any]:
    try:
        given = np.asarray(value)
    except ValueError as error:  # a list of lists of several lengths
        raise CaptureError(f"column {name!r}: the source gave {shown(value)}: {text_of(error)}") from error
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
