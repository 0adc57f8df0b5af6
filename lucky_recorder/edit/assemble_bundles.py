"""A new koyu dataset out of bundles of others: merged, selected and split datasets are all lists of picks.

Bundles are immutable (spec: Encoding): their files are linked, and only the manifest is written. The new dataset is
made beside its place, in ``<name>.partial``, checked, and only then given its name.
"""

from __future__ import annotations

import contextlib
import filecmp
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lucky_recorder.edit.bundled import Bundled, is_of_task
from lucky_recorder.edit.dataset_fit import common_fields, refuse_unlike, tell_lost
from lucky_recorder.edit.partial import made_whole, refuse_faults, refuse_target
from lucky_recorder.edit.pick import OnEpisode
from lucky_recorder.errors import FormatError, SettingsError, shown
from lucky_recorder.koyu import bundle, kinds, layout
from lucky_recorder.koyu.check import check_koyu
from lucky_recorder.koyu.manifest import Entry, entry_of, manifest_id, summary
from lucky_recorder.koyu.overlays import DECLARATION
from lucky_recorder.settings.koyu import dataset_name
from lucky_recorder.storage.lock import hold
from lucky_recorder.storage.untrusted import format_errors
from lucky_recorder.storage.write import make_folder, storage_errors, sync_folder, write_json

__all__ = ["BundlePick", "DatasetAssembly", "assemble_dataset", "plan_dataset"]


class BundlePick(NamedTuple):
    """A bundle that is to stand in a new dataset.

    Attributes:
        dataset: The dataset that has it.
        episode: Its place in the manifest there.
    """

    dataset: Bundled
    episode: int


class _Label(NamedTuple):
    """A file of an overlay that goes with a bundle.

    Attributes:
        source: The dataset that has it.
        file: Its path there and in the new dataset.
    """

    source: Bundled
    file: str


@dataclass(frozen=True)
class DatasetAssembly:
    """A dataset that can be made; nothing is touched yet.

    Attributes:
        target: Where it will be.
        picks: Its bundles, in order.
        places: The folder of each.
        manifest: The content of its manifest.
        labels: The files of its overlays.
        rename: Task descriptions that become others.
    """

    target: Path
    picks: Sequence[BundlePick]
    places: Sequence[str]
    manifest: Mapping[str, Any]
    labels: Sequence[_Label]
    rename: Mapping[str, str]

    @property
    def episodes(self) -> int:
        """How many episodes it will have."""
        return len(self.picks)

    @property
    def rows(self) -> int:
        """How many rows it will have."""
        return sum(entry["length"] for entry in self.manifest["episodes"])

    def write(self, on_episode: OnEpisode | None = None) -> Path:
        """Make the dataset, and check it.

        Args:
            on_episode: Called after each episode: how many are done, and how many there are.

        Returns:
            Its folder.

        Raises:
            FormatError: If a source cannot be read, or the result has faults: those of its sources.
            StorageError: If the file system refuses, or there is something of its name by now. Whatever is raised,
                nothing is left of the new dataset.
        """
        with made_whole(self.target) as partial, _workshop(partial) as workshop:
            self._fill(partial, workshop, on_episode or (lambda done, total: None))
            refuse_faults(check_koyu(partial, decode=False), self.target)
        return self.target

    def _fill(self, partial: Path, workshop: Path, on_episode: OnEpisode) -> None:
        episodes = partial / layout.EPISODES
        make_folder(episodes)
        self._link_bundles(workshop, episodes, on_episode)
        self._link_labels(partial)
        write_json(partial / layout.MANIFEST, self.manifest)

    def _link_bundles(self, workshop: Path, episodes: Path, on_episode: OnEpisode) -> None:
        for number, (pick, place) in enumerate(zip(self.picks, self.places, strict=True)):
            bundle.link_files(workshop / place, pick.dataset.files(pick.episode), self._new_sidecar(pick))
            with storage_errors(episodes / place):
                os.rename(workshop / place, episodes / place)
            on_episode(number + 1, len(self.picks))
        with storage_errors(episodes):
            sync_folder(episodes)

    def _new_sidecar(self, pick: BundlePick) -> Mapping[str, Any] | None:
        """Return what is to stand in place of a bundle's sidecar; None where that stays."""
        if not self.rename:
            return None
        sidecar = pick.dataset.sidecar(pick.episode)
        renamed = _renamed(sidecar, self.rename)
        return renamed if renamed != sidecar else None

    def _link_labels(self, partial: Path) -> None:
        folders = set()
        for label in self.labels:
            target = partial / label.file
            make_folder(target.parent)
            bundle.link_video(label.source.file(label.file), target)
            folders.add(target.parent)
        with storage_errors(partial):
            for folder in sorted(folders):
                sync_folder(folder)


def assemble_dataset(
    picks: Iterable[BundlePick],
    target: Path,
    name: str | None = None,
    *,
    rename: Mapping[str, str] | None = None,
    on_episode: OnEpisode | None = None,
) -> Path:
    """Write a new dataset of bundles of others, and check it.

    Bundles are as they were, with their ids and the names of their folders: their files are linked, or copied where
    links fail. What overlays say of them follows. The manifest is the new dataset's own.

    Args:
        picks: The bundles, in order. One that several datasets have, the same to the last byte, is taken once.
        target: The new dataset's folder; there must be nothing of that name.
        name: The new dataset's name; by default that of its folder.
        rename: Task descriptions that become others: the bundles that have them get another sidecar.
        on_episode: Called after each episode: how many are done, and how many there are.

    Returns:
        The new dataset's folder.

    Raises:
        SettingsError: If there is nothing to write, the target is there already or lies within a source, or its name
            is none of a dataset; nothing is touched.
        FormatError: If a dataset cannot be read, two do not fit or have different bundles of one id, or what was made
            has faults.
        StorageError: If the file system refuses. Whatever is raised, nothing is left of the new dataset.
    """
    return plan_dataset(picks, target, name, rename=rename).write(on_episode)


def plan_dataset(
    picks: Iterable[BundlePick], target: Path, name: str | None = None, *, rename: Mapping[str, str] | None = None
) -> DatasetAssembly:
    """Say what `assemble_dataset` would write, and refuse what it would refuse beforehand; nothing is touched.

    Arguments and errors are those of `assemble_dataset`.
    """
    wanted = [*picks]
    if not wanted:
        raise SettingsError.of("output", str(target), "no episode is left to write; nothing was written")
    sources = list({id(pick.dataset): pick.dataset for pick in wanted}.values())
    refuse_target(target, [source.path for source in sources])
    name = dataset_name(target.name if name is None else name)
    refuse_unlike(sources)
    kept = _without_twins(wanted)
    entries, features = _entries(kept, rename or {})
    fields = {"id": manifest_id(name, (e["id"] for e in entries)), "name": name, **common_fields(sources), **features}
    tell_lost(sources, fields)
    return DatasetAssembly(
        target, kept, _places(kept), fields | summary(entries), _labels(wanted, sources), dict(rename or {})
    )


def _id(pick: BundlePick) -> str:
    name: str = pick.dataset.entry(pick.episode)["id"]
    return name


def _without_twins(wanted: Sequence[BundlePick]) -> list[BundlePick]:
    """Return the picks without those whose bundle was picked before, out of another dataset."""
    known: dict[str, BundlePick] = {}
    for pick in wanted:
        if not 0 <= pick.episode < len(pick.dataset):
            has = f"{pick.dataset.path} has {len(pick.dataset)} episodes, and none of this number"
            raise SettingsError.of("episode", pick.episode, has)
        other = known.setdefault(_id(pick), pick)
        if other is pick:
            continue
        if other.dataset is pick.dataset:
            raise SettingsError.of("episode", pick.episode, f"{pick.dataset.path}: is picked twice")
        if difference := _difference(other.dataset.files(other.episode), pick.dataset.files(pick.episode)):
            raise FormatError(
                f"{other.dataset.path} and {pick.dataset.path} both have the bundle {_id(pick)}, and {difference} is "
                "not the same in both; a dataset holds a bundle once: leave one of them out"
            )
    return list(known.values())


def _difference(files: Mapping[str, Path], others: Mapping[str, Path]) -> str:
    """Return the first file that is not the same, to the last byte, in two bundles; empty if they are one bundle."""
    for name in sorted({*files, *others}):
        if name not in files or name not in others or not _is_same(files[name], others[name]):
            return name
    return ""


def _is_same(one: Path, other: Path) -> bool:
    with format_errors(other):
        return os.path.samefile(one, other) or filecmp.cmp(one, other, shallow=False)


def _entries(picks: Sequence[BundlePick], rename: Mapping[str, str]) -> tuple[list[Entry], dict[str, Any]]:
    """Return what the manifest lists, and its fields of features: those of the bundles that are picked."""
    entries: list[Entry] = []
    features: dict[str, Any] = {}
    for pick in picks:
        sidecar = pick.dataset.sidecar(pick.episode)
        for key, there, here in kinds.differences(kinds.all_features(features), sidecar["features"]):
            raise FormatError(
                f"{pick.dataset.path}: {_id(pick)}: features[{key!r}] is {shown(here)}, and {shown(there)} in others "
                "before it"
            )
        features = kinds.grown(features, sidecar["features"], not entries)
        # Others may have said more of it.
        entries.append({**pick.dataset.entry(pick.episode), **entry_of(_renamed(sidecar, rename))})
    return entries, {key: value for key, value in features.items() if value or key != kinds.OPTIONAL}


def _renamed(sidecar: Mapping[str, Any], rename: Mapping[str, str]) -> Mapping[str, Any]:
    """Return a sidecar in which tasks have other descriptions, and short names that go with them."""
    renamed = {**sidecar, **_described(sidecar, rename)}
    if isinstance(events := sidecar.get("events"), list):
        renamed["events"] = [{**e, **_described(e, rename)} if is_of_task(e) else e for e in events]
    return renamed


def _described(said: Mapping[str, Any], rename: Mapping[str, str]) -> dict[str, str]:
    old = said.get("task_description")
    new = rename.get(old) if isinstance(old, str) else None
    return {} if new is None else {"task": layout.slug(new), "task_description": new}


def _places(picks: Sequence[BundlePick]) -> list[str]:
    """Return the folder of each bundle: the one that it had; its id where another has that (spec: episode.json)."""
    taken: set[str] = set()
    places = []
    for pick in picks:
        place = pick.dataset.place(pick.episode)
        place = _id(pick) if place in taken else place
        if place in taken:
            raise FormatError(
                f"{pick.dataset.path}: {layout.EPISODES}/{place}: another bundle has a folder of this name; call that "
                "one by its own id first"
            )
        taken.add(place)
        places.append(place)
    return places


def _labels(wanted: Sequence[BundlePick], sources: Sequence[Bundled]) -> list[_Label]:
    """Return the files of overlays that go with the bundles: also those that only another dataset's twin has."""
    ids: dict[int, set[str]] = {id(source): set() for source in sources}
    for pick in wanted:
        ids[id(pick.dataset)].add(_id(pick))
    found: dict[str, Bundled] = {}
    for source in sources:
        for file, is_told in _files_of_overlays(source, ids[id(source)]):
            other = found.setdefault(file, source)
            if is_told and other is not source and not _is_same(other.file(file), source.file(file)):
                raise FormatError(
                    f"{other.path} and {source.path}: {file} is not the same in both; an overlay says one thing of an "
                    "episode: leave one of them out"
                )
    return [_Label(source, file) for file, source in found.items()]


def _files_of_overlays(source: Bundled, ids: set[str]) -> Iterator[tuple[str, bool]]:
    """Go through the files of overlays of some episodes, and whether two datasets have to have the same."""
    for overlay in source.overlays():
        # It is there also where no episode of it is: whoever asks for it finds that there is nothing.
        yield f"{layout.OVERLAYS}/{overlay.name}/{DECLARATION}", False
        for episode in overlay.episodes:
            if episode in ids:
                yield overlay.file(episode), True


@contextlib.contextmanager
def _workshop(partial: Path) -> Iterator[Path]:
    """Make the folder in which bundles become whole, and hold its lock, as every writer does."""
    workshop = partial / f"{layout.TEMPORARY}{os.getpid()}-{uuid.uuid4().hex}"
    with storage_errors(workshop):
        workshop.mkdir()
    lock = hold(workshop)
    try:
        yield workshop
        with storage_errors(workshop):
            workshop.rmdir()
            sync_folder(partial)
    finally:
        if lock is not None:
            lock.release()
