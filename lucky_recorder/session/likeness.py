"""Whether a recording would write what a session holds: what both say of every column, stream and file, compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lucky_recorder.episode import keys
from lucky_recorder.episode.schema import ScanStream, Schema, Stream
from lucky_recorder.errors import shown
from lucky_recorder.lazy import lazy
from lucky_recorder.session import carried as footers
from lucky_recorder.session import layout, metadata
from lucky_recorder.session.carried import Carried
from lucky_recorder.session.folder import SessionFolder

if TYPE_CHECKING:
    from lucky_recorder.video import probe
else:
    # Only masks are looked into.
    probe = lazy("lucky_recorder.video.probe")

# What is counted, what says who wrote it, and what follows from another field. What `info.json` has beside the
# recorder's own fields is somebody's note, and is kept.
_FREE = ("recorder_version", "bit_reproducible", "total_tasks", "total_episodes", "total_frames", "splits", "fps")
_CALIBRATION = ("intrinsics", "extrinsics")


class _Nothing:
    """What is said where one of the two has no such thing: no value is equal to it."""

    def __repr__(self) -> str:
        return "none"


_NONE = _Nothing()


def differences(folder: SessionFolder, schema: Schema, chunking: layout.Chunking) -> Iterator[str]:
    """Say in which ways a recording would write other things than a session holds.

    Args:
        folder: The session.
        schema: What the rows and frames of the recording are.
        chunking: How it groups files.

    Yields:
        A clause for each difference, with what the session has and what the recording would have.
    """
    # As it would be read back: lists, not tuples.
    given = json.loads(json.dumps(metadata.info(schema, chunking)))
    for field in (f for f in given if f not in (*_FREE, "features")):
        yield from _differs(field, folder.info.get(field, _NONE), given[field])
    yield from _features(folder.features, given["features"])
    yield from _unnamed(folder, schema)


def _differs(what: str, had: object, given: object) -> Iterator[str]:
    if had != given:
        yield f"{what}: the session has {shown(had)}, this recording {shown(given)}"


def _features(had: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    for key in [*had, *(key for key in given if key not in had)]:
        if key in had and key in given:
            yield from _feature(key, had[key], given[key])
        else:
            yield f"{key!r}: only {'the session' if key in had else 'this recording'} has it"
    if set(had) == set(given):
        yield from _differs("the order of columns", list(had), list(given))


def _feature(key: str, had: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    for part in dict.fromkeys((*given, *had)):
        if part == "info" and isinstance(had.get(part), dict):
            inner = (had[part], given.get(part, {}))
            for name in dict.fromkeys((*inner[1], *inner[0])):
                if name not in _CALIBRATION:
                    yield from _differs(f"{key!r} {name}", inner[0].get(name, _NONE), inner[1].get(name, _NONE))
        else:
            yield from _differs(f"{key!r} {part}", had.get(part, _NONE), given.get(part, _NONE))


def moved(folder: SessionFolder, schema: Schema) -> list[str]:
    """Return the keys of the streams whose camera is calibrated otherwise than ``info.json`` says."""
    return [
        stream.key
        for stream in schema.described
        if any(
            folder.features[stream.key]["info"].get(part) != json.loads(json.dumps(stream.calibration.get(part)))
            for part in _CALIBRATION
        )
    ]


def _unnamed(folder: SessionFolder, schema: Schema) -> Iterator[str]:
    """Compare what ``meta/`` does not speak of: masks, combined files and lidars. The last data file carries it."""
    carried = last_carried(folder)
    had = None if carried is None else carried.beside
    if had is None:
        yield from _unsaid(folder, schema)
        return
    given = json.loads(json.dumps(footers.unlisted(schema)))
    for key in sorted({*had, *given}):
        if key in had and key in given:
            yield from _parts(key, had[key], given[key])
        else:
            yield f"{key!r}: only {'the session' if key in had else 'this recording'} has it"


def _parts(key: str, had: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    is_lidar = key.startswith(keys.LIDAR_PREFIX)
    name = f"lidar {key.removeprefix(keys.LIDAR_PREFIX)!r}" if is_lidar else repr(key)
    for part in dict.fromkeys((*given, *had)):
        told = "frames per second" if part == "fps" and not is_lidar else part
        yield from _differs(f"{name} {told}", had.get(part, _NONE), given.get(part, _NONE))


def last_carried(folder: SessionFolder) -> Carried | None:
    """Return what the file of the last episode carries; None without an episode, and of the versions before."""
    if not folder.episodes.num_rows:
        return None
    row = folder.episodes.slice(folder.episodes.num_rows - 1).to_pylist()[0]
    return folder.read_data(row, lambda name: footers.read(folder.files, name)).carried


def _unsaid(folder: SessionFolder, schema: Schema) -> Iterator[str]:
    """Compare with what lies there, in a session of a version whose data files do not carry it.

    An episode that succeeded has every stream. Another may lack one that has failed, so where none has succeeded it is
    not known what the session was to have, but only what it has.
    """
    whole = next((row[keys.EPISODE_INDEX] for row in folder.episodes.to_pylist() if row["success"]), None)
    found = folder.files.files(keys.VIDEOS) + folder.files.files(keys.DATA)
    names = [name for name in found if layout.is_own_file(name)]
    streams = {stream.key: stream for stream in schema.streams if not stream.is_described}
    scans = {keys.lidar_key(scan.name): scan for scan in schema.scans}
    there = {name.split("/")[1] for name in names if name.startswith(keys.VIDEOS)} - set(folder.features)
    there |= {keys.lidar_key(scan[1]) for scan in map(layout.SCAN_FILE.fullmatch, names) if scan}
    for key in sorted(there | set(streams) | set(scans)):
        if key not in streams and key not in scans:
            yield f"{key!r}: only the session has it"
        elif key not in there:
            if whole is not None:
                yield f"{key!r}: only this recording has it"
        elif key in scans:
            yield from _lidar(folder, scans[key], names)
        elif streams[key].kind == "mask":
            yield from _mask(folder, streams[key], names)


def _lidar(folder: SessionFolder, scan: ScanStream, names: Sequence[str]) -> Iterator[str]:
    found = next(n for n in names if (match := layout.SCAN_FILE.fullmatch(n)) and match[1] == scan.name)
    stem = found.removesuffix(".parquet")
    had = folder.files.json(f"{stem}.json")
    given = json.loads(json.dumps(scan.description))
    for part in dict.fromkeys((*given, *had)):
        yield from _differs(f"lidar {scan.name!r} {part}", had.get(part, _NONE), given.get(part, _NONE))
    yield from _differs(f"lidar {scan.name!r} video proxy", f"{stem}.mp4" in names, scan.has_proxy)


def _mask(folder: SessionFolder, stream: Stream, names: Sequence[str]) -> Iterator[str]:
    videos = [n for n in names if n.startswith(f"{keys.VIDEOS}{stream.key}/") and n.endswith(stream.suffix)]
    if not videos:
        return
    found = probe.probe(folder.files.file(videos[0]))
    yield from _differs(f"{stream.key!r} width", found.width, stream.width)
    yield from _differs(f"{stream.key!r} height", found.height, stream.height)
    yield from _differs(f"{stream.key!r} frames per second", str(found.fps), str(stream.rate))
    labels = videos[0].removesuffix(stream.suffix) + ".json"
    if labels in names:
        yield from _differs(f"{stream.key!r} labels", folder.files.json(labels), stream.info["labels"])
