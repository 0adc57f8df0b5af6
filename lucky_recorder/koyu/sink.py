"""The koyu sink: finished episodes become bundles of a dataset, one per robot."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode import clock, keys
from lucky_recorder.episode.parts import let_go, parts
from lucky_recorder.episode.record import EpisodeRecord
from lucky_recorder.episode.schema import Schema
from lucky_recorder.errors import CaptureError, MetadataError, SettingsError
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.bundle import Bundle
from lucky_recorder.koyu.features import BundleLayout, encoding_of, layout_of
from lucky_recorder.koyu.manifest import Description, identity, refuse_other
from lucky_recorder.koyu.metadata import Sidecars
from lucky_recorder.koyu.rows import as_float32
from lucky_recorder.koyu.writer import DatasetWriter, PreparedBundle
from lucky_recorder.notices import tell
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.storage import arrow
from lucky_recorder.storage.names import part

logger = logging.getLogger("lucky_recorder")

# So much of a column is cast at a time.
_CAST_BYTES = 4 << 20
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "koyu:bundle")
# Whoever collects gives up when so many leave nothing, or far fewer.
_TAKES_LOOKED_FOR = 1000


def capture_id(seed: int | None, take: int, robot: int) -> str:
    """Return the id of a bundle: by the take, whose number is never used again, whatever is discarded.

    Args:
        seed: ``KoyuSettings.id_seed``; None for an id that is new.
        take: The take's number.
        robot: The robot's place among the robots.
    """
    return uuid.uuid4().hex if seed is None else uuid.uuid5(_NAMESPACE, f"{seed}/{take}/{robot}").hex


def refuse_dataset(root: Path, settings: KoyuSettings, schema: Schema | None = None) -> None:
    """Refuse a dataset that bundles cannot be added to; nothing is touched.

    Args:
        root: The dataset's folder; it need not be there.
        settings: What the bundles are to say of themselves.
        schema: What rows and frames are; None where that is not known yet.

    Raises:
        SettingsError: If it is of another kind, or has bundles of the same seed.
        FormatError: If what is there is broken.
    """
    seed = settings.id_seed
    if seed is not None and _has_seed(root / layout.EPISODES, seed):
        raise SettingsError.of("koyu.id_seed", seed, f"{root} has bundles of this seed already; give another")
    if schema is None:
        refuse_other(root, identity(settings.name, settings.collection_mode, settings.action))
    else:
        refuse_other(root, _description(layout_of(schema, settings), settings).fields())


def _has_seed(episodes: Path, seed: int) -> bool:
    """Tell whether there is a bundle of a seed; the first takes may all have been discarded."""
    names = (layout.bundle_name(capture_id(seed, take, 0)) for take in range(_TAKES_LOOKED_FOR))
    return episodes.is_dir() and any((episodes / name).exists() for name in names)


def _description(bundle: BundleLayout, settings: KoyuSettings) -> Description:
    return Description(settings.name, settings.collection_mode, bundle.fps, bundle.features, settings.action)


class KoyuSink:
    """Writes a koyu dataset.

    Attributes:
        root: The dataset's folder.
        keeps_broken: An episode that lacks a stream is no bundle.

    Args:
        root: The dataset's folder.
        settings: What the bundles say of themselves.
        preset: The encoder's preset.
        metadata_every: Bundles between two writes of the manifest.

    Raises:
        SettingsError: If the dataset that is there is of another kind, or has bundles of the same seed.
        FormatError: If the dataset that is there is broken.
    """

    keeps_broken = False

    def __init__(
        self,
        root: Path,
        settings: KoyuSettings,
        preset: str = "ultrafast",
        metadata_every: int = 25,
    ) -> None:
        arrow.warm_up()
        self.root = root.absolute()
        self._settings = settings
        self._encoding = encoding_of(preset)
        self._every = metadata_every
        self._next_ns = settings.time_origin_ns
        self._gaps: Counter[str] = Counter()
        # Known once `open` is called.
        self._is_open = False
        self._schema: Schema
        self._sidecars: Sidecars
        self._layout: BundleLayout
        self._writer: DatasetWriter
        # Here, and not only in `open`: that may come after the first step, when a session beside it has its folder.
        refuse_dataset(self.root, settings)

    def open(self, schema: Schema, tasks: Sequence[str]) -> None:
        """Learn what rows and frames are, and make the dataset or open the one that is there.

        Raises:
            SettingsError: If the recording cannot be bundles, or not of this dataset; nothing is touched.
            FormatError: If the dataset that is there is broken.
            StorageError: If the file system refuses.
        """
        self._schema = schema
        self._layout = layout_of(schema, self._settings)
        texts = [f.name for f in schema.columns if f.is_text]
        if texts:
            why = "koyu bundles hold numbers only, and are made without the columns of texts"
            tell(f"{why}: {', '.join(texts)}", UserWarning)
        self._sidecars = Sidecars(self._layout, self._settings, self._encoding)
        self._writer = DatasetWriter(self.root, _description(self._layout, self._settings), self._every)
        self._is_open = True

    def stream_path(self, key: str, take: int, suffix: str) -> Path:
        """Return where a take's video is written if no other format takes it.

        Raises:
            StorageError: If the dataset is not where it was.
        """
        self._writer.home.check()
        return self._writer.workshop / f"{part(key)}-take-{take:06d}{suffix}.tmp"

    def prepare(self, record: EpisodeRecord) -> PreparedEpisode:
        """Write an episode's bundles under temporary names.

        Raises:
            CaptureError: If a value does not fit float32, or the action or the state has none; names episode, row and
                column.
            StorageError: If the disk refuses.
        """
        began = self._begin(record)
        prepared: list[PreparedBundle] = []
        try:
            for robot in range(len(self._layout.robots)):
                prepared.append(self._writer.prepare(self._bundle(record, robot, began)))
        except BaseException:  # several robots have a bundle each: none without the others
            for one in prepared:
                one.discard()
            raise
        own = [video.file.path for video in record.videos.values() if video.file.path.parent == self._writer.workshop]
        return PreparedEpisode(self._writer, prepared, own, lambda: self._gaps.update(self._lacking(record)))

    def _begin(self, record: EpisodeRecord) -> int:
        """Return when an episode began, nanoseconds since 1970 in whole microseconds."""
        if self._next_ns is None:
            return record.began_ns // clock.MICROSECOND_NS * clock.MICROSECOND_NS
        began = self._next_ns
        self._next_ns = clock.end_ns(began, record.data_ticks, self._schema.hz)
        return began

    def _bundle(self, record: EpisodeRecord, robot: int, began: int) -> Bundle:
        name = capture_id(self._settings.id_seed, record.take, robot)
        return Bundle(
            capture_id=name,
            timestamps=_Times(record.data_ticks, self._schema.hz, began),
            vectors=self._vectors(record, robot),
            sidecar=self._sidecars.of(record, robot, began, name),
            videos={s.key: record.videos[s.key].file.path for s in self._layout.cameras},
        )

    def _vectors(self, record: EpisodeRecord, robot: int) -> dict[str, Any]:
        robots = self._layout.robots
        place = f"take {record.take}"
        if len(robots) > 1:
            place += f", robot {robots[robot]!r}"
        vectors = {}
        for vector in self._layout.vectors:
            name = vector.field.name
            missing = record.missing.get(name)
            mine = None if missing is None else missing[robot :: len(robots)]
            if mine is not None and mine.any() and vector.key in (keys.STATE, keys.ACTION):
                row = int(mine.argmax())
                remedy = "every row of a koyu bundle has an action and a state; let its source always give one"
                raise CaptureError(f"{place}, row {row}, column {name!r}: has no value: {remedy}")
            vectors[vector.key] = _Cast(record.columns[name], mine, place, name, slice(robot, None, len(robots)))
        return vectors

    def _lacking(self, record: EpisodeRecord) -> dict[str, int]:
        """Count the rows of an episode in which a bundle has NaN in the place of a value that is missing."""
        missing = {v.field.name: record.missing.get(v.field.name) for v in self._layout.vectors}
        return {name: int(rows.sum()) for name, rows in missing.items() if rows is not None and rows.any()}

    def take_gaps(self) -> str:
        """Return, in words, which columns had no value in some rows, empty for none; `close` tells of these no more."""
        gaps, self._gaps = self._gaps, Counter()
        if not gaps:
            return ""
        columns = ", ".join(f"{name} ({rows} {'row' if rows == 1 else 'rows'})" for name, rows in gaps.items())
        return f"koyu bundles hold NaN where a column has no value in a row: {columns}"

    def close(self) -> None:
        """Write the manifest and remove what is temporary. Never opened, it has touched nothing."""
        if self._is_open:
            self._writer.close()
        if gaps := self.take_gaps():
            # In the worker's thread, where a warning would have no line of the user's to point at.
            logger.warning("%s: %s", self.root, gaps)


class _Times:
    """The times of a bundle's rows, nanoseconds since 1970."""

    def __init__(self, ticks: int, hz: Fraction, began_ns: int) -> None:
        self._ticks = ticks
        self._hz = hz
        self._began = began_ns

    def __len__(self) -> int:
        return self._ticks

    def __getitem__(self, part: slice) -> NDArray[np.int64]:
        return clock.ticks_ns(part.stop - part.start, self._hz, part.start) + self._began


class _Cast:
    """A column of one robot as float32, cast as it is asked for; errors are those of `as_float32`."""

    def __init__(
        self, values: NDArray[Any], missing: NDArray[np.bool_] | None, place: str, name: str, mine: slice
    ) -> None:
        self._values = values[mine]
        self._missing = missing
        self._place = place
        self._name = name

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, part: slice) -> NDArray[np.float32]:
        cast = np.empty(self._values[part].shape, np.float32)
        # The rows of all robots are looked at where those of one are wanted.
        for some in parts(len(cast), self._values.strides[0], _CAST_BYTES):
            at = slice(part.start + some.start, part.start + some.stop)
            missing = None if self._missing is None else self._missing[at]
            cast[some] = as_float32(self._values[at], missing, self._place, self._name, at.start)
            let_go(self._values)
        return cast


class PreparedEpisode:
    """An episode's bundles, written under temporary names."""

    def __init__(
        self,
        writer: DatasetWriter,
        bundles: Sequence[PreparedBundle],
        videos: Sequence[Path],
        count: Callable[[], None],
    ) -> None:
        self._writer = writer
        self._bundles = bundles
        self._videos = videos
        self._count = count

    def files(self) -> list[Path]:
        """Return the files as they lie on the disk before they have their names."""
        return [path for bundle in self._bundles for path in bundle.folder.iterdir()]

    def claims(self) -> list[Path]:
        """Return the files that are to be written once more: none."""
        return []

    def commit(self) -> None:
        """Give every bundle its name: all of them or none."""
        late: MetadataError | None = None
        try:
            self._writer.commit(self._bundles)
        except MetadataError as error:  # they are there, only the manifest is behind
            late = error
        self._count()
        self._drop_videos()
        if late is not None:
            raise late

    def discard(self) -> None:
        """Remove every temporary file."""
        for bundle in self._bundles:
            bundle.discard()
        self._drop_videos()

    def _drop_videos(self) -> None:
        """Remove the first name of videos that are this sink's own; bundles have names of their own for them."""
        for video in self._videos:
            with contextlib.suppress(OSError):
                video.unlink()
