"""Conditions on episodes in SQL: the one door to DuckDB, which is an extra of its own."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lucky_recorder.errors import SettingsError
from lucky_recorder.lazy import lazy

if TYPE_CHECKING:
    import duckdb
else:
    duckdb = lazy("duckdb")

# Nothing outside the table: no file, no address, no extension, and no variable of the program's.
_CLOSED: dict[str, Any] = {
    "enable_external_access": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "python_enable_replacements": False,
    "lock_configuration": True,
    "threads": 1,
    "memory_limit": "1GB",
}


def where(table: pa.Table, condition: str) -> set[int]:
    """Return the episodes of which an SQL expression is true.

    Args:
        table: The episodes, with a column ``episode_index``. In the condition the table is ``episodes``, and the names
            of its columns have an underscore for each character that is no letter or digit.
        condition: One expression, such as ``success AND length > 100``.

    Raises:
        SettingsError: If DuckDB is not there, or the condition is no expression, or of columns that are not there.
    """
    plain = [re.sub(r"\W", "_", name) for name in table.column_names]
    twice = Counter(map(str.casefold, plain))
    # Two that would have one name keep their own, which can be quoted.
    pairs = zip(plain, table.column_names, strict=True)
    table = table.rename_columns([p if twice[p.casefold()] == 1 else n for p, n in pairs])
    folded = [name.casefold() for name in table.column_names]
    if alike := [name for name in table.column_names if folded.count(name.casefold()) > 1]:
        # Quoted or not, DuckDB takes one for the other.
        remedy = f"the columns {alike[0]!r} and {alike[1]!r} are one name in SQL; call one of them otherwise"
        raise SettingsError.of("where", condition, remedy)
    try:
        connection = duckdb.connect(":memory:", config=_CLOSED)
    except ModuleNotFoundError as error:
        remedy = 'needs DuckDB: pip install "lucky-recorder[sql]"'
        raise SettingsError.of("where", condition, remedy) from error
    with connection:
        try:
            # A relation takes an expression, and nothing else: no statement can be put behind it. Some versions take an
            # ORDER BY or a LIMIT there too, but not in brackets. A comment at its end is over with its line.
            connection.register("episodes", table)
            episodes = connection.view("episodes")
            # And without them: else what closes the bracket, and opens another, would be one too.
            episodes.filter(f"{condition}\n")
            rows = episodes.filter(f"({condition}\n)").project("episode_index").fetchall()
        except duckdb.Error as error:
            names = ", ".join(table.column_names)
            raise SettingsError.of("where", condition, f"no condition on the columns {names}: {error}") from error
    return {row[0] for row in rows}
