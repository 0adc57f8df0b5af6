"""Whether the bundles of several datasets can stand in one: every way in which they do not is listed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from lucky_recorder.edit.bundled import Bundled
from lucky_recorder.errors import FormatError, shown
from lucky_recorder.koyu import kinds
from lucky_recorder.koyu.metadata import ACTION_SOURCE
from lucky_recorder.notices import tell

# What follows from the bundles and the name: the new dataset has its own.
_OWN = {"id", "name", "features", kinds.OPTIONAL, "episode_count", "success_rate", "mean_reward", "episodes"}
_NAMES_TOLD = 5


def refuse_unlike(sources: Sequence[Bundled]) -> None:
    """Refuse datasets whose bundles cannot stand in one.

    A feature that only some have is no difference: a dataset may grow (spec: Evolution rules, 1).

    Raises:
        FormatError: If they are of different rates, types or actions, or have a feature of different dtypes or shapes,
            or overlays of one name and different kinds; lists every difference, and names the two that differ.
    """
    if found := [*_fields(sources), *_features(sources), *_overlays(sources)]:
        raise FormatError(f"these datasets do not fit into one: {'; '.join(found)}")


def _fields(sources: Sequence[Bundled]) -> Iterator[str]:
    for name in ("fps", "type", ACTION_SOURCE):
        # `action_source` is a field of ours, which others leave out.
        saying = [s for s in sources if name != ACTION_SOURCE or s.manifest.get(name) is not None]
        for other in saying[1:]:
            yield from _difference(name, saying[0], saying[0].manifest.get(name), other, other.manifest.get(name))


def _features(sources: Sequence[Bundled]) -> Iterator[str]:
    known: dict[str, Any] = {}
    homes: dict[str, Bundled] = {}
    for source in sources:
        mine = kinds.all_features(source.manifest)
        for key, there, here in kinds.differences(known, mine):
            yield from _difference(f"features[{key!r}]", homes[key], there, source, here)
        for other, key in kinds.alike(known, mine):
            home = homes[other].path
            yield f"features: {key!r} of {source.path} is the same name on some systems as {other!r} of {home}"
        for key in mine.keys() - known.keys():
            known[key], homes[key] = mine[key], source


def _overlays(sources: Sequence[Bundled]) -> Iterator[str]:
    known: dict[str, tuple[Bundled, list[object]]] = {}
    for source in sources:
        for overlay in source.overlays():
            here = [overlay.kind, *overlay.shape]
            home, there = known.setdefault(overlay.name, (source, here))
            yield from _difference(f"overlay {overlay.name!r}", home, there, source, here)


def _difference(what: str, one: Bundled, there: object, other: Bundled, here: object) -> Iterator[str]:
    if there != here:
        yield f"{what}: {one.path} has {shown(there)}, {other.path} has {shown(here)}"


def common_fields(sources: Sequence[Bundled]) -> dict[str, Any]:
    """Return the fields that the manifest of a new dataset takes over of the others': those of which all say the same.

    What only some say of it is `ACTION_SOURCE`: whoever leaves it out says nothing against it.
    """
    first, *others = (source.manifest for source in sources)
    shared = {name: value for name, value in first.items() if name not in _OWN}
    fields = {n: value for n, value in shared.items() if all(n in m and m[n] == value for m in others)}
    said = [s.manifest[ACTION_SOURCE] for s in sources if s.manifest.get(ACTION_SOURCE) is not None]
    return fields | ({ACTION_SOURCE: said[0]} if said else {})


def tell_lost(sources: Sequence[Bundled], manifest: Mapping[str, Any]) -> None:
    """Warn of what a source says and a new dataset does not.

    Args:
        sources: The datasets that it is made of.
        manifest: What its manifest will hold.
    """
    shared = manifest["features"]
    if lost := dict.fromkeys(k for s in sources for k in s.manifest.get("features", {}) if k not in shared):
        tell(
            f"{_some(lost)}: only some of the bundles have this; it is listed among {kinds.OPTIONAL}, and a reader "
            "that asks for nothing else gives the features that all have"
        )
    if lost := dict.fromkeys(k for s in sources for k in s.manifest if k not in manifest and k not in _OWN):
        tell(f"{_some(lost)}: the datasets do not say the same of this in their manifests; the new one leaves it out")
    described: dict[str, str] = {}
    for source in sources:
        for overlay in source.overlays():
            if overlay.description != described.setdefault(overlay.name, overlay.description):
                tell(f"overlay {overlay.name!r} is described otherwise in {source.path}; the first description stays")


def _some(names: Collection[str]) -> str:
    more = f" and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
    return ", ".join([*names][:_NAMES_TOLD]) + more
