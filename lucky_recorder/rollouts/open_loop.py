"""Playing an episode's commands in its simulation, without states: how far it drifts from what is recorded.

It is not exact. A plain session knows where joints were, and not how fast, nor what else the simulation was: so it
begins at rest in the first row, and what was left out then grows. `replay` is for sessions that keep states.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lucky_recorder.capture.commands import commands_to_ctrl
from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.schedule import clocks
from lucky_recorder.capture.source import Source, open_source
from lucky_recorder.episode import clock, keys, limits
from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.session import layout, provenance
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.reader import Session
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.storage.untrusted import Folder, format_errors

_MODES = {label.entity_column: mode for mode, label in keys.MODES.items() if mode != "custom"}
_EVEN = 1e-6
NOT_EXACT = (
    "it is not exact: it begins at rest where the first row has the joints that are recorded, and all else as the "
    "model has it; velocities, contacts and what else a simulation is are in no row"
)


class Drift(NamedTuple):
    """How far a joint's position went from what is recorded; radians, or metres.

    Attributes:
        joint: The joint, by the name that ``lucky_names`` of ``observation.state`` has for the value.
        most: The farthest that it was off.
        last: By how much it was off at the last row.
        row: The first row at which it was as far off as it ever was.
    """

    joint: str
    most: float
    last: float
    row: int


class OpenLoop(NamedTuple):
    """How an episode compares with itself, when its commands alone are played.

    Attributes:
        rows: Rows of a robot that were compared, beside those in which it was put into place.
        drifts: How far each recorded value drifted, in the order of the row's, robot after robot.
        resets: The ticks of rows at which it was put into place again, since the recording was reset before them.
        model: Where the model is from.
    """

    rows: int
    drifts: tuple[Drift, ...]
    resets: tuple[int, ...]
    model: Path

    @property
    def worst(self) -> Drift:
        """The value that drifted farthest."""
        return max(self.drifts, key=lambda drift: drift.most)


def open_loop(session: str | Path | Session, episode: int, model: str | Path | None = None) -> OpenLoop:
    """Play an episode's commands in its simulation, from where its first row has the joints, and compare positions.

    The commands are those of ``action``, turned back by `commands_to_ctrl`. It needs no states, and is not exact: what
    rows do not hold, velocities above all, is as the model has it. Where the recording was reset within the episode, it
    is put into place anew.

    Args:
        session: A session recorded in the mode ``robot_arm`` or ``full_scene``.
        episode: The episode's number.
        model: The model, an XML or an MJB file; None: the one that the session has kept in ``meta/models``.

    Raises:
        IndexError: If there is no such episode.
        SettingsError: If it cannot be played: no model is kept, it is another than that of the rows, or they hold no
            commands.
        FormatError: If the session cannot be read, or the model is of another version of MuJoCo.
    """
    opened = session if isinstance(session, Session) else Session(session)
    recorded = opened.episode(episode)
    mode = next((mode for column, mode in _MODES.items() if column in opened.features), None)
    if mode is None or not {*keys.VECTORS} <= {*opened.features}:
        why = "its rows hold no commands and positions of joints; record in the mode 'robot_arm' or 'full_scene'"
        raise SettingsError.of("episode", episode, f"cannot be played: {why}")
    found, place = _model(opened, recorded, model)
    return _Player(found, place, opened, mode).play(recorded)


def _model(session: Session, episode: Episode, given: str | Path | None) -> tuple[Any, Path]:
    """Return a `mujoco.MjModel`, and where it is from."""
    if given is not None:
        return simulator.read_model(Path(given)), Path(given)
    entry = provenance.of_episode(session.provenance, episode.index)
    name = None if entry is None else provenance.model_of(entry)
    files = Folder(session.path)
    if entry is None or name is None or not files.has(name):
        why = "the session has not kept its model; name its file with --model (model=)"
        raise SettingsError.of("episode", episode.index, f"cannot be played: {why}")
    path, content = session.path / name, files.bytes(name, limits.LARGEST_MODEL)
    said = layout.MODEL_FILE.fullmatch(name)
    if said is None or hashlib.sha256(content).hexdigest() != said["sha256"]:
        raise FormatError(f"{path}: holds another model than its name says (its sha256 differs)")
    packages = entry.get("packages")
    version = packages.get("mujoco") if isinstance(packages, dict) else None
    try:
        return simulator.model_of(content, str(version)), path
    except FormatError as error:
        raise FormatError(f"{path}: {error}; or name another file of it with --model") from error


class _Player:
    """Plays episodes in a model."""

    def __init__(self, model: Any, place: Path, session: Session, mode: str) -> None:
        self._model = model
        self._place = place
        self._mover = simulator.Mover(model)
        names = session.robots if simulator.has_bodies(model, session.robots) else None
        settings = RecorderSettings(mode=mode, robots=names, data_hz=session.hz)
        source = open_source(settings, model, self._mover.data, rates=clocks(settings, None))
        self._commands, self._joints = (self._select(source, name) for name in keys.VECTORS)
        said = session.features[keys.STATE].get("lucky_names")
        field = next(c.field for c in source.columns if c.field.name == keys.STATE)
        if said != list(field.lucky_names or ()):
            raise SettingsError.of("model", str(place), "has other joints than those that the rows are of")
        self._names = [*(field.lucky_names or ())]
        lasts = float(1 / session.hz) / float(model.opt.timestep)
        self._steps = round(lasts)
        if self._steps < 1 or abs(lasts - self._steps) > _EVEN * lasts:
            remedy = (
                f"steps {1 / float(model.opt.timestep):g} times a second, and rows come at {clock.show(session.hz)} Hz"
            )
            raise SettingsError.of("model", str(place), f"{remedy}: no whole number of its steps is a row")

    @staticmethod
    def _select(source: Source, name: str) -> NDArray[np.intp]:
        select = next(c.select for c in source.columns if c.field.name == name)
        assert select is not None
        return select.reshape(-1)

    def play(self, episode: Episode) -> OpenLoop:
        """Play an episode; see `open_loop`."""
        table = episode.rows_by_tick()
        with format_errors(episode.data_path()):
            positions, actions = (
                self._values(table, keys.STATE, self._joints),
                self._values(table, keys.ACTION, self._commands),
            )
            flags = table[keys.FRAME_FLAGS].to_numpy().reshape(len(positions), -1)
        was_reset = (flags.astype(np.int64) & keys.POST_RESET != 0).any(axis=1)
        all_commands = np.zeros((len(actions), self._model.nu))
        all_commands[:, self._commands] = actions
        ctrl = commands_to_ctrl(self._model, all_commands)
        played = np.array(positions)
        resets = [tick for tick in np.flatnonzero(was_reset).tolist() if tick]
        for tick in range(len(positions)):
            if tick == 0 or tick in resets:
                self._mover.rest(self._joints, positions[tick])
            played[tick] = self._mover.data.qpos[self._joints]
            self._mover.command(ctrl[tick])
            self._mover.step(self._steps)
        return OpenLoop(len(positions) - 1 - len(resets), self._drifts(played - positions), tuple(resets), self._place)

    def _values(self, table: pa.Table, name: str, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return a column's values, all robots of a tick in a row, shape ``(ticks, values)``."""
        column = table[name].combine_chunks()
        flat = column.flatten().to_numpy(zero_copy_only=False)
        if column.null_count or flat.size % len(places) or not np.isfinite(flat).all():
            raise FormatError(f"column {name!r} has not {len(places)} values at each tick, or a gap")
        values: NDArray[np.float64] = np.asarray(flat, np.float64).reshape(-1, len(places))
        return values

    def _drifts(self, off: NDArray[np.float64]) -> tuple[Drift, ...]:
        far = np.abs(off)
        rows = far.argmax(axis=0)
        return tuple(
            Drift(name, float(far[row, k]), float(far[-1, k]), int(row))
            for k, (name, row) in enumerate(zip(self._names, rows, strict=True))
        )
