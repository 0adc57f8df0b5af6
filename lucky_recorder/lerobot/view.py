"""A copy of a session for LeRobot: files are linked, and what LeRobot's readers cannot take is left out.

Left out are lidar files, masks, combined RGBD files, cameras whose rate is no multiple of the data rate, depth (unless
asked for), texts that LeRobot cannot take, and episodes of which a linked camera has no video. One robot's rows are
kept; lists of one value become plain columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lucky_recorder.episode import keys
from lucky_recorder.episode.statistics import ColumnStatistics
from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.session import layout
from lucky_recorder.session.checks.declared import declare
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.folder import CameraStream
from lucky_recorder.session.opened import scale_of
from lucky_recorder.session.reader import Session
from lucky_recorder.storage.write import link, make_folder, stage, write_json

# LeRobot decodes depth to 12 bits, and 4095 stands for ``depth_max``. A 16-bit code becomes one by losing four bits.
_LARGEST_DEPTH_CODE = 4095 * 16


class View(NamedTuple):
    """What a view holds and what it leaves out.

    Attributes:
        path: Its folder.
        episodes: Episodes kept.
        left_out: What was left out, in words.
    """

    path: Path
    episodes: int
    left_out: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What of a session goes into a view."""

    session: Session
    target: Path
    streams: tuple[CameraStream, ...]
    episodes: tuple[Episode, ...]
    robot: int | None
    scalars: frozenset[str]
    dropped: Mapping[str, str]
    """Columns that are left out, and why."""

    @property
    def keeps_data_files(self) -> bool:
        """Whether the data files can be linked as they are."""
        is_whole = self.robot is None and len(self.episodes) == len(self.session)
        return is_whole and not self.scalars and not self.dropped

    @property
    def chunking(self) -> layout.Chunking:
        return layout.Chunking(self.session.files_per_chunk)


def lerobot_view(session: str | Path | Session, dst: str | Path, robot: str | None = None, depth: bool = False) -> View:
    """Make a folder that LeRobot opens, from any session.

    Args:
        session: The session.
        dst: The folder to make; it must not exist, or be empty.
        robot: The robot whose rows are kept; needed where the session has several.
        depth: Also link depth streams, described the way the depth streams of LeRobot 0.6 are: right to 17 codes, and
            only at rates whose frame times are whole milliseconds. Earlier versions cannot open such a view.

    Raises:
        SettingsError: If the robot is unknown or not said, or the folder is there already.
        FormatError: If the session cannot be read.
        StorageError: If the file system refuses.
    """
    opened = session if isinstance(session, Session) else Session(session)
    # All that can be refused is refused before the folder is made.
    plan, left_out = _planned(opened, Path(dst), robot, depth)
    make_folder(plan.target)
    rows = list(_write_data(plan))
    _link_videos(plan)
    _write_meta(plan, rows)
    return View(plan.target, len(plan.episodes), left_out)


def _planned(session: Session, target: Path, robot: str | None, depth: bool) -> tuple[_Plan, tuple[str, ...]]:
    """Decide what goes into a view, and say what does not; nothing is written yet."""
    _refuse_taken(target, session.path)
    _check_columns(session)
    streams, left_out = _streams(session, depth)
    every = tuple(session)
    kept = tuple(e for e in every if all(e.has_video(s.name) for s in streams))
    if not kept:
        raise FormatError(f"{session.path}: has no episode with a video of every camera; LeRobot opens no empty folder")
    plan = _Plan(session, target, streams, kept, _robot(session, robot), _scalars(session), _texts(session, kept))
    left_out += [f"{name}: {why}" for name, why in plan.dropped.items()]
    left_out += [f"episode {e.index}: a camera has no video" for e in every if e not in kept]
    left_out += [f"lidar {name}" for name in session.lidars]
    left_out += [key for key in session.video_keys() if key.endswith(keys.RGBD_SUFFIX) or key.startswith(keys.MASKS)]
    return plan, tuple(left_out)


def _refuse_taken(target: Path, source: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise SettingsError.of("dst", str(target), "is there already; give a folder that does not exist")
    if source.resolve() in target.resolve().parents:
        raise SettingsError.of("dst", str(target), "lies inside the session; give a folder beside it")


def _check_columns(session: Session) -> None:
    """Refuse features that cannot be believed: the folder may come from anyone."""
    known = declare(session.info).columns
    for name, feature in session.features.items():
        if feature.get("dtype") != "video" and name not in known:
            raise FormatError(f"{session.path / layout.INFO_PATH}: features[{name!r}]: no dtype and shape of a column")


def _streams(session: Session, depth: bool) -> tuple[tuple[CameraStream, ...], list[str]]:
    kept, left_out = [], []
    for stream in session.cameras.values():
        if (stream.rate / session.hz).denominator != 1:
            left_out.append(f"{stream.key}: runs at {stream.rate} Hz, rows at {session.hz} Hz")
        elif stream.codec == keys.DEPTH_CODEC and not depth:
            left_out.append(f"{stream.key}: depth")
        elif stream.codec == keys.DEPTH_CODEC and Fraction(1000) % stream.rate:
            left_out.append(f"{stream.key}: frame times at {stream.rate} Hz are no whole milliseconds")
        elif stream.codec == keys.DEPTH_CODEC and not _scale(session, stream):
            left_out.append(f"{stream.key}: no depth_scale")
        elif stream.codec not in (*keys.VIDEO_FORMATS, keys.DEPTH_CODEC):
            left_out.append(f"{stream.key}: codec {stream.codec}")
        else:
            kept.append(stream)
    return tuple(kept), left_out


def _scale(session: Session, stream: CameraStream) -> float:
    """Return the metres of a depth code, 0 if the session does not say them."""
    return scale_of(session.features[stream.key]) or 0.0


def _robot(session: Session, robot: str | None) -> int | None:
    """Return the place of the robot whose rows are kept; None if the session has but one."""
    names = session.robots
    if robot is not None and robot not in names:
        raise SettingsError.of("robot", robot, f"the session has {', '.join(names)}")
    if len(names) == 1:
        return None
    if robot is None:
        raise SettingsError.of("robot", None, f"the session has several; choose one of {', '.join(names)}")
    return names.index(robot)


def _scalars(session: Session) -> frozenset[str]:
    """Return the columns that are lists of one value: LeRobot takes the shape [1] for a plain column."""
    data = {k: f for k, f in session.features.items() if f.get("dtype") != "video"}
    ones = [k for k, f in data.items() if f.get("shape") == [1]]
    try:
        schema = next(iter(session)).rows(ones).schema
    except KeyError as error:
        raise FormatError(f"{session.path}: {error.args[0]}") from error
    return frozenset(name for name in ones if pa.types.is_list(schema.field(name).type))


def _texts(session: Session, episodes: tuple[Episode, ...]) -> dict[str, str]:
    """Return the text columns that LeRobot cannot take, and why: others it hands out as they are."""
    texts = [name for name, column in declare(session.info).columns.items() if column.is_text]
    dropped = {name: "a text" for name in texts if name.startswith((keys.OBSERVATION, keys.ACTION))}
    for episode in episodes if len(dropped) < len(texts) else ():
        rows = episode.rows(texts)
        # A batch that begins with a missing text cannot be made.
        dropped |= {name: "a text that some rows do not have" for name in texts if rows[name].null_count}
    return dropped


def _write_data(plan: _Plan) -> Iterator[dict[str, Any]]:
    """Link or rewrite the data files; yields each episode's row of ``meta/episodes``."""
    first = 0
    for number, episode in enumerate(plan.episodes):
        row = dict(episode.meta)
        if plan.keeps_data_files:
            source = episode.data_path()
            place = layout.Place(row["chunk_index"], row["file_index"])
            _link(source, layout.data_path(plan.target, place))
        else:
            place = plan.chunking.data(number)
            table = _rows(plan, episode, number, first)
            path = layout.data_path(plan.target, place)
            stage(path, lambda p, t=table: pq.write_table(t, p, compression="zstd")).commit()  # type: ignore[misc]
            row |= {"length": table.num_rows, "dataset_from_index": first, "dataset_to_index": first + table.num_rows}
            row["episode_index"] = number
            first += table.num_rows
        for prefix in ("", "data/"):
            row |= {f"{prefix}chunk_index": place.chunk_index, f"{prefix}file_index": place.file_index}
        yield row


def _rows(plan: _Plan, episode: Episode, number: int, first: int) -> pa.Table:
    """Return an episode's rows as the view has them, numbered anew."""
    table = episode.rows()
    table = table.drop_columns([name for name in plan.dropped if name in table.column_names])
    if plan.robot is not None:
        table = table.take(pa.array(range(plan.robot, table.num_rows, len(plan.session.robots))))
    for name in plan.scalars:
        values = pc.list_flatten(table[name])
        if len(values) != table.num_rows:
            raise FormatError(f"{plan.session.path}: episode {episode.index}: {name} is not one value in every row")
        table = table.set_column(table.column_names.index(name), name, values)
    numbers = {"index": np.arange(first, first + table.num_rows), "episode_index": np.full(table.num_rows, number)}
    for name, column in numbers.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(column, pa.int64()))
    return table.replace_schema_metadata(None)


def _link_videos(plan: _Plan) -> None:
    for number, episode in enumerate(plan.episodes):
        for stream in plan.streams:
            place = _video_place(plan, episode, number, stream)
            _link(episode.video_path(stream.name), layout.video_path(plan.target, stream.key, place))


def _video_place(plan: _Plan, episode: Episode, number: int, stream: CameraStream) -> layout.Place:
    if not plan.keeps_data_files:
        return plan.chunking.video(number)
    parts = (episode.meta[keys.video_column(stream.key, f"{part}_index")] for part in ("chunk", "file"))
    return layout.Place(*parts)


def _link(source: Path, target: Path) -> None:
    """Link a file, or copy it where links fail; a link that is there already is the same file."""
    if target.exists():
        return
    make_folder(target.parent)
    link(source, target)


def _write_meta(plan: _Plan, rows: list[dict[str, Any]]) -> None:
    session, target = plan.session, plan.target
    shown = {s.key for s in plan.streams}
    place = layout.Place(0, 0)
    for number, (row, episode) in enumerate(zip(rows, plan.episodes, strict=True)):
        for name in [n for n in row if n.startswith(keys.VIDEOS) and n.split("/")[1] not in shown]:
            del row[name]
        for stream in plan.streams:
            moved = _video_place(plan, episode, number, stream)
            row |= {keys.video_column(stream.key, part): value for part, value in moved._asdict().items()}
        row |= {keys.META_CHUNK: 0, keys.META_FILE: 0}
    schema = session.episodes.schema
    fields = [f for f in schema if not f.name.startswith(keys.VIDEOS) or f.name.split("/")[1] in shown]
    table = pa.Table.from_pylist(rows, schema=pa.schema(fields))
    stage(layout.episodes_path(target, place), lambda p: pq.write_table(table, p, compression="zstd")).commit()
    _link(session.tasks_path(), target / layout.TASKS_PATH)
    write_json(target / layout.STATS_PATH, _stats(plan, shown))
    write_json(target / layout.INFO_PATH, _info(plan, shown, sum(r["length"] for r in rows)))


def _stats(plan: _Plan, shown: set[str]) -> dict[str, Any]:
    video = {k for k, f in plan.session.features.items() if f.get("dtype") == "video"}
    stats = {name: entry for name, entry in plan.session.stats.items() if name not in video or name in shown}
    if plan.keeps_data_files:
        return stats
    for name in [n for n in stats if n not in video]:
        merged: ColumnStatistics | None = None
        for number, episode in enumerate(plan.episodes):
            one = ColumnStatistics.of(_values(_rows(plan, episode, number, 0), name))
            merged = one if merged is None else merged.merge(one)
        if merged is not None:
            stats[name] = merged.to_json()
    return stats


def _values(table: pa.Table, name: str) -> np.ndarray[Any, Any]:
    column = table[name].drop_null().combine_chunks()
    flat = column
    while pa.types.is_list(flat.type):
        flat = flat.flatten()
    values = flat.to_numpy(zero_copy_only=False)
    return values.reshape(len(column), -1) if len(column) else np.zeros((0, 1))


def _info(plan: _Plan, shown: set[str], frames: int) -> dict[str, Any]:
    every = plan.session.features.items()
    features = {key: feature for key, feature in every if feature.get("dtype") != "video" or key in shown}
    features = {key: feature for key, feature in features.items() if key not in plan.dropped}
    for stream in plan.streams:
        if stream.codec == keys.DEPTH_CODEC:
            features[stream.key] = _depth_feature(features[stream.key])
    if plan.robot is not None:
        features = {key: _of_one_robot(feature, plan.robot) for key, feature in features.items()}
    info = {key: value for key, value in plan.session.info.items() if key != "video_path"}
    paths = {"data_path": layout.DATA_PATH} | ({"video_path": layout.VIDEO_PATH} if shown else {})
    robots = plan.session.robots
    return (
        info
        | paths
        | {
            "robots": [robots[plan.robot or 0]],
            "total_episodes": len(plan.episodes),
            "total_frames": frames,
            "episodes_per_file": plan.session.info.get("episodes_per_file", 1) if plan.keeps_data_files else 1,
            "splits": {"train": f"0:{len(plan.episodes)}"},
            "features": features,
        }
    )


def _of_one_robot(feature: Mapping[str, Any], robot: int) -> dict[str, Any]:
    """Return a column's feature with the names of one robot only."""
    one = dict(feature)
    size = int(np.prod(feature["shape"])) if feature.get("dtype") != "video" else 0
    for key in ("names", "lucky_names"):
        names = feature.get(key)
        if size and isinstance(names, list) and len(names) > size:
            one[key] = names[robot * size : (robot + 1) * size]
    return one


def _depth_feature(feature: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a depth stream the way LeRobot describes its own: linear codes between two depths."""
    info = {k: v for k, v in feature["info"].items() if k not in ("video.codec", "video.pix_fmt")}
    info |= {
        "video.depth_min": 0,
        "video.depth_max": _LARGEST_DEPTH_CODE * info["depth_scale"],
        "video.shift": 0,
        "video.use_log": False,
        "is_depth_map": True,
        "depth_unit": "m",
    }
    return {**feature, "info": info}
