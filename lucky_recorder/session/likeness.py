"""Whether two go together, a session and a recording or two sessions: all that both say of columns, streams and files.

What ``info.json`` says is compared field by field; what it does not speak of (masks, combined files, lidars) by what
the data files carry of it, or, of earlier versions and other recorders, by what lies there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lucky_recorder.episode import keys
from lucky_recorder.episode.schema import Schema
from lucky_recorder.errors import shown
from lucky_recorder.lazy import lazy
from lucky_recorder.session import carried as footers
from lucky_recorder.session import later, layout, metadata
from lucky_recorder.session.carried import Carried
from lucky_recorder.session.features import STATES_PATH
from lucky_recorder.session.folder import SessionFolder

if TYPE_CHECKING:
    from lucky_recorder.video import probe
else:
    # Only masks are looked into.
    probe = lazy("lucky_recorder.video.probe")

# What is counted, what says who wrote it, and what follows from another field. What `info.json` has beside the
# recorder's own fields is somebody's note, and is kept.
FREE = (
    *("recorder_version", "bit_reproducible", "total_tasks", "total_episodes", "total_frames", "splits", "fps"),
    later.CALIBRATION,
)
CALIBRATION = ("intrinsics", "extrinsics")
_EXPLAINED = {"convention", "formula", "pixels"}
_SCENES_DIGITS = 1e-6


class _Nothing:
    """What is said where one of the two has no such thing: no value is equal to it."""

    def __repr__(self) -> str:
        return "none"


_NONE = _Nothing()


class Side(NamedTuple):
    """One of the two that are compared.

    Attributes:
        name: What the differences call it.
        info: The content of its ``info.json``.
        beside: What masks, combined files and lidars it has, by their keys: see `carried.unlisted`.
        is_all: Whether it is known to have no others.
    """

    name: str
    info: Mapping[str, Any]
    beside: Mapping[str, Mapping[str, Any]]
    is_all: bool = True


def differences(folder: SessionFolder, schema: Schema, chunking: layout.Chunking) -> Iterator[str]:
    """Say in which ways a recording would write other things than a session holds.

    Args:
        folder: The session.
        schema: What the rows and frames of the recording are.
        chunking: How it groups files.

    Yields:
        A clause for each difference, with what the session has and what the recording would have.
    """
    given = recording(schema, chunking)
    yield from compared(
        side(folder, "the session"),
        given,
        [f for f in {**given.info, STATES_PATH: "", later.TO_DRAW: ""} if f not in FREE],
    )


def recording(schema: Schema, chunking: layout.Chunking) -> Side:
    """Return what a recording would write."""
    # As it would be read back: lists, not tuples.
    said = json.loads(json.dumps([metadata.info(schema, chunking), footers.unlisted(schema)]))
    return Side("this recording", *said)


def side(folder: SessionFolder, name: str) -> Side:
    """Return what a session holds.

    Raises:
        FormatError: If what its files say cannot be read.
    """
    carried = last_carried(folder) if folder.is_ours else None
    if carried is not None and carried.beside is not None:
        return Side(name, folder.info, carried.beside)
    # An episode that succeeded has every stream. Another may lack one that has failed, so where none has succeeded it
    # is not known what the session was to have, but only what it has.
    is_whole = any(row.get("success") for row in folder.episodes.select(_success(folder)).to_pylist())
    return Side(name, folder.info, _looked(folder), is_whole)


def _success(folder: SessionFolder) -> list[str]:
    return [name for name in folder.episodes.column_names if name == "success"]


def compared(one: Side, other: Side, fields: Collection[str]) -> Iterator[str]:
    """Say in which ways two go not together.

    Args:
        one: The one.
        other: The other.
        fields: Which fields of ``info.json`` must be equal; ``features`` are compared in any case.

    Yields:
        A clause for each difference, with what each of the two has.
    """
    for field in fields:
        if field != "features":
            yield from _differs(field, (one, other), one.info.get(field, _NONE), other.info.get(field, _NONE))
    yield from _features((one, other))
    yield from _unnamed((one, other))


Pair = tuple[Side, Side]


def _differs(what: str, sides: Pair, had: object, given: object) -> Iterator[str]:
    if had != given:
        yield f"{what}: {sides[0].name} has {shown(had)}, {sides[1].name} {shown(given)}"


def _only(key: str, sides: Pair, is_first: bool) -> str:
    return f"{key!r}: only {sides[not is_first].name} has it"


def _features(sides: Pair) -> Iterator[str]:
    had, given = sides[0].info["features"], sides[1].info["features"]
    for key in [*had, *(key for key in given if key not in had)]:
        if key in had and key in given:
            yield from _feature(key, sides, had[key], given[key])
        else:
            yield _only(key, sides, key in had)
    if set(had) == set(given):
        yield from _differs("the order of columns", sides, list(had), list(given))


def _feature(key: str, sides: Pair, had: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    for part in dict.fromkeys((*given, *had)):
        inner = (had.get(part), given.get(part, {}))
        if part == "info" and isinstance(inner[0], dict) and isinstance(inner[1], dict):
            for name in dict.fromkeys((*inner[1], *inner[0])):
                if name not in CALIBRATION:
                    yield from _differs(f"{key!r} {name}", sides, inner[0].get(name, _NONE), inner[1].get(name, _NONE))
        else:
            yield from _differs(f"{key!r} {part}", sides, had.get(part, _NONE), given.get(part, _NONE))


def moved(had: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return the keys of the streams whose camera is calibrated otherwise in one than in the other.

    Args:
        had: The features of the one.
        given: Those of the other, which has all streams of it.
    """
    return [
        key
        for key, feature in had.items()
        if feature.get("dtype") == "video"
        and any(_says_otherwise(*(said["info"].get(part) for said in (feature, given[key]))) for part in CALIBRATION)
    ]


def _says_otherwise(had: Any, given: Any) -> bool:
    """Tell whether two say different things of the same: what one of them leaves out, as versions before do, does not.

    Nor do sentences that explain it, nor digits beyond those of the float32 that a scene has.
    """
    if isinstance(had, dict) and isinstance(given, dict):
        return any(_says_otherwise(had[name], given[name]) for name in had.keys() & given.keys() - _EXPLAINED)
    if isinstance(had, list) and isinstance(given, list):
        return len(had) != len(given) or any(map(_says_otherwise, had, given))
    if isinstance(had, int | float) and isinstance(given, int | float):
        return not math.isclose(had, given, rel_tol=_SCENES_DIGITS, abs_tol=_SCENES_DIGITS)
    return None not in (had, given) and bool(had != given)


def _unnamed(sides: Pair) -> Iterator[str]:
    """Compare what ``meta/`` does not speak of."""
    had, given = sides[0].beside, sides[1].beside
    for key in sorted({*had, *given}):
        if key in had and key in given:
            yield from _parts(key, sides, had[key], given[key])
        elif sides[key in had].is_all:
            yield _only(key, sides, key in had)


def _parts(key: str, sides: Pair, had: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    is_lidar = key.startswith(keys.LIDAR_PREFIX)
    name = f"lidar {key.removeprefix(keys.LIDAR_PREFIX)!r}" if is_lidar else repr(key)
    for part in dict.fromkeys((*given, *had)):
        told = "frames per second" if part == "fps" and not is_lidar else part
        yield from _differs(f"{name} {told}", sides, had.get(part, _NONE), given.get(part, _NONE))


def last_carried(folder: SessionFolder) -> Carried | None:
    """Return what the file of the last episode carries; None without an episode, and of the versions before."""
    if not folder.episodes.num_rows:
        return None
    row = folder.episodes.slice(folder.episodes.num_rows - 1).to_pylist()[0]
    return folder.read_data(row, lambda name: footers.read(folder.files, name)).carried


def _looked(folder: SessionFolder) -> dict[str, dict[str, Any]]:
    """Say what lies there, of a session whose data files do not carry it: as `carried.unlisted` says it."""
    found = folder.files.files(keys.VIDEOS) + folder.files.files(keys.DATA)
    names = [name for name in found if layout.is_own_file(name)]
    said: dict[str, dict[str, Any]] = {}
    for key in dict.fromkeys(name.split("/")[1] for name in names if name.startswith(keys.VIDEOS)):
        if key not in folder.features:
            said[key] = _mask(folder, key, names) if key.startswith(keys.MASKS) else _combined(folder, key)
    for scan in filter(None, map(layout.SCAN_FILE.fullmatch, names)):
        if keys.lidar_key(scan[1]) not in said:
            stem = scan[0].removesuffix(".parquet")
            described = folder.files.json(f"{stem}.json")
            said[keys.lidar_key(scan[1])] = {**described, "video proxy": f"{stem}.mp4" in names}
    return said


def _combined(folder: SessionFolder, key: str) -> dict[str, Any]:
    """Say what a file of colour and depth is: as its colours are, of which it has a copy."""
    color = folder.cameras.get(key.removeprefix(keys.IMAGES).removesuffix(keys.RGBD_SUFFIX))
    return {} if color is None else {"width": color.width, "height": color.height, "fps": str(color.rate)}


def _mask(folder: SessionFolder, key: str, names: Sequence[str]) -> dict[str, Any]:
    videos = [n for n in names if n.startswith(f"{keys.VIDEOS}{key}/") and n.endswith(".mp4")]
    if not videos:
        return {}
    found = probe.probe(folder.files.file(videos[0]))
    said: dict[str, Any] = {"width": found.width, "height": found.height, "fps": str(found.fps)}
    labels = videos[0].removesuffix(".mp4") + ".json"
    return said | ({"labels": folder.files.json(labels)} if labels in names else {})
