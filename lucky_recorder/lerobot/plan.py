"""What of a session goes into its copy for LeRobot, and what is left out, decided before anything is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError, SettingsError, VideoError
from lucky_recorder.lazy import lazy
from lucky_recorder.session import layout
from lucky_recorder.session.checks.declared import DeclaredColumn, declare
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.folder import CameraStream
from lucky_recorder.session.opened import channel_of, scale_of
from lucky_recorder.session.reader import Session

if TYPE_CHECKING:
    from lucky_recorder.video import probe
else:
    # Only the videos of other recorders are looked into, and av is slow to import.
    probe = lazy("lucky_recorder.video.probe")

# By these LeRobot finds a row.
_NUMBERS = (keys.INDEX, keys.EPISODE_INDEX, keys.FRAME_INDEX, keys.TIMESTAMP, keys.TASK_INDEX)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What of a session goes into a view.

    Attributes:
        session: The session.
        target: The view's folder.
        streams: The cameras that are kept.
        episodes: The episodes that are kept.
        robot: The place of the robot whose rows are kept; None if the session has but one.
        columns: The columns that are kept, by name.
        scalars: Those of them that are lists of one value.
        dropped: Columns that are left out, and why.
    """

    session: Session
    target: Path
    streams: tuple[CameraStream, ...]
    episodes: tuple[Episode, ...]
    robot: int | None
    columns: Mapping[str, DeclaredColumn]
    scalars: frozenset[str]
    dropped: Mapping[str, str]

    @property
    def keeps_data_files(self) -> bool:
        """Whether the data files can be linked as they are."""
        is_whole = self.robot is None and len(self.episodes) == len(self.session)
        # Another writer's files may hold columns that no feature names, and values of another type than it says.
        # An episode that waits for its data file has a file of its own, which is in no data file's place.
        is_whole &= not self.session.spooled
        return is_whole and not self.scalars and not self.dropped and self.session.is_ours

    @property
    def shown(self) -> set[str]:
        """The keys of the streams that are kept."""
        return {stream.key for stream in self.streams}

    @property
    def chunking(self) -> layout.Chunking:
        """Where files are placed that are not linked as they are."""
        return layout.Chunking(self.session.files_per_chunk)


def planned(session: Session, target: Path, robot: str | None, depth: bool) -> tuple[Plan, tuple[str, ...]]:
    """Decide what goes into a view, and say what does not; nothing is written yet.

    Raises:
        SettingsError: If the robot is unknown or not said, or the folder is there already.
        FormatError: If the session cannot be read, or nothing is left of it.
    """
    _refuse_taken(target, session.path)
    columns = _columns(session)
    streams, left_out = _streams(session, depth)
    lacking = {e.index: why for e in session if (why := _lack(session, e, streams))}
    kept = tuple(e for e in session if e.index not in lacking)
    if not kept:
        raise FormatError(f"{session.path}: has no episode with a video of every camera; LeRobot opens no empty folder")
    chosen = _robot(session, robot)
    dropped = _dropped(kept, columns, None if chosen is None else session.entity_ids[chosen])
    columns = {name: column for name, column in columns.items() if name not in dropped}
    plan = Plan(session, target, streams, kept, chosen, columns, _scalars(session, columns), dropped)
    left_out += [f"column {name}: {why}" for name, why in dropped.items()]
    left_out += [f"episode {index}: {why}" for index, why in lacking.items()]
    left_out += [f"lidar {name}" for name in session.lidars]
    left_out += ["states"] if session.has_states else []
    left_out += ["pictures that are still to be drawn"] if session.to_draw is not None else []
    left_out += [key for key in session.video_keys() if key.endswith(keys.RGBD_SUFFIX) or key.startswith(keys.MASKS)]
    return plan, tuple(left_out)


def _refuse_taken(target: Path, source: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise SettingsError.of("dst", str(target), "is there already; give a folder that does not exist")
    if source.resolve() in target.resolve().parents:
        raise SettingsError.of("dst", str(target), "lies inside the session; give a folder beside it")


def _columns(session: Session) -> dict[str, DeclaredColumn]:
    """Return the columns, in the order of their features; refuse what cannot be believed, from whoever it comes."""
    known = declare(session.info).columns
    for name, feature in session.features.items():
        if feature.get("dtype") != "video" and name not in known:
            raise FormatError(f"{session.path / layout.INFO_PATH}: features[{name!r}]: no dtype and shape of a column")
    if missing := [name for name in _NUMBERS if name not in known]:
        raise FormatError(f"{session.path / layout.INFO_PATH}: features: no {missing[0]!r}, without which no view is")
    return dict(known)


def _lack(session: Session, episode: Episode, streams: tuple[CameraStream, ...]) -> str:
    """Say what an episode lacks: a video, or a frame for every row that is to have one."""
    if not all(episode.has_video(s.name) for s in streams):
        return "a camera has no video"
    # Ours have as many frames as they should. Of others, the rate of a file need not be the rate of its capture.
    for stream in () if session.is_ours else streams:
        try:
            frames = probe.probe(episode.video_path(stream.name)).frames
        except VideoError as error:
            return str(error)
        # A faster camera also takes pictures between two rows, and maybe after the last one.
        per_row = int(stream.rate / session.hz)
        if not (episode.data_ticks - 1) * per_row < frames <= episode.data_ticks * per_row:
            return f"{stream.key} has {frames} frames for {episode.data_ticks} ticks: none is certain to be a row's"
    return ""


def _dropped(episodes: tuple[Episode, ...], columns: Mapping[str, DeclaredColumn], robot: int | None) -> dict[str, str]:
    """Return the columns that LeRobot cannot take, and why: nothing is put in the place of a value that is missing.

    What the rows of another robot lack is nothing to the view: they are not in it.
    """
    rows: dict[str, int] = {}
    for episode in episodes:
        for name, count in episode.missing(robot).items():
            rows[name] = rows.get(name, 0) + count
    texts = [name for name, column in columns.items() if column.is_text and name.startswith(keys.POLICY_FEATURES)]
    gaps = [name for name in columns if name in rows and name not in keys.LEADING]
    # LeRobot hands out texts as they are, but takes every column that is called so for numbers.
    return {name: "a text" for name in texts} | {name: _lacking(rows[name]) for name in gaps}


def _lacking(rows: int) -> str:
    return f"{rows} {'row has' if rows == 1 else 'rows have'} no value"


def _streams(session: Session, depth: bool) -> tuple[tuple[CameraStream, ...], list[str]]:
    kept, left_out = [], []
    for stream in session.cameras.values():
        if (stream.rate / session.hz).denominator != 1:
            left_out.append(f"{stream.key}: runs at {stream.rate} Hz, rows at {session.hz} Hz")
        elif stream.codec == keys.DEPTH_CODEC and channel_of(session.features[stream.key]) is not None:
            left_out.append(f"{stream.key}: a diagnostic channel, and no depth")
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


def _scalars(session: Session, columns: Mapping[str, DeclaredColumn]) -> frozenset[str]:
    """Return the columns that are lists of one value: LeRobot takes the shape [1] for a plain column."""
    ones = [name for name, column in columns.items() if column.shape == (1,)]
    try:
        schema = next(iter(session)).rows(ones).schema
    except KeyError as error:
        raise FormatError(f"{session.path}: {error.args[0]}") from error
    return frozenset(name for name in ones if pa.types.is_list(schema.field(name).type))
