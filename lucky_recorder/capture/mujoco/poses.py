"""Columns of camera poses: where each camera that asks for it is, in the state that the row and its frame show."""

from __future__ import annotations

from collections.abc import Iterable

from lucky_recorder.capture.channels import Channel, DerivedColumn
from lucky_recorder.capture.mujoco.camera import pose_reader
from lucky_recorder.capture.mujoco.simulation import Simulation
from lucky_recorder.episode.keys import pose_key
from lucky_recorder.episode.schema import Field
from lucky_recorder.settings.camera import Camera

_NAMES = ("x", "y", "z", "qw", "qx", "qy", "qz")


def pose_columns(simulation: Simulation, cameras: Iterable[Camera]) -> list[DerivedColumn]:
    """Return the pose of every camera with ``record_pose``: the same for all robots.

    Raises:
        SettingsError: If the model has no such camera.
    """
    return [_column(simulation, camera) for camera in cameras if camera.record_pose]


def _column(simulation: Simulation, camera: Camera) -> DerivedColumn:
    read = pose_reader(simulation, camera)
    key, shape = pose_key(camera.name), (len(_NAMES),)
    field = Field(key, "float64", shape, names=_NAMES, unit="m, quaternion w x y z", has_stats=True)
    return DerivedColumn(field, Channel(f"pose:{camera.name}", "before", shape, "float64", given=lambda moment: read()))
