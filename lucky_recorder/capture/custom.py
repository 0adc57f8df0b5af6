"""Columns of the user's own: where their values come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.channels import Channel, DerivedColumn, exactly
from lucky_recorder.capture.moment import Moment
from lucky_recorder.capture.mujoco import names
from lucky_recorder.capture.mujoco.simulation import Simulation
from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import recorder as asked
from lucky_recorder.settings import validators


def custom_column(
    column: asked.Column, simulation: Simulation | None, robots: tuple[str, ...], env: Any
) -> DerivedColumn:
    """Make a column of the user's own.

    Raises:
        SettingsError: If its source does not exist here, or gives another shape or a dtype that loses something.
    """
    source = column.source
    if isinstance(source, str):
        kind, _, name = source.partition(":")
        if kind in _MUJOCO:
            return _from_mujoco(column, kind, name, simulation)
        if kind == "gym":
            return _called(column, _from_gym(column, name, env), "after" if name == "reward" else "before")
        if kind == "info":
            return _called(column, lambda moment: moment.info.get(name), "after", nullable=True)
        source = validators.load_callable(_place(column), source)
    return _per_robot(column, source, robots)


def _place(column: asked.Column) -> str:
    return f"column {column.name!r}: source"


def _field(column: asked.Column, nullable: bool = False) -> Field:
    shape = () if column.is_scalar else column.shape
    return Field(
        column.name, column.dtype, shape, names=column.names, unit=column.unit, nullable=nullable, has_stats=True
    )


def _called(column: asked.Column, read: Callable[[Moment], Any], phase: Any, nullable: bool = False) -> DerivedColumn:
    """Make a column whose value is what a function returns at each tick."""
    field = _field(column, nullable)
    settle = exactly(column.name, field.shape, column.dtype, column.allow_nan)

    def checked(moment: Moment) -> Any:
        value = read(moment)
        return None if value is None and nullable else settle(value)

    channel = Channel(f"own:{column.name}", phase, field.shape, column.dtype, read=checked, nullable=nullable)
    return DerivedColumn(field, channel)


def _per_robot(column: asked.Column, source: Callable[[Any], Any], robots: tuple[str, ...]) -> DerivedColumn:
    """Make a column from a callable, asked once per robot and tick."""
    field = _field(column)
    settle = exactly(column.name, field.shape, column.dtype, column.allow_nan)

    def read(moment: Moment) -> list[Any]:
        values = []
        for robot in robots:
            moment.robot = robot
            # A copy: the next robot's value may come in the same array.
            values.append(np.array(settle(source(moment))))
        return values

    shape = (len(robots), *field.shape)
    return DerivedColumn(field, Channel(f"own:{column.name}", "before", shape, column.dtype, read=read), per_robot=True)


def _from_mujoco(column: asked.Column, kind: str, name: str, simulation: Simulation | None) -> DerivedColumn:
    """Make a column that copies a part of the simulation's arrays."""
    if simulation is None:
        raise SettingsError.of(_place(column), column.source, "there is no MuJoCo model here to take it from")
    view, select = _MUJOCO[kind](simulation, name, _place(column))
    natural = (len(select),) if select is not None else view.shape
    field = _field(column)
    if natural not in (field.shape, (1,)) or (natural == (1,) and field.shape != ()):
        raise SettingsError.of(
            f"column {column.name!r}: shape",
            column.shape,
            f"{column.source} gives shape {natural}; set shape={natural}",
        )
    if np.dtype(column.dtype).kind != "f":
        raise SettingsError.of(f"column {column.name!r}: dtype", column.dtype, "this source gives floats; use float64")
    phase: Any = "after" if kind == "ctrl" else "before"
    if column.allow_nan:
        elements = np.array(select, np.intp) if select is not None else slice(None)
        return _called(column, lambda moment: view[elements], phase)
    channel = Channel(_channel_name(kind, name, select), phase, view.shape, "float64", view=view)
    return DerivedColumn(field, channel, select=None if select is None else np.array([list(select)], np.intp))


def _channel_name(kind: str, name: str, select: range | None) -> str:
    return kind if select is not None else f"{kind}:{name}"


def _qpos(simulation: Simulation, name: str, place: str) -> tuple[NDArray[Any], range]:
    joint = names.id_of(simulation.model, "joint", name, place)
    return simulation.data.qpos, names.joint_addresses(simulation.model, joint)


def _qvel(simulation: Simulation, name: str, place: str) -> tuple[NDArray[Any], range]:
    model = simulation.model
    joint = names.id_of(model, "joint", name, place)
    degrees = {7: 6, 4: 3, 1: 1}[len(names.joint_addresses(model, joint))]
    start = int(model.jnt_dofadr[joint])
    return simulation.data.qvel, range(start, start + degrees)


def _ctrl(simulation: Simulation, name: str, place: str) -> tuple[NDArray[Any], range]:
    actuator = names.id_of(simulation.model, "actuator", name, place)
    return simulation.data.ctrl, names.commands_of(simulation.model, actuator)


def _sensor(simulation: Simulation, name: str, place: str) -> tuple[NDArray[Any], range]:
    sensor = names.id_of(simulation.model, "sensor", name, place)
    start = int(simulation.model.sensor_adr[sensor])
    return simulation.private.sensordata, range(start, start + int(simulation.model.sensor_dim[sensor]))


def _pose(kind: str, array: str) -> Callable[[Simulation, str, str], tuple[NDArray[Any], None]]:
    def view(simulation: Simulation, name: str, place: str) -> tuple[NDArray[Any], None]:
        return getattr(simulation.private, array)[names.id_of(simulation.model, kind, name, place)], None

    return view


_MUJOCO: dict[str, Callable[[Simulation, str, str], tuple[NDArray[Any], range | None]]] = {
    "sensor": _sensor,
    "qpos": _qpos,
    "qvel": _qvel,
    "ctrl": _ctrl,
    "xpos": _pose("body", "xpos"),
    "xquat": _pose("body", "xquat"),
    "site_xpos": _pose("site", "site_xpos"),
}


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
