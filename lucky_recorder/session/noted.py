"""Columns of somebody's own in ``meta/episodes``: notes that were added with pandas, say, one file at a time.

Each of its files has a schema of its own, and a library that stores whole numbers with a gap as floats gives a column
two types. Readers take what is the same number in both, and nothing is lost of the rest of the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lucky_recorder.errors import FormatError
from lucky_recorder.notices import tell
from lucky_recorder.session import layout
from lucky_recorder.session.features import episodes_schema, streams_of
from lucky_recorder.storage.untrusted import Folder, plain

_FORMATS_OWN = frozenset(episodes_schema(()).names)
_PREFIXES = ("data/", "meta/", "videos/", "states/")
_REMEDY = "give it one type in all files"


def is_own(name: str) -> bool:
    """Tell whether a column is somebody's own."""
    return name not in _FORMATS_OWN and not name.startswith(_PREFIXES)


def files_of(files: Folder) -> list[str]:
    """List the files of ``meta/episodes``, in order.

    What begins with a dot is no list: some systems put a note of their own beside each file, under such a name.
    """
    return [n for n in files.files(layout.EPISODES) if n.endswith(".parquet") and "/." not in n]


def lost(names: Iterable[str], features: Mapping[str, Any]) -> list[str]:
    """Return the columns that are somebody's own by all but their names: these begin as the format's do.

    Args:
        names: The columns of ``meta/episodes``.
        features: What ``info.json`` says of the session.
    """
    known = episodes_schema(streams_of(features), has_states=True).names
    return [name for name in names if name.startswith(_PREFIXES) and name not in known]


def unified(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type of which a column is that is of two in two files; None where there is none.

    What a library calls the values of a list does not matter, and lists without a value are lists of anything.
    """
    if pa.types.is_null(one) or pa.types.is_null(other):
        return _plain(other if pa.types.is_null(one) else one)
    if pa.types.is_list(one) and pa.types.is_list(other):
        value = unified(one.value_type, other.value_type)
        return None if value is None else pa.list_(value)
    return one if one == other else None


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.list_(_plain(kind.value_type)) if pa.types.is_list(kind) else kind


def _kinds(schemas: Mapping[str, pa.Schema]) -> dict[str, dict[pa.DataType, str]]:
    """Return the types of the columns of somebody's own, each with the first file that has it."""
    found: dict[str, dict[pa.DataType, str]] = {}
    for name, schema in schemas.items():
        for field in schema:
            if is_own(field.name):
                known = found.setdefault(field.name, {})
                found[field.name] = _with(known, _plain(field.type), name)
    return found


def _with(known: Mapping[pa.DataType, str], kind: pa.DataType, name: str) -> dict[pa.DataType, str]:
    """Return types with one more; where it goes with one of them, that is of both."""
    alike = next((one for one in known if unified(one, kind) is not None), None)
    if alike is None:
        return {**known, kind: name}
    # Of two of which only one says what its values are, that one is told of.
    both = unified(alike, kind)
    return {both if one is alike else one: (name if one is alike and one != both else n) for one, n in known.items()}


def mixed(schemas: Mapping[str, pa.Schema]) -> dict[str, dict[pa.DataType, str]]:
    """Return the columns of somebody's own that have several types, each with the first file that has it.

    Args:
        schemas: The schema of each file, by its name. A column in which a file has no value is of any type.
    """
    return {column: kinds for column, kinds in _kinds(schemas).items() if len(kinds) > 1}


def refuse_mixed(files: Folder) -> None:
    """Refuse a session in which a column of somebody's own has several types: what is added to it would get a third.

    Raises:
        FormatError: If one has; names the types, and where each stands.
    """
    schemas = {}
    for name in files_of(files):
        with files.parquet(name) as file:
            schemas[name] = plain(file.schema_arrow.empty_table()).schema
    for column, kinds in mixed(schemas).items():
        raise FormatError(f"{files.path}: {said(column, kinds)}; {_REMEDY}")


def said(column: str, kinds: Mapping[pa.DataType, str]) -> str:
    """Say which types a column has."""
    return f"column {column!r} is " + ", and ".join(f"{kind} in {name}" for kind, name in kinds.items())


def alike(tables: Mapping[str, pa.Table], files: Folder) -> list[pa.Table]:
    """Return the files of ``meta/episodes`` with one type for each column of somebody's own.

    Where all values are the same as numbers of one type, they become these. Else the column is left out, with a
    warning.

    Args:
        tables: The files, by their names.
        files: The session's files, for the warning.
    """
    kinds_of = _kinds({name: table.schema for name, table in tables.items()})
    single = {column: next(iter(kinds)) for column, kinds in kinds_of.items() if len(kinds) == 1}
    found = {name: _cast(table, single) for name, table in tables.items()}
    for column, kinds in ((column, kinds) for column, kinds in kinds_of.items() if len(kinds) > 1):
        changed = _numbers(column, found, list(kinds))
        if changed is None:
            changed = {n: table.drop_columns([column]) for n, table in found.items() if column in table.column_names}
            tell(f"{files.path}: {said(column, kinds)}: it is not read; {_REMEDY}")
        found |= changed
    return list(found.values())


def _cast(table: pa.Table, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    """Return a table with columns of those types, which hold the same values."""
    for number, name in enumerate(table.column_names):
        kind = kinds.get(name)
        # By name: to pyarrow two lists are equal whatever their values are called, and no table is made of both.
        if kind is not None and str(table.schema.field(number).type) != str(kind):
            table = table.set_column(number, name, table.column(number).cast(kind))
    return table


def _numbers(column: str, tables: Mapping[str, pa.Table], kinds: Sequence[pa.DataType]) -> dict[str, pa.Table] | None:
    """Return the tables with a column as numbers of one type; None where that would change a value."""
    if not all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        return None
    target = pa.int64() if all(map(pa.types.is_integer, kinds)) else pa.float64()
    changed = {}
    for name, table in tables.items():
        if column in table.column_names:
            try:
                values = table[column].cast(target)
            except pa.ArrowInvalid:  # too large to be exact
                return None
            changed[name] = table.set_column(table.column_names.index(column), column, values)
    return changed
