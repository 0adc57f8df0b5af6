"""A contact sheet: every stream of one frame side by side, so that a person can look."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode.keys import DEPTH_CODEC, MASKS, lidar_key
from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.opened import channel_of
from lucky_recorder.session.reader import Session

Picture = NDArray[np.uint8]
"""Pixels: uint8, shape ``(height, width, 3)``, RGB."""

_GAP = 4
_TALLEST = 480
_WIDEST = 1280
_NEAR_PERCENT, _FAR_PERCENT = 1, 99
_SMALLEST_SIDE = 120
# One colour per label, repeated; the background has none.
_LABEL_COLORS = np.array(
    [[230, 60, 60], [60, 160, 230], [240, 190, 40], [80, 200, 120], [180, 90, 220], [250, 130, 40], [60, 210, 210]],
    np.uint8,
)


class Panel(NamedTuple):
    """One stream's part of the sheet.

    Attributes:
        stream: The stream's key.
        picture: What it shows, uint8, shape ``(height, width, 3)``.
    """

    stream: str
    picture: Picture


def panels(session: Session, episode: Episode, frame_index: int) -> list[Panel]:
    """Draw every stream of one moment.

    Args:
        session: The session.
        episode: The episode.
        frame_index: The moment, by its row's ``frame_index``; a stream of another rate shows what it shows then.

    Raises:
        SettingsError: If the episode has no such row.
        LuckyRecorderError: If a stream cannot be read.
    """
    if not 0 <= frame_index < episode.data_ticks:
        raise SettingsError.of(
            "frame", frame_index, f"episode {episode.index} has frames 0 to {episode.data_ticks - 1}"
        )
    streams = (_cameras, _masks, _scans)
    left_out = unshown(session, episode)
    return [panel for stream in streams for panel in stream(session, episode, frame_index, left_out)]


def unshown(session: Session, episode: Episode) -> dict[str, str]:
    """Return the streams of an episode that no sheet shows, by key, and why.

    The format's page leaves open what masks and scans of other recorders hold. Of this recorder's own they are all
    shown, and one that is broken is an error.
    """
    if session.is_ours:
        return {}
    left_out: dict[str, str] = {}
    for name in _masked(session, episode):
        with _noted(left_out, MASKS + name):
            episode.masks(name).close()
    for name in session.lidars:
        with _noted(left_out, lidar_key(name)):
            _ = episode.scans(name) if episode.has_scans(name) else None
    return left_out


@contextmanager
def _noted(left_out: dict[str, str], key: str) -> Iterator[None]:
    try:
        yield
    except FormatError as error:
        left_out[key] = str(error)


def _cameras(session: Session, episode: Episode, frame_index: int, left_out: Container[str]) -> Iterator[Panel]:
    for camera in session.cameras.values():
        if not episode.has_video(camera.name):
            continue
        if camera.codec == DEPTH_CODEC and channel_of(session.features[camera.key]) is not None:
            # No metres, but codes of another meaning: coloured by how large they are.
            with episode.frames(camera.name) as codes:
                shown = codes[_beside(frame_index, camera.rate, session, len(codes))]
                yield Panel(camera.key, color_depth(shown.astype(np.float32)))
        elif camera.codec == DEPTH_CODEC:
            with closing(episode.depth(camera.name)) as depth:
                yield Panel(camera.key, color_depth(depth[_beside(frame_index, camera.rate, session, len(depth))]))
        else:
            with episode.frames(camera.name) as frames:
                yield Panel(camera.key, frames[_beside(frame_index, camera.rate, session, len(frames))])


def _masked(session: Session, episode: Episode) -> list[str]:
    """Return the cameras of which an episode has masks."""
    names = [key.removeprefix(MASKS) for key in session.video_keys() if key.startswith(MASKS)]
    return [name for name in names if episode.has_masks(name)]


def _masks(session: Session, episode: Episode, frame_index: int, left_out: Container[str]) -> Iterator[Panel]:
    for name in _masked(session, episode):
        key = MASKS + name
        if key in left_out:
            continue
        with closing(episode.masks(name)) as masks:
            index = _beside(frame_index, masks.ids.info.fps, session, len(masks))
            yield Panel(key, overlay(masks[index], _below(session, episode, name, index)))


def _below(session: Session, episode: Episode, name: str, index: int) -> Picture | None:
    """Return the picture a mask goes with, if its camera has recorded colour."""
    if name not in session.cameras or not episode.has_video(name):
        return None
    with episode.frames(name) as frames:
        below: Picture = frames[min(index, len(frames) - 1)]
        return below


def _scans(session: Session, episode: Episode, frame_index: int, left_out: Container[str]) -> Iterator[Panel]:
    for name in session.lidars:
        is_shown = episode.has_scans(name) and lidar_key(name) not in left_out
        scans = episode.scans(name) if is_shown else None
        if scans is not None and len(scans):
            ranges = scans.ranges(_beside(frame_index, scans.rate, session, len(scans))).reshape(scans.shape)
            yield Panel(lidar_key(name), draw_scan(ranges))


def draw_scan(ranges: NDArray[np.float32]) -> Picture:
    """Colour a scan as depth is, shape ``(elevations, azimuths)``: the highest row on top, azimuth to the left."""
    seen = np.where(np.isfinite(ranges) & (ranges > 0), ranges, np.float32(0))
    tall, wide = (max(1, _SMALLEST_SIDE // length) for length in seen.shape)
    return color_depth(seen[::-1, ::-1]).repeat(tall, axis=0).repeat(wide, axis=1)


def _beside(frame_index: int, rate: Fraction, session: Session, count: int) -> int:
    """Return which of a stream's frames or scans is shown beside a row: the last one taken by then."""
    return min(int(frame_index * rate / session.hz), count - 1)


def color_depth(depth: NDArray[np.float32]) -> Picture:
    """Colour metres from near (warm) to far (cold), over the range that occurs; black where nothing was measured.

    The range leaves out the last percent at either end: a single stray pixel would make all others look alike.
    """
    measured = depth > 0
    if not measured.any():
        return np.zeros((*depth.shape, 3), np.uint8)
    near, far = np.percentile(depth[measured], (_NEAR_PERCENT, _FAR_PERCENT))
    share = np.clip((depth - near) / max(far - near, 1e-6), 0, 1)
    stops = np.array([[252, 230, 120], [240, 120, 60], [160, 40, 110], [40, 20, 120]], np.float32)
    place = share * (len(stops) - 1)
    low = np.minimum(place.astype(int), len(stops) - 2)
    blend = (place - low)[..., None]
    picture: Picture = (stops[low] * (1 - blend) + stops[low + 1] * blend).astype(np.uint8)
    picture[~measured] = 0
    return picture


def overlay(ids: NDArray[np.uint8], below: Picture | None) -> Picture:
    """Lay label ids in colours over a picture, darkened so that they stand out; or over black, where there is none."""
    ground = np.zeros((*ids.shape, 3), np.uint8) if below is None or below.shape[:2] != ids.shape else below // 2
    colors = _LABEL_COLORS[(ids.astype(int) - 1) % len(_LABEL_COLORS)]
    laid: Picture = np.where((ids > 0)[..., None], ground // 2 + colors // 2, ground)
    return laid


def sheet(drawn: list[Panel]) -> Picture:
    """Put panels side by side, each as tall as the tallest that is not too tall, in lines that fit a screen."""
    tallest = min(_TALLEST, max(panel.picture.shape[0] for panel in drawn))
    lines = _in_lines(_fit(panel.picture, tallest) for panel in drawn)
    height, width = sum(map(_height, lines)) + _GAP * (len(lines) - 1), max(map(_width, lines))
    page = np.full((height, width, 3), 255, np.uint8)
    top = 0
    for line in lines:
        left = 0
        for picture in line:
            page[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
            left += picture.shape[1] + _GAP
        top += _height(line) + _GAP
    return page


def _in_lines(pictures: Iterable[Picture]) -> list[list[Picture]]:
    """Begin a new line where a picture would reach beyond the screen."""
    lines: list[list[Picture]] = [[]]
    for picture in pictures:
        if lines[-1] and _width([*lines[-1], picture]) > _WIDEST:
            lines.append([])
        lines[-1].append(picture)
    return lines


def _width(line: list[Picture]) -> int:
    return sum(int(picture.shape[1]) for picture in line) + _GAP * (len(line) - 1)


def _height(line: list[Picture]) -> int:
    return max(int(picture.shape[0]) for picture in line)


def _fit(picture: Picture, height: int) -> Picture:
    """Scale a picture to a height, or to the width of a screen where it would be wider."""
    scale = min(height / picture.shape[0], _WIDEST / picture.shape[1])
    tall, wide = (max(1, round(length * scale)) for length in picture.shape[:2])
    down, across = np.arange(tall) * picture.shape[0] // tall, np.arange(wide) * picture.shape[1] // wide
    fitted: Picture = picture[down][:, across]
    return fitted
