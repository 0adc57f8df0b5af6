"""Columns of the user's own: where their values come from."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from lucky_recorder.capture import spaces
from lucky_recorder.capture.channels import OWN, Channel, DerivedColumn, Merge, Phase, bounds_of, exactly, text
from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.moment import Moment, MomentBefore, entry_of
from lucky_recorder.episode.keys import MUJOCO_SOURCES
from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import column as asked
from lucky_recorder.settings import validators


def custom_column(
    column: asked.Column, simulation: simulator.Simulation | None, robots: tuple[str, ...], env: Any
) -> DerivedColumn:
    """Make a column of the user's own.

    Raises:
        SettingsError: If its source does not exist here, or gives another shape or a dtype that loses something.
    """
    source = column.source
    if isinstance(source, str):
        kind, _, name = source.partition(":")
        if kind in MUJOCO_SOURCES:
            return _from_mujoco(column, kind, name, simulation)
        if kind == "gym":
            return _from_gym(column, name, env)
        if kind == "info":
            return _called(column, _from_info(name), "after", nullable=True)
        source = validators.load_callable(_place(column), source)
    return _per_robot(column, source, robots)


def _from_info(key: str) -> Callable[[Moment], Any]:
    # Without a dot there is nothing within: the quick way.
    return (lambda moment: entry_of(moment.info, key)) if "." in key else (lambda moment: moment.info.get(key))


def _place(column: asked.Column) -> str:
    return f"column {column.name!r}: source"


def _field(column: asked.Column, nullable: bool = False) -> Field:
    shape = () if column.is_scalar else column.shape
    return Field(
        column.name,
        column.dtype,
        shape,
        names=column.names,
        unit=column.unit,
        nullable=nullable or column.is_text,
        has_stats=not column.is_text,
    )


def _called(
    column: asked.Column,
    read: Callable[[Moment], Any],
    phase: Phase,
    nullable: bool = False,
    merge: Merge | None = None,
    shows_state: bool = False,
) -> DerivedColumn:
    """Make a column whose value is what a function returns at each tick."""
    field = _field(column, nullable)
    if column.is_text:
        # A list of one: numpy would not take a text out of an array that holds nothing but it. Texts say by themselves
        # that there is none.
        called = f"column {column.name!r}: the source"
        texts = Channel(OWN + column.name, phase, (1,), "object", given=lambda moment: [text(called, read(moment))])
        return DerivedColumn(field, texts)
    channel = Channel(
        OWN + column.name,
        phase,
        field.shape,
        column.dtype,
        given=read,
        settle=exactly(column.name, field.shape, column.dtype, column.allow_nan),
        bounds=bounds_of(field.shape, column.dtype),
        nullable=nullable,
        merge=merge,
        shows_state=shows_state,
    )
    return DerivedColumn(field, channel)


def _per_robot(column: asked.Column, source: Callable[[Any], Any], robots: tuple[str, ...]) -> DerivedColumn:
    """Make a column from a callable, asked once per robot and tick."""
    field = _field(column)
    settle: Callable[[Any], Any]
    keep: Callable[[Any], Any]
    if column.is_text:
        settle, keep = functools.partial(text, f"column {column.name!r}: the source"), _same
    else:
        # A copy: the callable may give the next robot's value in the same array.
        settle, keep = exactly(column.name, field.shape, column.dtype, column.allow_nan), np.array
    is_after = column.is_called_after
    before = MomentBefore(f"column {column.name!r}", "give the column when='after'")

    def read(moment: Moment) -> list[Any]:
        # Before the step the moment still holds what the last step said: the callable must not see it.
        given = moment if is_after else before.of(moment)
        values = []
        for robot in robots:
            moment.robot = robot
            values.append(keep(settle(source(given))))
        return values

    shape, dtype = (len(robots), *field.shape), "object" if column.is_text else column.dtype
    phase: Phase = "after" if is_after else "before"
    channel = Channel(OWN + column.name, phase, shape, dtype, given=read, looks_after=is_after)
    return DerivedColumn(field, channel, per_robot=True)


def _same(value: Any) -> Any:
    return value


def _from_mujoco(column: asked.Column, kind: str, name: str, simulation: simulator.Simulation | None) -> DerivedColumn:
    """Make a column that copies a part of the simulation's arrays."""
    if simulation is None:
        raise SettingsError.of(_place(column), column.source, "there is no MuJoCo model here to take it from")
    view, select = place = simulator.find_quantity(simulation, kind, name, _place(column))
    field = _field(column)
    _check_fits(column, field, place.shape)
    # Commands are read after the step, because a controller inside the environment may set them during it.
    phase: Phase = "after" if kind == "ctrl" else "before"
    if column.allow_nan:
        # A viewed array is refused if any of its values is not finite. So what may be NaN is read by a function.
        elements = slice(None) if select is None else np.array(select, np.intp)
        return _called(column, lambda moment: view[elements], phase, shows_state=True)
    # The name is the array's: columns that select from it, the mode's own too, share one channel and one copy a tick.
    channel = Channel(f"{kind}:{name}" if select is None else kind, phase, view.shape, "float64", view=view)
    return DerivedColumn(field, channel, None if select is None else np.array([select], np.intp))


def _check_fits(column: asked.Column, field: Field, natural: tuple[int, ...]) -> None:
    """Refuse a declared shape that is not the source's, and a dtype that would lose something of it."""
    # A scalar column has the field shape (), also where (1,) was declared.
    if natural not in (field.shape, (1,)) or (natural == (1,) and field.shape != ()):
        raise SettingsError.of(
            f"column {column.name!r}: shape",
            column.shape,
            f"{column.source} gives shape {natural}; set shape={natural}",
        )
    if not column.dtype.startswith("float"):
        raise SettingsError.of(f"column {column.name!r}: dtype", column.dtype, "this source gives floats; use float64")


def _from_gym(column: asked.Column, name: str, env: Any) -> DerivedColumn:
    """Make a column of what gymnasium says: the reward, or the action or the observation, or a part of it."""
    if env is None:
        raise SettingsError.of(_place(column), column.source, "there is no Gymnasium environment here")
    if name == "reward":
        # It has no space: whole numbers may be declared, and each value is looked at when it comes.
        spaces.check_column(column, spaces.Layout((), "float64" if column.is_text else column.dtype))
        return _called(column, operator.attrgetter("reward"), "after", merge="sum")
    slot, _, key = name.partition(".")
    known = {"action": env.action_space, "obs": env.observation_space}
    found = spaces.parts_called(known[slot], key) if slot in known else []
    if len(found) > 1:
        remedy = f"is ambiguous: a key with a dot in it may mean {' or '.join(str(part.path) for part in found)}"
        raise SettingsError.of(_place(column), column.source, f"{remedy}; read it with a callable")
    if not found or spaces.is_parted(found[0].space):
        inner = [
            *spaces.names_of("gym:action", known["action"]),
            "gym:reward",
            *spaces.names_of("gym:obs", known["obs"]),
        ]
        raise SettingsError.of(_place(column), column.source, f"known: {', '.join(inner)}")
    what = "action" if slot == "action" else "observation"
    spaces.check_column(column, spaces.layout_of(found[0], f"{what} space", _place(column), column.source))
    return _called(column, spaces.reader(found[0], slot, what, column.name), "before")
