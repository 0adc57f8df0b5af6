"""FFV1 slices and their checksums. The decoder hides a damaged slice without an error, so they are checked here."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

# A slice ends in its size (3 bytes) and, where it has one, an error status (1) and a checksum (4).
_SIZE, _CHECKED = 3, 8
# FFV1 takes the bits of a byte from the high end, zlib from the low end.
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_ONES = 0xFFFFFFFF


def is_intact(packet: bytes) -> bool:
    """Whether all slices of a frame are as they were written, as far as they carry checksums."""
    checked = _slices(packet, _CHECKED)
    if checked is not None and not any(_checksum(part) for part in checked):
        return True
    # A file written elsewhere may carry no checksums: then only the sizes can be held against it.
    return _slices(packet, _SIZE) is not None


def _slices(packet: bytes, footer: int) -> list[bytes] | None:
    """Cut a frame into its slices, the last one first; None if their sizes do not add up."""
    parts = list(_from_the_end(packet, footer))
    return parts if sum(map(len, parts)) == len(packet) else None


def _from_the_end(packet: bytes, footer: int) -> Iterator[bytes]:
    end = len(packet)
    while end >= footer:
        start = end - footer - int.from_bytes(packet[end - footer : end - footer + _SIZE], "big")
        if start < 0:
            return
        yield packet[start:end]
        end = start


def _checksum(part: bytes) -> int:
    """Return FFV1's CRC-32 of some bytes; over a slice together with its own checksum it is 0."""
    # FFV1 starts at 0 and inverts nothing. zlib starts at all ones and inverts at the end: both are undone here.
    return zlib.crc32(part.translate(_REVERSED), _ONES) ^ _ONES
