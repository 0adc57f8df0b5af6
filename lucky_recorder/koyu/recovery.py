"""Completing a dataset whose recording was cut short: a bundle is whole or not there, so only its list is behind."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lucky_recorder.errors import FormatError
from lucky_recorder.koyu import layout, manifest
from lucky_recorder.koyu.metadata import read_sidecar
from lucky_recorder.koyu.writer import sweep
from lucky_recorder.storage import checksums
from lucky_recorder.storage.aside import SetAside, refuse_linked, set_aside
from lucky_recorder.storage.lock import is_abandoned, locked
from lucky_recorder.storage.untrusted import Folder, reason
from lucky_recorder.storage.write import make_folder


class Plan(NamedTuple):
    """What is to be done with a dataset.

    Attributes:
        bundles: Bundles that are whole.
        unlisted: Those of them that ``manifest.json`` does not list.
        workshops: Folders of writers that have died, with half-made bundles: they go.
        set_aside: What is put under ``lost+found/``.
        writes_manifest: Whether ``manifest.json`` has to be written.
    """

    bundles: int
    unlisted: int
    workshops: tuple[str, ...]
    set_aside: tuple[SetAside, ...]
    writes_manifest: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.workshops or self.set_aside or self.writes_manifest)


def is_dataset(path: Path) -> bool:
    """Tell whether a folder is a dataset, with a manifest or without."""
    place = path / layout.EPISODES
    return place.is_dir() and ((path / layout.MANIFEST).exists() or any(place.glob("*/" + layout.SIDECAR)))


def plan(dataset: Path) -> Plan:
    """Look at a dataset, and say what has to be done; nothing is touched.

    Raises:
        FormatError: If two bundles are the same, or one of them is of a version that is not known.
    """
    refuse_linked(dataset, (layout.EPISODES,))
    place = dataset / layout.EPISODES
    dead = sorted(
        folder.name
        for folder in place.glob(f"{layout.TEMPORARY}*")
        if folder.is_dir() and not folder.is_symlink() and is_abandoned(folder)
    )
    torn = tuple(_torn(dataset))
    unusable = {one.file for one in torn}
    whole: set[str] = set()
    for name in sorted(p.name for p in place.iterdir()):
        if _is_bundle(dataset, name) and f"{layout.EPISODES}/{name}" not in unusable:
            whole.add(manifest.entry_of(read_sidecar(dataset, name))["id"])
    aside = list(torn)
    try:
        content = manifest.read(dataset)
    except FormatError as error:
        aside.append(SetAside(layout.MANIFEST, reason(error, dataset / layout.MANIFEST)))
        content = None
    listed = set() if content is None else {entry["id"] for entry in content["episodes"]}
    is_behind = listed != whole or (content is None and bool(whole))
    return Plan(len(whole), len(whole - listed), tuple(dead), tuple(aside), is_behind)


def _is_bundle(dataset: Path, name: str) -> bool:
    return not name.startswith(".") and (dataset / layout.EPISODES / name / layout.SIDECAR).is_file()


def _torn(dataset: Path) -> list[SetAside]:
    """Name the bundles that cannot be told from their sidecar."""
    found = []
    for folder in sorted((dataset / layout.EPISODES).iterdir()):
        if folder.name.startswith(".") or not folder.is_dir():
            continue
        file = f"{layout.EPISODES}/{folder.name}"
        if not (folder / layout.SIDECAR).is_file():
            if layout.is_bundle_name(folder.name):
                found.append(SetAside(file, f"has no {layout.SIDECAR}: it is no bundle"))
            continue
        try:
            Folder(dataset).json(f"{file}/{layout.SIDECAR}")
        except FormatError as error:
            found.append(SetAside(file, reason(error, folder / layout.SIDECAR)))
        else:
            # One of a version that is not known is whole to whoever knows it: this refuses it, and nothing is moved.
            read_sidecar(dataset, folder.name)
    return found


def sweep_dead(dataset: Path) -> None:
    """Remove what writers that have died left: half-made bundles.

    Raises:
        StorageError: If the file system refuses.
    """
    with locked(dataset / layout.LOCK):
        sweep(dataset / layout.EPISODES)


def carry_out(dataset: Path, planned: Plan) -> None:
    """Do what is planned; a writer that lives may go on beside it.

    Raises:
        FormatError: If two bundles have a feature of another dtype or shape.
        StorageError: If the file system refuses. The same plan can be made and carried out again.
    """
    make_folder(dataset / layout.EPISODES)
    with locked(dataset / layout.LOCK):
        checksums.drop(dataset, layout.CHECKSUMS)
        sweep(dataset / layout.EPISODES)
        for one in planned.set_aside:
            set_aside(dataset, one.file, one.reason)
        if planned.writes_manifest:
            manifest.bring_up_to_date(dataset)
