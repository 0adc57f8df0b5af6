"""Checks of ``meta/info.json``: every field there, of its type, and its sums right (spec: info.json)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lucky_recorder.episode import clock
from lucky_recorder.errors import FormatError, shown
from lucky_recorder.session.checks.declared import ENTITIES, is_whole, rate
from lucky_recorder.session.checks.evidence import INFO, Evidence, Fault
from lucky_recorder.storage.untrusted import expand

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
_DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_rate(value: object) -> bool:
    """Tell whether a number is a rate in the format's words: an int when whole."""
    exact = rate(value)
    return exact is not None and type(value) is type(clock.number(exact))


def _is_size(value: object) -> bool:
    return type(value) in (int, float) and 0 < value < float("inf")  # type: ignore[operator]


def _are_names(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _leads_to(template: object, path: str) -> bool:
    """Tell whether a path template, filled in, gives a path."""
    try:
        return expand(template, video_key="KEY", chunk_index=12, file_index=3) == path
    except FormatError:
        return False


Fields = dict[str, tuple[Callable[[object], bool], str]]

_FIELDS: Fields = {
    "codebase_version": (_is_text, "a version"),
    "neural_denoise": (_is_bool, "true or false"),
    "bit_reproducible": (_is_bool, "true or false"),
    "total_tasks": (lambda v: is_whole(v, 1), "a whole number of at least 1"),
    "total_episodes": (is_whole, "a whole number"),
    "total_frames": (is_whole, "a whole number"),
    "fps": (lambda v: rate(v) is not None, "a rate in Hz"),
    "hz": (lambda v: rate(v) is not None, "a rate in Hz"),
    "chunks_size": (lambda v: is_whole(v, 1, 1000), "a whole number from 1 to 1000"),
    "data_files_size_in_mb": (_is_size, "a size in MB"),
    "video_files_size_in_mb": (_is_size, "a size in MB"),
    "data_path": (lambda v: _leads_to(v, "data/chunk-012/file-003.parquet"), f"such as {_DATA_PATH!r}"),
    "splits": (lambda v: isinstance(v, dict), "an object"),
    "features": (lambda v: isinstance(v, dict), "an object"),
}
# What this recorder promises beyond the format's page, in the sessions that it has written.
_OURS: Fields = {
    "codebase_version": (lambda v: v == "v3.0", "'v3.0'"),
    "recorder_version": (_is_text, "a version"),
    "robots": (_are_names, "a list of distinct names"),
    "fps": (_is_rate, "a rate in Hz, an int when whole"),
    "hz": (_is_rate, "a rate in Hz, an int when whole"),
    "episodes_per_file": (lambda v: is_whole(v, 1, 1000), "a whole number from 1 to 1000"),
    "data_path": (lambda v: v == _DATA_PATH, repr(_DATA_PATH)),
}


def check_fields(evidence: Evidence) -> Iterator[Fault]:
    """Check that every field is there and of its type."""
    info = evidence.info
    if info is None:
        return
    is_ours = evidence.declared.is_ours
    for field, (is_right, expected) in (_FIELDS | _OURS if is_ours else _FIELDS).items():
        if field not in info:
            yield Fault(INFO, None, f"{field} is missing")
        elif not is_right(info[field]):
            yield Fault(INFO, None, f"{field} is {shown(info[field])}, expected {expected}")
    yield from _check_entity(info, evidence.declared.entity_column)
    yield from _check_to_draw(info)
    has_videos = evidence.declared.streams or "video_path" in info
    if has_videos and (is_ours or not _leads_to(info.get("video_path"), "videos/KEY/chunk-012/file-003.mp4")):
        yield from _expect(info, "video_path", _VIDEO_PATH)
    if info.get("neural_denoise") is True:
        yield from _expect(info, "bit_reproducible", False)


def _check_to_draw(info: Mapping[str, Any]) -> Iterator[Fault]:
    """Check that what is to be drawn is said as it should be, and that there are states to draw it of."""
    if "to_draw" not in info:
        return
    if not isinstance(info["to_draw"], dict) or not isinstance(info.get("to_draw_calibration"), dict):
        yield Fault(
            INFO, None, f"to_draw is {shown(info['to_draw'])}, expected settings, and to_draw_calibration beside"
        )
    if "states_path" not in info:
        yield Fault(INFO, None, "to_draw is there, and no states that it could be drawn of")


def _check_entity(info: Mapping[str, Any], column: str | None) -> Iterator[Fault]:
    labels = {entity.removesuffix("_id") + "_type": label for entity, label in ENTITIES.items()}
    found = [field for field in labels if field in info]
    if len(found) != 1:
        yield Fault(INFO, None, f"expected one of {', '.join(labels)}, found {', '.join(found) or 'none'}")
        return
    yield from _expect(info, found[0], labels[found[0]])
    if column is not None and found[0] != column.removesuffix("_id") + "_type":
        yield Fault(INFO, None, f"{found[0]} does not go with the column {column}")


def check_sums(evidence: Evidence) -> Iterator[Fault]:
    """Check that the totals are those of ``meta/episodes`` and ``tasks.parquet``."""
    info = evidence.info
    if info is None:
        return
    yield from _expect(info, "total_episodes", evidence.row_count)
    yield from _expect(info, "splits", {"train": f"0:{evidence.row_count}"})
    yield from _expect(info, "total_frames", sum(e.length for e in evidence.episodes))
    if evidence.declared.is_ours:
        yield from _expect(info, "fps", info.get("hz"))
    if evidence.descriptions is not None:
        yield from _expect(info, "total_tasks", len(evidence.descriptions))


def _expect(info: Mapping[str, Any], field: str, expected: object) -> Iterator[Fault]:
    found = info.get(field)
    if found != expected or type(found) is not type(expected):
        yield Fault(INFO, None, f"{field} is {shown(found)}, expected {shown(expected)}")
