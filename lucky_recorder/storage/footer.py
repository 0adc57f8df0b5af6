"""What a Parquet file's footer says of its columns, looked at before the library is asked.

The library reads a footer as a whole and believes it. What it cannot believe of one column it notices only when that
column is asked for, and some of that ends the process and raises nothing. So this is looked for here: counts of levels
and statistics that do not fit their column, and columns that are encrypted. A footer is in Thrift's compact form
(Parquet: FileMetaData), and what is read here the library has already read once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from lucky_recorder.storage import usual
from lucky_recorder.storage.usual import Leaf

__all__ = ["Leaf", "refuse_unsound"]

# Thrift's kinds of values.
_FALSE, _BYTE, _WHOLE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 2, 3, (4, 5, 6), 7, 8, 9, 10, 11, 12
# Bytes of what takes always as many.
_FIXED = {_BYTE: 1, _DOUBLE: 8}
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_TEXT = "BYTE_ARRAY"
# Parquet's types by their numbers.
_TYPES = (*_WIDTHS, _TEXT, "FIXED_LEN_BYTE_ARRAY")
# The fields on the way to what is looked at.
_SCHEMA, _ROW_GROUPS, _ORDERS, _COLUMNS, _ABOUT, _ENCRYPTED = 2, 4, 7, 1, 3, (8, 9)
_TYPE, _STATISTICS, _SIZES = 1, 12, 16
_ENDS = (1, 2, 5, 6)
_UNENCODED, _REPETITIONS, _DEFINITIONS = 1, 2, 3

# Goes over a value: takes the footer, where the value begins and its kind, and returns where it ends.
_Reader = Callable[[bytes, int, int], int]

# The order of a column as every writer has it: the one that goes with its type.
_ORDER = b"\x1c\x00\x00"
# So much of a footer is remembered, of so many kinds of files.
_LONGEST_BEGINNING, _MOST_KINDS = 1 << 16, 64


class _Kind:
    """Files of the same columns.

    Attributes:
        usual: What matches what is usually said of each column, in any row group.
        readers: What reads all that is said of each column, whatever it is.
        beginning: How a footer began that was gone over, with its schema: those that begin alike need not be again.
    """

    def __init__(self, leaves: tuple[Leaf, ...]) -> None:
        self.usual = [usual.Chunk(leaf) for leaf in leaves]
        self.readers = [_chunk_reader(leaf) for leaf in leaves]
        self.beginning = b""


@lru_cache(maxsize=_MOST_KINDS)
def _kind(leaves: tuple[Leaf, ...]) -> _Kind:
    return _Kind(leaves)


def refuse_unsound(footer: bytes, leaves: Sequence[Leaf]) -> None:
    """Refuse a footer that would end the process when one of its columns is asked for.

    Args:
        footer: Its bytes, without the length and the mark behind it.
        leaves: The columns, as its schema has them.

    Raises:
        ValueError: If what it says of a column does not fit the column.
    """
    known = _kind(tuple(leaves))

    def schema(content: bytes, at: int, kind: int) -> int:
        end = _over(content, at, kind)
        if end <= _LONGEST_BEGINNING:
            known.beginning = content[:end]
        return end

    def group(content: bytes, at: int, kind: int) -> int:
        return _struct(content, at, {_COLUMNS: columns})

    def columns(content: bytes, at: int, kind: int) -> int:
        count, inner, at = _list(content, at)
        if count != len(known.readers):
            raise ValueError(f"a row group of {count} columns, and a schema of {len(known.readers)}")
        for chunk, read in zip(known.usual, known.readers, strict=True):
            end = chunk.end(content, at) if inner == _STRUCT else None
            at = read(content, at, inner) if end is None else end
        return at

    def groups(content: bytes, at: int, kind: int) -> int:
        count, inner, at = _list(content, at)
        for _ in range(count):
            at = group(content, at, inner)
        return at

    def orders(content: bytes, at: int, kind: int) -> int:
        count, _, first = _list(content, at)
        end = first + count * len(_ORDER)
        is_usual = end <= len(content) and content[first:end] == count * _ORDER
        return end if is_usual else _over(content, at, kind)

    try:
        begins = known.beginning
        at, number = (len(begins), _SCHEMA) if begins and footer.startswith(begins) else (0, 0)
        _struct(footer, at, {_SCHEMA: schema, _ROW_GROUPS: groups, _ORDERS: orders}, number)
    except IndexError:
        raise ValueError("a footer that ends too soon") from None


def _chunk_reader(leaf: Leaf) -> _Reader:
    """Return what reads all that is said of a column in one row group."""
    width = _WIDTHS.get(leaf.physical_type, None if leaf.physical_type == _TEXT else leaf.length)

    def typed(content: bytes, at: int, kind: int) -> int:
        number, after = _unsigned(content, at)
        # Zigzag: what is not negative is doubled.
        if _TYPES[number >> 1 : (number >> 1) + 1] != (leaf.physical_type,) or number & 1:
            raise ValueError(f"column {leaf.path!r}: stored as another type than {leaf.physical_type}")
        return after

    def end(content: bytes, at: int, kind: int) -> int:
        length, start = _unsigned(content, at)
        if width is not None and length not in (0, width):
            raise ValueError(f"column {leaf.path!r}: statistics of {length} bytes, for values of {width}")
        return start + length

    def levels(highest: int) -> _Reader:
        def read(content: bytes, at: int, kind: int) -> int:
            count, _, _ = _list(content, at)
            if count not in (0, highest + 1):
                raise ValueError(f"column {leaf.path!r}: counts of {count} levels, of which it has {highest + 1}")
            return _over(content, at, kind)

        return read

    def unencoded(content: bytes, at: int, kind: int) -> int:
        if leaf.physical_type != _TEXT:
            raise ValueError(f"column {leaf.path!r}: a length of texts, for numbers")
        return _over(content, at, kind)

    def encrypted(content: bytes, at: int, kind: int) -> int:
        raise ValueError(f"column {leaf.path!r} is encrypted")

    sizes = {_UNENCODED: unencoded, _REPETITIONS: levels(leaf.repetitions), _DEFINITIONS: levels(leaf.definitions)}
    about = {_TYPE: typed, _STATISTICS: _inside(dict.fromkeys(_ENDS, end)), _SIZES: _inside(sizes)}
    return _inside({_ABOUT: _inside(about), **dict.fromkeys(_ENCRYPTED, encrypted)})


def _inside(readers: Mapping[int, _Reader]) -> _Reader:
    """Return what goes over a struct and reads some of its fields."""
    return lambda content, at, kind: _struct(content, at, readers)


def _struct(content: bytes, at: int, readers: Mapping[int, _Reader], number: int = 0) -> int:
    """Go over the fields of a struct that come after one of a number."""
    while (byte := content[at]) != 0:
        at += 1
        if step := byte >> 4:
            number += step
        else:
            raw, at = _unsigned(content, at)
            number = (raw >> 1) ^ -(raw & 1)
        at = readers.get(number, _over)(content, at, byte & 15)
    return at + 1


def _over(content: bytes, at: int, kind: int) -> int:
    """Go over a value, whatever it holds."""
    if kind in _WHOLE:
        while content[at] > 127:
            at += 1
        return at + 1
    if kind <= _FALSE:
        return at
    if kind == _BINARY:
        length, at = _unsigned(content, at)
        return at + length
    if kind == _STRUCT:
        return _struct(content, at, {})
    if kind in _FIXED:
        return at + _FIXED[kind]
    return _over_many(content, at, kind)


def _over_many(content: bytes, at: int, kind: int) -> int:
    if kind in (_LIST, _SET):
        count, inner, at = _list(content, at)
        pair: tuple[int, ...] = (inner,)
    elif kind == _MAP:
        count, at = _unsigned(content, at)
        both = content[at] if count else 0
        at, pair = at + bool(count), (both >> 4, both & 15)
    else:
        raise ValueError(f"a footer with a value of kind {kind}")
    # In a list, a truth takes a byte.
    kinds = [_BYTE if kind <= _FALSE else kind for kind in pair]
    if all(kind in _FIXED for kind in kinds):
        return at + count * sum(_FIXED[kind] for kind in kinds)
    for _ in range(count):
        for kind in kinds:
            at = _over(content, at, kind)
    return at


def _list(content: bytes, at: int) -> tuple[int, int, int]:
    """Return how many values a list has, of which kind, and where they begin."""
    byte = content[at]
    count, at = (byte >> 4, at + 1) if byte >> 4 < 15 else _unsigned(content, at + 1)
    return count, byte & 15, at


def _unsigned(content: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while (byte := content[at]) > 127:
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if shift > 63:
            raise ValueError("a footer with a number without end")
    return number | byte << shift, at + 1
