"""Checks of the overlays: what they say goes with the episodes that the manifest lists (spec: Encoding)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.koyu.overlays import Overlay, lengths_of, names, read_overlay


def check_overlays(dataset: str | Path) -> list[str]:
    """Check every overlay of a dataset against the format and the manifest; returns what is wrong, file by file."""
    root = Path(dataset)
    lengths = lengths_of(root)
    return [fault for name in names(root) for fault in _check(root, name, lengths)]


def _check(root: Path, name: str, lengths: Mapping[str, int]) -> list[str]:
    try:
        overlay = read_overlay(root, name)
    except (FormatError, SettingsError) as error:
        return [str(error)]
    return [f for episode in overlay.episodes for f in _check_episode(overlay, episode, lengths.get(episode))]


def _check_episode(overlay: Overlay, episode: str, length: int | None) -> list[str]:
    path = overlay.dataset / overlay.file(episode)
    if length is None:
        return [f"{path}: there is no such episode in the manifest"]
    try:
        end = _end(overlay, episode)
    except FormatError as error:
        return [str(error)]
    return [f"{path}: says something of step {end - 1}, the episode has {length} steps"] if end > length else []


def _end(overlay: Overlay, episode: str) -> int:
    """Return the step after the last that an overlay speaks of."""
    if overlay.kind == "dense":
        return len(overlay.dense(episode))
    return max((span.end_step for span in overlay.spans(episode)), default=0)
