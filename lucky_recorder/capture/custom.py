"""Columns of the user's own: where their values come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lucky_recorder.capture.channels import Channel, DerivedColumn, Phase, exactly
from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.moment import Moment
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
            return _called(
                column, _from_gym(column, name, env), "after" if name == "reward" else "before", is_returned=True
            )
        if kind == "info":
            return _called(column, lambda moment: moment.info.get(name), "after", nullable=True, is_returned=True)
        source = validators.load_callable(_place(column), source)
    return _per_robot(column, source, robots)


def _place(column: asked.Column) -> str:
    return f"column {column.name!r}: source"


def _field(column: asked.Column, nullable: bool = False) -> Field:
    shape = () if column.is_scalar else column.shape
    return Field(
        column.name, column.dtype, shape, names=column.names, unit=column.unit, nullable=nullable, has_stats=True
    )


def _called(
    column: asked.Column,
    read: Callable[[Moment], Any],
    phase: Phase,
    nullable: bool = False,
    is_returned: bool = False,
) -> DerivedColumn:
    """Make a column whose value is what a function returns at each tick."""
    field = _field(column, nullable)
    settle = exactly(column.name, field.shape, column.dtype, column.allow_nan)

    def checked(moment: Moment) -> Any:
        value = read(moment)
        return None if value is None and nullable else settle(value)

    # The prefix keeps it apart from the channels of the simulation's arrays: a column may be called qpos.
    channel = Channel(
        f"own:{column.name}", phase, field.shape, column.dtype, read=checked, nullable=nullable, is_returned=is_returned
    )
    return DerivedColumn(field, channel)


def _per_robot(column: asked.Column, source: Callable[[Any], Any], robots: tuple[str, ...]) -> DerivedColumn:
    """Make a column from a callable, asked once per robot and tick."""
    field = _field(column)
    settle = exactly(column.name, field.shape, column.dtype, column.allow_nan)

    def read(moment: Moment) -> list[Any]:
        values = []
        for robot in robots:
            moment.robot = robot
            # A copy: the callable may give the next robot's value in the same array.
            values.append(np.array(settle(source(moment))))
        return values

    shape = (len(robots), *field.shape)
    return DerivedColumn(field, Channel(f"own:{column.name}", "before", shape, column.dtype, read=read), per_robot=True)


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
        return _called(column, lambda moment: view[elements], phase)
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
    if np.dtype(column.dtype).kind != "f":
        raise SettingsError.of(f"column {column.name!r}: dtype", column.dtype, "this source gives floats; use float64")


def _from_gym(column: asked.Column, name: str, env: Any) -> Callable[[Moment], Any]:
    if env is None:
        raise SettingsError.of(_place(column), column.source, "there is no Gymnasium environment here")
    if name == "reward":
        return lambda moment: moment.reward
    if name == "action":
        return lambda moment: moment.action
    keys = _keys(env)
    if name == "obs" and not keys:
        return lambda moment: moment.obs
    key = name.removeprefix("obs.")
    if key == name or key not in keys:
        parts = [f"gym:obs.{key}" for key in keys] or ["gym:obs"]
        raise SettingsError.of(_place(column), column.source, f"known: gym:action, gym:reward, {', '.join(parts)}")
    return lambda moment: moment.obs[key]


def _keys(env: Any) -> tuple[str, ...]:
    """Return the keys of an environment's observations, none where they are no dicts."""
    # A Tuple space has `spaces` too, but they have no keys.
    parts = getattr(env.observation_space, "spaces", None)
    return tuple(str(key) for key in parts) if isinstance(parts, Mapping) else ()


def space_layout(space: Any, field: str) -> tuple[tuple[int, ...], str]:
    """Return the shape and dtype of a space of arrays or numbers.

    Raises:
        SettingsError: If the space is a dict, a tuple or otherwise no array.
    """
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    if shape is None or dtype is None or np.dtype(dtype).kind not in "biuf":
        raise SettingsError.of(
            field, type(space).__name__, "only spaces of arrays can be a column; use columns of your own"
        )
    return tuple(shape), np.dtype(dtype).name
