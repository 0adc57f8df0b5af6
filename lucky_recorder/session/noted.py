"""Columns of somebody's own in ``meta/episodes``: notes that were added with pandas, say, one file at a time.

Each of its files has a schema of its own, and a library that stores whole numbers with a gap as floats gives a column
two types. Readers take what is the same number in both, and nothing is lost of the rest of the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from lucky_recorder.errors import FormatError
from lucky_recorder.notices import tell
from lucky_recorder.session import layout
from lucky_recorder.session.features import episodes_schema
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


def mixed(schemas: Mapping[str, pa.Schema]) -> dict[str, dict[pa.DataType, str]]:
    """Return the columns of somebody's own that have several types, each with the first file that has it.

    Args:
        schemas: The schema of each file, by its name. A column in which a file has no value is of any type.
    """
    found: dict[str, dict[pa.DataType, str]] = {}
    for name, schema in schemas.items():
        for field in schema:
            if is_own(field.name) and not pa.types.is_null(field.type):
                found.setdefault(field.name, {}).setdefault(field.type, name)
    return {column: kinds for column, kinds in found.items() if len(kinds) > 1}


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
    found = dict(tables)
    for column, kinds in mixed({name: table.schema for name, table in tables.items()}).items():
        changed = _numbers(column, found, list(kinds))
        if changed is None:
            changed = {n: table.drop_columns([column]) for n, table in found.items() if column in table.column_names}
            tell(f"{files.path}: {said(column, kinds)}: it is not read; {_REMEDY}")
        found |= changed
    return list(found.values())


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
