"""What features a dataset has: those that all its bundles have, those that some have, and of what kind they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lucky_recorder.settings.validators import fold

OPTIONAL = "optional_features"
"""The manifest's field for the features that some of the bundles have, and not all; left out where there are none."""


def all_features(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return every feature that a manifest knows of: those of all its bundles, and those of some."""
    return {**manifest.get(OPTIONAL, {}), **manifest.get("features", {})}


def differences(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Go through the features of both that differ in dtype or shape, with both sides of each."""
    # A key that one side lacks is no difference: a dataset may grow (spec: Evolution rules, 1).
    for key in [key for key in mine if key in theirs]:
        there, here = _kind(theirs[key]), _kind(mine[key])
        if there != here:
            yield key, there, here


def difference(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """Return the first of `differences` as a field of a manifest, or two sides that are the same."""
    for key, there, here in differences(theirs, mine):
        return f"features[{key!r}]", there, here
    return "features", None, None


def alike(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Go through the features whose name is to some file system that of another one on the other side: theirs, mine."""
    known = {fold(key): key for key in theirs}
    for key in mine:
        if key not in theirs and (other := known.get(fold(key))) is not None:
            yield other, key


def grown(manifest: Mapping[str, Any], features: Mapping[str, Any], is_first: bool) -> dict[str, Any]:
    """Return a manifest's fields of features when a bundle with these is added: ``features`` are those of every bundle.

    A reader takes it that each bundle has all of ``features``, so a key that one of them lacks moves to `OPTIONAL`.
    """
    if is_first:
        return {"features": dict(features), OPTIONAL: {}}
    known = {**features, **all_features(manifest)}
    shared = [key for key in manifest.get("features", features) if key in features]
    return {
        "features": {key: known[key] for key in shared},
        OPTIONAL: {key: feature for key, feature in known.items() if key not in shared},
    }


def _kind(feature: object) -> object:
    return {k: feature.get(k) for k in ("dtype", "shape")} if isinstance(feature, Mapping) else feature
