"""A koyu dataset that bundles are taken from: its episodes, their files, and what is said of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from lucky_recorder.errors import FormatError, StorageError, shown
from lucky_recorder.koyu import layout, overlays
from lucky_recorder.koyu.index import read_index
from lucky_recorder.koyu.manifest import bundle_folders, is_reward
from lucky_recorder.koyu.metadata import read_sidecar
from lucky_recorder.koyu.overlays import Overlay, read_overlay
from lucky_recorder.koyu.recovery import is_written
from lucky_recorder.session.about import text
from lucky_recorder.storage.untrusted import Folder

# What a sidecar says that is a column of the table of episodes (spec: episode.json).
_TEXTS = (
    *("recorded_at", "collection_mode", "source_run_id", "source_checkpoint", "policy_name", "robot", "dataset"),
    *("seed", "end_reason"),
)
_ANNOTATIONS = "annotations"
_NUMBERS = ("reward", "fps", "record_hz")


class Known(NamedTuple):
    """What is known of an episode of a dataset.

    Attributes:
        number: Its place in the manifest.
        id: The id of its bundle.
        length: Its rows.
        tasks: The descriptions of its tasks: the one that it begins with, then those that come after.
        values: Its row in the table of episodes.
    """

    number: int
    id: str
    length: int
    tasks: tuple[str, ...]
    values: dict[str, Any]

    @property
    def success(self) -> bool:
        """Whether it has succeeded: its reward is 0.5 or more; one without a reward has not."""
        return bool(self.values["success"])


class Bundled:
    """A dataset that bundles are taken from. It is only read.

    Attributes:
        path: Its folder.
        manifest: The content of its manifest.

    Args:
        path: Its folder.

    Raises:
        FormatError: If it is no dataset, or its manifest and its bundles are not the same.
        StorageError: If it is being written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._folder = Folder(self.path, "dataset")
        index = read_index(self._folder)
        self.manifest = index.manifest
        self._entries = index.episodes
        _refuse_written(self.path)
        self._places = bundle_folders(self.path)
        self._refuse_unlisted()

    def __len__(self) -> int:
        """Return how many episodes there are."""
        return len(self._entries)

    def _refuse_unlisted(self) -> None:
        listed = {entry.id for entry in self._entries}
        if more := sorted(self._places.keys() - listed):
            raise FormatError(
                f"{self.path}: holds {len(more)} bundles that {layout.MANIFEST} does not list, {more[0]} among them; "
                f"`lucky-recorder recover {self.path}` lists them"
            )
        if lost := sorted(listed - self._places.keys()):
            raise FormatError(
                f"{self.path}: {layout.MANIFEST} lists {lost[0]}, which is not in {layout.EPISODES}/; bring it back "
                f"from a copy, or let `lucky-recorder koyu index {self.path}` write the manifest without it"
            )

    def entry(self, number: int) -> Mapping[str, Any]:
        """Return what the manifest says of an episode."""
        entry: Mapping[str, Any] = self.manifest["episodes"][number]
        return entry

    def place(self, number: int) -> str:
        """Return the name of an episode's folder."""
        return self._places[self._entries[number].id]

    def sidecar(self, number: int) -> dict[str, Any]:
        """Return the content of an episode's ``episode.json``.

        Raises:
            FormatError: If it is broken, or the manifest says otherwise.
        """
        entry, place = self._entries[number], self.place(number)
        sidecar = read_sidecar(self.path, place)
        path = self.path / layout.EPISODES / place / layout.SIDECAR
        said = {"capture_id": f"ep_{sidecar['capture_id']}", "length": sidecar["length"]}
        for (name, mine), listed in zip(said.items(), (entry.id, entry.length), strict=True):
            if mine != listed:
                raise FormatError(
                    f"{path}: {name} {shown(mine)}, {layout.MANIFEST} says {shown(listed)}; "
                    f"`lucky-recorder check {self.path}` tells all that is wrong"
                )
        return sidecar

    def files(self, number: int) -> dict[str, Path]:
        """Return the files of an episode's bundle, by their name in it.

        Raises:
            FormatError: If one is no file, or lies outside the dataset.
        """
        place = f"{layout.EPISODES}/{self.place(number)}"
        return {name.removeprefix(f"{place}/"): self._folder.file(name) for name in self._folder.files(place)}

    def overlays(self) -> list[Overlay]:
        """Return what is said of its episodes beside their bundles.

        Raises:
            FormatError: If one is not what the format says.
        """
        return [read_overlay(self.path, name) for name in overlays.names(self.path)]

    def file(self, relative: str) -> Path:
        """Return the path of one of its files.

        Raises:
            FormatError: If it lies outside the dataset, or is no file.
        """
        return self._folder.file(relative)

    def episodes(self) -> list[Known]:
        """Return what is known of each episode; errors as for `sidecar`."""
        return [self._known(number) for number in range(len(self))]

    def _known(self, number: int) -> Known:
        entry, sidecar = self._entries[number], self.sidecar(number)
        tasks = tasks_of(sidecar)
        values: dict[str, Any] = {"episode_index": number, "id": entry.id, "length": entry.length}
        values |= {name: _text(sidecar.get(name)) for name in ("task", "task_description", *_TEXTS)}
        values |= {name: _number(sidecar.get(name)) for name in _NUMBERS}
        # A text of JSON, as a session's table has it.
        notes = sidecar.get(_ANNOTATIONS)
        values[_ANNOTATIONS] = text(notes) if isinstance(notes, dict) and notes else None
        reward = sidecar.get("reward")
        values["success"] = is_reward(reward) and reward >= layout.GOOD_REWARD  # type: ignore[operator]  # a number
        return Known(number, entry.id, entry.length, tasks, values)


def table_of(episodes: Iterable[Known]) -> pa.Table:
    """Return the table of episodes that conditions are asked of."""
    fields = [("episode_index", pa.int64()), ("id", pa.string()), ("length", pa.int64())]
    fields += [(name, pa.string()) for name in ("task", "task_description", *_TEXTS, _ANNOTATIONS)]
    fields += [(name, pa.float64()) for name in _NUMBERS] + [("success", pa.bool_())]
    return pa.Table.from_pylist([episode.values for episode in episodes], pa.schema(fields))


def tasks_of(sidecar: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the descriptions of an episode's tasks, in order."""
    events = sidecar.get("events")
    changes = [event for event in events if is_of_task(event)] if isinstance(events, list) else []
    said = [one.get("task_description") for one in (sidecar, *changes)]
    return tuple(dict.fromkeys(task for task in said if isinstance(task, str)))


def is_of_task(event: object) -> bool:
    """Tell whether an event of a sidecar is that an episode goes over to another task."""
    return isinstance(event, dict) and event.get("type") == "task"


def _refuse_written(path: Path) -> None:
    held = is_written(path)
    if held:
        raise StorageError(f"{path}: is being recorded into; take its episodes when that is done")
    if held is None:
        raise StorageError(
            f"{path}: {layout.EPISODES}/ holds the folder of a writer, and this file system does not say whether it "
            f"lives; `lucky-recorder recover --force {path}` removes it if nobody records"
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> float | None:
    # A whole number of JSON may be larger than any float.
    with contextlib.suppress(OverflowError):
        return float(value) if type(value) in (int, float) else None  # type: ignore[arg-type]
    return None
