"""Whether LeRobot opens a session as it is: twelve rules, each checked against the files themselves.

LeRobot itself is not needed. A session of one robot whose cameras run at the data rate keeps all twelve.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lucky_recorder.episode import keys
from lucky_recorder.errors import shown
from lucky_recorder.lerobot.probed import ProbedSession, ProbedVideo, is_taken
from lucky_recorder.session.checks.declared import DeclaredColumn, DeclaredStream, rate
from lucky_recorder.session.checks.evidence import INFO, STATS, TASKS, Listed
from lucky_recorder.session.checks.stats import stream_faults
from lucky_recorder.session.checks.tasks import check_tasks
from lucky_recorder.session.checks.vectors import type_fault, values
from lucky_recorder.session.folder import refuse_other_folders
from lucky_recorder.video.probe import VideoInfo

TOLERANCE_S = 1e-4
"""How far a frame may be from its row's time: what LeRobot allows unless it is told otherwise."""

_VERSION = re.compile(r"v?(\d+)(\.\d+)*((a|b|rc|\.post|\.dev)\d+)*")
# Repeated on purpose: this is what LeRobot asks for, whatever our writer does.
_PICTURE_NAMES = ["height", "width", "channels"]
_NUMBERED = re.compile(r"/chunk-(\d+)/file-(\d+)\.parquet")
_PLACES = ("data/chunk_index", "data/file_index", keys.META_CHUNK, keys.META_FILE)
_FILTER = "open it with episodes=[...] that leaves these episodes out"
_COPY = "in a copy of the folder"


class Broken(NamedTuple):
    """A rule that a session does not keep.

    Attributes:
        rule: Its number, 1 to 12.
        file: The file, relative to the session's folder.
        message: What LeRobot stumbles over.
        remedy: What to do about it.
    """

    rule: int
    file: str
    message: str
    remedy: str


def check_lerobot(path: str | Path) -> list[Broken]:
    """Tell whether LeRobot opens a session unmodified; the folder is only read.

    Returns:
        The rules it breaks, each with what to do; an empty list if it opens, and hands out the right frames.

    Raises:
        FormatError: If the folder is no session at all.
    """
    path = Path(path)
    refuse_other_folders(path)
    if not (path / INFO).exists():
        why = "is missing: nothing is listed, so there is nothing to open"
        return [Broken(12, INFO, why, "record with record_data=True, and let the recorder close the session")]
    session = ProbedSession(path)
    if session.evidence.info is None:
        return list(_unreadable(session))
    broken = [found for rule in RULES for found in rule(session)]
    return sorted(dict.fromkeys((*broken, *_unreadable(session))), key=lambda b: b.rule)


def check_version(session: ProbedSession) -> Iterator[Broken]:
    """Rule 1: ``codebase_version`` is a version whose major number is at least 3."""
    version = session.info.get("codebase_version")
    numbered = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if not numbered or int(numbered[1]) < 3:
        yield Broken(1, INFO, f"codebase_version is {shown(version)}", f"write 'v3.0' {_COPY}")


def check_rates(session: ProbedSession) -> Iterator[Broken]:
    """Rule 2: ``fps`` is the data rate, an int when whole, and every video runs at the rate its feature declares."""
    fps, hz = session.info.get("fps"), session.info.get("hz")
    if session.fps is None or type(fps) is not (int if session.fps.denominator == 1 else float):
        yield Broken(2, INFO, f"fps is {shown(fps)}", f"write the data rate {_COPY}, an int when whole")
    elif rate(hz) not in (None, session.fps):
        yield Broken(2, INFO, f"fps is {fps}, rows are {shown(hz)} Hz", f"write fps = {hz} {_COPY}")
    for one in session.videos:
        if one.header and one.header.fps != one.stream.rate:
            message = f"runs at {one.header.fps} frames per second, its feature says {one.stream.rate}"
            yield Broken(2, one.file, message, "remux the video at the declared rate")


def check_ticks(session: ProbedSession) -> Iterator[Broken]:
    """Rule 3: a row is a tick, and each finds its frame by time, within `TOLERANCE_S`."""
    robots = session.declared.robots or 1
    if robots > 1:
        message = f"{robots} robots stand in turn, and LeRobot takes every row for a tick: its windows mix robots"
        yield Broken(3, INFO, message, "split it into a session per robot before you train on windows of time")
    for stream in session.streams:
        yield from _off_rate(session, stream)
    lost = [one for one in session.videos if one.header is None]
    for file, fault in dict.fromkeys((one.file, one.fault) for one in lost):
        yield Broken(3, file, fault, _FILTER)
    for file, message in _lost_frames(session):
        yield Broken(3, file, message, "record it again: rows and frames do not belong together")


def _off_rate(session: ProbedSession, stream: DeclaredStream) -> Iterator[Broken]:
    if session.fps and (stream.rate / session.fps).denominator != 1:
        message = f"{stream.key} runs at {stream.rate} Hz and rows at {session.fps} Hz: rows have no frame of their own"
        remedy = f"leave the camera's frame_rate at the data rate, or leave its feature out of info.json {_COPY}"
        yield Broken(3, INFO, message, remedy)


def _lost_frames(session: ProbedSession) -> Iterator[tuple[str, str]]:
    """Look up a frame for every row, as LeRobot does, which rounds all times to float32."""
    looked = {(one.episode.number, one.stream.key): one for one in session.videos if one.header}
    for file, episodes, tables in session.evidence.tables():
        parts = [_times(table) for table in tables]
        if not parts or file in session.evidence.unreadable or any(part is None for part in parts):
            continue
        all_times = np.concatenate(parts)
        for episode in episodes:
            first = episode.first - episodes[0].first
            times = all_times[first : first + episode.length]
            yield from _off_time(file, episode, times, session)
            for stream in session.streams:
                one = looked.get((episode.number, stream.key))
                if one and one.header and session.fps and (stream.rate / session.fps).denominator == 1:
                    yield from _missed(one, one.header, times)


def _times(table: pa.Table) -> Any:
    """Return the times of rows, float32; None where no one column holds them."""
    if table.column_names.count(keys.TIMESTAMP) != 1 or table.schema.field(keys.TIMESTAMP).type != pa.float64():
        return None
    return table[keys.TIMESTAMP].to_numpy().astype(np.float32)


def _off_time(file: str, episode: Listed, times: Any, session: ProbedSession) -> Iterator[tuple[str, str]]:
    robots = session.declared.robots or 1
    if session.fps is None:
        return
    due = (np.arange(len(times)) // robots / float(session.fps)).astype(np.float32)
    late = np.flatnonzero(~(np.abs(times - due) < TOLERANCE_S))
    if len(late):
        row = int(late[0])
        yield file, f"episode {episode.number}: row {row} is at {times[row]:.6f} s, its tick is at {due[row]:.6f} s"


def _missed(one: ProbedVideo, video: VideoInfo, times: Any) -> Iterator[tuple[str, str]]:
    frames = np.rint(times.astype(np.float64) * float(video.fps))
    distance = np.abs((frames / float(video.fps)).astype(np.float32) - times)
    missed = np.flatnonzero(~((frames < video.frames) & (distance < TOLERANCE_S)))
    if len(missed):
        row = int(missed[0])
        yield one.file, f"row {row} at {times[row]:.6f} s has no frame among {video.frames} at {video.fps} Hz"


def check_codecs(session: ProbedSession) -> Iterator[Broken]:
    """Rule 4: videos begin at 0, keep time by frame number, and hold their frames in the order they are shown."""
    for stream in session.declared.streams.values():
        if not is_taken(stream):
            message = f"{stream.key} is {stream.codec}, which LeRobot does not look for under the name of an .mp4"
            yield Broken(4, INFO, message, f"leave its feature out of info.json {_COPY}")
    for one in session.videos:
        yield from (Broken(4, one.file, message, "encode the video again") for message in _codec_faults(one))


def _codec_faults(one: ProbedVideo) -> Iterator[str]:
    begins = one.episode.values.get(keys.video_column(one.stream.key, "from_timestamp"))
    if begins not in (0.0, None):
        yield f"episode {one.episode.number} begins at {begins} s of it, expected 0.0"
    video = one.header
    if video is None:
        return
    if video.has_b_frames:
        yield "has B-frames: some decoders return the wrong frame after a seek backwards"
    if video.keyframes[0] != 0:
        yield "does not begin with a keyframe"
    if video.timing_error >= TOLERANCE_S:
        yield f"frames are up to {video.timing_error:.6f} s away from frame number / {video.fps}"


def check_scalars(session: ProbedSession) -> Iterator[Broken]:
    """Rule 5: a shape of ``[1]`` stands for a plain value, not for a list of one."""
    scalars = [c for c in session.declared.columns.values() if c.shape == (1,)]
    for file, table in _tables(session):
        for column in scalars:
            if _is_list(table, column.name):
                message = f"{column.name} is a list of one value, and LeRobot reads its shape [1] as a plain value"
                yield Broken(5, file, message, f"store the column as plain values {_COPY}")


def _tables(session: ProbedSession) -> Iterator[tuple[str, pa.Table]]:
    """Go through all rows, some at a time; what is wrong in several of a file is told once in the end."""
    return ((file, table) for file, _, tables in session.evidence.tables() for table in tables)


def _is_list(table: pa.Table, name: str) -> bool:
    return table.column_names.count(name) == 1 and bool(pa.types.is_list(table.schema.field(name).type))


def check_columns(session: ProbedSession) -> Iterator[Broken]:
    """Rule 6: the features are the stored columns, alike in every file, with a value in every row."""
    features = session.declared.features or {}
    expected = {k for k, v in features.items() if not isinstance(v, dict) or v.get("dtype") != "video"}
    columns = list(session.declared.columns.values())
    for file, table in _tables(session):
        for message in (*_other_columns(expected, table), *_wrong_columns(columns, table)):
            yield Broken(6, file, message, f"make features and columns the same {_COPY}")
        for name, column in zip(table.column_names, table.columns, strict=True):
            if column.null_count:
                yield Broken(6, file, f"{name} has rows without a value", f"fill one in, or drop the column, {_COPY}")


def _other_columns(expected: set[str], table: pa.Table) -> Iterator[str]:
    for name in sorted(expected - set(table.column_names)):
        yield f"has no column {name}, info.json has a feature of that name"
    for name in sorted(set(table.column_names) - expected):
        yield f"has a column {name}, info.json has no feature of that name"


def _wrong_columns(columns: Sequence[DeclaredColumn], table: pa.Table) -> Iterator[str]:
    for column in columns:
        if table.column_names.count(column.name) != 1 or (column.shape == (1,) and _is_list(table, column.name)):
            continue
        wrong = _type_fault(table.schema.field(column.name).type, column)
        if wrong is None and values(table[column.name], column.shape) is None:
            wrong = f"holds lists that are not of shape {list(column.shape)}"
        if wrong:
            yield f"{column.name}: {wrong}"


def _type_fault(kind: pa.DataType, column: DeclaredColumn) -> str | None:
    if column.shape != (1,):
        return type_fault(kind, column)
    plain = pa.bool_() if column.dtype == "bool" else pa.type_for_alias(column.dtype)
    return None if kind == plain else f"stored as {kind}, the feature says {column.dtype}"


def check_episodes(session: ProbedSession) -> Iterator[Broken]:
    """Rule 7: the files of ``meta/episodes`` have one typed schema, and list episode ``k`` as row ``k``."""
    evidence, first = session.evidence, None
    for file, table in evidence.meta_files.items():
        first = first or table.schema
        for message in (*_schema_faults(table.schema, first), *_own_place_faults(file, table)):
            yield Broken(7, file, message, "write meta/episodes again with one schema, nulls typed")
    listed = [(file, row.get(keys.EPISODE_INDEX), row.get("dataset_from_index")) for file, row in evidence.rows]
    ends = [0, *(row.get("dataset_to_index") for _, row in evidence.rows)]
    for position, (file, index, begins) in enumerate(listed):
        if index != position or begins != ends[position]:
            message = f"row {position} is episode {index} from row {begins}, and LeRobot looks up by position"
            yield Broken(7, file, message, "write meta/episodes again in order, from 0, without a gap")
            break  # all that follow are out of place too
    yield from _misplaced_rows(session)


def _misplaced_rows(session: ProbedSession) -> Iterator[Broken]:
    for file, episodes, tables in session.evidence.tables():
        begins, count, is_wrong = episodes[0].first, 0, False
        for table in tables:
            if table.column_names.count("index") == 1:
                expected = begins + np.arange(count, count + table.num_rows)
                is_wrong = is_wrong or not np.array_equal(table["index"].to_numpy(), expected)
            count += table.num_rows
        ends = begins + count
        if is_wrong and file not in session.evidence.unreadable:
            yield Broken(7, file, f"index does not run from {begins} to {ends - 1}", "number the rows by their place")


def _distinct(table: pa.Table, name: str) -> set[object]:
    """Return the values of a column, each once; none where there is no one such column, and of lists only the type."""
    if table.column_names.count(name) != 1:
        return set()
    column = table[name]
    return {str(column.type)} if pa.types.is_nested(column.type) else set(column.unique().to_pylist())


def _schema_faults(schema: pa.Schema, first: pa.Schema) -> Iterator[str]:
    if not schema.remove_metadata().equals(first.remove_metadata()):
        yield "has other columns than the first file, or of other types"
    needed = (keys.EPISODE_INDEX, "length", "dataset_from_index", "dataset_to_index", "tasks", *_PLACES)
    counts = {name: schema.names.count(name) for name in needed}
    yield from (f"has no column {name}" for name, count in counts.items() if not count)
    yield from (f"has {count} columns {name}" for name, count in counts.items() if count > 1)
    yield from (f"{f.name} has no type: all of it is empty" for f in schema if pa.types.is_null(f.type))
    if counts["tasks"] == 1 and schema.field("tasks").type != pa.list_(pa.string()):
        yield f"tasks is {schema.field('tasks').type}, expected a list of texts"


def _own_place_faults(file: str, table: pa.Table) -> Iterator[str]:
    numbered = _NUMBERED.search(file)
    for part, number in zip(("chunk", "file"), numbered.groups() if numbered else (), strict=False):
        name = f"meta/episodes/{part}_index"
        if _distinct(table, name) not in (set(), {int(number)}):
            yield f"{name} is not its own: {int(number)}"


def check_task_table(session: ProbedSession) -> Iterator[Broken]:
    """Rule 8: pandas reads ``tasks.parquet`` indexed by description, task ``k`` as row ``k``, and rows use no other."""
    for _, _, message in check_tasks(session.evidence):
        yield Broken(8, TASKS, message, "write tasks.parquet again, from pandas, indexed by the description")
    tasks = session.evidence.tasks
    known = set(range(tasks.num_rows)) if tasks is not None else set()
    for file, _, batches in session.evidence.tables() if tasks is not None else ():
        used = {index for table in batches for index in _distinct(table, keys.TASK_INDEX)}
        if unknown := sorted(used - known, key=str):
            yield Broken(8, file, f"task_index {unknown[0]} has no description", "add it to tasks.parquet")


def check_statistics(session: ProbedSession) -> Iterator[Broken]:
    """Rule 9: training finds statistics of every picture, state and command."""
    stats, declared = session.evidence.stats or {}, session.declared
    wanted = (*(s.key for s in session.streams if not s.is_depth), *declared.columns)
    needed = [key for key in wanted if key.startswith(keys.POLICY_FEATURES)]
    for key in needed if session.evidence.episodes else ():
        if key in declared.columns and declared.columns[key].is_text:
            message = f"{key} is a text, and policies take every column that is called so for numbers"
            yield Broken(9, INFO, message, "leave it out: lerobot_view() makes a copy without it")
        elif not isinstance(stats.get(key), dict):
            yield Broken(9, STATS, f"{key} has no entry", "compute the statistics again")
    for file, _, message in stream_faults(session.evidence):
        yield Broken(9, file, message, "compute the statistics again")


def check_picture_names(session: ProbedSession) -> Iterator[Broken]:
    """Rule 10: a picture's dimensions are named, which is how LeRobot knows that channels come last."""
    for stream in session.streams:
        names = (session.declared.features or {})[stream.key].get("names")
        if names != _PICTURE_NAMES:
            yield Broken(
                10, INFO, f"{stream.key}: names is {shown(names)}", f"write {json.dumps(_PICTURE_NAMES)} {_COPY}"
            )


def check_strays(session: ProbedSession) -> Iterator[Broken]:
    """Rule 11: no other ``.parquet`` stands among the rows or the episodes, and numbers have three digits."""
    listed = session.evidence.data_files
    for folder, depth in (("data", 2), ("meta/episodes", 3)):
        for file in session.evidence.folder.files(folder):
            if file.count("/") != depth or not file.endswith(".parquet"):
                continue
            # LeRobot takes the files of data/ in the order of their names, and finds rows by position. A file that no
            # episode names moves all rows after it; behind the last one it moves none.
            numbered = _NUMBERED.search(file)
            if not numbered or (folder == "data" and file not in listed and file < max(listed, default="")):
                yield Broken(
                    11, file, f"is read with the rest of {folder}/, and is none of it", f"leave it out {_COPY}"
                )
            elif max(map(int, numbered.groups())) > 999:
                yield Broken(11, file, "is sorted before smaller numbers", f"number files below 1000 {_COPY}")


def check_totals(session: ProbedSession) -> Iterator[Broken]:
    """Rule 12: ``info.json`` counts no episode and no row that is not there."""
    episodes = session.evidence.episodes
    there = {"total_episodes": len(episodes), "total_frames": sum(e.length for e in episodes)}
    for field, count in there.items():
        said = session.info.get(field)
        if type(said) is not int or said > count:
            message = f"{field} is {shown(said)}, meta/episodes lists {count}"
            yield Broken(12, INFO, message, f"write {count} {_COPY}")
    if not episodes:
        yield Broken(12, INFO, "no episode is listed", "record one: LeRobot opens no empty dataset")


def _unreadable(session: ProbedSession) -> Iterator[Broken]:
    """A file that cannot be read breaks the rule that is about it."""
    rules = {STATS: 9, TASKS: 8, INFO: 1}
    files = session.evidence.folder.files()
    for file, why in session.evidence.unreadable.items():
        rule = rules.get(file, 7 if file.startswith("meta/") else 6)
        yield Broken(rule, file, why if file in files else "is missing", "restore the file, or record again")


RULES: tuple[Callable[[ProbedSession], Iterator[Broken]], ...] = (
    check_version,
    check_rates,
    check_ticks,
    check_codecs,
    check_scalars,
    check_columns,
    check_episodes,
    check_task_table,
    check_statistics,
    check_picture_names,
    check_strays,
    check_totals,
)
