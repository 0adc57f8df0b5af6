"""Checks of mask videos and of the JSON files that name their ids (spec: Video streams; masks are not in meta/)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from lucky_recorder.errors import shown
from lucky_recorder.session.checks import unlisted
from lucky_recorder.session.checks.declared import DeclaredStream
from lucky_recorder.session.checks.evidence import Evidence, Fault, Listed
from lucky_recorder.session.checks.vectors import Array
from lucky_recorder.session.checks.videos import box_faults, count_faults, decoded, frame_faults
from lucky_recorder.video.probe import VideoInfo

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
MOST_LABELS = 255


def check_masks(evidence: Evidence) -> Iterator[Fault]:
    """Check the mask files of every episode; the ids of a camera mean the same throughout."""
    said = dict(evidence.shared.labels)
    for episode in evidence.episodes if evidence.declared.files_per_chunk else ():
        for twins in unlisted.masks(evidence, episode):
            if not evidence.declared.is_ours and twins.description not in evidence.files:
                yield from _unlabelled_faults(twins, episode, evidence)
                continue
            yield from unlisted.missing(twins, episode, evidence)
            labels = read_labels(twins, episode.number, evidence, said)
            yield from label_faults(twins, episode.number, labels, said)
            if twins.content in evidence.files:
                for message in _video_faults(twins, episode, labels, evidence):
                    yield Fault(twins.content, episode.number, message)


def first_labels(evidence: Evidence) -> dict[str, dict[str, Any]]:
    """Return what the ids of each camera stand for, by the first of its files that can be read."""
    said: dict[str, dict[str, Any]] = {}
    for camera in unlisted.names(evidence, unlisted.MASKS) if evidence.declared.files_per_chunk else ():
        for episode in evidence.episodes:
            twins = unlisted.twins_of_mask(camera, unlisted.video_place(evidence, episode))
            if read_labels(twins, episode.number, evidence, said) is not None:
                break
    return said


def _unlabelled_faults(twins: unlisted.Twins, episode: Listed, evidence: Evidence) -> Iterator[Fault]:
    """Check another recorder's mask video: what its pixels stand for, the format does not say."""
    if twins.content not in evidence.files:
        if episode.values.get("success") is True:
            yield Fault(twins.content, episode.number, "is missing, and yet success is true")
        return
    video = decoded(twins.content, evidence)
    faults = [video] if isinstance(video, str) else frame_faults(video, ".mp4", False)
    for message in (*faults, *box_faults(evidence.folder.path / twins.content)):
        yield Fault(twins.content, episode.number, message)


def read_labels(
    twins: unlisted.Twins, episode: int | None, evidence: Evidence, said: dict[str, dict[str, Any]]
) -> dict[str, Any] | None:
    """Read what the ids stand for; the first of a camera's files counts for all of them."""
    if twins.description not in evidence.files:
        return None
    labels = evidence.read(twins.description, evidence.folder.json)
    if labels is not None:
        said.setdefault(twins.name, labels)
    return labels


def label_faults(
    twins: unlisted.Twins, episode: int | None, labels: dict[str, Any] | None, said: dict[str, dict[str, Any]]
) -> Iterator[Fault]:
    """Check that the file maps ids to names."""
    if labels is None:
        return
    file = twins.description
    if wrong := [key for key in labels if not is_label(key)]:
        yield Fault(file, episode, f"{shown(wrong[0])} is no id from 0 to {MOST_LABELS}")
    if "0" not in labels:
        yield Fault(file, episode, "says nothing of id 0, the background")
    texts = list(labels.values())
    if not all(isinstance(text, str) and text for text in texts):
        yield Fault(file, episode, "does not name every id")
    elif len(set(texts)) != len(texts):
        yield Fault(file, episode, "a name stands for two ids")
    if labels != said[twins.name]:
        yield Fault(file, episode, "says otherwise than the camera's first episode")


def is_label(key: str) -> bool:
    """Tell whether a JSON key is a label id."""
    return key.isascii() and key.isdecimal() and len(key) <= 3 and str(int(key)) == key and int(key) <= MOST_LABELS


def look_at_mask(file: str, evidence: Evidence) -> tuple[VideoInfo | str, Array]:
    """Read a mask video; returns also which of the 256 ids occur, none if it was not decoded."""
    occurring = np.zeros(256, np.bool_)

    def see(ids: Array) -> None:
        occurring[ids.reshape(-1)] = True

    return decoded(file, evidence, "gray", see), occurring


def mask_faults(file: str, video: VideoInfo, occurring: Array, labels: Any, evidence: Evidence) -> Iterator[str]:
    """Check what holds of a mask video whatever its camera is."""
    if not video.holds_labels:
        said = f"{video.codec} {video.profile}, {video.pix_fmt}"
        yield f"is {said}, expected lossless h264 of full range: its pixels are no label ids"
    elif isinstance(labels, dict):
        unknown = [i for i in np.flatnonzero(occurring) if str(i) not in labels]
        if unknown:
            yield f"shows id {unknown[0]}, which its JSON file does not name"
    yield from frame_faults(video, ".mp4", True)
    yield from box_faults(evidence.folder.path / file)


def _video_faults(twins: unlisted.Twins, episode: Listed, labels: Any, evidence: Evidence) -> Iterator[str]:
    video, occurring = look_at_mask(twins.content, evidence)
    if isinstance(video, str):
        yield video
        return
    yield from mask_faults(twins.content, video, occurring, labels, evidence)
    declared = evidence.declared
    stream = next(filter(None, declared.camera_streams(twins.name)), None)
    if declared.hz and declared.robots:
        rate = stream.rate if stream else video.fps
        yield from count_faults("frames", video.frames, episode.length // declared.robots, declared.hz, rate)
    if stream:
        yield from _camera_faults(video, stream, episode)


def _camera_faults(video: VideoInfo, stream: DeclaredStream, episode: Listed) -> Iterator[str]:
    """Check that a mask goes with its camera's pictures, one to one."""
    said = {
        "width": (video.width, stream.width),
        "height": (video.height, stream.height),
        "frame rate": (video.fps, stream.rate),
    }
    for what, (found, expected) in said.items():
        if found != expected:
            yield f"{what} is {found}, its camera's is {expected}"
    ends = episode.values.get(f"videos/{stream.key}/to_timestamp")
    if isinstance(ends, float) and abs(ends) < 1e9 and round(Fraction(ends) * stream.rate) != video.frames:
        yield f"{video.frames} frames, its camera has {round(Fraction(ends) * stream.rate)}"
