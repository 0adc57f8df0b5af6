"""Checks of ``manifest.json``: its fields, and what it says of each bundle (spec: manifest.json)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from lucky_recorder.errors import FormatError, shown
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.checks.evidence import BundleEvidence, Fault
from lucky_recorder.koyu.index import Index, read_index
from lucky_recorder.settings.koyu import COLLECTION_MODES
from lucky_recorder.storage.untrusted import Folder, reason

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
_GOOD = 0.5
_OPTIONAL = "optional_features"
_RATE_TOLERANCE = 1e-9


def check_manifest(folder: Folder, bundles: list[BundleEvidence]) -> Iterator[Fault]:
    """Check the manifest against the bundles on the disk."""
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
    for bundle, message in _unlike_features(index, bundles):
        yield Fault(bundle.file(layout.SIDECAR), message)
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
    count = len(rewards)
    meant = {
        "success_rate": (f"the share of rewards from {_GOOD} on", sum(r >= _GOOD for r in rewards) / max(count, 1)),
        "mean_reward": ("the mean reward", math.fsum(rewards) / max(count, 1)),
    }
    for name, (what, share) in meant.items():
        said, expected = manifest.get(name), share if count else None
        # A writer need not say it (spec: manifest.json).
        if said is None:
            continue
        is_number = isinstance(said, int | float) and not isinstance(said, bool)
        if expected is None or not is_number or abs(float(said) - expected) > _RATE_TOLERANCE:
            yield f"{name}={shown(said)}, {what} of the bundles that have one is {expected}"


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


def _unlike_features(index: Index, bundles: list[BundleEvidence]) -> Iterator[tuple[BundleEvidence, str]]:
    """Find features that only some bundles have, and that are of another dtype or shape elsewhere."""
    optional = index.manifest.get(_OPTIONAL)
    said = optional if isinstance(optional, dict) else {}
    known = {key: (_kind(feature), "the manifest says") for key, feature in said.items()}
    for bundle in bundles:
        declared = bundle.sidecar.get("features")
        for key, feature in declared.items() if isinstance(declared, dict) else ():
            if key in index.features:
                continue
            there, where = known.setdefault(key, (_kind(feature), f"{bundle.id} says"))
            if _kind(feature) != there:
                yield bundle, f"features[{key!r}] is {shown(_kind(feature))}, {where} {shown(there)}"


def _kind(feature: object) -> object:
    return [feature.get("dtype"), feature.get("shape")] if isinstance(feature, dict) else feature


def _feature_difference(index: Index, bundle: BundleEvidence) -> str:
    """Say what a bundle lacks of the features that the manifest promises; it may have more."""
    for key, feature in index.features.items():
        mine = bundle.features.get(key)
        if mine is None:
            return f"features: {key} is missing, which the manifest lists"
        if mine.shape != feature.shape:
            return f"features[{key!r}]: shape {list(mine.shape)}, the manifest says {list(feature.shape)}"
    return ""
