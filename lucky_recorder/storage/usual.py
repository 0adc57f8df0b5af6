"""What the library's own writer puts into a file, as patterns: matched as a whole, at a tenth of what parsing costs.

Each value of Thrift's compact form says itself where it ends, so there is one way only to read some bytes. A pattern
here takes what a parser would take, or it does not match, and then the parser decides: nothing passes here that it
would refuse (`footer`, `pages`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

# Thrift's kinds of values, as the lower half of a field's first byte, and as that of a list.
_I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 4, 5, 6, 8, 9, 12
_NUMBER = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_LONGEST_VALUE = 16
_MOST_ENCODINGS, _MOST_LEVELS = 6, 14
_TRUTH = b"[\x11\x12]"
# Parquet's types by their numbers, and how wide they are.
_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


class Leaf(NamedTuple):
    """A column as the schema has it.

    Attributes:
        path: Its name.
        physical_type: How Parquet stores it.
        length: Bytes of a value, where the type leaves that open.
        repetitions: The highest level of repetition.
        definitions: The highest level of definition.
    """

    path: str
    physical_type: str
    length: int
    repetitions: int
    definitions: int


def _field(step: int, kind: int) -> bytes:
    """Return the first byte of a field: how far its number is from the one before, and its kind."""
    return re.escape(bytes([step << 4 | kind]))


def _some(pattern: bytes) -> bytes:
    return b"(?:" + pattern + b")"


def _may(pattern: bytes) -> bytes:
    return _some(pattern) + b"?"


def _binary(length: int) -> bytes:
    return re.escape(bytes([length])) + b".{%d}" % length


def _counted(kind: int, value: bytes, most: int) -> bytes:
    """Match a list of one value and up to so many."""
    return _some(b"|".join(_list_of(kind, value, count) for count in range(1, most + 1)))


def _list_of(kind: int, value: bytes, count: int) -> bytes:
    """Match a list of so many values, fewer than 15: of more, the count stands behind the first byte."""
    return re.escape(bytes([count << 4 | kind])) + _some(value) + b"{%d}" % count


def _statistics(value: bytes) -> bytes:
    """Match what is said of a column: the largest and the least value in either of two places, counts, two truths."""

    def ends(step: int) -> bytes:
        return _field(step, _BINARY) + value + _field(1, _BINARY) + value

    def later(step: int) -> bytes:
        return _may(ends(step) + _may(_TRUTH + _TRUTH))

    def after(last: int) -> bytes:
        distinct = _field(1, _I64) + _NUMBER + later(1)
        gaps = _field(3 - last, _I64) + _NUMBER + _some(distinct + b"|" + later(2))
        return _some(gaps + b"|" + later(5 - last))

    return _some(ends(1) + after(2) + b"|" + after(0)) + b"\x00"


def _sizes(repetitions: int, definitions: int) -> bytes:
    """Match how many values a column has of each level."""

    def levels(step: int, highest: int) -> bytes:
        # Of a column that has but one level, nothing need be counted.
        return _field(step, _LIST) + _some(_list_of(_I64, _NUMBER, highest + 1) + b"|" + re.escape(bytes([_I64])))

    both = levels(2, repetitions) + _may(levels(1, definitions))
    return _may(both + b"|" + levels(3, definitions)) + b"\x00"


@lru_cache(maxsize=256)
def _before_path(kind: int) -> re.Pattern[bytes]:
    """Return what matches a column of a type in a row group, up to its name."""
    about = _field(1, _I32) + re.escape(bytes([2 * kind])) + _field(1, _LIST) + _counted(_I32, _NUMBER, _MOST_ENCODINGS)
    return re.compile(_field(2, _I64) + _NUMBER + _field(1, _STRUCT) + about + _field(1, _LIST), re.DOTALL)


@lru_cache(maxsize=256)
def _after_path(width: int, repetitions: int, definitions: int) -> re.Pattern[bytes]:
    """Return what matches the rest of a column whose values are so wide, and of so many levels."""
    page = b"".join([_field(1, _I32) + _NUMBER] * 3) + b"\x00"
    sizes = _field(3, _STRUCT) + _sizes(repetitions, definitions)
    dictionary = _field(2, _I64) + _NUMBER

    def pages(step: int) -> bytes:
        return _field(step, _LIST) + _counted(_STRUCT, page, _MOST_ENCODINGS) + _may(sizes)

    statistics = _some(dictionary + _field(1, _STRUCT) + b"|" + _field(3, _STRUCT)) + _statistics(_binary(width))
    about = (
        _field(1, _I32) + _NUMBER + (_field(1, _I64) + _NUMBER) * 3,
        _field(2, _I64) + _NUMBER,
        _some(b"|".join((statistics + _may(pages(1)), dictionary + pages(2), pages(4), b""))) + b"\x00\x00",
    )
    return re.compile(b"".join(about), re.DOTALL)


class Chunk:
    """Matches all that is said of a column in a row group, where it fits the column. Texts have no such pattern.

    Args:
        leaf: The column.
    """

    def __init__(self, leaf: Leaf) -> None:
        self._path = b""
        width = _WIDTHS.get(leaf.physical_type, leaf.length)
        parts = [part.encode() for part in leaf.path.split(".")]
        is_short = len(parts) <= _MOST_ENCODINGS and all(len(part) < 128 for part in parts)
        is_usual = leaf.physical_type in _TYPES and 0 < width <= _LONGEST_VALUE and leaf.definitions < _MOST_LEVELS
        if is_usual and is_short and leaf.physical_type != "BYTE_ARRAY":
            named = b"".join(bytes([len(part)]) + part for part in parts)
            self._path = bytes([len(parts) << 4 | _BINARY]) + named
            self._before = _before_path(_TYPES.index(leaf.physical_type))
            self._after = _after_path(width, leaf.repetitions, leaf.definitions)

    def end(self, content: bytes, at: int) -> int | None:
        """Return where what is said of the column ends that begins at a place; None where it is not the usual."""
        begins = self._before.match(content, at) if self._path else None
        if begins is None or not content.startswith(self._path, begins.end()):
            return None
        ends = self._after.match(content, begins.end() + len(self._path))
        return None if ends is None else ends.end()


_SHORT_VALUE = _some(b"|".join(map(_binary, range(_LONGEST_VALUE + 1))))
_GROUPED = b"(" + _NUMBER + b")"
_BEFORE = _field(1, _I32) + _NUMBER + _field(1, _I32) + _GROUPED + _field(1, _I32) + _GROUPED
_CRC = _field(1, _I32) + _NUMBER
_ANY_STATISTICS = _some(
    b"[" + bytes(step << 4 | _I64 for step in range(1, 8)) + b"]" + _NUMBER
    + b"|[" + bytes(step << 4 | _BINARY for step in range(1, 8)) + b"]" + _SHORT_VALUE
    + b"|[\x11\x12\x21\x22]"
) + b"{0,8}\x00"  # fmt: skip
_DATA_PAGE = (
    _some(_CRC + _field(1, _STRUCT) + b"|" + _field(2, _STRUCT))
    + _field(1, _I32) + _GROUPED
    + (_field(1, _I32) + _NUMBER) * 3
    + _may(_field(1, _STRUCT) + _ANY_STATISTICS)
    + b"\x00\x00"
)  # fmt: skip
_DICTIONARY_PAGE = (
    _some(_CRC + _field(3, _STRUCT) + b"|" + _field(4, _STRUCT))
    + (_field(1, _I32) + _NUMBER) * 2
    + b"[\x11\x12]?\x00\x00"
)  # fmt: skip
_PAGE = re.compile(_BEFORE + _some(_DATA_PAGE + b"|" + _DICTIONARY_PAGE), re.DOTALL)


class Page(NamedTuple):
    """What a page's header says.

    Attributes:
        end: Where it ends.
        unpacked: Bytes of the page when it is unpacked.
        packed: Bytes of the page as it is stored.
        values: Values and gaps in it; 0 of a dictionary.
    """

    end: int
    unpacked: int
    packed: int
    values: int


def page(content: bytes, start: int) -> Page | None:
    """Read a page's header; None where it is none of the usual ones, or not all there."""
    found = _PAGE.match(content, start)
    if found is None:
        return None
    unpacked, packed, values = found.groups()
    return Page(found.end(), _signed(unpacked), _signed(packed), 0 if values is None else _signed(values))


def _signed(digits: bytes) -> int:
    number = 0
    for place, byte in enumerate(digits):
        number |= (byte & 127) << 7 * place
    return (number >> 1) ^ -(number & 1)
