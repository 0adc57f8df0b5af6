"""Telling what a session holds, and drawing one frame of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lucky_recorder.cli.checksum import described
from lucky_recorder.cli.console import Table, show, table
from lucky_recorder.cli.lines import say
from lucky_recorder.episode.keys import lidar_key
from lucky_recorder.errors import FormatError, SettingsError, VideoError, shown
from lucky_recorder.lazy import lazy
from lucky_recorder.session import rowless
from lucky_recorder.session.features import ANNOTATIONS
from lucky_recorder.session.layout import CHECKSUMS_PATH
from lucky_recorder.session.provenance import DISCARDED, EPISODES
from lucky_recorder.session.reader import Episode, Session
from lucky_recorder.session.state import State
from lucky_recorder.storage.checksums import Sums
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.viewer.sheet import panels, sheet, unshown

if TYPE_CHECKING:
    from lucky_recorder.video import probe, still
else:
    # Of many sessions no picture is looked at, and av is slow to import.
    probe, still = lazy("lucky_recorder.video.probe"), lazy("lucky_recorder.video.still")


def info(path: Path) -> None:
    """Show what a session holds: episodes, cameras, columns, tasks.

    Raises:
        FormatError: If the folder is no session.
    """
    session = Session(path)
    overview = table(("", "session"), _overview(session).items())
    tables = (overview, *(_of_videos(session) if session.is_video_only else _of_rows(session)))
    show(*(one for one in tables if one.row_count))


def draw_frame(path: Path, frame: str, output: Path) -> None:
    """Write a contact sheet of one frame, and say from left to right what it shows.

    Args:
        path: The session's folder.
        frame: ``EPISODE:FRAME``.
        output: The PNG file to write.

    Raises:
        SettingsError: If there is no such frame, or no stream of pictures.
        LuckyRecorderError: If the session cannot be read, or the file not written.
    """
    episode_index, frame_index = _read_place(frame)
    session = Session(path)
    try:
        episode = session.episode(episode_index)
    except IndexError as error:
        raise SettingsError.of("--frame", frame, str(error)) from error
    drawn = panels(session, episode, frame_index)
    if not drawn:
        raise SettingsError.of("--frame", frame, "the session has no stream of pictures")
    still.write_png(output, sheet(drawn))
    say(f"{output}: {', '.join(panel.stream for panel in drawn)}")
    for stream, why in unshown(session, episode).items():
        say(f"left out: {stream}: {why}")


def _read_place(frame: str) -> tuple[int, int]:
    parts = frame.split(":")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise SettingsError.of("--frame", frame, "give EPISODE:FRAME, such as 0:10")
    return int(parts[0]), int(parts[1])


def _overview(session: Session) -> dict[str, object]:
    kind = {"kind": rowless.kind(session.path)} if session.is_video_only else _totals(session)
    return {
        "path": session.path,
        "state": _state(session),
        **kind,
        "checksums": described(Sums(Folder(session.path), CHECKSUMS_PATH)),
        "on disk": f"{session.bytes_on_disk() / 1e6:.1f} MB",
    }


def _state(session: Session) -> str:
    state = session.state
    said: list[str] = []
    if session.unlisted:
        said.append(f"{len(session.unlisted)} of {len(session)} episodes are not listed in meta/")
    if state is State.CUT_SHORT:
        said.append("`lucky-recorder recover` completes it")
    return f"{state}: {'; '.join(said)}" if said else str(state)


def _totals(session: Session) -> dict[str, object]:
    episodes = list(session)
    succeeded = sum(e.success for e in episodes)
    share = f" ({succeeded / len(episodes):.0%})" if episodes else ""
    seconds = float(sum(e.data_ticks for e in episodes) / session.hz)
    return {
        "format": f"{session.info['codebase_version']}, recorder {session.info.get('recorder_version', 'unknown')}",
        "rate": f"{session.hz} Hz",
        "robots": ", ".join(session.robots),
        "episodes": f"{len(episodes)}, {succeeded} succeeded{share}",
        "rows": sum(e.length for e in episodes),
        "duration": f"{seconds:.2f} s",
        "reproducible": "yes" if session.info.get("bit_reproducible") is True else "no",
        **_told(episodes),
        **_states(episodes),
        **_to_draw(session),
        **_origins(session),
    }


def _told(episodes: Sequence[Episode]) -> dict[str, object]:
    """Tell what is known of the episodes besides their numbers; nothing of a session that does not say it."""
    moments = sorted(e.recorded_at for e in episodes if e.recorded_at is not None)
    reasons = Counter(e.end_reason for e in episodes if e.end_reason is not None)
    lanes = {e.lane for e in episodes if e.lane is not None}
    annotated = sum(e.meta.get(ANNOTATIONS) is not None for e in episodes)
    said: dict[str, object] = {}
    if moments:
        first, last = (f"{moment:%Y-%m-%d %H:%M:%S}" for moment in (moments[0], moments[-1]))
        said["recorded"] = f"{first} UTC" if first == last else f"{first} to {last} UTC"
    if reasons:
        said["ended"] = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    if len(lanes) > 1:
        said["lanes"] = len(lanes)
    if annotated:
        said["annotated"] = f"{annotated} episodes" if annotated != 1 else "1 episode"
    return said


def _states(episodes: Sequence[Episode]) -> dict[str, object]:
    """Tell of how many episodes the simulation's states are kept; nothing of a session that keeps none."""
    kept = sum(e.has_states for e in episodes)
    return {"states": f"of {kept} episodes" if kept != 1 else "of 1 episode"} if kept else {}


def _to_draw(session: Session) -> dict[str, object]:
    """Tell what is to be drawn of the states; nothing where nothing is."""
    said = session.to_draw
    if said is None:
        return {}
    parts = [part for part in (said.get("cameras"), said.get("lidars")) if isinstance(part, list)]
    named = [one.get("name") for part in parts for one in part if isinstance(one, dict)]
    return {"to be drawn": f"{', '.join(map(str, named))}: `lucky-recorder render` does it"}


def _origins(session: Session) -> dict[str, object]:
    """Tell where the session comes from, if it says so."""
    try:
        entries = session.provenance
    except FormatError as error:
        return {"comes from": f"cannot be read: {error}"}
    told = []
    for entry in entries:
        env, git = entry.get("env"), entry.get("git")
        of = env.get("id") if isinstance(env, dict) else "no environment"
        commit = git.get("commit") if isinstance(git, dict) else None
        is_dirty = isinstance(git, dict) and git.get("dirty") is True
        at = f", commit {shown(commit)[1:13]}{' (changed)' if is_dirty else ''}" if isinstance(commit, str) else ""
        seeds = entry.get(DISCARDED)
        lost = f", {len(seeds)} attempts discarded" if isinstance(seeds, list) and seeds else ""
        told.append(f"{entry.get(EPISODES)}: {of}{at}{lost}")
    return {"comes from": "; ".join(told)} if told else {}


def _of_videos(session: Session) -> tuple[Table, ...]:
    videos = ((key, len(session.video_files(key))) for key in session.video_keys())
    scans = ((lidar_key(name), session.scan_count(name)) for name in session.lidars)
    return (table(("stream", "files"), (*videos, *scans)),)


def _of_rows(session: Session) -> tuple[Table, ...]:
    return (
        table(("stream", "size", "codec", "rate"), (*_cameras(session), *_unlisted(session))),
        table(("column", "dtype", "shape", "names"), _columns(session)),
        table(("task", "description", "episodes"), _tasks(session)),
    )


def _cameras(session: Session) -> Iterator[tuple[object, ...]]:
    for name, camera in session.cameras.items():
        yield name, f"{camera.width}x{camera.height}", camera.codec, f"{camera.rate} Hz"


def _unlisted(session: Session) -> Iterator[tuple[object, ...]]:
    """Tell of the streams that ``meta/`` does not list, by the first file of each: masks, combined files, lidars."""
    listed = {camera.key for camera in session.cameras.values()}
    for key in session.video_keys():
        if key not in listed:
            files = session.video_files(key)
            yield key, *(_of_file(files[0]) if files else ("no video", "-", "-"))
    for name in session.lidars:
        scans = next((e.scans(name) for e in session if session.is_ours and e.has_scans(name)), None)
        said = ("-", "-") if scans is None else (f"{scans.shape[0]}x{scans.shape[1]} rays", f"{scans.rate} Hz")
        yield lidar_key(name), said[0], "parquet", said[1]


def _of_file(path: Path) -> tuple[str, str, str]:
    try:
        tracks = probe.tracks(path)
    except VideoError:
        return "cannot be read", "-", "-"
    codecs = " + ".join(track.codec for track in tracks)
    return f"{tracks[0].width}x{tracks[0].height}", codecs, f"{tracks[0].fps} Hz"


def _columns(session: Session) -> Iterator[tuple[object, ...]]:
    for name, feature in session.features.items():
        if feature.get("dtype") != "video":
            yield name, feature.get("dtype"), *_shape_and_names(feature)


def _shape_and_names(feature: dict[str, Any]) -> tuple[str, str]:
    names = feature.get("names")
    listed = ", ".join(str(name) for name in names) if isinstance(names, list) else ""
    unit = feature.get("unit")
    return str(feature.get("shape")), f"{listed} [{unit}]".lstrip() if unit else listed


def _tasks(session: Session) -> Iterator[tuple[object, ...]]:
    counts = Counter(task for episode in session for task in episode.tasks)
    for index, description in enumerate(session.tasks):
        yield index, description, counts[description]
