"""Datasets to be shaped, made by hand: each bundle says who it is by its number, and has overlays where asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import lucky_recorder as lr
from lucky_recorder.edit.assemble_bundles import BundlePick
from lucky_recorder.edit.bundled import Bundled
from tests.koyu.bundles import CAMERAS, features, write_bundle, write_manifest

LIFT, LOWER = "Lift the cube", "Lower the cube"
ONE_CAMERA = CAMERAS[:1]


def dataset(
    path: Path,
    numbers: Iterable[int],
    cameras: tuple[str, ...] = ONE_CAMERA,
    *,
    of: Mapping[int, Any] = {},
    **said: Any,
) -> Path:
    """Write a dataset with the bundles of these numbers, each of ``3 + number`` rows.

    Args:
        path: Its folder.
        numbers: Those of its bundles, whose ids follow from them.
        cameras: Their cameras.
        of: What the sidecars of some say, by number.
        said: Fields of the manifest.
    """
    entries = []
    for number in numbers:
        own = {"reward": float(number % 2), **(of or {}).get(number, {})}
        entry = write_bundle(path, number, 3 + number, cameras, **own)
        entry["task_description"] = own.get("task_description", LIFT)
        entries.append(entry)
    write_manifest(path, entries, **{"features": features(cameras), "name": path.name, **said})
    return path


def events(*tasks: str) -> list[dict[str, Any]]:
    return [{"step": 1 + k, "type": "task", "task": "x", "task_description": task} for k, task in enumerate(tasks)]


def bundle_id(number: int) -> str:
    return f"ep_{number + 1:032x}"


def whole(*paths: Path) -> list[BundlePick]:
    return [BundlePick(source, number) for source in map(Bundled, paths) for number in range(len(source))]


def manifest(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((path / "manifest.json").read_text())
    return content


def ids(path: Path) -> list[str]:
    return [entry["id"] for entry in manifest(path)["episodes"]]


def sidecar(path: Path, number: int) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((path / f"episodes/{bundle_id(number)}/episode.json").read_text())
    return content


def label(path: Path, name: str, kind: str, *numbers: int, offset: float = 0.0, description: str = "") -> None:
    """Say something of some episodes that tells which they are."""
    said: dict[str, Any] = {}
    for number in numbers:
        rows = 3 + number
        dense = np.arange(rows) + 100 * number + offset
        said[bundle_id(number)] = dense if kind == "dense" else [(0, rows, f"episode {number}, {offset}")]
    lr.koyu.write_overlay(path, name, kind, said, description=description)
