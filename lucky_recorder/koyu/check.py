"""Checking a dataset: everything the format says, against the files themselves. What is verified is in ``checks/``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lucky_recorder.errors import FormatError
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.begun import refuse_begun
from lucky_recorder.koyu.checks import deep
from lucky_recorder.koyu.checks.bundle import check_bundle
from lucky_recorder.koyu.checks.evidence import BundleEvidence, Fault
from lucky_recorder.koyu.checks.manifest import check_manifest
from lucky_recorder.koyu.checks.overlays import check_overlays
from lucky_recorder.koyu.index import Feature, read_features
from lucky_recorder.storage.spread import Progress, Tell
from lucky_recorder.storage.untrusted import Folder, reason

__all__ = ["Fault", "Report", "check_koyu", "inspect_koyu"]


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


def check_koyu(dataset: str | Path, decode: bool = True, deep: bool = False) -> list[Fault]:
    """Check a koyu dataset; it is only read, however broken it is.

    Where there is a ``checksums.json``, every file is compared with it in any case.

    Args:
        dataset: The dataset's folder.
        decode: Decode every frame of every video; without it, frames are only counted.
        deep: Also read and decode every file that no bundle names, forgive nothing that a decoder would make up, and
            take what it says for faults.

    Returns:
        The faults, each with its file; an empty list for a good dataset.

    Raises:
        FormatError: If the folder is no dataset at all: it has neither a manifest nor bundles.
    """
    return inspect_koyu(dataset, decode, deep).faults


def inspect_koyu(dataset: str | Path, decode: bool = True, is_deep: bool = False, tell: Tell | None = None) -> Report:
    """Check a koyu dataset, and say how much there was to check; see `check_koyu`.

    Args:
        dataset: The dataset's folder.
        decode: As for `check_koyu`.
        is_deep: The ``deep`` of `check_koyu`.
        tell: Called with the bytes that are done of what takes long, and with all of them.

    Raises:
        FormatError: If the folder is no dataset at all.
    """
    folder = Folder(Path(dataset), "dataset")
    _refuse_other_folders(folder)
    faults: list[Fault] = []
    progress = Progress(tell)
    deep.expect(folder, decode, is_deep, progress)
    bundles = list(_bundles(folder, decode, progress, faults))
    faults += check_manifest(folder, bundles)
    for bundle in bundles:
        faults += check_bundle(bundle)
    faults += _overlay_faults(folder)
    faults += deep.check_checksums(folder, progress)
    if is_deep:
        faults += deep.check_everything(folder, progress)
    rows = [max(bundle.length, 0) for bundle in bundles]
    cameras = [sum(f.is_camera for f in bundle.features.values()) for bundle in bundles]
    frames = sum(length * count for length, count in zip(rows, cameras, strict=True))
    return Report(list(dict.fromkeys(faults)), len(bundles), sum(rows), frames)


def _refuse_other_folders(folder: Folder) -> None:
    if not folder.path.is_dir():
        raise FormatError(f"{folder.path}: no such folder; give the path of a dataset")
    refuse_begun(folder.path)
    if not folder.has(layout.MANIFEST) and not (folder.path / layout.EPISODES).is_dir():
        raise FormatError(f"{folder.path}: is no dataset: it has neither {layout.MANIFEST} nor {layout.EPISODES}/")


def _bundles(folder: Folder, decode: bool, progress: Progress, faults: list[Fault]) -> Iterator[BundleEvidence]:
    """Open every bundle on the disk; what is none is a fault."""
    place = folder.path / layout.EPISODES
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        name = f"{layout.EPISODES}/{path.name}"
        if path.name.startswith(layout.TEMPORARY):
            faults.append(Fault(name, "left behind by an interrupted recording, or being written"))
        elif path.is_dir() or path.is_symlink():
            bundle = _bundle(folder, name, decode, faults)
            if bundle is not None:
                yield replace(bundle, progress=progress)


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


# Overlays.


def _overlay_faults(folder: Folder) -> Iterator[Fault]:
    if not (folder.path / layout.OVERLAYS).is_dir():
        return
    try:
        faults = check_overlays(folder.path)
    except FormatError:  # the manifest is broken: `check_manifest` tells it
        return
    for fault in faults:
        file, _, message = fault.removeprefix(f"{folder.path}/").partition(": ")
        yield Fault(file, message)
