"""A session that episodes are taken from: what its rows and streams are, and each episode as it was recorded.

Nothing of it is changed. Videos get a second name, and are never encoded again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lucky_recorder.edit.columns import field_of, gather
from lucky_recorder.edit.pick import refuse_others
from lucky_recorder.edit.window import Window
from lucky_recorder.episode import clock, keys
from lucky_recorder.episode.record import EpisodeRecord, Outcome, Reason
from lucky_recorder.episode.schema import Field, ScanStream, Schema, Stream
from lucky_recorder.errors import FormatError, SettingsError, shown
from lucky_recorder.notices import tell
from lucky_recorder.session import carried as footers
from lucky_recorder.session import later, layout, lidar, likeness, noted, provenance, stored, whole
from lucky_recorder.session.about import refuse_other_types
from lucky_recorder.session.carried import DataFile
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.features import ABOUT_COLUMNS, DURATION, END_REASON, SEED, arrow_type, measured_of
from lucky_recorder.session.folder import SessionFolder
from lucky_recorder.storage.lock import refuse_held
from lucky_recorder.storage.untrusted import format_errors

# What an episode takes along of what data files carry is read from its own file and the one before it.
_KEPT_FOOTERS = 4
# LeRobot's statistics of the rows as they were, ``stats/<feature>/<kind>``: those of the new session are others.
_STATISTICS = "stats/"


class Source:
    """A session, opened to take episodes from it.

    Attributes:
        path: Its folder.
        folder: The same, as its readers see it.

    Args:
        path: The session's folder.

    Raises:
        FormatError: If it is no session, was recorded without rows, or is a copy for LeRobot.
        StorageError: If it is being written; names who holds it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_dir():
            refuse_held(path)
        self.folder = SessionFolder(path)
        refuse_others(path, self.folder.is_video_only, self.folder.info)
        self._footers: dict[str, DataFile] = {}

    @cached_property
    def numbers(self) -> dict[int, int]:
        """The row of `SessionFolder.episodes` that is each episode's, by its index."""
        indices = self.folder.episodes[keys.EPISODE_INDEX].to_pylist()
        numbers = {index: row for row, index in enumerate(indices)}
        if None in numbers or len(numbers) < len(indices):
            raise FormatError(f"{self.path / layout.EPISODES}: an episode_index is missing or stands twice")
        return numbers

    def episode(self, index: int) -> Episode:
        """Return an episode by its index, which is one of `numbers`."""
        return Episode(self.folder, self.folder.episodes.slice(self.numbers[index], 1).to_pylist()[0])

    @property
    def is_ours(self) -> bool:
        """Whether this recorder wrote it."""
        return self.folder.is_ours

    @property
    def episodes_per_file(self) -> int:
        """Episodes in each data file; 1 where it does not say so."""
        said = self.folder.info.get("episodes_per_file")
        return said if type(said) is int and 0 < said <= keys.LARGEST_CHUNK + 1 else 1

    @cached_property
    def _places(self) -> tuple[dict[int, layout.Place], dict[layout.Place, set[int]]]:
        places, held = dict[int, layout.Place](), dict[layout.Place, set[int]]()
        for row in self.folder.episodes.select([keys.EPISODE_INDEX, *layout.Place._fields]).to_pylist():
            place = layout.Place(*(self.folder.count(row, part) for part in layout.Place._fields))
            places[row[keys.EPISODE_INDEX]] = place
            held.setdefault(place, set()).add(row[keys.EPISODE_INDEX])
        return places, held

    def place(self, index: int) -> layout.Place:
        """Return the place of the data file that holds an episode."""
        return self._places[0][index]

    def episodes_at(self, place: layout.Place) -> set[int]:
        """Return the episodes that a data file holds."""
        return self._places[1][place]

    @cached_property
    def _lengths(self) -> dict[int, int]:
        rows = self.folder.episodes.select([keys.EPISODE_INDEX, "length"]).to_pylist()
        return {row[keys.EPISODE_INDEX]: self.folder.count(row, "length") for row in rows}

    def window(self, index: int, first: int = 0, stop: int | None = None) -> Window:
        """Return which ticks of an episode are taken."""
        # Where no episode has a row, there is no robot.
        ticks = self._lengths[index] // max(1, len(self.folder.robots))
        return Window(first, ticks if stop is None else stop, ticks)

    # What its rows and streams are.

    @cached_property
    def side(self) -> likeness.Side:
        """What it says of itself, to be compared."""
        return likeness.side(self.folder, str(self.path))

    @cached_property
    def schema(self) -> Schema:
        """What its rows and frames are, as its recording would have said it.

        Raises:
            FormatError: If a column or stream cannot be written anew exactly.
        """
        folder = self.folder
        episode = self.episode(next(iter(self.numbers)))
        name = folder.read_data(episode.meta, lambda name: folder.files.file(name).relative_to(self.path).as_posix())
        entity = stored.entity_column(folder.files, name)
        where = str(self.path / name)
        bare = Schema(
            entity,
            "",
            folder.robots,
            folder.hz,
            (),
            self._streams(),
            self._scans(),
            True,
            folder.has_states,
            later.read(folder.info, self.path / layout.INFO_PATH),
        )
        rows = next(episode.batches(), None)
        if rows is None:
            raise FormatError(f"{where}: episode {episode.index} has no rows, so it does not show what its columns are")
        for field in bare.leading:
            kind = rows.schema.field(field.name).type if field.name in rows.column_names else None
            if kind != arrow_type(field):
                raise FormatError(f"{where}: column {field.name!r} is {kind}, expected {arrow_type(field)}")
        leading, measured = {f.name for f in bare.leading}, set(measured_of(folder.features))
        columns = tuple(
            field_of(n, rows[n], folder.features.get(n, {}), n in measured, where)
            for n in rows.column_names
            if n not in leading
        )
        return dataclasses.replace(bare, entity_label=str(folder.info.get(bare.entity_type_field)), columns=columns)

    def _streams(self) -> tuple[Stream, ...]:
        streams = []
        for camera in self.folder.cameras.values():
            is_depth = camera.codec == keys.DEPTH_CODEC
            kind, suffix = ("depth", ".mkv") if is_depth else ("color", ".mp4")
            size = (camera.width, camera.height, camera.rate)
            streams.append(Stream(camera.key, camera.name, kind, *size, codec=camera.codec, suffix=suffix))  # type: ignore[arg-type]
        for key, said in self.side.beside.items():
            if not key.startswith(keys.LIDAR_PREFIX):
                streams.append(self._unlisted(key, said))
        return tuple(streams)

    def _unlisted(self, key: str, said: Mapping[str, Any]) -> Stream:
        is_mask = key.startswith(keys.MASKS)
        try:
            rate, width, height = clock.rate(said.get("fps"), "fps"), int(said["width"]), int(said["height"])
        except (SettingsError, KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{self.path}: {key}: {shown(said)}: its data files do not say what it is") from error
        info = {"labels": said["labels"]} if "labels" in said else {}
        camera = key.removeprefix(keys.MASKS if is_mask else keys.IMAGES)
        kind, suffix = ("mask", ".mp4") if is_mask else ("rgbd", ".mkv")
        return Stream(key, camera, kind, width, height, rate, "", "", "", suffix, info)  # type: ignore[arg-type]

    def _scans(self) -> tuple[ScanStream, ...]:
        scans = []
        for key, said in self.side.beside.items():
            if key.startswith(keys.LIDAR_PREFIX):
                name = key.removeprefix(keys.LIDAR_PREFIX)
                description = {part: value for part, value in said.items() if part != "video proxy"}
                try:
                    rate, rays = clock.rate(description.get("rate"), "rate"), int(description["rays"])
                except (SettingsError, KeyError, TypeError, ValueError) as error:
                    what = "its scans are not this recorder's, and cannot be numbered anew"
                    raise FormatError(f"{self.path}: lidar {name!r}: {what}") from error
                columns = len(description.get("azimuth_deg", ())) or 1
                scans.append(ScanStream(name, rate, rays, columns, description, said.get("video proxy") is True))
        return tuple(scans)

    @cached_property
    def noted(self) -> tuple[pa.Field, ...]:
        """The columns of its ``meta/episodes`` beside the format's own; `FormatError` if one is of another type."""
        refuse_other_types(self.folder.episodes, self.path / layout.EPISODES)
        about = {name for name, _ in ABOUT_COLUMNS}
        own = [f for f in self.folder.episodes.schema if f.name in about or noted.is_own(f.name)]
        return tuple(field for field in own if not self._is_statistic(field.name))

    def _is_statistic(self, name: str) -> bool:
        # What has such a name and is of no feature is a note of somebody's own.
        feature = name.removeprefix(_STATISTICS).rpartition("/")[0]
        return name.startswith(_STATISTICS) and feature in self.folder.features

    @cached_property
    def recordings(self) -> tuple[Mapping[str, Any], ...]:
        """What it says of the recordings that it is made of; what cannot be read of it is told, and left out."""
        try:
            said, listed = provenance.read(self.folder.files), self.folder.listed.num_rows
            return tuple(provenance.settled(said, listed, len(self.numbers)))
        except FormatError as error:
            tell(f"{self.path}: where it comes from cannot be read, and is left out: {error}")
            return ()

    @cached_property
    def seeds(self) -> dict[int, str | None]:
        """The seed of each episode, by its index; None for one whose seed is not known."""
        table = self.folder.episodes
        seeds = table[SEED].to_pylist() if SEED in table.column_names else [None] * table.num_rows
        return {number: seeds[row] for number, row in self.numbers.items()}

    @cached_property
    def stats(self) -> Mapping[str, Any]:
        """Its ``stats.json``; nothing where it has none."""
        files = self.folder.files
        return files.json(layout.STATS_PATH) if files.has(layout.STATS_PATH) else {}

    def refuse_inexact(self) -> None:
        """Refuse a session that cannot be written anew exactly.

        Raises:
            FormatError: If a column or a stream cannot; or, of another recorder, if there are files that nothing
                places: they would be left behind unseen.
        """
        noted.refuse_mixed(self.folder.files)
        if self.schema and self.is_ours:
            return
        files = self.folder.files
        there = files.files(keys.DATA) + files.files(keys.VIDEOS)
        known = whole.names(self.folder, self.folder.episodes.to_pylist(), there)
        if strays := [name for name in there if name not in known]:
            raise FormatError(
                f"{self.path}: {strays[0]}: nothing says which episode it is of, so it cannot be taken along"
            )

    # Its episodes.

    def footer(self, name: str) -> DataFile:
        """Return what a data file carries."""
        found = self._footers.get(name)
        if found is None:
            found = footers.read(self.folder.files, name)
            if len(self._footers) >= _KEPT_FOOTERS:
                del self._footers[next(iter(self._footers))]
            self._footers[name] = found
        return found

    def known_tasks(self, index: int) -> list[str]:
        """Return the task descriptions that were known when an episode was written, in index order."""
        carried = self.folder.read_data(self.episode(index).meta, self.footer).carried if self.is_ours else None
        return list(carried.tasks) if carried is not None else list(self.folder.tasks)

    def takes(self, index: int) -> int:
        """Return how many takes came to an episode, itself included: those before it that were discarded count too."""
        if not self.is_ours:
            return 1
        file = self.folder.read_data(self.episode(index).meta, self.footer)
        numbers = [row[keys.EPISODE_INDEX] for row in file.episodes]
        until = None if file.carried is None else file.carried.takes
        # A file says it of its last episode.
        if until is None or not numbers or index != max(numbers):
            return 1
        before, sooner = min(numbers) - 1, 0
        if before in self.numbers:
            previous = self.folder.read_data(self.episode(before).meta, self.footer).carried
            sooner = before + 1 if previous is None or previous.takes is None else previous.takes
        return max(1, until - sooner - (len(numbers) - 1))

    def read(self, episode: Episode, window: Window, schema: Schema, folder: Path) -> EpisodeRecord:
        """Return an episode without its videos and scans, with the indices that its tasks have here.

        Args:
            episode: The episode.
            window: Which of its ticks.
            schema: What its columns are to be.
            folder: Where a long one's values may wait.

        Raises:
            FormatError: If its rows cannot be read, or are others.
        """
        where = f"{self.path}: episode {episode.index}"
        robots = len(self.folder.robots)
        fields = [f for f in schema.fields if f.name not in (keys.INDEX, keys.EPISODE_INDEX)]
        rows = slice(window.first * robots, window.stop * robots)
        with format_errors(self.path):
            columns, missing = gather(episode.batches(), fields, rows, folder, where)
        if gaps := [f.name for f in schema.leading if f.name in missing]:
            raise FormatError(f"{where}: column {gaps[0]!r}: a row has no value")
        if not window.is_whole:
            columns |= self._times(columns, window, where)
        return EpisodeRecord(
            take=episode.index,
            data_ticks=window.stop - window.first,
            rows=rows.stop - rows.start,
            columns=columns,
            outcome=Outcome(episode.success),
            tasks=self._tasks_of(columns[keys.TASK_INDEX], where),
            missing=missing,
            noted=self._noted_of(episode.index, window),
        )

    def _times(self, columns: Mapping[str, NDArray[Any]], window: Window, where: str) -> dict[str, NDArray[Any]]:
        """Return the numbers and times of ticks that begin at 0 again."""
        robots, ticks = len(self.folder.robots), window.stop - window.first
        if not np.array_equal(columns[keys.FRAME_INDEX], np.repeat(np.arange(window.first, window.stop), robots)):
            raise FormatError(f"{where}: its rows do not stand tick by tick, so it cannot be trimmed")
        numbered = {keys.FRAME_INDEX: np.repeat(np.arange(ticks, dtype=np.int64), robots)}
        if not self.is_ours:
            times = columns[keys.TIMESTAMP]
            return numbered | {keys.TIMESTAMP: times - times[:1]}
        return numbered | {keys.TIMESTAMP: np.repeat(clock.ticks_s(ticks, self.folder.hz), robots)}

    def _tasks_of(self, indices: NDArray[np.int64], where: str) -> dict[int, str]:
        described = self.folder.tasks
        found, first = np.unique(indices, return_index=True)
        # In the order of their rows: so they are found anew in the order in which they were found.
        occurring = [int(i) for i in found[np.argsort(first)]]
        if occurring and not (min(occurring) >= 0 and max(occurring) < len(described)):
            raise FormatError(f"{where}: task_index {occurring}: there are {len(described)} tasks")
        return {index: described[index] for index in occurring}

    def _noted_of(self, index: int, window: Window) -> dict[str, Any]:
        row = self.numbers[index]
        scalars = {f.name: self.folder.episodes[f.name][row] for f in self.noted}
        said = {name: plain(scalar) for name, scalar in scalars.items() if scalar.is_valid}
        if self.is_ours and not window.is_whole:
            # How long all of it lasted says nothing of a part; nor does what ended it, where that part is gone.
            said.pop(DURATION, None)
            if END_REASON in said and window.stop < window.ticks:
                said[END_REASON] = Reason.TRIMMED.value
        return said

    def scanned(self, scan: ScanStream, name: str, window: Window, folder: Path) -> dict[str, NDArray[Any]] | None:
        """Return the columns of a lidar's file, of the ticks that are taken; None if no scan is at the first of them.

        Raises:
            FormatError: If it cannot be read, or is of other columns.
        """
        files, where = self.folder.files, f"{self.path / name}"
        rows = window.frames(scan.rate, self.folder.hz, sum(files.row_groups(name)))
        if rows is None:
            return None
        with format_errors(self.path / name):
            columns, missing = gather(
                files.tables(name), lidar_fields(scan.rays), slice(rows.start, rows.stop), folder, where
            )
        if missing:
            raise FormatError(f"{where}: column {next(iter(missing))!r}: a scan has no value")
        return columns


def lidar_fields(rays: int) -> Sequence[Field]:
    """Return the columns of a lidar's file, but for the episode's number."""
    lengths = {"sensor_position": (3,), "sensor_orientation": (4,), "range": (rays,), "geom_id": (rays,)}
    names = {"range": "float32", "geom_id": "int32", "scan_index": "int64", keys.FRAME_INDEX: "int64"}
    own = [n for n in lidar.SCHEMA.names if n != keys.EPISODE_INDEX]
    return [Field(n, names.get(n, "float64"), lengths.get(n, ())) for n in own]


def plain(scalar: pa.Scalar) -> Any:
    """Return a value as JSON has it, or as it is where JSON has none of its type, or no such number."""
    kind, value = scalar.type, scalar.as_py()
    of = kind.value_type if pa.types.is_list(kind) else kind
    values = value if pa.types.is_list(kind) else [value]
    if pa.types.is_string(of) or pa.types.is_boolean(of) or pa.types.is_integer(of):
        return value
    is_real = pa.types.is_float32(of) or pa.types.is_float64(of)
    return value if is_real and all(v is None or math.isfinite(v) for v in values) else scalar
