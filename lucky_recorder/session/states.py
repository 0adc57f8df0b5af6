"""Files of states: the simulation's full state at every tick of an episode, and its models (an addition of ours).

They lie under ``states/`` and not under ``data/``: no reader of the format looks there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lucky_recorder.episode import keys
from lucky_recorder.episode.parts import let_go, parts
from lucky_recorder.episode.record import FinishedStates, Model
from lucky_recorder.session import layout, rows
from lucky_recorder.storage import named
from lucky_recorder.storage.names import owned
from lucky_recorder.storage.space import of_rows
from lucky_recorder.storage.write import Staged, stage

# What a row group holds.
_PART_BYTES = 4 << 20
SCHEMA = pa.schema([("tick", pa.int64()), ("state", pa.list_(pa.float64())), ("ctrl", pa.list_(pa.float64()))])
_VECTORS = [f"{name}.list.element" for name in ("state", "ctrl")]


def tables(states: FinishedStates) -> Iterator[pa.Table]:
    """Build the rows of an episode: one per tick, and one more for the state after the last, which has no commands.

    Where nobody knows the last state, it is null, and so are the commands before it where nobody knows them either.
    """
    count = len(states.states)
    each = states.states[:1].nbytes + states.commands[:1].nbytes
    is_lost = not states.about["ended"] and len(states.commands) > 0 and bool(np.isnan(states.commands[-1]).any())
    known = count - 2 if is_lost else count - 1
    for part in parts(count, each, _PART_BYTES):
        ticks = np.arange(part.start, part.stop, dtype=np.int64)
        arrays = [
            pa.array(ticks),
            _lists(states.states[part], ticks >= (count if states.about["ended"] else count - 1)),
            _lists(_padded(states.commands, part), ticks >= known),
        ]
        yield pa.Table.from_arrays(arrays, schema=SCHEMA)
        for values in (states.states, states.commands):
            let_go(values)


def _padded(commands: NDArray[np.float64], part: slice) -> NDArray[np.float64]:
    """Return the commands of some rows, of which the last of all has none."""
    taken = commands[part]
    missing = part.stop - part.start - len(taken)
    return np.concatenate([taken, np.zeros((missing, commands.shape[1]))]) if missing else taken


def _lists(values: NDArray[np.float64], is_missing: NDArray[np.bool_]) -> pa.Array:
    lengths = np.where(is_missing, 0, values.shape[1])
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    flat = np.ascontiguousarray(values[~is_missing]).reshape(-1)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat), mask=pa.array(is_missing))


def stage_states(root: Path, states: FinishedStates, place: layout.Place) -> list[Staged]:
    """Write an episode's states under a temporary name, and their model, where no episode before had it.

    The model comes first: they are renamed in this order, and states are nothing without their model.

    Raises:
        StorageError: If the file system refuses.
    """
    path = root / layout.states_file(place)
    if states.file is not None:
        return [*_stage_model(root, states.model), Staged(path, states.file)]
    model = _stage_model(root, states.model)
    try:
        count, each = len(states.states), states.states[:1].nbytes + states.commands[:1].nbytes
        written = stage(
            path,
            lambda file: write(file, tables(states), states.about),
            lambda file: rows.verify(file, count),
            of_rows(count, each, len(SCHEMA)),
        )
    except BaseException:  # no temporary file must stay behind, whatever was raised
        for one in model:
            one.discard()
        raise
    return [*model, written]


def _stage_model(root: Path, model: Model) -> list[Staged]:
    path = owned(root, layout.states_model_file(model.sha256))
    if path.is_file() and path.stat().st_size == len(model.content):
        return []

    def write_model(file: Path) -> None:
        file.write_bytes(model.content)

    return [stage(path, write_model, size=len(model.content))]


def write(path: Path, built: Iterator[pa.Table], about: Mapping[str, Any]) -> None:
    """Write a file of states: a row group per table, and in the footer what they are of."""
    schema = SCHEMA.with_metadata({keys.STATES_FOOTER: json.dumps(dict(about), allow_nan=False).encode()})
    options = {
        "compression": "zstd",
        "use_dictionary": False,
        "use_byte_stream_split": _VECTORS,
        "write_page_checksum": True,
    }
    with named.writable(path) as file, pq.ParquetWriter(file, schema, **options) as writer:
        for table in built:
            writer.write_table(table.replace_schema_metadata(schema.metadata), row_group_size=max(1, table.num_rows))
