"""Checks of a session that was recorded without rows: whatever is there is in place, whole, and alike in a stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lucky_recorder.session.checks import lidars, masks, rgbd, unlisted
from lucky_recorder.session.checks.evidence import Evidence, Fault, video_file
from lucky_recorder.session.checks.videos import box_faults, decoded, frame_faults
from lucky_recorder.session.layout import Place
from lucky_recorder.video.probe import VideoInfo

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
_VIDEO = re.compile(
    r"videos/(?P<key>observation\.(?P<kind>images|masks)\.(?P<camera>[^/]+))"
    r"/chunk-(?P<chunk>\d{3})/file-(?P<file>\d{3})(?P<suffix>\.mp4|\.mkv|\.json)"
)
_LIDAR = re.compile(
    rf"data/chunk-(?P<chunk>\d{{3}})/lidar-(?P<name>{unlisted.NAME})-(?P<episode>\d{{3,9}})\.(?:parquet|json|mp4)"
)
_RGBD = "_rgbd"


def check_videos_alone(evidence: Evidence) -> Iterator[Fault]:
    """Check every file under ``videos/``."""
    likeness: dict[str, VideoInfo] = {}
    said: dict[str, dict[str, Any]] = {}
    for file in evidence.under("videos"):
        place = _VIDEO.fullmatch(file)
        if place is None or (place["suffix"] == ".json" and place["kind"] != "masks"):
            yield _out_of_place(file)
        elif place["suffix"] == ".json":
            yield from _label_faults(file, place, evidence, said)
        else:
            for message in _video_faults(file, place, evidence, likeness):
                yield Fault(file, None, message)


def _out_of_place(file: str) -> Fault:
    why = "incomplete, left behind by an interrupted recording" if ".tmp" in file else "is in no stream's place"
    return Fault(file, None, why)


def _label_faults(
    file: str, place: re.Match[str], evidence: Evidence, said: dict[str, dict[str, Any]]
) -> Iterator[Fault]:
    twins = _mask(place)
    if twins.content not in evidence.files:
        yield Fault(twins.content, None, f"is missing, and {file.rsplit('/', 1)[1]} is there")
    yield from masks.label_faults(twins, None, masks.read_labels(twins, None, evidence, said), said)


def _mask(place: re.Match[str]) -> unlisted.Twins:
    return unlisted.twins_of_mask(place["camera"], Place(int(place["chunk"]), int(place["file"])))


def _video_faults(file: str, place: re.Match[str], evidence: Evidence, likeness: dict[str, VideoInfo]) -> Iterator[str]:
    if place["kind"] == "masks":
        video, occurring = masks.look_at_mask(file, evidence)
    else:
        video = decoded(file, evidence)
    if isinstance(video, str):
        yield video
        return
    is_labelled = place["kind"] == "masks" and (video.holds_labels or _mask(place).description in evidence.files)
    if is_labelled:
        twins = _mask(place)
        if twins.description not in evidence.files:
            yield "no JSON file beside it says what its ids are"
        labels = masks.read_labels(twins, None, evidence, {})
        yield from masks.mask_faults(file, video, occurring, labels, evidence)
    else:
        # Nothing says who recorded it. Masks of other recorders are videos like any other.
        yield from frame_faults(video, place["suffix"], False)
        yield from box_faults(evidence.folder.path / file)
    if place["camera"].endswith(_RGBD):
        yield from rgbd.combined_faults(file, *_sources(place), evidence)
    first = likeness.setdefault(place["key"], video)
    for what in ("width", "height", "codec", "pix_fmt", "fps"):
        found, expected = getattr(video, what), getattr(first, what)
        if found != expected:
            yield f"{what} is {found}, its stream began with {expected}"


def _sources(place: re.Match[str]) -> tuple[str, str]:
    """Name the colour and depth files that a combined file was made of."""
    key, at = place["key"].removesuffix(_RGBD), Place(int(place["chunk"]), int(place["file"]))
    return video_file(key, at, ".mp4"), video_file(f"{key}_depth", at, ".mkv")


def check_lidars_alone(evidence: Evidence) -> Iterator[Fault]:
    """Check every file under ``data/``: without rows there are lidar files only."""
    said: dict[str, Mapping[str, Any]] = {}
    found: dict[unlisted.Twins, int] = {}
    proxies = {m["name"] for m in map(_LIDAR.fullmatch, evidence.files) if m and m[0].endswith(".mp4")}
    for file in evidence.under("data"):
        place = _LIDAR.fullmatch(file)
        if place is None:
            yield _out_of_place(file)
            continue
        chunk, episode = int(place["chunk"]), int(place["episode"])
        twins = unlisted.twins_of_lidar(place["name"], chunk, episode, place["name"] in proxies)
        if file in twins:
            found[twins] = episode
        else:
            yield _out_of_place(file)
    for twins, episode in found.items():
        for part in twins[1:]:
            if part and part not in evidence.files:
                yield Fault(part, episode, "is missing, and others of its scans are there")
        yield from lidars.file_faults(twins, episode, None, evidence, said)
