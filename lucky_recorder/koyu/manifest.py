"""``manifest.json``: the index of a dataset, the merge of all who write it (spec: manifest.json).

It is only ever changed under the dataset's lock, and replaced as a whole. What it does not say can be read from the
bundles again: they are what the dataset is.
"""

from __future__ import annotations

import contextlib
import math
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lucky_recorder.errors import FormatError, SettingsError, shown
from lucky_recorder.koyu import begun, layout
from lucky_recorder.koyu.kinds import OPTIONAL, alike, all_features, difference, grown
from lucky_recorder.koyu.metadata import ACTION_SOURCE, read_sidecar
from lucky_recorder.storage import checksums
from lucky_recorder.storage.lock import locked
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.storage.write import write_json

_FASTEST = 1e9
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "koyu:manifest")
Entry = dict[str, Any]


@dataclass(frozen=True)
class Description:
    """What all bundles of a dataset have in common.

    Attributes:
        name: The dataset's name.
        type: The ``collection_mode`` of its bundles.
        fps: Rows and frames per second.
        features: Dtype and shape by feature key.
        action_source: Which vector ``action`` is: ``actuators`` or ``gym``.
    """

    name: str
    type: str
    fps: float
    features: Mapping[str, Mapping[str, Any]]
    action_source: str = "actuators"

    def fields(self) -> dict[str, Any]:
        """Return the manifest's fields."""
        features = {key: dict(feature) for key, feature in self.features.items()}
        return {
            "id": manifest_id(self.name),
            "name": self.name,
            "type": self.type,
            "fps": self.fps,
            ACTION_SOURCE: self.action_source,
            "features": features,
        }


def identity(name: str, type_: str, action_source: str) -> dict[str, Any]:
    """Return the manifest's fields that are known before the rows and frames are."""
    return {"name": name, "type": type_, ACTION_SOURCE: action_source}


def manifest_id(name: str, bundles: Iterable[str] = ()) -> str:
    """Return the id of a dataset's manifest: the same for the same name, also when it is made anew.

    Args:
        name: The dataset's name.
        bundles: The ids of its bundles, of one that is made at once of others' bundles: two such datasets often have
            one name, such as ``train``, and are not the same.
    """
    return f"mf_{uuid.uuid5(_NAMESPACE, chr(10).join((name, *bundles))).hex}"


def entry_of(sidecar: Mapping[str, Any]) -> Entry:
    """Return what the manifest says of a bundle."""
    return {
        "id": layout.bundle_name(sidecar["capture_id"]),
        "length": sidecar["length"],
        "task": sidecar.get("task"),
        "task_description": sidecar.get("task_description"),
        "reward": sidecar.get("reward"),
    }


def read(dataset: Path) -> dict[str, Any] | None:
    """Return the content of a dataset's manifest; None where there is none.

    Raises:
        FormatError: If it is not what the format says, or of a version that is not known.
    """
    folder = Folder(dataset)
    if not folder.has(layout.MANIFEST):
        return None
    manifest = folder.json(layout.MANIFEST)
    layout.refuse_other_versions(manifest, str(dataset / layout.MANIFEST), missing_is_fine=True)
    listed = manifest.get("episodes")
    if not isinstance(listed, list) or not all(isinstance(e, dict) and isinstance(e.get("id"), str) for e in listed):
        path = dataset / layout.MANIFEST
        raise FormatError(f"{path}: episodes: expected a list of objects with an id; rebuild it from the bundles")
    for name in ("features", OPTIONAL):
        if not isinstance(manifest.get(name, {}), dict):
            raise FormatError(f"{dataset / layout.MANIFEST}: {name}: expected an object; rebuild it from the bundles")
    return manifest


def refuse_other(dataset: Path, fields: Mapping[str, Any]) -> None:
    """Refuse to append to a dataset whose manifest says anything else in these fields; nothing is touched.

    Raises:
        SettingsError: If its bundles and those to come do not agree; names the field.
        FormatError: If its manifest is broken.
    """
    manifest = read(dataset) if dataset.is_dir() else None
    if manifest is not None:
        _refuse(dataset, manifest, fields)


def _refuse(dataset: Path, manifest: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    for name, mine in fields.items():
        theirs = manifest.get(name)
        # An id may be another writer's, and `action_source` is a field of ours that others leave out.
        if name == "id" or (name == ACTION_SOURCE and theirs is None):
            continue
        if name == "features":
            _refuse_alike(dataset, all_features(manifest), mine)
            name, theirs, mine = difference(all_features(manifest), mine)
        if theirs != mine:
            raise SettingsError(
                f"{dataset}: {name} is {shown(theirs)} in this dataset and {shown(mine)} here; "
                "give another koyu.name or koyu.path"
            )


def _refuse_alike(dataset: Path, theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
    """Refuse a new feature whose name is to some file system that of one that is there."""
    for other, key in alike(theirs, mine):
        raise SettingsError(
            f"{dataset}: features: {key!r} is the same name on some systems as {other!r}, which this dataset has "
            f"({key!a} and {other!a}); use that one, or give another koyu.name or koyu.path"
        )


class ManifestWriter:
    """Adds the bundles of one writer to a dataset's manifest, whatever others add meanwhile.

    What it costs to add a bundle does not grow with the dataset; what a write costs grows with the length of the file.
    """

    def __init__(self, dataset: Path, description: Description) -> None:
        self._dataset = dataset
        self._description = description
        self._pending: list[Entry] = []

    @property
    def pending(self) -> int:
        """Bundles that are not in the file yet."""
        return len(self._pending)

    def open(self) -> None:
        """Make the manifest, or bring it up to date with the bundles that are there.

        Called under the dataset's lock, and takes none: even in one process, a second `Lock` waits for the first.

        Raises:
            SettingsError: If the dataset is of another kind.
            FormatError: If what is there is broken.
        """
        manifest = read(self._dataset)
        listed = [] if manifest is None else manifest["episodes"]
        entries, added = reconciled(self._dataset, listed)
        known = _with_bundles(self._dataset, manifest or {}, added)
        mine = self._description.fields()
        _refuse(self._dataset, known, mine if manifest is not None else {"features": mine["features"]})
        if manifest is None or entries != listed:
            self._write(known, entries)

    def add(self, entry: Entry) -> None:
        """Take a committed bundle, to be listed by the next write."""
        self._pending.append(entry)

    def flush(self) -> None:
        """List every bundle taken so far, after those that others have listed."""
        if not self._pending:
            return
        with locked(self._dataset / layout.LOCK):
            manifest = read(self._dataset) or {}
            listed = manifest.get("episodes", [])
            known = {e["id"] for e in listed}
            # Another writer may have brought another kind of a feature meanwhile.
            mine = self._description.features
            _refuse(self._dataset, manifest, {"features": mine})
            fields = {**manifest, **grown(manifest, mine, not listed)}
            self._write(fields, [*listed, *(e for e in self._pending if e["id"] not in known)])
        self._pending = []

    def _write(self, manifest: Mapping[str, Any], entries: Sequence[Entry]) -> None:
        # What is there wins: others may have put fields of their own into it, or another id.
        fields = {**self._description.fields(), **manifest}
        if not fields.get(OPTIONAL):
            fields.pop(OPTIONAL, None)
        write_json(self._dataset / layout.MANIFEST, fields | summary(entries))


def _with_bundles(dataset: Path, manifest: Mapping[str, Any], sidecars: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a manifest with the features of bundles that it does not list yet.

    Raises:
        FormatError: If a bundle has a feature of another dtype or shape than those before it.
    """
    known = dict(manifest)
    is_first = not manifest.get("episodes")
    for sidecar in sidecars:
        name, theirs, mine = difference(all_features(known), sidecar["features"])
        if theirs != mine:
            bundle = layout.bundle_name(sidecar["capture_id"])
            raise FormatError(f"{dataset}: {bundle}: {name} is {shown(mine)}, and {shown(theirs)} in others before it")
        known |= grown(known, sidecar["features"], is_first)
        is_first = False
    return known


def is_reward(value: object) -> bool:
    """Tell whether a value is a reward, a number from 0 to 1 (spec: episode.json)."""
    return type(value) in (int, float) and 0 <= value <= 1  # type: ignore[operator]


def summary(entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the manifest's fields that follow from its entries."""
    rewards = [e["reward"] for e in entries if is_reward(e.get("reward"))]
    return {
        "episode_count": len(entries),
        "success_rate": sum(r >= layout.GOOD_REWARD for r in rewards) / len(rewards) if rewards else None,
        "mean_reward": math.fsum(rewards) / len(rewards) if rewards else None,
        "episodes": list(entries),
    }


def reconciled(dataset: Path, listed: Iterable[Entry]) -> tuple[list[Entry], list[dict[str, Any]]]:
    """Return the entries of the bundles that are on the disk, and the sidecars of those that were not listed.

    Those listed already stand in their order, then the others, the oldest first.

    Raises:
        FormatError: If a bundle's sidecar is broken, or of a version that is not known.
    """
    folders = bundle_folders(dataset)
    kept = [e for e in listed if e["id"] in folders]
    known = {e["id"] for e in kept}
    # The format's own entries have no reward (spec: manifest.json), and `success_rate` needs it.
    complete = [e if "reward" in e else {**e, **_reward(dataset, folders[e["id"]])} for e in kept]
    unlisted = [read_sidecar(dataset, folder) for name, folder in folders.items() if name not in known]
    sidecars = sorted(unlisted, key=_age)
    return _without_twins(dataset, [*complete, *map(entry_of, sidecars)]), sidecars


def _without_twins(dataset: Path, entries: list[Entry]) -> list[Entry]:
    """Return entries as they are; a folder may have the name of a bundle that is not the one in it."""
    for name, count in Counter(e["id"] for e in entries).items():
        if count > 1:
            raise FormatError(f"{dataset}: {count} bundles have the capture_id of {name}; move all but one away")
    return entries


def _reward(dataset: Path, folder: str) -> dict[str, Any]:
    return {"reward": read_sidecar(dataset, folder).get("reward")}


def _age(sidecar: Mapping[str, Any]) -> tuple[str, str]:
    return str(sidecar.get("recorded_at") or ""), str(sidecar["capture_id"])


def bundle_folders(dataset: Path) -> dict[str, str]:
    """Return the folder of each bundle by its id; a folder of another name is asked for its id.

    Raises:
        FormatError: If two are the same bundle, or a sidecar is broken.
    """
    place = dataset / layout.EPISODES
    found: dict[str, str] = {}
    names = sorted(p.name for p in place.iterdir()) if place.is_dir() else []
    for name in names:
        if name.startswith(".") or not (place / name / layout.SIDECAR).is_file():
            continue
        bundle = name if layout.is_bundle_name(name) else entry_of(read_sidecar(dataset, name))["id"]
        if bundle in found:
            raise FormatError(f"{place / name}: has the same capture_id as {found[bundle]}; move one of them away")
        found[bundle] = name
    return found


def rebuild(dataset: Path) -> dict[str, Any]:
    """Write a dataset's manifest anew, from its bundles alone, the oldest first; returns its content.

    Raises:
        FormatError: If there is no bundle, one is broken, two have a feature of another dtype or shape (names it), or
            the manifest that is there is of a version that is not known; nothing is touched where there is no bundle.
        StorageError: If it cannot be written.
    """
    dataset = dataset.absolute()
    if not bundle_folders(dataset):
        raise begun.without_bundles(dataset)
    said: dict[str, Any] = {}
    with contextlib.suppress(FormatError):  # none is there, or it is torn
        said = Folder(dataset).json(layout.MANIFEST)
    layout.refuse_other_versions(said, str(dataset / layout.MANIFEST), missing_is_fine=True)
    with locked(dataset / layout.LOCK):
        checksums.drop(dataset, layout.CHECKSUMS)
        return _made_anew(dataset)


def bring_up_to_date(dataset: Path) -> dict[str, Any]:
    """List every bundle that is there, and none that is not; returns the content. Called under the dataset's lock.

    Those listed keep their order, and what others have put into the manifest stays. Without one it is made anew.

    Raises:
        FormatError: As `rebuild`, or if the manifest cannot be read.
        StorageError: If it cannot be written.
    """
    content = read(dataset)
    if content is None:
        return _made_anew(dataset)
    entries, added = reconciled(dataset, content["episodes"])
    content = _with_bundles(dataset, content, added)
    if not content.get(OPTIONAL):
        content.pop(OPTIONAL, None)
    content |= summary(entries)
    write_json(dataset / layout.MANIFEST, content)
    return content


def _made_anew(dataset: Path) -> dict[str, Any]:
    sidecars = sorted((read_sidecar(dataset, f) for f in bundle_folders(dataset).values()), key=_age)
    if not sidecars:
        raise FormatError(f"{dataset}: holds no bundle to make a manifest from")
    features = _with_bundles(dataset, {}, sidecars)
    content = _described(dataset, sidecars, features["features"]).fields()
    content |= {OPTIONAL: features[OPTIONAL]} if features[OPTIONAL] else {}
    content |= summary(_without_twins(dataset, [entry_of(s) for s in sidecars]))
    write_json(dataset / layout.MANIFEST, content)
    return content


def _described(dataset: Path, sidecars: Sequence[Mapping[str, Any]], features: Mapping[str, Any]) -> Description:
    """Return what most bundles say of their dataset, with the features of all."""
    return Description(
        name=_usual(sidecars, "dataset", dataset.name),
        type=_usual(sidecars, "collection_mode", "teleop"),
        fps=float(_usual([s for s in sidecars if _is_rate(s.get("fps"))], "fps", 0.0)),
        features=features,
        action_source=_usual(sidecars, ACTION_SOURCE, "actuators"),
    )


def _is_rate(value: object) -> bool:
    return type(value) in (int, float) and 0 < value < _FASTEST  # type: ignore[operator]


def _usual(sidecars: Sequence[Mapping[str, Any]], name: str, default: Any) -> Any:
    """Return the value that most sidecars have."""
    counts = Counter(v for s in sidecars if isinstance(v := s.get(name), str | int | float))
    return counts.most_common(1)[0][0] if counts else default
