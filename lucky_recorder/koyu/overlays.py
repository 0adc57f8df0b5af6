"""Overlays: what is said of episodes later, in files beside the bundles, whose bytes never change (spec: Encoding).

``overlays/<name>/overlay.json`` says what it is; ``<ep_id>.parquet`` holds it for one episode. A ``dense`` overlay has
a vector per step (``step`` int64, ``value`` list<float32>), a ``spans`` overlay has texts over ranges of steps
(``start_step`` int64, ``end_step`` int64, exclusive, ``text`` string).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lucky_recorder.episode import limits
from lucky_recorder.errors import FormatError, SettingsError, StorageError, shown
from lucky_recorder.koyu import layout, manifest
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.koyu import dataset_name
from lucky_recorder.storage import checksums, named
from lucky_recorder.storage.lock import locked
from lucky_recorder.storage.names import owned, part
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.storage.write import stage, write_json

KINDS = ("dense", "spans")
DECLARATION = "overlay.json"
KEY = "overlay."
_MOST_HELD = 64
_LONGEST = 1 << 20
_DENSE = pa.schema([("step", pa.int64()), ("value", pa.list_(pa.float32()))])
_SPANS = pa.schema([("start_step", pa.int64()), ("end_step", pa.int64()), ("text", pa.string())])
_SCHEMAS = {"dense": _DENSE, "spans": _SPANS}

Floats = NDArray[np.float32]


class Span(NamedTuple):
    """A text over steps ``start_step`` to ``end_step``, the last one not included."""

    start_step: int
    end_step: int
    text: str


@dataclass
class Overlay:
    """An overlay of a dataset, read as it is asked for; threads may share it, and it can be pickled.

    Attributes:
        dataset: The dataset's folder.
        name: Its name.
        kind: ``dense`` or ``spans``.
        shape: The shape of a step's value, ``()`` for spans.
        description: What it says of itself.
    """

    dataset: Path
    name: str
    kind: str
    shape: tuple[int, ...] = ()
    description: str = ""
    _held: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def key(self) -> str:
        """Its key in the rows of a dataset that joins it."""
        return KEY + self.name

    @property
    def episodes(self) -> tuple[str, ...]:
        """The ids of the episodes it has something for, sorted."""
        place = self.dataset / layout.OVERLAYS / self.name
        return tuple(sorted(p.stem for p in place.glob("*.parquet")))

    def dense(self, episode: str) -> Floats:
        """Return a dense overlay's values of one episode, float32, shape ``(steps, *shape)``; NaN where it has none.

        Raises:
            FormatError: If it is a ``spans`` overlay, has nothing for the episode, or its file is broken.
        """
        self._require("dense")
        return _read_dense(self, episode)

    def spans(self, episode: str) -> tuple[Span, ...]:
        """Return a spans overlay's texts of one episode, in order.

        Raises:
            FormatError: If it is a ``dense`` overlay, has nothing for the episode, or its file is broken.
        """
        self._require("spans")
        return _read_spans(self, episode)

    def at(self, episode: str, step: int) -> dict[str, Any]:
        """Return what it says of one step, by its key.

        A dense overlay's value is float32 of ``shape``, NaN where it has none. A spans overlay's is the texts that
        cover the step, a line each, empty where there is none.

        Raises:
            FormatError: If its file is broken.
        """
        held = self._held.get(episode)
        if held is None:
            held = self._read(episode)
            # Replaced as a whole, so that threads need no lock.
            self._held = {**self._held, episode: held} if len(self._held) < _MOST_HELD else {episode: held}
        if self.kind == "spans":
            return {self.key: "\n".join(s.text for s in held if s.start_step <= step < s.end_step)}
        known = 0 <= step < len(held)
        return {self.key: held[step].copy() if known else np.full(self.shape, np.nan, np.float32)}

    def _read(self, episode: str) -> Any:
        if not Folder(self.dataset).has(self.file(episode)):
            return () if self.kind == "spans" else np.empty((0, *self.shape), np.float32)
        return self.spans(episode) if self.kind == "spans" else self.dense(episode)

    def file(self, episode: str) -> str:
        """Return the file of an episode, within the dataset."""
        return f"{layout.OVERLAYS}/{self.name}/{part(episode)}.parquet"

    def _require(self, kind: str) -> None:
        if self.kind != kind:
            raise FormatError(f"overlay {self.name!r}: is of kind {self.kind!r}, not {kind!r}")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_held": {}}


def read_overlay(dataset: str | Path, name: str) -> Overlay:
    """Open an overlay.

    Raises:
        SettingsError: If there is none of that name.
        FormatError: If it is not what the format says.
    """
    root = Path(dataset)
    name = dataset_name(name, field="overlay")
    relative = f"{layout.OVERLAYS}/{name}/{DECLARATION}"
    if not Folder(root).has(relative):
        raise SettingsError.of("overlay", name, f"is not in {root}; there are: {', '.join(names(root)) or 'none'}")
    return _declared(root, name, Folder(root).json(relative), root / relative)


def _declared(root: Path, name: str, content: Mapping[str, Any], path: Path) -> Overlay:
    layout.refuse_other_versions(content, str(path))
    kind, shape = content.get("kind"), content.get("shape", [])
    if kind not in KINDS:
        raise FormatError(f"{path}: kind={shown(kind)}: expected one of {', '.join(KINDS)}")
    if not isinstance(shape, list) or not all(type(n) is int and 0 < n <= _LONGEST for n in shape):
        raise FormatError(f"{path}: shape={shown(shape)}: expected a list of lengths")
    if math.prod(shape) > _LONGEST:
        raise FormatError(f"{path}: shape={shown(shape)}: expected a list of lengths")
    if kind == "dense" and not shape:
        raise FormatError(f"{path}: shape={shown(shape)}: a dense overlay has a vector per step")
    return Overlay(root, name, str(kind), tuple(shape) if kind == "dense" else (), str(content.get("description", "")))


def open_overlays(dataset: Path, names: Sequence[str]) -> tuple[Overlay, ...]:
    """Open several overlays; errors as for `read_overlay`."""
    return tuple(read_overlay(dataset, name) for name in names)


def names(dataset: Path) -> list[str]:
    """Return the names of a dataset's overlays, sorted."""
    place = dataset / layout.OVERLAYS
    return sorted(p.parent.name for p in place.glob(f"*/{DECLARATION}") if not p.parent.name.startswith("."))


def _table(overlay: Overlay, episode: str) -> pa.Table:
    """Return the file of an episode, with the columns that the kind has."""
    relative = overlay.file(episode)
    folder, expected = Folder(overlay.dataset), _SCHEMAS[overlay.kind]
    where = overlay.dataset / relative
    table = folder.table(relative, limits.MOST_ROWS if overlay.kind == "dense" else limits.MOST_LISTED)
    for column in expected:
        if table.column_names.count(column.name) != 1 or table[column.name].type != column.type:
            raise FormatError(f"{where}: needs a column {column.name!r} of type {column.type}")
        if table[column.name].null_count:
            raise FormatError(f"{where}: column {column.name!r} has missing values")
    return table


def _read_dense(overlay: Overlay, episode: str) -> Floats:
    table, where = _table(overlay, episode), overlay.dataset / overlay.file(episode)
    steps = table["step"].to_numpy()
    size = math.prod(overlay.shape)
    if len(steps) and (steps[0] < 0 or (np.diff(steps) <= 0).any() or steps[-1] >= limits.MOST_ROWS):
        raise FormatError(f"{where}: steps must ascend from 0 or more")
    needed = 4 * size * (int(steps[-1]) + 1 if len(steps) else 0)
    if needed > limits.MOST_TABLE_BYTES:
        # A single step far out would make it as long as it is far.
        raise FormatError(f"{where}: says something of step {steps[-1]}: {needed // limits.MEGABYTE} MB; too much")
    lists = table["value"].combine_chunks()
    if (np.diff(lists.offsets.to_numpy()) != size).any() or lists.flatten().null_count:
        raise FormatError(f"{where}: every value must be {size} numbers")
    values = np.full((int(steps[-1]) + 1 if len(steps) else 0, *overlay.shape), np.nan, np.float32)
    values[steps] = lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, *overlay.shape)
    return values


def _read_spans(overlay: Overlay, episode: str) -> tuple[Span, ...]:
    table, where = _table(overlay, episode), overlay.dataset / overlay.file(episode)
    spans = tuple(Span(**row) for row in table.select(_SPANS.names).to_pylist())
    for span in spans:
        if not 0 <= span.start_step < span.end_step:
            raise FormatError(f"{where}: {span}: a span covers at least one step, from 0 on")
    return spans


# Writing.


def write_overlay(
    dataset: str | Path,
    name: str,
    kind: str,
    episodes: Mapping[str, Any],
    *,
    description: str = "",
) -> Overlay:
    """Write an overlay, or more episodes of one; what it said of these episodes before is replaced.

    Args:
        dataset: The dataset's folder.
        name: The overlay's name: letters, digits, ``.``, ``_`` and ``-``.
        kind: ``dense`` or ``spans``.
        episodes: By episode id. Dense: an array of shape ``(length,)`` or ``(length, n)``, a value per step, NaN where
            there is none. Spans: `Span` or ``(start_step, end_step, text)``, the end not included.
        description: What it is, in words.

    Raises:
        SettingsError: If an episode is not in the dataset or its values do not fit it; nothing is written.
        FormatError: If the dataset, or the overlay that is there, is broken.
        StorageError: If the file system refuses.
    """
    root = Path(dataset).absolute()
    name, kind = dataset_name(name, field="overlay"), v.one_of(kind, KINDS, field="kind")
    lengths = lengths_of(root)
    tables, shape = _tables(kind, episodes, lengths)
    place = owned(root, f"{layout.OVERLAYS}/{name}")
    # Under the lock: two writers must not declare one name as two kinds.
    with locked(root / layout.LOCK):
        checksums.drop(root, layout.CHECKSUMS)
        overlay = _declare(root, name, kind, shape, description)
        for episode, table in tables.items():
            _write(place / f"{part(episode)}.parquet", table)
    return overlay


def lengths_of(root: Path) -> dict[str, int]:
    """Return how many steps each episode has, by the manifest.

    Raises:
        FormatError: If there is none, or it is broken.
    """
    listed = manifest.read(root)
    if listed is None:
        raise FormatError(f"{root}: has no {layout.MANIFEST}; rebuild it from the bundles")
    lengths: dict[str, int] = {}
    for number, entry in enumerate(listed["episodes"]):
        length = entry.get("length")
        if type(length) is not int or length < 0:
            place = f"{root / layout.MANIFEST}: episodes[{number}]: length={shown(length)}"
            raise FormatError(f"{place}: expected a number of rows; rebuild it from the bundles")
        lengths[entry["id"]] = length
    return lengths


def _tables(
    kind: str, episodes: Mapping[str, Any], lengths: Mapping[str, int]
) -> tuple[dict[str, pa.Table], tuple[int, ...]]:
    """Return the file of each episode, and the shape that all values have."""
    tables: dict[str, pa.Table] = {}
    shapes: dict[tuple[int, ...], str] = {}
    make: Callable[[str, Any, int], tuple[pa.Table, tuple[int, ...]]] = (
        _dense_table if kind == "dense" else _spans_table
    )
    for episode, values in episodes.items():
        if episode not in lengths:
            raise SettingsError.of("episode", episode, "is not in the dataset's manifest")
        tables[episode], shape = make(episode, values, lengths[episode])
        shapes.setdefault(shape, episode)
    if not tables:
        raise SettingsError.of("episodes", episodes, "give at least one episode")
    if len(shapes) > 1:
        raise SettingsError(f"the values of an overlay have one shape, and these have {', '.join(map(str, shapes))}")
    return tables, next(iter(shapes))


def _dense_table(episode: str, values: Any, length: int) -> tuple[pa.Table, tuple[int, ...]]:
    try:
        given = np.asarray(values, np.float32)
    except (TypeError, ValueError) as error:
        raise SettingsError.of(f"episodes[{episode!r}]", values, f"are no numbers: {error}") from None
    if given.ndim not in (1, 2) or len(given) != length or not given.size:
        raise SettingsError(
            f"episodes[{episode!r}]: shape {given.shape}: the episode has {length} steps; give shape ({length},) or "
            f"({length}, n)"
        )
    given = given.reshape(length, -1)
    size = given.shape[1]
    offsets = pa.array(np.arange(length + 1, dtype=np.int32) * np.int32(size))
    lists = pa.ListArray.from_arrays(offsets, pa.array(given.reshape(-1)))
    return pa.table([pa.array(np.arange(length, dtype=np.int64)), lists.cast(_DENSE.field("value").type)], _DENSE), (
        size,
    )


def _spans_table(episode: str, spans: Iterable[Any], length: int) -> tuple[pa.Table, tuple[int, ...]]:
    settled = sorted(_span(f"episodes[{episode!r}][{i}]", span, length) for i, span in enumerate(spans))
    return pa.Table.from_pylist([span._asdict() for span in settled], _SPANS), ()


def _span(place: str, given: Any, length: int) -> Span:
    try:
        start, end, text = given
    except (TypeError, ValueError):
        raise SettingsError.of(place, given, "give (start_step, end_step, text)") from None
    first = v.whole(start, 0, length - 1, field=f"{place}: start_step")
    last = v.whole(end, first + 1, length, field=f"{place}: end_step")
    return Span(first, last, v.text(text, field=f"{place}: text"))


def _declare(root: Path, name: str, kind: str, shape: tuple[int, ...], description: str) -> Overlay:
    """Write ``overlay.json``, or see that the one that is there says the same."""
    path = root / layout.OVERLAYS / name / DECLARATION
    if path.exists():
        known = read_overlay(root, name)
        if (known.kind, known.shape) != (kind, shape):
            there, here = f"{known.kind} {known.shape}", f"{kind} {shape}"
            raise SettingsError(f"{path}: this overlay is {there}, not {here}; give another name")
        return known
    values = {"dtype": "float32", "shape": list(shape)} if kind == "dense" else {"end_step": "exclusive"}
    content = {
        "schema_version": layout.SCHEMA_VERSION,
        "name": name,
        "kind": kind,
        **values,
        "description": description,
    }
    write_json(path, content)
    return Overlay(root, name, kind, shape, description)


def _write(path: Path, table: pa.Table) -> None:
    def verify(temporary: Path) -> None:
        if named.metadata_of(temporary).num_rows != table.num_rows:
            raise StorageError(f"{path}: does not hold the rows that were written")

    stage(path, lambda p: named.write_table(p, table), verify).commit()
