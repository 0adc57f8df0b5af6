"""Footers that would end the process when one of their columns is asked for: refused, and the file is named."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lucky_recorder.errors import FormatError
from lucky_recorder.storage.footer import Leaf, refuse_unsound
from lucky_recorder.storage.untrusted import Folder

# How a schema says of a column what type it is, whether it may be empty, and its name, in Thrift's compact form.
DOUBLE, WHOLE, TEXT = b"\x15\x0a", b"\x15\x04", b"\x15\x0c"
OPTIONAL, REQUIRED = b"\x25\x02", b"\x25\x00"


def named(name: bytes) -> bytes:
    return b"\x18\x01" + name


def written(folder: Path) -> bytes:
    table = pa.table({"x": [1.0, 2.0], "n": [1, 2], "t": ["a", "bb"], "m": [{"a": True, "b": [1]}, None]})
    table = table.append_column("k", pa.array([[(1, True)], []], pa.map_(pa.int64(), pa.bool_())))
    pq.write_table(table, folder / "good.parquet", row_group_size=1)
    return (folder / "good.parquet").read_bytes()


@pytest.mark.parametrize(
    ("stands", "instead", "fault"),
    [
        (OPTIONAL + named(b"x"), REQUIRED + named(b"x"), "column 'x': counts of 2 levels, of which it has 1"),
        (DOUBLE + OPTIONAL + named(b"x"), b"\x15\x08" + OPTIONAL + named(b"x"), "column 'x': stored as another type"),
        (DOUBLE + OPTIONAL + named(b"x"), TEXT + OPTIONAL + named(b"x"), "column 'x': stored as another type"),
        (WHOLE + OPTIONAL + named(b"n"), b"\x15\x02" + OPTIONAL + named(b"n"), "column 'n': stored as another type"),
        (TEXT + OPTIONAL + named(b"t"), DOUBLE + OPTIONAL + named(b"t"), "column 't': stored as another type"),
    ],
    ids=["levels", "narrower", "texts", "whole", "numbers"],
)
def test_what_a_footer_says_of_a_column_must_fit_it(tmp_path: Path, stands: bytes, instead: bytes, fault: str) -> None:
    content = written(tmp_path)
    assert content.count(stands) == 1
    (tmp_path / "bad.parquet").write_bytes(content.replace(stands, instead))
    with pytest.raises(FormatError, match=rf"bad\.parquet: .*{fault}"), Folder(tmp_path).parquet("bad.parquet") as file:
        file.read()


def footer_of(path: Path) -> tuple[bytes, list[Leaf]]:
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    schema = pq.read_metadata(path).schema
    columns = map(schema.column, range(len(schema)))
    leaves = [Leaf(c.path, c.physical_type, c.length, c.max_repetition_level, c.max_definition_level) for c in columns]
    return content[-8 - length : -8], leaves


def test_a_sound_footer_is_gone_over_to_its_end(tmp_path: Path) -> None:
    written(tmp_path)
    footer, leaves = footer_of(tmp_path / "good.parquet")
    refuse_unsound(footer, leaves)
    # Whatever is said of any of its columns is looked at, in every row group.
    for number, leaf in enumerate(leaves):
        for other in (leaf._replace(physical_type="INT96"), leaf._replace(definitions=leaf.definitions + 7)):
            with pytest.raises(ValueError, match=f"column '{leaf.path}'"):
                refuse_unsound(footer, [*leaves[:number], other, *leaves[number + 1 :]])
    with pytest.raises(ValueError, match=f"{len(leaves)} columns, and a schema of {len(leaves) - 1}"):
        refuse_unsound(footer, leaves[1:])


def test_a_footer_that_ends_too_soon(tmp_path: Path) -> None:
    written(tmp_path)
    footer, leaves = footer_of(tmp_path / "good.parquet")
    for length in range(0, len(footer) - 1, 7):
        with pytest.raises(ValueError, match="ends too soon"):
            refuse_unsound(footer[:length], leaves)


@pytest.mark.parametrize(
    ("column", "fault"),
    [
        (b"\x8c\x00\x00", "is encrypted"),
        (b"\x3c\x15\x0a\xbc\x18\x04abcd\x00\x00\x00", "statistics of 4 bytes, for values of 8"),
        (b"\x3c\x15\x0b\x00\x00", "stored as another type"),
    ],
    ids=["encrypted", "short statistics", "no type"],
)
def test_a_column_that_cannot_be_asked_for(column: bytes, fault: str) -> None:
    # A footer with one row group of one column, and nothing else.
    footer = b"\x49\x1c\x19\x1c" + column + b"\x00\x00"
    with pytest.raises(ValueError, match=f"column 'x'.* {fault}|column 'x': {fault}"):
        refuse_unsound(footer, [Leaf("x", "DOUBLE", 0, 0, 1)])
