"""Converting: a session's episodes become koyu bundles, and a dataset's bundles become a session.

Videos are linked, not encoded again; where there are no links they are copied.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lucky_recorder.edit.values import values_of, whole_numbers
from lucky_recorder.episode import clock, keys, limits
from lucky_recorder.episode.record import EpisodeRecord, FinishedVideo, Outcome, VideoFile
from lucky_recorder.episode.schema import Field, Schema, Stream, entity_id
from lucky_recorder.episode.statistics import PixelHistogram
from lucky_recorder.errors import FormatError, SettingsError, VideoError, shown
from lucky_recorder.koyu.bundle import link_video
from lucky_recorder.koyu.index import Feature
from lucky_recorder.koyu.kinds import OPTIONAL
from lucky_recorder.koyu.layout import GOOD_REWARD
from lucky_recorder.koyu.metadata import about_of
from lucky_recorder.koyu.reader import Dataset
from lucky_recorder.koyu.sink import KoyuSink
from lucky_recorder.notices import tell
from lucky_recorder.session import layout as places
from lucky_recorder.session.checks.declared import shape_of
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.features import RECORDED_AT
from lucky_recorder.session.reader import Session
from lucky_recorder.session.rebuilt import count_frames
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.settings import validators
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.storage.untrusted import Folder, format_errors
from lucky_recorder.storage.write import json_bytes, make_folder, storage_errors
from lucky_recorder.video.probe import VideoInfo, probe

_FILES_PER_CHUNK = 40
# A bundle says nothing of recorder modes: its columns are like any others.
_CUSTOM = keys.MODES["custom"]


class Converted(NamedTuple):
    """What a conversion has made.

    Attributes:
        path: The dataset's folder, or the session's.
        episodes: Episodes converted.
        rows: Their rows; of a dataset, those of all robots.
        skipped: Episodes left out, because a stream of theirs has no file.
        left_out: Feature keys left out, because only some of the bundles have them.
    """

    path: Path
    episodes: int
    rows: int
    skipped: int = 0
    left_out: tuple[str, ...] = ()


# A session's episodes as bundles.


def session_to_koyu(session: str | Path, settings: KoyuSettings) -> Converted:
    """Write a session's episodes as the bundles of a dataset, new or existing.

    The bundles' ids follow from the session, so that it cannot be converted twice into one dataset. Where it does not
    say when an episode began, ``recorded_at`` is when its data file was written; ``reward`` is 1.0 or 0.0. Depth,
    masks, lidar and columns of texts stay in the session. A row in which a column has no value holds NaN in its bundle.
    A warning names the columns of both, and counts such rows.

    Args:
        session: The session's folder.
        settings: What the bundles say of themselves; ``path`` is the dataset's folder, by default ``name`` in the
            current folder.

    Raises:
        FormatError: If the folder is no session, or is broken.
        SettingsError: If its rows and frames cannot be bundles, or not of that dataset.
        CaptureError: If a value does not fit float32, or the action or the state has none; names episode, row and
            column.
        StorageError: If the file system refuses.
    """
    source = Session(session)
    _refuse_inside("koyu.path", settings.folder(Path()), source.path)
    if source.to_draw is not None:
        tell(f"{source.path}: its pictures are still to be drawn, and bundles of it have none: `lucky-recorder render`")
    schema = _schema_of(source)
    if settings.id_seed is None:
        settings = attrs.evolve(settings, id_seed=_fingerprint(source))
    sink = KoyuSink(settings.folder(Path()), settings)
    rows = skipped = episodes = 0
    try:
        sink.open(schema, source.tasks)
        for episode in source:
            record = _record_of(source, episode, schema)
            if record is None:
                skipped += 1
                continue
            sink.prepare(record).commit()
            episodes, rows = episodes + 1, rows + record.rows
        if gaps := sink.take_gaps():
            tell(gaps, UserWarning)
    finally:
        sink.close()
    return Converted(sink.root, episodes, rows, skipped)


def _refuse_inside(field: str, target: Path, source: Path) -> None:
    """Refuse to write into the folder that is read: what is converted stays as it is."""
    if source.resolve() in (target.resolve(), *target.resolve().parents):
        raise SettingsError.of(field, str(target), "lies inside what is converted; give a folder beside it")


def _fingerprint(session: Session) -> int:
    """Return a number that is the same for the same session, and another for any other."""
    # Seven bytes fit a seed's 63 bits. The statistics tell apart sessions whose ``info.json`` is the same.
    digest = hashlib.blake2b(digest_size=7)
    said = {places.INFO_PATH: session.info, places.STATS_PATH: session.stats} if not session.is_current else {}
    for name in (places.INFO_PATH, places.STATS_PATH):
        with format_errors(session.path / name):
            # What is not written yet counts as it will be written: a recovered session is the same session.
            digest.update(json_bytes(said[name]) if said else Folder(session.path).bytes(name, limits.LARGEST_JSON))
    return int.from_bytes(digest.digest(), "little")


def _schema_of(session: Session) -> Schema:
    """Describe a session's rows and colour streams as its recording did."""
    if not len(session):
        raise FormatError(f"{session.path}: has no episode to convert")
    rows = next(iter(session)).rows()
    entity = next((n for n in keys.ENTITY_COLUMNS if n in rows.column_names), _CUSTOM.entity_column)
    bare = Schema(entity, keys.MODES["custom"].label, session.robots, session.hz, (), _streams_of(session))
    leading = {f.name for f in bare.leading}
    columns = tuple(
        _field_of(name, session.features.get(name, {}), rows.schema.field(name).type)
        for name in rows.column_names
        if name not in leading
    )
    return dataclasses.replace(bare, columns=columns)


def _field_of(name: str, feature: Mapping[str, Any], kind: pa.DataType) -> Field:
    shape, names = shape_of(feature.get("shape")), feature.get("names")
    if shape is None:
        said = f"features[{name!r}]: shape={shown(feature.get('shape'))}"
        raise FormatError(f"{places.INFO_PATH}: {said}: expected a list of lengths")
    # What is stored counts, and not what is said of it: a text must not be taken for a number.
    dtype = keys.TEXT if pa.types.is_string(kind) else feature.get("dtype")
    if dtype not in keys.DTYPES:
        said = f"features[{name!r}]: dtype={shown(dtype)}"
        raise FormatError(f"{places.INFO_PATH}: {said}: expected {', '.join(keys.DTYPES)}")
    is_scalar = not pa.types.is_list(kind) and math.prod(shape) == 1
    named = tuple(str(n) for n in names) if isinstance(names, list) else None
    return Field(name, dtype, () if is_scalar else shape, names=named)


def _streams_of(session: Session) -> tuple[Stream, ...]:
    # Depth is in Matroska, as ffv1; every other stream that meta/ speaks of is of colours.
    cameras = [c for c in session.cameras.values() if c.codec != keys.DEPTH_CODEC]
    return tuple(
        Stream(c.key, c.name, "color", c.width, c.height, c.rate, encoder=c.codec, codec=c.codec) for c in cameras
    )


def _record_of(session: Session, episode: Episode, schema: Schema) -> EpisodeRecord | None:
    """Return an episode as its recording handed it on; None if one of its videos is not there."""
    videos = {}
    for stream in schema.streams:
        if not episode.has_video(stream.key):
            return None
        videos[stream.key] = _linked(episode.video_path(stream.key), stream, episode.data_ticks)
    table = episode.rows_by_tick()
    place = f"{session.path}: episode {episode.index}"
    fields = [f for f in schema.columns if not f.is_text] + [Field(keys.TASK_INDEX, "int64")]
    read = {f.name: values_of(table, f, place) for f in fields}
    columns = {name: values for name, (values, _) in read.items()}
    missing = {name: gaps for name, (_, gaps) in read.items() if gaps.any()}
    if keys.TASK_INDEX in missing:
        raise FormatError(f"{place}: task_index: a row has none")
    columns[keys.TASK_INDEX] = whole_numbers(columns[keys.TASK_INDEX], f"{place}: task_index")
    indices = {int(i) for i in columns[keys.TASK_INDEX]}
    if not indices <= set(range(len(session.tasks))):
        raise FormatError(f"{place}: task_index {sorted(indices)}: there are {len(session.tasks)} tasks")
    return EpisodeRecord(
        take=episode.index,
        data_ticks=episode.data_ticks,
        rows=episode.length,
        columns=columns,
        outcome=Outcome(episode.success),
        tasks={index: session.tasks[index] for index in sorted(indices)},
        videos=videos,
        missing=missing,
        began_ns=_began_ns(session, episode),
        about=episode.about,
    )


def _linked(path: Path, stream: Stream, frames: int) -> FinishedVideo:
    info = _probed(path)
    if info.frames != frames:
        raise FormatError(f"{path}: {info.frames} frames for {frames} ticks")
    # Nothing is counted in the histogram: bundles have no statistics.
    return FinishedVideo(VideoFile(path, info.frames, info.bytes), PixelHistogram(stream.channels))


def _probed(path: Path) -> VideoInfo:
    try:
        return probe(path)
    except VideoError as error:
        raise FormatError(str(error)) from error


def _began_ns(session: Session, episode: Episode) -> int:
    """Return when an episode began; where nothing says so, when its data file was written, less how long it lasted."""
    said = clock.moment_ns(episode.meta.get(RECORDED_AT))
    if said is not None:
        return clock.recordable_ns(said)
    path = episode.data_path()
    with storage_errors(path):
        written = path.stat().st_mtime_ns
    return clock.recordable_ns(written - clock.tick_ns(episode.data_ticks, session.hz))


# A dataset's bundles as a session.


def koyu_to_session(dataset: str | Path, session: str | Path) -> Converted:
    """Write a dataset's bundles as the episodes of a new session, in mode ``custom``.

    float32 becomes float64, which holds it exactly. An episode has succeeded if its reward is 0.5 or more; one that
    nobody has judged has not. ``frame_flags`` say that the policy ran at every step, and a reset came first.

    Args:
        dataset: The dataset's folder.
        session: The session's folder; it must not be there yet.

    Raises:
        FormatError: If the dataset is broken, or its frames are not as evenly timed as a session needs.
        SettingsError: If ``session`` is there already, or a camera has a name that a session cannot have.
        StorageError: If the file system refuses.
    """
    with Dataset(dataset) as source:
        _refuse_inside("session", Path(session), source.path)
        sidecars = [source.sidecar(number) for number in range(len(source.episodes))]
        schema = _session_schema(source, sidecars)
        tasks = _descriptions(source, sidecars)
        # Claimed only now: a dataset that its manifest or its sidecars rule out leaves no folder.
        root = _claim(Path(session))
        sink = SessionSink(root, places.Chunking(_FILES_PER_CHUNK))
        try:
            sink.open(schema, tasks)
            for number, sidecar in enumerate(sidecars):
                sink.prepare(_episode_of(source, number, sidecar, schema, tasks, sink)).commit()
        finally:
            sink.close()
        return Converted(root, len(sidecars), len(source), left_out=tuple(source.manifest.get(OPTIONAL, ())))


def _session_schema(dataset: Dataset, sidecars: list[dict[str, Any]]) -> Schema:
    hz = _rate_of(dataset)
    robots = {str(s.get("robot") or "robot") for s in sidecars}
    names = sidecars[0].get("names") if sidecars else None
    columns = tuple(_session_field(f, names) for f in dataset.features.values() if not f.is_camera)
    streams = []
    for key in dataset.cameras:
        height, width = dataset.features[key].shape[:2]
        camera = validators.output_name(key.removeprefix(keys.IMAGES), field="camera")
        streams.append(Stream(key, camera, "color", width, height, hz))
    robot = robots.pop() if len(robots) == 1 else "robot"
    return Schema(*_CUSTOM, (robot,), hz, columns, tuple(streams))


def _rate_of(dataset: Dataset) -> Fraction:
    try:
        return clock.rate(dataset.manifest.get("fps"), "fps")
    except SettingsError as error:
        raise FormatError(f"{dataset.path / 'manifest.json'}: {error}") from error


def _session_field(feature: Feature, names: object) -> Field:
    """Return a vector as a session has it: a single value is no list, unless it is the action or the state."""
    key, shape = feature
    named = _names_of(names, key, shape)
    if key not in (keys.STATE, keys.ACTION):
        return Field(key, "float64", () if shape == (1,) else shape, names=named, has_stats=True)
    named = named or tuple(f"{key}_{i}" for i in range(math.prod(shape)))
    return Field(key, "float64", shape, names=named, lucky_names=named if key == keys.STATE else None, has_stats=True)


def _names_of(names: object, key: str, shape: tuple[int, ...]) -> tuple[str, ...] | None:
    """Return what a sidecar calls a vector's values, if it says so."""
    said = names.get(key) if isinstance(names, dict) else None
    if not isinstance(said, list) or len(said) != math.prod(shape) or not all(isinstance(n, str) for n in said):
        return None
    return tuple(said)


def _descriptions(dataset: Dataset, sidecars: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return every task description once, in the order they occur."""
    found: dict[str, None] = {}
    for entry, sidecar in zip(dataset.episodes, sidecars, strict=True):
        found |= dict.fromkeys([entry.task_description, *(text for _, text in _changes(sidecar))])
    return [text for text in found if text.strip()] or [keys.DEFAULT_TASK]


def _changes(sidecar: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return the steps at which the task becomes another, and the descriptions from there on."""
    events = sidecar.get("events")
    told = [e for e in events if isinstance(e, dict) and e.get("type") == "task"] if isinstance(events, list) else []
    return [
        (e["step"], e["task_description"])
        for e in told
        if type(e.get("step")) is int and isinstance(e.get("task_description"), str)
    ]


def _claim(folder: Path) -> Path:
    if os.path.lexists(folder):
        raise SettingsError.of("session", str(folder), "is there already; name a new folder")
    make_folder(folder)
    return folder


def _episode_of(
    dataset: Dataset, number: int, sidecar: Mapping[str, Any], schema: Schema, tasks: list[str], sink: SessionSink
) -> EpisodeRecord:
    entry, columns = dataset.episodes[number], dataset.columns(number)
    rows, reward = entry.length, sidecar.get("reward")
    flags = np.full(rows, keys.NEW_POLICY_STEP, np.uint8)
    flags[:1] |= keys.POST_RESET
    task_index = np.full(rows, _index_of(tasks, entry.task_description), np.int64)
    for step, description in _changes(sidecar):
        task_index[max(step, 0) :] = _index_of(tasks, description)
    values: dict[str, NDArray[Any]] = {
        schema.entity_column: np.full(rows, entity_id(schema.robots[0]), np.int64),
        keys.TIMESTAMP: clock.ticks_s(rows, schema.hz),
        keys.FRAME_INDEX: np.arange(rows, dtype=np.int64),
        keys.TASK_INDEX: task_index,
        keys.FRAME_FLAGS: flags,
        **{f.name: columns[f.name].reshape(rows, *f.shape).astype(np.float64) for f in schema.columns},
    }
    return EpisodeRecord(
        take=number,
        data_ticks=rows,
        rows=rows,
        columns=values,
        outcome=Outcome(isinstance(reward, int | float) and reward >= GOOD_REWARD),
        tasks={int(i): tasks[i] for i in np.unique(task_index)},
        videos={s.key: _filmed(dataset, number, s, sink) for s in schema.streams},
        began_ns=clock.recordable_ns(clock.moment_ns(sidecar.get("recorded_at"))),
        about=about_of(sidecar),
    )


def _index_of(tasks: list[str], description: str) -> int:
    return tasks.index(description) if description in tasks else 0


def _filmed(dataset: Dataset, number: int, stream: Stream, sink: SessionSink) -> FinishedVideo:
    """Give a bundle's video a second name beside its place in the session, and count some of its pixels."""
    pixels = PixelHistogram()
    with dataset.frames(number, stream.key) as frames:
        info = frames.info
        _refuse_video(frames.path, info, stream)
        count_frames(frames, pixels)
    # The sink renames what it is given. So it gets a link, and the bundle keeps its own name for the file.
    target = sink.stream_path(stream.key, number, stream.suffix)
    make_folder(target.parent)
    link_video(frames.path, target)
    return FinishedVideo(VideoFile(target, info.frames, info.bytes), pixels)


def _refuse_video(path: Path, info: VideoInfo, stream: Stream) -> None:
    """Refuse a video that a session cannot take as it is: its readers find frames by time."""
    if (info.codec, info.pix_fmt) != (stream.codec, stream.pix_fmt) or info.has_b_frames:
        kind = f"{info.codec}, {info.pix_fmt}{', with B-frames' if info.has_b_frames else ''}"
        raise FormatError(f"{path}: {kind}; only h264, yuv420p without B-frames can be linked into a session")
    if info.fps != stream.rate or info.timing_error > 1e-4:
        raise FormatError(
            f"{path}: its frames are timed at {float(info.fps):g} fps and the dataset is at {float(stream.rate):g}; "
            "a session's readers find frames by time"
        )
