"""Footers that would end the process when one of their columns is asked for: refused, and the file is named."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lucky_recorder.episode import limits
from lucky_recorder.errors import FormatError
from lucky_recorder.storage import parquet
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


def long_ago(path: Path) -> None:
    """Nobody changes the file any more: it is not of this moment."""
    os.utime(path, ns=(10**18, 10**18))


def test_a_footer_is_looked_through_once_for_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)
    looked: list[int] = []
    monkeypatch.setattr(parquet.footer, "refuse_unsound", lambda content, leaves: looked.append(len(leaves)))
    # What was changed in this very moment is looked through again, since it may be changed once more.
    monkeypatch.setattr(parquet, "_MOMENT_NS", 10**18)
    for _ in range(2):
        with Folder(tmp_path).parquet("good.parquet"):
            pass
    assert len(looked) == 2
    monkeypatch.setattr(parquet, "_MOMENT_NS", -(10**18))
    for _ in range(3):
        with Folder(tmp_path).parquet("good.parquet"):
            pass
    assert len(looked) == 3
    # Another file under this name, and the file with other bytes.
    (tmp_path / "other.parquet").write_bytes((tmp_path / "good.parquet").read_bytes())
    (tmp_path / "other.parquet").replace(tmp_path / "good.parquet")
    with Folder(tmp_path).parquet("good.parquet"):
        pass
    long_ago(tmp_path / "good.parquet")
    with Folder(tmp_path).parquet("good.parquet"):
        pass
    assert len(looked) == 5


def test_no_more_files_are_remembered_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_MOMENT_NS", -(10**18))
    monkeypatch.setattr(parquet, "_MOST_SOUND", 3)
    monkeypatch.setattr(parquet, "_sound", known := {})
    for number in range(9):
        pq.write_table(pa.table({"x": [number]}), tmp_path / f"{number}.parquet")
        with Folder(tmp_path).parquet(f"{number}.parquet"):
            pass
    assert len(known) == 3


def with_field(path: Path, kind: int, value: bytes) -> None:
    """Put a field that nobody knows at the end of a footer."""
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -9] + bytes([kind]) + b"\xc6\x01" + value + b"\0"
    path.write_bytes(content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize(("inner", "one"), [(1, b"\1"), (3, b"\7"), (7, bytes(8)), (5, b"\2"), (8, b"\0"), (12, b"\0")])
@pytest.mark.parametrize("count", [3, limits.MOST_IN_FOOTER + 1])
def test_lists_of_what_nobody_knows(tmp_path: Path, inner: int, one: bytes, count: int) -> None:
    written(tmp_path)
    size = bytes([count & 127 | 128, count >> 7 & 127 | 128, count >> 14])
    with_field(tmp_path / "good.parquet", 9, bytes([0xF0 | inner]) + size + one * count)
    if count == 3:
        assert Folder(tmp_path).table("good.parquet").num_rows == 2
        return
    with pytest.raises(FormatError, match=r"good\.parquet: cannot be read"):
        Folder(tmp_path).table("good.parquet")
