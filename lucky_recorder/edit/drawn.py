"""Streams that were drawn of a session's states afterwards, joined to the session's own.

They lie in sessions of their own, which hold nothing else of the episodes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from lucky_recorder.edit.source import Source
from lucky_recorder.edit.streams import Streams
from lucky_recorder.episode.record import FinishedScans, FinishedVideo
from lucky_recorder.episode.schema import ScanStream, Schema, Stream
from lucky_recorder.session import later
from lucky_recorder.session.features import features
from lucky_recorder.session.metadata import MadeOf
from lucky_recorder.session.sink import SessionSink


class Place(NamedTuple):
    """Where the streams of an episode are.

    Attributes:
        session: The folder of the session that holds them.
        episode: Its ``episode_index`` there.
    """

    session: Path
    episode: int


class Given(NamedTuple):
    """The streams of an episode, under names of their own beside their final places.

    Attributes:
        videos: By key.
        scans: By the lidar's name.
        is_reproducible: Whether drawing them again gives the same bytes.
    """

    videos: Mapping[str, FinishedVideo]
    scans: Mapping[str, FinishedScans]
    is_reproducible: bool


@dataclass
class Drawn:
    """What was drawn of a session.

    Attributes:
        streams: What its videos are.
        scans: What its scans are.
        places: Where they are, by the episode's index in the session.
        replaced: The keys of the session's own streams that these take the place of.
    """

    streams: Sequence[Stream]
    scans: Sequence[ScanStream]
    places: Mapping[int, Place]
    replaced: Collection[str]
    _opened: dict[Path, tuple[Source, Streams]] = field(default_factory=dict)

    def kept(self, schema: Schema) -> Schema:
        """Return what stays of the session's own streams."""
        names = {scan.name for scan in self.scans}
        streams = tuple(s for s in schema.streams if s.key not in self.replaced)
        return replace(schema, streams=streams, scans=tuple(s for s in schema.scans if s.name not in names))

    def joined(self, schema: Schema) -> Schema:
        """Return what all streams are, the session's own first."""
        kept = self.kept(schema)
        return replace(kept, streams=(*kept.streams, *self.streams), scans=(*kept.scans, *self.scans), to_draw=None)

    def taken_over(self, made: MadeOf, schema: Schema) -> MadeOf:
        """Return what the new session takes over of the old one's ``info.json``.

        Args:
            made: What it would take over without these streams.
            schema: What the old one's rows and streams are.
        """
        own, old = features(self.joined(schema)), made.info["features"]
        kept = {name: feature for name, feature in old.items() if name not in self.replaced}
        new = {s.key: own[s.key] for s in self.streams if s.is_described}
        return made._replace(info={**later.taken_away(made.info), "features": {**kept, **new}})

    def given(self, episode: int, number: int, sink: SessionSink) -> Given:
        """Link the streams of an episode.

        Args:
            episode: Its index in the session that they were drawn of.
            number: Tells their names from those of other episodes.
            sink: Where they are linked to.

        Raises:
            FormatError: If one is missing.
            StorageError: If the file system refuses.
        """
        place = self.places[episode]
        source, streams = self._opened.get(place.session) or self._open(place.session, sink)
        known, window = source.episode(place.episode), source.window(place.episode)
        videos, is_reproducible = streams.videos(known, window, number)
        return Given(videos, streams.scans(known, window, number), is_reproducible)

    def _open(self, path: Path, sink: SessionSink) -> tuple[Source, Streams]:
        source = Source(path)
        schema = replace(source.schema, streams=tuple(self.streams), scans=tuple(self.scans))
        self._opened[path] = source, Streams(source, schema, set(source.numbers), sink)
        return self._opened[path]
