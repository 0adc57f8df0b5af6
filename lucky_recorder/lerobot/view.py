"""A copy of a session for LeRobot: files are linked, and what LeRobot's readers cannot take is left out.

Left out are lidar files, states, masks, combined RGBD files, cameras whose rate is no multiple of the data rate, depth
(unless asked for), columns in which a value is missing, texts that LeRobot takes for numbers, and episodes of which a
linked camera has no video. One robot's rows are kept; lists of one value become plain columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lucky_recorder.episode import clock, keys
from lucky_recorder.episode.statistics import ColumnStatistics
from lucky_recorder.errors import FormatError
from lucky_recorder.lerobot.plan import Plan, planned
from lucky_recorder.session import later, layout
from lucky_recorder.session.checks.vectors import values
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.features import STATES_PATH
from lucky_recorder.session.folder import CameraStream
from lucky_recorder.session.metadata import CODEBASE_VERSION, VIEW, write_tasks
from lucky_recorder.session.reader import Session
from lucky_recorder.session.rebuilt import count_pixels, values_of
from lucky_recorder.storage import named
from lucky_recorder.storage.untrusted import format_errors
from lucky_recorder.storage.write import link, make_folder, stage, write_json

# LeRobot decodes depth to 12 bits, and 4095 stands for ``depth_max``. A 16-bit code becomes one by losing four bits.
_LARGEST_DEPTH_CODE = 4095 * 16
_AXES = ("height", "width", "channels")
# What LeRobot asks of ``meta/episodes`` beyond the format's page.
_ADDED = pa.schema([("tasks", pa.list_(pa.string())), (keys.META_CHUNK, pa.int64()), (keys.META_FILE, pa.int64())])


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


def lerobot_view(session: str | Path | Session, dst: str | Path, robot: str | None = None, depth: bool = False) -> View:
    """Make a folder that LeRobot opens, of a session.

    Nothing is made up. A column in which a row has no value is left out, and said so in `View.left_out`. What keeps
    LeRobot from opening the videos of another recorder, such as B-frames, `check_lerobot` says of the view.

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
    # All that can be refused is refused before the folder is made: also what only the files themselves show.
    plan, left_out = planned(opened, Path(dst), robot, depth)
    _refuse_unreadable(plan)
    stats = _stats(plan)
    make_folder(plan.target)
    rows = list(_write_data(plan))
    _link_videos(plan)
    _write_meta(plan, rows, stats)
    return View(plan.target, len(plan.episodes), left_out)


def _refuse_unreadable(plan: Plan) -> None:
    """Ask for every file that is linked, and read every row that is written anew, once before that is done.

    Raises:
        FormatError: If one is not there, or not what the features say.
    """
    if plan.session.is_current:
        plan.session.tasks_path()
    for episode in plan.episodes:
        episode.data_path()
        for stream in plan.streams:
            episode.video_path(stream.name)
        if not plan.keeps_data_files:
            _rows(plan, episode, 0, 0)


def _write_data(plan: Plan) -> Iterator[dict[str, Any]]:
    """Link or rewrite the data files; yields each episode's row of ``meta/episodes``."""
    first, linked = 0, Linked()
    for number, episode in enumerate(plan.episodes):
        row = {name: value for name, value in episode.meta.items() if not name.startswith(keys.STATES)}
        if plan.keeps_data_files:
            place = layout.Place(row["chunk_index"], row["file_index"])
            linked.add(episode.data_path(), layout.data_path(plan.target, place))
        else:
            place = plan.chunking.data(number)
            table = _rows(plan, episode, number, first)
            path = layout.data_path(plan.target, place)
            stage(path, lambda p, t=table: named.write_table(p, t)).commit()  # type: ignore[misc]
            row |= {"length": table.num_rows, "dataset_from_index": first, "dataset_to_index": first + table.num_rows}
            row["episode_index"] = number
            first += table.num_rows
        for prefix in ("", "data/"):
            row |= {f"{prefix}chunk_index": place.chunk_index, f"{prefix}file_index": place.file_index}
        yield row


def _rows(plan: Plan, episode: Episode, number: int, first: int) -> pa.Table:
    """Return an episode's rows as the view has them, numbered anew."""
    try:
        table = episode.rows_by_tick().select(list(plan.columns))
    except KeyError as error:
        raise FormatError(f"{plan.session.path}: episode {episode.index}: {error.args[0]}") from error
    if plan.robot is not None:
        table = table.take(pa.array(range(plan.robot, table.num_rows, len(plan.session.robots))))
    _refuse_ragged(plan, table, episode)
    for name in plan.scalars:
        table = table.set_column(table.column_names.index(name), name, pc.list_flatten(table[name]))
    table = _typed(plan, table, episode)
    numbers = {"index": np.arange(first, first + table.num_rows), "episode_index": np.full(table.num_rows, number)}
    for name, column in numbers.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(column, pa.int64()))
    return table.replace_schema_metadata(None)


def _refuse_ragged(plan: Plan, table: pa.Table, episode: Episode) -> None:
    """Refuse a column with a list of another length than its feature says, in whichever row.

    How many values there are in all says nothing of it: a row of one and a row of three are as many as two of two.
    """
    for column in plan.columns.values():
        depths = {0, 1} if column.shape == (1,) else {len(column.shape)}
        held = table[column.name]
        if _depth_of(held.type) not in depths or values(held, column.shape) is None:
            where = f"{plan.session.path}: episode {episode.index}: {column.name}"
            raise FormatError(f"{where}: a row holds no value of shape {list(column.shape)}, as its feature says")


def _typed(plan: Plan, table: pa.Table, episode: Episode) -> pa.Table:
    """Return rows whose values are of the type that the features say: another writer's may be narrower."""
    for number, column in enumerate(plan.columns.values()):
        kind = pa.bool_() if column.dtype == "bool" else pa.type_for_alias(column.dtype)
        for _ in range(_depth_of(table.schema.field(number).type)):
            kind = pa.list_(kind)
        if table.schema.field(number).type != kind:
            with format_errors(episode.data_path()):
                table = table.set_column(number, column.name, table.column(number).cast(kind))
    return table


def _depth_of(kind: pa.DataType) -> int:
    return 1 + _depth_of(kind.value_type) if pa.types.is_list(kind) else 0


def _link_videos(plan: Plan) -> None:
    linked = Linked()
    for number, episode in enumerate(plan.episodes):
        for stream in plan.streams:
            place = _video_place(plan, episode, number, stream)
            linked.add(episode.video_path(stream.name), layout.video_path(plan.target, stream.key, place))


def _video_place(plan: Plan, episode: Episode, number: int, stream: CameraStream) -> layout.Place:
    if not plan.keeps_data_files:
        return plan.chunking.video(number)
    return episode.video_place(stream.name)


class Linked:
    """The files that have been linked so far: several episodes may stand in one."""

    def __init__(self) -> None:
        self._sources: dict[Path, Path] = {}

    def add(self, source: Path, target: Path) -> None:
        """Link a file, or copy it where there are no links; nothing is done for the second time.

        Raises:
            FormatError: If another file is there already: then the session names two files by one place.
            StorageError: If the file system refuses.
        """
        known = self._sources.setdefault(target, source)
        if known != source:
            raise FormatError(f"{source}: stands in the same place of its stream as {known}")
        if not target.exists():
            make_folder(target.parent)
            link(source, target)


def _write_meta(plan: Plan, rows: list[dict[str, Any]], stats: Mapping[str, Any]) -> None:
    session, target, shown = plan.session, plan.target, plan.shown
    place = layout.Place(0, 0)
    for number, (row, episode) in enumerate(zip(rows, plan.episodes, strict=True)):
        for name in [n for n in row if n.startswith(keys.VIDEOS) and n.split("/")[1] not in shown]:
            del row[name]
        for stream in plan.streams:
            moved = _video_place(plan, episode, number, stream)
            row |= {keys.video_column(stream.key, part): value for part, value in moved._asdict().items()}
        row |= {keys.META_CHUNK: 0, keys.META_FILE: 0, "tasks": list(episode.tasks)}
    fields = {f.name: f for f in session.episodes.schema} | {f.name: f for f in _ADDED}
    own = [f for f in fields.values() if not f.name.startswith(keys.STATES)]
    kept = [f for f in own if not f.name.startswith(keys.VIDEOS) or f.name.split("/")[1] in shown]
    table = pa.Table.from_pylist(rows, schema=pa.schema(kept))
    stage(
        layout.episodes_path(target, place),
        lambda p: named.write_table(p, table),
    ).commit()
    if session.is_current:
        Linked().add(session.tasks_path(), target / layout.TASKS_PATH)
    else:
        write_tasks(target / layout.TASKS_PATH, session.tasks)
    write_json(target / layout.STATS_PATH, stats)
    write_json(target / layout.INFO_PATH, _info(plan, sum(r["length"] for r in rows)))


def _stats(plan: Plan) -> dict[str, Any]:
    video = {k for k, f in plan.session.features.items() if f.get("dtype") == "video"}
    known = plan.columns.keys() | plan.shown
    stats = {name: entry for name, entry in plan.session.stats.items() if name in known}
    stats |= {s.key: _counted(plan, s) for s in plan.streams if s.key not in stats and s.codec != keys.DEPTH_CODEC}
    if plan.keeps_data_files:
        return stats
    for name in [n for n in stats if n not in video]:
        merged: ColumnStatistics | None = None
        for number, episode in enumerate(plan.episodes):
            one = ColumnStatistics.of(values_of(_rows(plan, episode, number, 0), name))
            merged = one if merged is None else merged.merge(one)
        if merged is not None:
            stats[name] = merged.to_json()
    return stats


def _counted(plan: Plan, stream: CameraStream) -> dict[str, Any]:
    """Return a colour stream's statistics, which other recorders do not write and training needs."""
    return count_pixels(plan.episodes, stream.name).to_json()


def _info(plan: Plan, frames: int) -> dict[str, Any]:
    every, shown = plan.session.features.items(), plan.shown
    features = {key: feature for key, feature in every if key in plan.columns or key in shown}
    features |= {s.key: {"names": list(_AXES), **features[s.key]} for s in plan.streams}
    for stream in plan.streams:
        if stream.codec == keys.DEPTH_CODEC:
            features[stream.key] = _depth_feature(features[stream.key])
    if plan.robot is not None:
        # The names of flags are those of bits, for every robot the same.
        own = features.keys() - set(keys.LEADING)
        features = {key: _of_one_robot(f, plan.robot) if key in own else f for key, f in features.items()}
    said = later.taken_away(plan.session.info)
    info = {key: value for key, value in said.items() if key not in ("video_path", STATES_PATH)}
    paths = {"data_path": layout.DATA_PATH} | ({"video_path": layout.VIDEO_PATH} if shown else {})
    robots = plan.session.robots
    return (
        info
        | paths
        | {
            # Of the layout, which LeRobot takes for a version of its own; and a rate for rows and frames.
            "codebase_version": CODEBASE_VERSION,
            VIEW: True,
            "fps": clock.number(plan.session.hz),
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
