"""What a Parquet file's pages come to in memory, by the pages themselves.

A file's footer says how many values a column has, and how large it is when it is unpacked. It may lie, and the library
that reads it believes the pages: a page of a hundred bytes can stand for a thousand million values. So the headers of
the pages are read first. They are in Thrift's compact form (Parquet: PageHeader), of which little is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lucky_recorder.storage import usual

_HEADER, _LONGEST_HEADER = 256, 1 << 20
_DEEPEST = 8
# Thrift's types of fields; a page's header has no others.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 7, 8, 12
_WHOLE = (4, 5, 6)
# The fields of a page's header: what it is, its sizes, and the header of its kind, whose first field counts values.
_UNPACKED, _PACKED, _KINDS = 2, 3, (5, 7, 8)
_DICTIONARY = 7


class Column(NamedTuple):
    """What the pages of a column come to.

    Attributes:
        values: Values and gaps, those of a dictionary not among them.
        unpacked: Bytes of all pages when they are unpacked.
        largest: Those of the largest page.
    """

    values: int
    unpacked: int
    largest: int


Read = Callable[[int, int], bytes]
"""Reads so many bytes of a file, from a place on; fewer where it ends."""


def measure(read: Read, start: int, end: int) -> Column:
    """Read the headers of a column's pages.

    Args:
        read: Reads the file.
        start: Where its first page begins.
        end: Where its last page ends.

    Raises:
        ValueError: If there is no page's header where one should be.
    """
    values = unpacked = largest = 0
    while start < end:
        one = _page(read, start)
        if one.unpacked < 0 or one.packed < 0:
            raise ValueError(f"a page's header at byte {start} states no size")
        if one.values < 0:
            raise ValueError(f"a page's header at byte {start} counts no values")
        unpacked, largest = unpacked + one.unpacked, max(largest, one.unpacked)
        values += one.values
        start += one.end + one.packed
    return Column(values, unpacked, largest)


def _page(read: Read, start: int) -> usual.Page:
    """Read the header of a page; where it ends is counted from its beginning."""
    if (one := usual.page(read(_HEADER, start), 0)) is not None:
        return one
    header, length = _header(read, start)
    size, packed = header.get(_UNPACKED), header.get(_PACKED)
    if not isinstance(size, int) or not isinstance(packed, int):
        raise ValueError(f"a page's header at byte {start} states no size")
    return usual.Page(length, size, packed, sum(_count(header, kind, start) for kind in _KINDS if kind != _DICTIONARY))


def _count(header: dict[int, Any], kind: int, start: int) -> int:
    own = header.get(kind)
    count = own.get(1, 0) if isinstance(own, dict) else 0
    if not isinstance(count, int) or count < 0:
        raise ValueError(f"a page's header at byte {start} counts no values")
    return count


def _header(read: Read, start: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a page's header, and its length."""
    length = _HEADER
    while True:
        content = read(length, start)
        try:
            return _struct(content, 0)
        except IndexError:
            # The statistics in it may be long.
            if len(content) < length or length >= _LONGEST_HEADER:
                raise ValueError(f"no page's header at byte {start}") from None
            length *= 16


def _struct(content: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    fields: dict[int, Any] = {}
    number = 0
    while (byte := content[at]) != 0:
        at += 1
        kind, step = byte & 15, byte >> 4
        if step:
            number += step
        else:
            number, at = _signed(content, at)
        fields[number], at = _value(content, at, kind, depth)
    return fields, at + 1


def _value(content: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind in _WHOLE:
        return _signed(content, at)
    if kind in (_BYTE, _DOUBLE):
        return None, at + (1 if kind == _BYTE else 8)
    if kind == _BINARY:
        length, at = _unsigned(content, at)
        return None, _within(content, at + length)
    if kind == _STRUCT and depth < _DEEPEST:
        return _struct(content, at, depth + 1)
    raise ValueError(f"a field of kind {kind} in a page's header")


def _within(content: bytes, at: int) -> int:
    if at > len(content):
        raise IndexError(at)
    return at


def _signed(content: bytes, at: int) -> tuple[int, int]:
    number, at = _unsigned(content, at)
    return (number >> 1) ^ -(number & 1), at


def _unsigned(content: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = content[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
        if shift > 63:
            raise ValueError("a number without end in a page's header")
