"""Checking a dataset: everything the format says, against the files themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lucky_recorder.errors import FormatError, shown
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.checks.bundle import check_bundle
from lucky_recorder.koyu.checks.evidence import BundleEvidence, Fault
from lucky_recorder.koyu.checks.overlays import check_overlays
from lucky_recorder.koyu.index import Feature, Index, read_features, read_index
from lucky_recorder.settings.koyu import COLLECTION_MODES
from lucky_recorder.storage.untrusted import Folder, reason

__all__ = ["Fault", "Report", "check_koyu", "inspect_koyu"]

_RATE_TOLERANCE = 1e-9


class Report(NamedTuple):
    """What a check found and how much it looked at.

    Attributes:
        faults: Everything that is not as the format says; none in a good dataset.
        episodes: Bundles on the disk.
        rows: Their rows.
        frames: Video frames that go with them.
    """

    faults: list[Fault]
    episodes: int
    rows: int
    frames: int


def check_koyu(dataset: str | Path, decode: bool = True) -> list[Fault]:
    """Check a koyu dataset; it is only read, however broken it is.

    Args:
        dataset: The dataset's folder.
        decode: Decode every frame of every video; without it, frames are only counted.

    Returns:
        The faults, each with its file; an empty list for a good dataset.

    Raises:
        FormatError: If the folder is no dataset at all: it has neither a manifest nor bundles.
    """
    return inspect_koyu(dataset, decode).faults


def inspect_koyu(dataset: str | Path, decode: bool = True) -> Report:
    """Check a koyu dataset, and say how much there was to check; see `check_koyu`.

    Raises:
        FormatError: If the folder is no dataset at all.
    """
    folder = Folder(Path(dataset), "dataset")
    _refuse_other_folders(folder)
    faults: list[Fault] = []
    bundles = list(_bundles(folder, decode, faults))
    faults += _manifest_faults(folder, bundles)
    for bundle in bundles:
        faults += check_bundle(bundle)
    faults += _overlay_faults(folder)
    rows = [max(bundle.length, 0) for bundle in bundles]
    cameras = [sum(f.is_camera for f in bundle.features.values()) for bundle in bundles]
    frames = sum(length * count for length, count in zip(rows, cameras, strict=True))
    return Report(list(dict.fromkeys(faults)), len(bundles), sum(rows), frames)


def _refuse_other_folders(folder: Folder) -> None:
    if not folder.path.is_dir():
        raise FormatError(f"{folder.path}: no such folder; give the path of a dataset")
    if not folder.has(layout.MANIFEST) and not (folder.path / layout.EPISODES).is_dir():
        raise FormatError(f"{folder.path}: is no dataset: it has neither {layout.MANIFEST} nor {layout.EPISODES}/")


def _bundles(folder: Folder, decode: bool, faults: list[Fault]) -> Iterator[BundleEvidence]:
    """Open every bundle on the disk; what is none is a fault."""
    place = folder.path / layout.EPISODES
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        name = f"{layout.EPISODES}/{path.name}"
        if path.name.startswith(layout.TEMPORARY):
            faults.append(Fault(name, "left behind by an interrupted recording, or being written"))
        elif path.is_dir() or path.is_symlink():
            bundle = _bundle(folder, name, decode, faults)
            if bundle is not None:
                yield bundle


def _bundle(folder: Folder, name: str, decode: bool, faults: list[Fault]) -> BundleEvidence | None:
    file = f"{name}/{layout.SIDECAR}"
    path = folder.path / file
    try:
        sidecar = folder.json(file)
        layout.refuse_other_versions(sidecar, str(path))
    except FormatError as error:
        faults.append(Fault(file, reason(error, path)))
        return None
    features: dict[str, Feature] = {}
    try:
        features = read_features(sidecar.get("features"), str(path))
    except FormatError as error:
        faults.append(Fault(file, reason(error, path)))
    return BundleEvidence(folder, name, sidecar, features, decode)


# The manifest.


def _manifest_faults(folder: Folder, bundles: list[BundleEvidence]) -> Iterator[Fault]:
    try:
        index = read_index(folder)
    except FormatError as error:
        yield Fault(layout.MANIFEST, reason(error, folder.path / layout.MANIFEST))
        return
    by_id = {bundle.id: bundle for bundle in bundles}
    for bundle in bundles:
        if by_id[bundle.id] is not bundle:
            yield Fault(bundle.file(layout.SIDECAR), f"{by_id[bundle.id].name} has the same capture_id")
    for message in (*_field_faults(index, bundles), *_entry_faults(index, by_id)):
        yield Fault(layout.MANIFEST, message)
    listed = {entry.id for entry in index.episodes}
    for name, bundle in by_id.items():
        if name not in listed:
            yield Fault(bundle.name, "the manifest does not list it; `lucky-recorder koyu index` does")
        elif message := _feature_difference(index, bundle):
            yield Fault(bundle.file(layout.SIDECAR), message)


def _field_faults(index: Index, bundles: list[BundleEvidence]) -> Iterator[str]:
    manifest = index.manifest
    for name in ("id", "name"):
        if name in manifest and not (isinstance(manifest[name], str) and manifest[name]):
            yield f"{name}={shown(manifest[name])}: expected a text"
    if "name" not in manifest:
        yield "name is missing"
    if manifest.get("type") not in COLLECTION_MODES:
        yield f"type={shown(manifest.get('type'))}: expected one of {', '.join(COLLECTION_MODES)}"
    if manifest.get("episode_count") != len(index.episodes):
        yield f"episode_count={shown(manifest.get('episode_count'))}, it lists {len(index.episodes)} episodes"
    fps = manifest.get("fps")
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not fps > 0:
        yield f"fps={shown(fps)}: expected frames per second"
    yield from _rate_faults(manifest, bundles)


def _rate_faults(manifest: Mapping[str, Any], bundles: list[BundleEvidence]) -> Iterator[str]:
    rewards = [b.sidecar["reward"] for b in bundles if isinstance(b.sidecar.get("reward"), int | float)]
    expected = math.fsum(rewards) / len(rewards) if rewards else None
    said = manifest.get("success_rate")
    if said is None and expected is None:
        return
    is_number = isinstance(said, int | float) and not isinstance(said, bool)
    if expected is None or not is_number or abs(float(said) - expected) > _RATE_TOLERANCE:  # type: ignore[arg-type]
        yield f"success_rate={shown(said)}, the mean reward of the bundles that have one is {expected}"


def _entry_faults(index: Index, by_id: Mapping[str, BundleEvidence]) -> Iterator[str]:
    for number, entry in enumerate(index.episodes):
        if entry.id not in by_id:
            yield f"episodes[{number}]: {entry.id} is not in {layout.EPISODES}/"
            continue
        sidecar = by_id[entry.id].sidecar
        for name in ("length", "task", "task_description"):
            if getattr(entry, name) != sidecar.get(name):
                said = shown(getattr(entry, name))
                yield f"episodes[{number}]: {name}={said}, its sidecar says {shown(sidecar.get(name))}"
        listed = index.manifest["episodes"][number]
        if "reward" in listed and listed["reward"] != sidecar.get("reward"):
            yield f"episodes[{number}]: reward={shown(listed['reward'])}, its sidecar says {sidecar.get('reward')!r}"


def _feature_difference(index: Index, bundle: BundleEvidence) -> str:
    """Say what a bundle lacks of the features that the manifest promises; it may have more."""
    for key, feature in index.features.items():
        mine = bundle.features.get(key)
        if mine is None:
            return f"features: {key} is missing, which the manifest lists"
        if mine.shape != feature.shape:
            return f"features[{key!r}]: shape {list(mine.shape)}, the manifest says {list(feature.shape)}"
    return ""


# Overlays.


def _overlay_faults(folder: Folder) -> Iterator[Fault]:
    if not (folder.path / layout.OVERLAYS).is_dir():
        return
    try:
        faults = check_overlays(folder.path)
    except FormatError:  # the manifest is broken: `_manifest_faults` tells it
        return
    for fault in faults:
        file, _, message = fault.removeprefix(f"{folder.path}/").partition(": ")
        yield Fault(file, message)
