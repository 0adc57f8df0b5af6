"""Data files: an episode's rows as a Parquet table whose footer carries the episode's metadata."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lucky_recorder.episode import keys
from lucky_recorder.episode.parts import let_go, parts
from lucky_recorder.episode.record import EpisodeRecord
from lucky_recorder.episode.schema import Field, Schema
from lucky_recorder.episode.statistics import ColumnStatistics
from lucky_recorder.errors import StorageError
from lucky_recorder.session.features import arrow_schema
from lucky_recorder.storage import named
from lucky_recorder.storage.space import of_rows
from lucky_recorder.storage.untrusted import format_errors

_RUNNING = (keys.INDEX, keys.FRAME_INDEX)


def tables(schema: Schema, record: EpisodeRecord, episode: int, first_index: int) -> Iterator[pa.Table]:
    """Build the rows of an episode part after part: a single one, unless there are too many rows for the memory.

    Args, errors and columns are those of `table`.
    """
    for part in parts(record.rows, _bytes_of_each(schema, record)):
        yield table(schema, record, episode, first_index, part)
        for values in record.columns.values():
            let_go(values)


def measure(record: EpisodeRecord, name: str) -> ColumnStatistics:
    """Return the statistics of a column of an episode."""
    values = record.columns[name]
    measured = ColumnStatistics.of(values, record.missing.get(name))
    let_go(values)
    return measured


def _bytes_of_each(schema: Schema, record: EpisodeRecord) -> int:
    return sum(record.columns[f.name][:1].nbytes for f in schema.fields if f.name in record.columns)


def largest(schema: Schema, record: EpisodeRecord) -> int | None:
    """Return how many bytes the file of an episode takes, at most; None with texts, whose lengths nobody knows."""
    if any(field.is_text for field in schema.fields):
        return None
    return of_rows(record.rows, _bytes_of_each(schema, record), len(schema.fields))


def table(schema: Schema, record: EpisodeRecord, episode: int, first_index: int, part: slice | None = None) -> pa.Table:
    """Build the rows of an episode that has got its index.

    Args:
        schema: What a row is.
        record: The finished episode.
        episode: Its ``episode_index``.
        first_index: The session-wide ``index`` of its first row.
        part: Which rows; all of them by default.

    Returns:
        The columns of ``schema.fields`` in their order; vectors are lists (spec: Data columns).

    Raises:
        StorageError: If a column has not a value of its shape for every row.
    """
    part = part or slice(0, record.rows)
    numbering = {
        keys.INDEX: np.arange(first_index + part.start, first_index + part.stop, dtype=np.int64),
        keys.EPISODE_INDEX: np.full(part.stop - part.start, episode, np.int64),
    }
    arrays = []
    for field in schema.fields:
        values, missing = numbering.get(field.name), record.missing.get(field.name)
        if values is None:
            values = record.columns[field.name]
            if values.shape != (record.rows, *field.shape):
                expected = (record.rows, *field.shape)
                raise StorageError(f"column {field.name!r}: {values.shape} values, expected {expected}")
            values = values[part]
        arrays.append(_array(field, values, None if missing is None else missing[part]))
    return pa.Table.from_arrays(arrays, schema=arrow_schema(schema))


def _array(field: Field, values: NDArray[Any], missing: NDArray[np.bool_] | None) -> pa.Array:
    rows = len(values)
    if field.is_text:
        # A text that is missing is None among the others.
        return pa.array(values.tolist(), pa.string())
    flat = np.ascontiguousarray(values, field.dtype).reshape(-1)
    if not field.shape:
        return pa.array(flat, mask=missing)
    array: pa.Array = pa.array(flat)
    # From the innermost dimension out: a list per dimension. Only a whole value can be missing, so only the outermost
    # list takes the mask.
    for depth, length in reversed(list(enumerate(field.shape))):
        lists = rows * math.prod(field.shape[:depth])
        offsets = pa.array(np.arange(lists + 1, dtype=np.int32) * length)
        mask = pa.array(missing) if missing is not None and depth == 0 else None
        array = pa.ListArray.from_arrays(offsets, array, mask=mask)
    return array


def write(
    path: Path,
    tables: Iterable[pa.Table],
    episodes: Sequence[Mapping[str, Any]],
    session: Mapping[str, Any] | None = None,
) -> None:
    """Write a data file: a row group per table, and in the footer all that ``meta/`` will say.

    Args:
        path: The file.
        tables: The rows of each episode, of a long one in several parts; one is held at a time.
        episodes: Their rows of ``meta/episodes``.
        session: What else ``meta/`` says: `lucky_recorder.session.carried.Carried`, as plain values.
    """
    notes = {keys.FOOTER: list(episodes)} | ({keys.SESSION_FOOTER: session} if session is not None else {})
    footer = {k: json.dumps(note, ensure_ascii=False, allow_nan=False).encode() for k, note in notes.items()}
    remaining = iter(tables)
    first = next(remaining)
    schema = first.schema.with_metadata(footer)
    # Measured values hardly repeat, nor do running numbers: without dictionaries they are written twice as fast, and
    # are smaller. Other whole numbers and texts do repeat.
    counted = [
        field.name
        for field in schema
        if field.name not in _RUNNING and (pa.types.is_integer(field.type) or pa.types.is_string(field.type))
    ]
    options = {"compression": "zstd", "use_dictionary": counted, "write_page_checksum": True}
    with named.writable(path) as file, pq.ParquetWriter(file, schema, **options) as writer:
        for rows in itertools.chain([first], remaining):
            writer.write_table(rows.replace_schema_metadata(schema.metadata), row_group_size=max(1, rows.num_rows))


def verify(path: Path, rows: int) -> None:
    """Reopen a data file: it must have a footer and hold ``rows`` rows.

    Raises:
        StorageError: If it does not.
    """
    # On a full disk pyarrow may close a file without an error, and without a footer.
    try:
        held = named.metadata_of(path).num_rows
    except (pa.ArrowInvalid, pa.ArrowException) as error:
        raise StorageError(f"{path}: the file has no readable footer after it was closed ({error})") from error
    if held != rows:
        raise StorageError(f"{path}: holds {held} rows after it was closed, {rows} were written")


def read(path: Path) -> Iterator[pa.Table]:
    """Go through the row groups of a data file of one's own.

    Raises:
        FormatError: If it cannot be read.
    """
    with (
        format_errors(path),
        named.readable(path) as file,
        pq.ParquetFile(file, page_checksum_verification=True) as parts,
    ):
        for group in range(parts.num_row_groups):
            yield parts.read_row_group(group, use_threads=False)


def footer(path: Path) -> list[dict[str, Any]]:
    """Return the rows of ``meta/episodes`` that a data file carries."""
    metadata = named.metadata_of(path).schema.to_arrow_schema().metadata or {}
    episodes: list[dict[str, Any]] = json.loads(metadata.get(keys.FOOTER, b"[]"))
    return episodes
