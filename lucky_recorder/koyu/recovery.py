"""Completing a dataset whose recording was cut short: a bundle is whole or not there, so only its list is behind."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

from lucky_recorder.errors import FormatError, VideoError
from lucky_recorder.koyu import layout, manifest
from lucky_recorder.koyu.begun import is_begun
from lucky_recorder.koyu.index import read_features, read_index
from lucky_recorder.koyu.metadata import read_sidecar
from lucky_recorder.koyu.rows import read_columns
from lucky_recorder.koyu.writer import sweep
from lucky_recorder.storage import checksums
from lucky_recorder.storage.aside import SetAside, refuse_linked, set_aside
from lucky_recorder.storage.lock import is_held, locked
from lucky_recorder.storage.untrusted import Folder, reason
from lucky_recorder.storage.write import make_folder
from lucky_recorder.video.decode import probe

# What a manifest is known by, where no bundle stands beside it: other programs have a `manifest.json` too.
_REQUIRED = frozenset({"fps", "features", "episodes"})
_REMEDY = (
    f"{layout.MANIFEST} lists it, and no interruption leaves that: bring it back from a copy, or move away what is "
    "left of it, and `lucky-recorder koyu index` lists the others; nothing was changed"
)


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
    """Tell whether a folder is a dataset: it has a bundle, a manifest that can be no other program's, or is begun."""
    place = path / layout.EPISODES
    return place.is_dir() and (_has_bundle(path) or _says(path, layout.MANIFEST, _REQUIRED) or is_begun(path))


def _has_bundle(path: Path) -> bool:
    for file in (path / layout.EPISODES).glob(f"*/{layout.SIDECAR}"):
        name = file.parent.name
        # The sidecar of one with a bundle's name may be torn. Any other name will do too, and then it has to say it.
        if layout.is_bundle_name(name) or (
            not name.startswith(".")
            and _says(path, f"{layout.EPISODES}/{name}/{layout.SIDECAR}", {"capture_id", "features"})
        ):
            return True
    return False


def _says(path: Path, file: str, names: Set[str]) -> bool:
    """Tell whether a file is a JSON object that has all of some fields."""
    try:
        return names <= Folder(path).json(file).keys()
    except FormatError:
        return False


def is_written(dataset: Path) -> bool | None:
    """Tell whether a writer lives, which may add bundles at any time; None where the file system does not say so."""
    held = _workshops(dataset).values()
    return True if True in held else None if None in held else False


def _workshops(dataset: Path) -> dict[str, bool | None]:
    """Say of each writer's own folder whether the writer lives; without locks, None."""
    folders = sorted((dataset / layout.EPISODES).glob(f"{layout.TEMPORARY}*"))
    return {one.name: is_held(one) for one in folders if one.is_dir() and not one.is_symlink()}


def plan(dataset: Path) -> Plan:
    """Look at a dataset that nobody writes, and say what has to be done; nothing is touched.

    Raises:
        FormatError: If two bundles are the same, the manifest or a bundle is of a version that is not known, the
            manifest is whole and not what the format says, or a bundle that it lists is not whole.
    """
    refuse_linked(dataset, (layout.EPISODES,))
    content, aside = _manifest(dataset)
    listed = {} if content is None else {entry["id"]: entry for entry in content["episodes"]}
    whole, torn = _bundles(dataset, listed)
    _refuse_lost(dataset, listed, whole, torn)
    aside += torn
    is_behind = bool(whole.keys() - listed.keys())
    return Plan(len(whole), len(whole) - len(listed), tuple(_workshops(dataset)), tuple(aside), is_behind)


def _manifest(dataset: Path) -> tuple[dict[str, Any] | None, list[SetAside]]:
    """Return the manifest, none where there is none or it is torn, and what of it is set aside.

    A torn one is no JSON. One that is, and is not what is known here, somebody has written, and it is not for this to
    replace.
    """
    folder = Folder(dataset)
    if not folder.has(layout.MANIFEST):
        return None, []
    folder.file(layout.MANIFEST)
    try:
        folder.json(layout.MANIFEST)
    except FormatError as error:
        return None, [SetAside(layout.MANIFEST, reason(error, dataset / layout.MANIFEST))]
    read_index(folder)
    return manifest.read(dataset), []


def _bundles(dataset: Path, listed: Mapping[str, Any]) -> tuple[dict[str, int], list[SetAside]]:
    """Return the lengths of the bundles that are whole, by their ids, and the folders that are no whole bundle.

    Raises:
        FormatError: If two are the same, or one is of a version that is not known.
    """
    folder = Folder(dataset)
    whole: dict[str, int] = {}
    torn: list[SetAside] = []
    for path in sorted((dataset / layout.EPISODES).iterdir()):
        if path.name.startswith(".") or not path.is_dir():
            continue
        file = f"{layout.EPISODES}/{path.name}"
        if not (path / layout.SIDECAR).is_file():
            if layout.is_bundle_name(path.name):
                torn.append(SetAside(file, f"has no {layout.SIDECAR}: it is no bundle"))
            continue
        try:
            folder.json(f"{file}/{layout.SIDECAR}")
        except FormatError as error:
            torn.append(SetAside(file, reason(error, path / layout.SIDECAR)))
            continue
        # One of a version that is not known is whole to whoever knows it: this refuses it, and nothing is moved.
        sidecar = read_sidecar(dataset, path.name)
        try:
            _refuse_torn(folder, file, sidecar)
        except FormatError as error:
            torn.append(SetAside(file, f"is not whole: {reason(error, path)}"))
            continue
        name = path.name if path.name in listed else manifest.entry_of(sidecar)["id"]
        if name in whole:
            raise FormatError(f"{path}: has the same capture_id as another bundle; move one of them away")
        whole[name] = sidecar["length"]
    return whole, torn


def _refuse_torn(folder: Folder, file: str, sidecar: Mapping[str, Any]) -> None:
    """Refuse a bundle that cannot be read: all its rows are, and its frames are counted.

    Raises:
        FormatError: If a file is missing or broken, or is not as the sidecar says.
    """
    length = sidecar["length"]
    features = read_features(sidecar["features"], str(folder.path / file / layout.SIDECAR)).values()
    data = f"{file}/{layout.DATA}"
    with folder.parquet(data) as table:
        if table.metadata.num_rows != length:
            raise FormatError(f"{folder.path / data}: {table.metadata.num_rows} rows, its sidecar says {length}")
    read_columns(folder, file, length, [one for one in features if not one.is_camera])
    for camera in (one for one in features if one.is_camera):
        path = folder.file(f"{file}/{layout.video_name(camera.key)}")
        try:
            video = probe(path)
        except VideoError as error:
            raise FormatError(str(error)) from error
        found, said = (video.frames, video.height, video.width), (length, *camera.shape[:2])
        if found != said:
            raise FormatError(f"{path}: frames, height and width {found}, its sidecar says {said}")


def _refuse_lost(dataset: Path, listed: Mapping[str, Any], whole: Mapping[str, int], torn: Sequence[SetAside]) -> None:
    """Refuse a dataset whose manifest lists what is not there, or not whole, or of another length.

    Raises:
        FormatError: If there is such an entry.
    """
    why = {_id_of(dataset, one.file): one for one in torn}
    for name, entry in listed.items():
        if name in why and name not in whole:
            raise FormatError(f"{dataset / why[name].file}: {why[name].reason}; {_REMEDY}")
        if name not in whole:
            raise FormatError(f"{dataset / layout.EPISODES / name}: is missing; {_REMEDY}")
        if entry.get("length") != whole[name]:
            said = f"{entry.get('length')} rows of {name}, which has {whole[name]}"
            raise FormatError(f"{dataset / layout.MANIFEST}: says {said}; `lucky-recorder koyu index` writes it anew")


def _id_of(dataset: Path, file: str) -> str:
    """Return the id of a bundle that is not whole, as far as it can be told."""
    name = file.removeprefix(f"{layout.EPISODES}/")
    if not layout.is_bundle_name(name):
        with contextlib.suppress(FormatError):
            return str(manifest.entry_of(read_sidecar(dataset, name))["id"])
    return name


def sweep_dead(dataset: Path) -> None:
    """Remove what writers that have died left: half-made bundles.

    Raises:
        StorageError: If the file system refuses.
    """
    with locked(dataset / layout.LOCK):
        checksums.drop(dataset, layout.CHECKSUMS)
        sweep(dataset / layout.EPISODES)


def carry_out(dataset: Path, planned: Plan) -> bool:
    """Do what is planned; returns whether it was done, which it is not if a writer has come meanwhile.

    Raises:
        FormatError: If two bundles have a feature of another dtype or shape.
        StorageError: If the file system refuses. The same plan can be made and carried out again.
    """
    make_folder(dataset / layout.EPISODES)
    with locked(dataset / layout.LOCK):
        # Under it nobody begins to write.
        if is_written(dataset):
            return False
        checksums.drop(dataset, layout.CHECKSUMS)
        for name in planned.workshops:
            shutil.rmtree(dataset / layout.EPISODES / name, ignore_errors=True)
        for one in planned.set_aside:
            set_aside(dataset, one.file, one.reason)
        if planned.writes_manifest:
            manifest.bring_up_to_date(dataset)
    return True
