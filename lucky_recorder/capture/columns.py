"""The columns of a recording: those of its recorder mode, of gymnasium, and of the user."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from lucky_recorder.capture import spaces
from lucky_recorder.capture.channels import Channel, DerivedColumn, Merge, Phase, Read, bounds_of, exactly, text
from lucky_recorder.capture.custom import custom_column
from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.robots import Robot
from lucky_recorder.episode.keys import DONE, GYM_ACTION, REWARD, SUCCESS, TEXT
from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings.column import Column
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.settings.validators import portable


@dataclass(frozen=True)
class Scene:
    """All that columns are made from.

    Attributes:
        settings: What the user asked for.
        simulation: The MuJoCo simulation, if there is one.
        robots: Its robots.
        env: The environment as it is stepped, if there is one: wrappers may change its spaces.
    """

    settings: RecorderSettings
    simulation: simulator.Simulation | None
    robots: tuple[Robot, ...]
    env: Any = None

    @property
    def mujoco(self) -> simulator.Simulation:
        """The MuJoCo simulation.

        Raises:
            SettingsError: If there is none.
        """
        if self.simulation is None:
            mode = self.settings.mode
            raise SettingsError.of(
                "mode", mode, "needs a MuJoCo model and none was found; use mode='custom' with columns"
            )
        return self.simulation


_OF_MODE: dict[str, Callable[[Scene], list[DerivedColumn]]] = {
    "robot_arm": lambda scene: simulator.arm_columns(scene.mujoco, scene.robots),
    "full_scene": lambda scene: simulator.scene_columns(scene.mujoco, scene.robots),
    "custom": lambda scene: [],
}


def columns_of(scene: Scene) -> tuple[DerivedColumn, ...]:
    """Return every column that follows ``frame_flags``: the mode's, the gym's, and the user's own.

    Raises:
        SettingsError: If a column cannot be recorded from this scene.
    """
    settings = scene.settings
    if not settings.record_data:
        return ()
    mode = _OF_MODE[settings.mode](scene)
    gym = _gym_columns(scene) if settings.gym_columns else []
    robots = tuple(r.name for r in scene.robots)
    poses = simulator.pose_columns(scene.mujoco, settings.posed_cameras) if settings.posed_cameras else []
    own = [custom_column(c, scene.simulation, robots, scene.env) for c in settings.columns]
    columns = (*mode, *gym, *poses, *own)
    # Again, though the settings were looked at: the parts of an action space have names that no setting says, and a
    # column of the user's own may have one of these.
    portable((c.field.name for c in columns), field="columns")
    return columns


def _gym_columns(scene: Scene) -> list[DerivedColumn]:
    if scene.env is None:
        raise SettingsError.of("gym_columns", True, "there is no Gymnasium environment; leave it off on a bare model")
    reward = _remedy("what the environment gives", Column("reward", "gym:reward", allow_nan=True))
    number = spaces.Layout((), "float64")
    truth = spaces.Layout((), "bool")
    return [
        *_sent(scene.env.action_space),
        _gym_column(REWARD, "after", number, attrgetter("reward"), "sum", reward),
        _gym_column(DONE, "after", truth, attrgetter("done"), "or"),
        _gym_column(SUCCESS, "after", truth, attrgetter("success"), "or"),
    ]


def _sent(space: Any) -> list[DerivedColumn]:
    """Return the columns of what was sent: one, or one for each part of a Dict or Tuple space."""
    columns = [_sent_part(part) for part in spaces.parts_of(space)]
    if not columns:
        raise SettingsError.of("gym_columns", True, f"the action space is {space}, which holds no value; leave it off")
    try:
        portable((c.field.name for c in columns), field="column")
    except SettingsError as error:
        why = (
            "two parts of the action space would be one column; leave it off, and record each with a Column of your "
            "own, such as a callable of moment.action, or rename the keys"
        )
        raise SettingsError.of("gym_columns", True, f"{why} ({error})") from error
    return columns


def _sent_part(part: spaces.Part) -> DerivedColumn:
    name, source = (f"{whole}.{part.name}" if part.path else whole for whole in (GYM_ACTION, "gym:action"))
    shape, dtype = spaces.layout_of(part, "action space", "gym_columns", True)
    # A single value is a scalar column: LeRobot takes the feature shape [1] for a scalar, not for a list of one.
    layout = spaces.Layout(shape if math.prod(shape) > 1 else (), dtype)
    # Refuses what is no name of a column, such as a key with a slash in it.
    try:
        like = Column(name, source, dtype="float64" if dtype != TEXT else TEXT, shape=layout.shape, allow_nan=True)
    except SettingsError as error:
        why = (
            f"part {part.name!r} of the action space cannot be a column; leave it off, and record a Column of your own"
        )
        raise SettingsError.of("gym_columns", True, f"{why} ({error})") from error
    read = spaces.reader(part, "action", "action", name)
    return _gym_column(name, "before", layout, read, None, _remedy("what is sent", like))


def _remedy(what: str, column: Column) -> str:
    shape = f", shape={column.shape}" if column.shape else ""
    declared = f"Column('...', {column.source!r}, dtype={column.dtype!r}{shape}, allow_nan=True)"
    return f"correct {what}, or leave gym_columns out and record {declared}"


def _gym_column(
    name: str, phase: Phase, layout: spaces.Layout, read: Read, merge: Merge | None = None, remedy: str | None = None
) -> DerivedColumn:
    shape, dtype = layout
    if dtype == TEXT:
        called = f"column {name!r}: the source"
        texts = Channel(name, phase, (1,), "object", given=lambda moment: [text(called, read(moment))])
        return DerivedColumn(Field(name, dtype, nullable=True), texts)
    settle, bounds = exactly(name, shape, dtype, False, remedy), bounds_of(shape, dtype)
    channel = Channel(name, phase, shape, dtype, given=read, settle=settle, bounds=bounds, merge=merge)
    return DerivedColumn(Field(name, dtype, shape, has_stats=True), channel)
