"""The streams that ``meta/`` has no entry for, known by their files alone: masks, RGBD, lidar (spec: Folder layout)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lucky_recorder.session.checks.declared import DeclaredStream
from lucky_recorder.session.checks.evidence import Evidence, Fault, Listed, video_file
from lucky_recorder.session.layout import Place

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
NAME = "[^/]+"
MASKS = re.compile(rf"videos/observation\.masks\.({NAME})/chunk-\d{{3}}/file-\d{{3}}\.(?:mp4|json)")
RGBD = re.compile(rf"videos/observation\.images\.({NAME})_rgbd/chunk-\d{{3}}/file-\d{{3}}\.mkv")
LIDAR = re.compile(rf"data/chunk-\d{{3}}/lidar-({NAME})-\d{{3,}}\.(?:parquet|json|mp4)")


class Twins(NamedTuple):
    """The files of one such stream in one episode.

    Attributes:
        name: The camera's or sensor's Output Name.
        content: The file that holds it.
        description: The JSON file beside it.
        proxy: A lidar's video, if the session has any.
    """

    name: str
    content: str
    description: str
    proxy: str | None = None


def names(evidence: Evidence, pattern: re.Pattern[str], suffix: str = "") -> list[str]:
    """Return the names of the cameras or sensors whose files, of a suffix if one is given, lie in the folder."""
    # Asked for every episode, and there may be thousands of them: the files are gone through once.
    known = evidence.names
    if (pattern, suffix) not in known:
        found = (pattern.fullmatch(file) for file in evidence.files if file.endswith(suffix))
        known[pattern, suffix] = sorted({match[1] for match in found if match})
    return known[pattern, suffix]


def masks(evidence: Evidence, episode: Listed) -> Iterator[Twins]:
    """Tell where an episode's mask files belong."""
    for camera in names(evidence, MASKS):
        yield twins_of_mask(camera, video_place(evidence, episode))


def twins_of_mask(camera: str, place: Place) -> Twins:
    """Return a mask's files at a place."""
    video, labels = (video_file(f"observation.masks.{camera}", place, suffix) for suffix in (".mp4", ".json"))
    return Twins(camera, video, labels)


def lidars(evidence: Evidence, episode: Listed) -> Iterator[Twins]:
    """Tell where an episode's lidar files belong: in the chunk of its videos, numbered by the episode itself."""
    chunk = video_place(evidence, episode).chunk_index
    proxies = names(evidence, LIDAR, ".mp4")
    for name in names(evidence, LIDAR):
        yield twins_of_lidar(name, chunk, episode.number, name in proxies)


def twins_of_lidar(name: str, chunk: int, episode: int, has_proxy: bool) -> Twins:
    """Return a lidar's files of an episode."""
    stem = f"data/chunk-{chunk:03d}/lidar-{name}-{episode:03d}"
    return Twins(name, f"{stem}.parquet", f"{stem}.json", f"{stem}.mp4" if has_proxy else None)


def combined(evidence: Evidence, episode: Listed) -> Iterator[tuple[str, DeclaredStream, DeclaredStream]]:
    """Tell where an episode's RGBD files belong, with their colour and depth streams; only where both have a file."""
    for camera in names(evidence, RGBD):
        color, depth = evidence.declared.camera_streams(camera)
        if color and depth and has_file(episode, color) and has_file(episode, depth):
            file = video_file(f"observation.images.{camera}_rgbd", video_place(evidence, episode), ".mkv")
            yield file, color, depth


def has_file(episode: Listed, stream: DeclaredStream) -> bool:
    """Tell whether a stream has a file of an episode, by ``meta/episodes``."""
    return episode.values.get(f"videos/{stream.key}/file_index") is not None


def video_place(evidence: Evidence, episode: Listed) -> Place:
    """Return the place of an episode's video files."""
    return Place(*divmod(episode.number, evidence.declared.files_per_chunk or 1000))


def files(evidence: Evidence, episodes: Sequence[Listed]) -> set[str]:
    """Name every file of such a stream that belongs to some episodes."""
    found: set[str] = set()
    for episode in episodes if evidence.declared.files_per_chunk else ():
        for twins in (*masks(evidence, episode), *lidars(evidence, episode)):
            found.update(file for file in twins[1:] if file)
        found.update(file for file, _, _ in combined(evidence, episode))
    return found


def missing(twins: Twins, episode: Listed, evidence: Evidence) -> Iterator[Fault]:
    """Check that an episode's files are there, all or, where a stream has failed, none."""
    wanted = [file for file in twins[1:] if file]
    absent = [file for file in wanted if file not in evidence.files]
    if len(absent) == len(wanted) and episode.values.get("success") is not True:
        return
    for file in absent:
        if len(absent) == len(wanted):
            yield Fault(file, episode.number, "is missing, and yet success is true")
        else:
            beside = next(f for f in wanted if f in evidence.files).rsplit("/", 1)[1]
            yield Fault(file, episode.number, f"is missing, and {beside} is there")
