"""The bundles of many shards become those of one dataset, in the order of their attempts.

A bundle is whole where it is, and its files are linked. What one process would have written of it that has made all the
attempts is written anew: its id, and its times where they are to follow one another.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lucky_recorder.episode import clock
from lucky_recorder.errors import FormatError, shown
from lucky_recorder.koyu import kinds, layout
from lucky_recorder.koyu.bundle import Whole
from lucky_recorder.koyu.manifest import Description
from lucky_recorder.koyu.metadata import read_sidecar
from lucky_recorder.koyu.sink import capture_id
from lucky_recorder.koyu.writer import DatasetWriter, remove_empty
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.storage.untrusted import Folder


class Kept(NamedTuple):
    """An attempt whose bundles are to stand in the dataset.

    Attributes:
        take: The number that it would have had in one process.
        folders: Its bundles, one for each robot.
    """

    take: int
    folders: Sequence[Path]


@contextlib.contextmanager
def ready(
    dataset: Path,
    settings: KoyuSettings,
    kept: Sequence[Kept],
    metadata_every: int,
    on_episode: Callable[[int, int], None],
) -> Iterator[Callable[[], None]]:
    """Make bundles ready to stand in a dataset, new or existing; gives what has them stand there, all or none.

    Args:
        dataset: The dataset's folder.
        settings: What the bundles say of themselves.
        kept: The attempts, in order.
        metadata_every: Bundles between two writes of the manifest.
        on_episode: Called after each attempt.

    Raises:
        SettingsError: If the dataset is of another kind; nothing is touched.
        FormatError: If a bundle cannot be read, or is unlike the others.
        StorageError: If the file system refuses, or the dataset has a bundle of such an id.
    """
    placed = _Placed(settings, _sidecar(kept[0].folders[0]))
    is_new = not os.path.lexists(dataset)
    writer = DatasetWriter(dataset, placed.description, metadata_every)
    try:
        prepared = []
        for number, one in enumerate(kept):
            prepared += [writer.take_over(bundle) for bundle in placed.bundles(one)]
            on_episode(number + 1, len(kept))
        yield lambda: writer.commit(prepared)
    finally:
        # What is not committed by now goes with the folder that it is in.
        writer.close()
        if is_new:
            remove_empty(writer.root)


class _Placed:
    """Says what each bundle becomes in the dataset.

    Attributes:
        description: What all of them have in common.

    Args:
        settings: What they say of themselves.
        first: The sidecar of the first.
    """

    def __init__(self, settings: KoyuSettings, first: Mapping[str, Any]) -> None:
        self.description = Description(
            settings.name, settings.collection_mode, first["fps"], first["features"], settings.action
        )
        self._settings = settings
        self._next_ns = settings.time_origin_ns

    def bundles(self, kept: Kept) -> list[Whole]:
        """Return the bundles of the next attempt."""
        sidecars = [_sidecar(folder) for folder in kept.folders]
        for folder, sidecar in zip(kept.folders, sidecars, strict=True):
            self._refuse_unlike(folder, sidecar)
        began = self._begin(sidecars[0])
        return [
            self._placed(folder, sidecar, kept.take, robot, began)
            for robot, (folder, sidecar) in enumerate(zip(kept.folders, sidecars, strict=True))
        ]

    def _begin(self, sidecar: Mapping[str, Any]) -> int | None:
        """Return when an attempt begins: where the one before it has ended; None where it stays as it is."""
        began = self._next_ns
        if began is not None:
            self._next_ns = clock.end_ns(began, sidecar["length"], clock.rate(sidecar["fps"], "fps"))
        return began

    def _placed(self, folder: Path, sidecar: Mapping[str, Any], take: int, robot: int, began: int | None) -> Whole:
        changed: dict[str, Any] = {}
        later = 0
        if self._settings.id_seed is not None:
            changed["capture_id"] = capture_id(self._settings.id_seed, take, robot)
        if began is not None:
            was = clock.moment_ns(sidecar.get("recorded_at"))
            if was is None:
                raise FormatError(f"{folder}: recorded_at={shown(sidecar.get('recorded_at'))}: expected a moment")
            changed["recorded_at"], later = clock.moment(began), began - was
        return Whole(_files(folder), {**sidecar, **changed}, later)

    def _refuse_unlike(self, folder: Path, sidecar: Mapping[str, Any]) -> None:
        mine, first = self.description, sidecar["features"]
        same = sidecar.get("fps") == mine.fps and first.keys() == mine.features.keys()
        if not same or any(kinds.differences(mine.features, first)):
            raise FormatError(
                f"{folder}: fps and features are {shown([sidecar.get('fps'), first])}, and those of the first attempt "
                f"{shown([mine.fps, dict(mine.features)])}: the environment is not the same in every process"
            )


def _sidecar(folder: Path) -> dict[str, Any]:
    return read_sidecar(folder.parent.parent, folder.name)


def _files(folder: Path) -> dict[str, Path]:
    """Return the files of a bundle by their name in it."""
    dataset = Folder(folder.parent.parent, "dataset")
    place = f"{layout.EPISODES}/{folder.name}"
    return {name.removeprefix(f"{place}/"): dataset.file(name) for name in dataset.files(place)}
