"""New columns for a session that has kept its states: computed from them, and written with the rows that there are.

Nothing is simulated and nothing drawn: the model is put into each recorded state, as it was recorded, and looked at by
the same columns that a recording has. Videos are linked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.schedule import Clocks
from lucky_recorder.capture.source import open_source
from lucky_recorder.edit.given import settled
from lucky_recorder.edit.pick import OnEpisode, every, opened
from lucky_recorder.edit.shaped import Shaped
from lucky_recorder.edit.states import ticks_per_row
from lucky_recorder.episode.record import EpisodeRecord
from lucky_recorder.episode.schema import Field, Schema
from lucky_recorder.errors import CaptureError, FormatError, SettingsError, extended
from lucky_recorder.lazy import lazy
from lucky_recorder.recorder.lane import Lane
from lucky_recorder.recorder.trajectory import Piece
from lucky_recorder.recorder.walk import Walk, refuse_of_the_environment
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.features import features
from lucky_recorder.session.kept_states import States
from lucky_recorder.session.reader import Session
from lucky_recorder.settings.column import Column
from lucky_recorder.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    from lucky_recorder.edit import assemble
    from lucky_recorder.session.metadata import MadeOf
else:
    # It imports av, and `import *` is to be quick.
    assemble = lazy("lucky_recorder.edit.assemble")

__all__ = ["relabel"]


def relabel(
    session: str | Path,
    output: str | Path,
    *,
    columns: Iterable[Column | Mapping[str, Any]],
    dry_run: bool = False,
    on_episode: OnEpisode | None = None,
) -> Shaped:
    """Write a session's episodes as a new session with columns that are computed from its kept states.

    A column is what it is in a recording: a sensor, a place, or a function of the moment, which is given the model and
    the data as they were at each tick; with ``when="after"`` as the step has left them. So a reward is a function. A
    column of a name that the session has takes the place of that one; the others stand at the end. All else is as it
    was: rows to the last bit, videos linked, states too. Statistics are those of the new session.

    Args:
        session: The session's folder; it keeps states (``keep_states=True``).
        output: The new session's folder; there must be nothing of that name.
        columns: The columns.
        dry_run: Say only what would be done, after all that can be refused was.
        on_episode: Called after each episode: how many are done, and how many there are.

    Returns:
        What was made.

    Raises:
        SettingsError: If there is no column, one is of what only an environment knows, such as an observation, or has a
            source that the model has not; or ``output`` is there already.
        FormatError: If the session or an episode of it has no states, they cannot be read, its model is of another
            version of MuJoCo, or the state that a column is asked after is not known.
        CaptureError: If a column's function gives what cannot be recorded.
        StorageError: If the session is being written, or the file system refuses.
        VideoError: If a video cannot be read. Whatever is raised, nothing is left of the new session.

    Example:
        ```python
        def reward(moment):
            return -abs(moment.data.body("cube").xpos[2] - 0.3)

        lr.relabel("recorded", "rewarded", columns=[lr.Column("next.reward", reward, when="after")])
        ```
    """
    given = settled({"session": session, "output": output, "dry_run": dry_run, "on_episode": on_episode})
    source = opened(given["session"])
    labels = _Labels(source, tuple(columns))
    planned = assemble.plan(every(source), given["output"])
    labels.refuse(source)
    assert planned.taken_over is not None
    planned = dataclasses.replace(planned, change=labels, taken_over=labels.described(planned))
    if not given["dry_run"]:
        planned.write(given["on_episode"])
    return Shaped(planned.target, planned.episodes, planned.rows, 0)


class _Model:
    """A model, and the columns that look at it.

    Args:
        content: The bytes of an MJB file.
        about: What the states say of it: MuJoCo's version, its plugins.
        settings: The columns.
        robots: Whose rows there are.
        clocks: The rates.
    """

    def __init__(
        self,
        content: bytes,
        about: Mapping[str, Any],
        settings: Mapping[str, Any],
        robots: Sequence[str],
        clocks: Clocks,
    ) -> None:
        model = simulator.model_of(content, about["mujoco"], about["plugins"])
        layout, self._mover = simulator.StateLayout(model), simulator.Mover(model)
        self.sizes = (len(layout.fresh), int(model.nu))
        # Where robots were not named, the model as a whole is called something, and no body of it.
        names = tuple(robots) if simulator.has_bodies(model, robots) else None
        asked = RecorderSettings(**settings, robots=names)
        self.source = open_source(asked, model, self._mover.data, rates=clocks)
        self._walk = Walk(self.source, layout, self._mover)

    def lane(self, trajectory: _Kept, folder: Path) -> Lane:
        """Look at every tick; returns the lane that holds the columns' values."""
        lane = Lane(self.source, 0, lambda tick, seen: None, folder)
        self._walk.lead(lane, lane, trajectory)
        return lane


class _Kept:
    """The states of an episode, as a trajectory."""

    def __init__(self, kept: States) -> None:
        self.resets = tuple(kept.about["resets"])
        self.ran = np.zeros(len(kept), bool)
        self._kept = kept

    def pieces(self, most: int, width: int) -> Iterator[Piece]:
        """Go through its ticks; see `Trajectory.pieces`."""
        starts = sorted({0, *self.resets, len(self._kept)})
        held: tuple[int, NDArray[np.float64], NDArray[np.float64]] | None = None
        for part in self._kept.parts():
            first, states, commands = part.first, part.states[:, :width], part.commands
            if held is not None:
                first, states, commands = (
                    held[0],
                    *(np.concatenate(p) for p in zip(held[1:], (states, commands), strict=True)),
                )
            # The last is held back: what comes after it is in the next part.
            last = first + len(states) - 1
            for begin, stop in pairwise(starts):
                for start in range(max(begin, first), min(stop, last), most):
                    end = min(start + most, stop, last)
                    after = states[end - first] if self._is_known(end) else None
                    yield Piece(states[start - first : end - first], commands[start - first : end - first], after)
            held = last, states[-1:], commands[-1:]

    def _is_known(self, tick: int) -> bool:
        """Tell whether a state is what the tick before it has led to."""
        return tick not in self.resets and (tick < len(self._kept) or self._kept.about["ended"])


class _Labels:
    """The new columns of a session: a change of an `Assembly`."""

    def __init__(self, session: Session, columns: tuple[Column | Mapping[str, Any], ...]) -> None:
        if not columns:
            raise SettingsError.of("columns", (), "give the columns that are to be computed")
        if not session.has_states:
            raise FormatError(
                f"{session.path}: has no states to compute columns from: record with keep_states=True (record "
                "--keep-states)"
            )
        fields: dict[str, Any] = {"mode": "custom", "columns": columns, "data_hz": session.hz}
        # They were recorded so.
        self._settings = {**fields, "uneven_steps": "allow"}
        refuse_of_the_environment(RecorderSettings(**self._settings).columns)
        self._robots = session.robots
        self._hz = session.hz
        self._model: tuple[str, Clocks, _Model] | None = None
        self._fields: tuple[Field, ...] = ()

    def refuse(self, session: Session) -> None:
        """Refuse what can be refused beforehand: columns that the model has not, an episode without states."""
        for episode in session:
            # It says what is missing where there are none.
            kept = episode.states()
            if not self._fields:
                self._fields = tuple(column.field for column in self._of(episode, kept).source.columns)

    def schema(self, schema: Schema) -> Schema:
        """Return what rows are, with the new columns."""
        new = {field.name: field for field in self._fields}
        known = [field.name for field in schema.columns]
        columns = [new.get(field.name, field) for field in schema.columns]
        return dataclasses.replace(schema, columns=(*columns, *(f for f in self._fields if f.name not in known)))

    def described(self, planned: assemble.Assembly) -> MadeOf:
        """Return what the new session takes over, with the new columns in its features."""
        assert planned.taken_over is not None
        info, schema = planned.taken_over.info, self.schema(planned.parts[0].source.schema)
        new, old = features(schema), info["features"]
        labelled = {field.name for field in self._fields}
        said = {name: new[name] if name in labelled else old.get(name, new[name]) for name in new}
        return planned.taken_over._replace(
            info={**info, "features": {**said, **{n: old[n] for n in old if n not in said}}}
        )

    def record(self, record: EpisodeRecord, episode: Episode, folder: Path) -> EpisodeRecord:
        """Return an episode with the new columns.

        Args:
            record: The episode as it was.
            episode: The same, as it is read.
            folder: Where what the memory does not hold of a long one waits.
        """
        kept = episode.states()
        one = self._of(episode, kept)
        where = f"episode {episode.index} of {episode.states_path()}"
        trajectory = _Kept(kept)
        asked_after = next((c.name for c in one.source.settings.columns if c.is_called_after), None)
        if asked_after and (not kept.about["ended"] or any(trajectory.resets)):
            raise FormatError(
                f"{where}: column {asked_after!r} is asked after each tick, and the state that one of them has led to "
                "is not known, because the simulation was reset then; ask it before, or leave the episode out"
            )
        try:
            lane = one.lane(trajectory, folder)
        except CaptureError as error:
            raise extended(error, where) from error
        found = lane.buffer.finish(one.source.columns, one.source.schema, one.source.entity_ids)
        if (found.data_ticks, len(one.source.robots)) != (record.data_ticks, record.rows // record.data_ticks):
            raise FormatError(
                f"{where}: its states are of {found.data_ticks} data ticks, the rows of {record.data_ticks}"
            )
        names = [field.name for field in self._fields]
        if [c.field for c in one.source.columns] != [*self._fields]:
            raise FormatError(f"{where}: its model gives other columns than that of the first episode")
        missing = {name: gaps for name, gaps in record.missing.items() if name not in names}
        return dataclasses.replace(
            record,
            columns={**record.columns, **{name: found.columns[name] for name in names}},
            missing={**missing, **{name: gaps for name, gaps in found.missing.items() if name in names}},
        )

    def _of(self, episode: Episode, kept: States) -> _Model:
        """Return the columns of an episode's model; those of the last one, as long as it is the same."""
        about = kept.about
        per_row = ticks_per_row(kept, episode.data_ticks, episode)
        base = self._hz * per_row
        clocks = Clocks(self._hz, base / max(1, about["ticks_per_step"]), base)
        if clocks.control.denominator > 10**12 or clocks.base % clocks.control:
            raise FormatError(f"{episode.states_path()}: its footer says ticks_per_step={about['ticks_per_step']}")
        if self._model is None or self._model[:2] != (about["model"], clocks):
            content = episode.model()
            try:
                made = _Model(content, about, self._settings, self._robots, clocks)
            except FormatError as error:
                raise FormatError(f"{episode.states_path()}: {error}") from error
            self._model = about["model"], clocks, made
        said = (about["sizes"]["state"], about["sizes"]["nu"])
        if self._model[2].sizes != said:
            raise FormatError(f"{episode.states_path()}: states of {said} values, its model has {self._model[2].sizes}")
        return self._model[2]
