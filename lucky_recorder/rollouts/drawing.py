"""Drawing the episodes of a session: what one worker makes of them, in a shard of its own.

A shard is a session that holds the streams that were drawn, with as little beside them as a session can have. Each of
its episodes says which one of the drawn session it is of; so whoever finds a shard knows what is drawn, also where its
worker was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from lucky_recorder.edit.shards import MOST_FILES
from lucky_recorder.edit.source import Source
from lucky_recorder.episode import keys
from lucky_recorder.episode.record import About
from lucky_recorder.episode.schema import Schema
from lucky_recorder.errors import FormatError, SettingsError, shown
from lucky_recorder.recorder.filming import Film, Filming, Model, Stage, clocks_of
from lucky_recorder.rollouts.pieces import Attempt, BrokenOff, Piece
from lucky_recorder.session import layout
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.kept_states import States
from lucky_recorder.session.reader import Session
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The annotation of an episode of a shard: which one of the drawn session it is of.
OF = "episode"
_EVERY = 25
_LONGEST_KEY = 1000


@dataclass(frozen=True)
class Drawing:
    """What every worker is to draw.

    Attributes:
        session: The session's folder.
        settings: What is drawn of it.
    """

    session: Path
    settings: RecorderSettings

    def bench(self, folder: Path) -> DrawingBench:
        """Make what draws into a shard below a folder; nothing is opened before the first episode."""
        return DrawingBench(self, folder)


def noise_key(episode: Episode, kept: States) -> str:
    """Return what the noise of an episode's sensors is keyed by.

    Raises:
        FormatError: If its file of states says none that can be.
    """
    said = kept.about.get(keys.NOISE)
    if said is None:
        # An earlier version has kept them.
        return f"attempt {episode.index}" if episode.seed is None else f"seed {episode.seed}"
    if not isinstance(said, str) or not 0 < len(said) <= _LONGEST_KEY:
        raise FormatError(f"{episode.states_path()}: its footer says {keys.NOISE}={shown(said)}")
    return said


def model_of(episode: Episode, kept: States) -> Model:
    """Return the model that an episode's states are of."""
    return Model(kept.about["model"], episode.model(), kept.about["mujoco"], kept.about["plugins"])


def stage_of(settings: RecorderSettings, episode: Episode, kept: States) -> Stage:
    """Make what shows the states of a session, beginning with one of its episodes.

    Raises:
        SettingsError: If the model has not what is asked for, or there is not a state for every frame.
        FormatError: If MuJoCo does not read the model, or its states are of another size.
    """
    base, per_step = _rate(kept, episode), int(kept.about["ticks_per_step"])
    try:
        return Stage(settings, clocks_of(settings, episode.hz, base, per_step), model_of(episode, kept))
    except (FormatError, SettingsError) as error:
        raise type(error)(f"{episode.states_path()}: {error}") from error


def _rate(kept: States, episode: Episode) -> Fraction:
    try:
        base = Fraction(kept.about["hz"])
    except ZeroDivisionError:
        base = Fraction(0)
    per_row = base / episode.hz
    if per_row < 1 or per_row.denominator != 1 or -(-len(kept) // int(per_row)) != episode.data_ticks:
        told = f"its {len(kept)} ticks, {base} a second, are not those of {episode.data_ticks} ticks of rows"
        raise FormatError(f"{episode.states_path()}: {told}, {episode.hz} a second")
    return base


class DrawingBench:
    """Draws episodes of a session, one after another.

    Args:
        drawing: What is drawn.
        folder: Where the shard is made.
    """

    def __init__(self, drawing: Drawing, folder: Path) -> None:
        self._drawing = drawing
        self._folder = folder
        self._source: Source | None = None
        self._sink: SessionSink | None = None
        self._filming: tuple[Fraction, Stage, Filming] | None = None
        self._written: list[Attempt] = []
        self._count = 0

    @property
    def path(self) -> Path | None:
        """The shard's folder; None before the first episode."""
        return None if self._sink is None else self._sink.root

    @property
    def is_behind(self) -> bool:
        """Whether nobody was told yet of what is written."""
        return bool(self._written)

    def attempt(self, piece: Piece, which: int, is_stopped: Callable[[], bool]) -> Attempt:
        """Draw an episode, and write it.

        Args:
            piece: Its seeds are numbers of episodes.
            which: Which of them.
            is_stopped: Whether it is to be broken off.

        Raises:
            BrokenOff: If it was.
            LuckyRecorderError: What has failed.
        """
        source = self._source = self._source or Source(self._drawing.session)
        episode = source.episode(piece.seeds[which])
        kept = episode.states()
        stage, filming = self._ready(source, episode, kept)
        states = _states(episode, kept, stage)
        take, key = self._count, noise_key(episode, kept)
        try:
            film = filming.film(take, key, model_of(episode, kept), states, _between(is_stopped))
        except SettingsError as error:
            raise FormatError(f"{episode.states_path()}: its model: {error}") from error
        self._write(source, episode, film)
        attempt = Attempt(piece.number + which, episode.index, film.ticks, episode.success, "", self._count - 1)
        self._written.append(attempt)
        return attempt

    def _ready(self, source: Source, episode: Episode, kept: States) -> tuple[Stage, Filming]:
        """Return what films an episode: as long as the rates stay, the same."""
        base = _rate(kept, episode)
        if self._filming is not None and self._filming[0] == base:
            return self._filming[1:]
        if self._filming is not None:
            self._filming[2].close()
            self._filming = None
        stage = stage_of(self._drawing.settings, episode, kept)
        sink = self._sink = self._sink or self._opened(source, stage)
        self._filming = base, stage, Filming(stage, sink)
        return self._filming[1:]

    def _opened(self, source: Source, stage: Stage) -> SessionSink:
        sink = SessionSink.in_new_folder(self._folder, layout.Chunking(MOST_FILES), _EVERY)
        sink.open(shard_schema(source.schema, stage), source.folder.tasks)
        return sink

    def _write(self, source: Source, episode: Episode, film: Film) -> None:
        sink = self._sink
        assert sink is not None
        record = source.read(episode, source.window(episode.index), source.schema, sink.root)
        about = About(annotations={OF: episode.index})
        record = replace(record, take=self._count, noted=None, about=about, reproducible=film.is_reproducible)
        sink.prepare(replace(record, videos=film.videos, scans=film.scans)).commit()
        self._count += 1

    def written(self) -> list[Attempt]:
        """Return the episodes that are drawn and written by now, each once."""
        written, self._written = self._written, []
        return written

    def close(self) -> list[Attempt]:
        """Close the shard; returns the last episodes that are written."""
        filming, self._filming = self._filming, None
        try:
            if filming is not None:
                filming[2].close()
        finally:
            if self._sink is not None:
                self._sink.close()
        return self.written()


def shard_schema(schema: Schema, stage: Stage) -> Schema:
    """Return what the rows and streams of a shard are: no columns of anybody's own, and the streams that are drawn."""
    drawn = stage.source.schema
    return replace(schema, columns=(), streams=drawn.streams, scans=drawn.scans, has_states=False, to_draw=None)


def _between(is_stopped: Callable[[], bool]) -> Callable[[], None]:
    def look() -> None:
        if is_stopped():
            raise BrokenOff

    return look


def _states(episode: Episode, kept: States, stage: Stage) -> Iterator[NDArray[np.float64]]:
    """Go through the states before each tick; that after the last is of no tick."""
    ticks = len(kept)
    for part in kept.parts():
        if part.states.shape[1] != stage.size:
            where = episode.states_path()
            raise FormatError(f"{where}: states of {part.states.shape[1]} values, its model has {stage.size}")
        yield from part.states[: max(0, ticks - part.first)]


def drawn_in(shard: Session) -> Mapping[int, int]:
    """Return which episodes a shard holds: by their number in the drawn session, that in the shard."""
    found: dict[int, int] = {}
    for episode in shard:
        of = (episode.annotations or {}).get(OF)
        if type(of) is int:
            found.setdefault(of, episode.index)
    return found
