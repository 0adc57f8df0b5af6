"""Places in a simulation's arrays that a column of the user's own may name, such as ``sensor:NAME`` or ``qpos:JOINT``.

Positions and velocities of joints are the state itself and are read from the user's data, as commands are. Sensors and
the poses of bodies and sites are computed from the state. In the user's data they are a physics step late, so they are
read from the private data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numpy.typing import NDArray

from lucky_recorder.capture.mujoco import names
from lucky_recorder.capture.mujoco.simulation import Simulation


class Quantity(NamedTuple):
    """Where a quantity stands.

    Attributes:
        view: An array that always shows the present value.
        select: Which elements of it; None for all.
    """

    view: NDArray[Any]
    select: range | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The quantity's shape."""
        return tuple(self.view.shape) if self.select is None else (len(self.select),)


def find_quantity(simulation: Simulation, kind: str, name: str, field: str) -> Quantity:
    """Find a quantity.

    Args:
        simulation: Where.
        kind: One of `lucky_recorder.episode.keys.MUJOCO_SOURCES`.
        name: The name of the sensor, joint, actuator, body or site.
        field: The setting's name, for the error.

    Raises:
        SettingsError: If the model has none of that name.
    """
    return _QUANTITIES[kind](simulation, name, field)


def _qpos(simulation: Simulation, name: str, field: str) -> Quantity:
    joint = names.id_of(simulation.model, "joint", name, field)
    return Quantity(simulation.data.qpos, names.joint_addresses(simulation.model, joint))


def _qvel(simulation: Simulation, name: str, field: str) -> Quantity:
    joint = names.id_of(simulation.model, "joint", name, field)
    return Quantity(simulation.data.qvel, names.joint_degrees(simulation.model, joint))


def _ctrl(simulation: Simulation, name: str, field: str) -> Quantity:
    actuator = names.id_of(simulation.model, "actuator", name, field)
    return Quantity(simulation.data.ctrl, names.commands_of(simulation.model, actuator))


def _sensor(simulation: Simulation, name: str, field: str) -> Quantity:
    model = simulation.model
    sensor = names.id_of(model, "sensor", name, field)
    start = int(model.sensor_adr[sensor])
    return Quantity(simulation.private.sensordata, range(start, start + int(model.sensor_dim[sensor])))


def _pose(kind: str, array: str) -> Callable[[Simulation, str, str], Quantity]:
    def place(simulation: Simulation, name: str, field: str) -> Quantity:
        # One row of an array, taken by a plain number, is a view and not a copy.
        return Quantity(getattr(simulation.private, array)[names.id_of(simulation.model, kind, name, field)])

    return place


_QUANTITIES: dict[str, Callable[[Simulation, str, str], Quantity]] = {
    "sensor": _sensor,
    "qpos": _qpos,
    "qvel": _qvel,
    "ctrl": _ctrl,
    "xpos": _pose("body", "xpos"),
    "xquat": _pose("body", "xquat"),
    "site_xpos": _pose("site", "site_xpos"),
}
