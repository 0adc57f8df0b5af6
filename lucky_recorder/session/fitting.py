"""What of ``meta/provenance.json`` there is room for: what is written can be read."""

from __future__ import annotations

from collections.abc import Sequence

from lucky_recorder.episode import limits
from lucky_recorder.errors import FormatError
from lucky_recorder.session.provenance import ENV, ENV_ERROR, RECORDINGS, Entry
from lucky_recorder.storage.untrusted import json_cost
from lucky_recorder.storage.write import json_bytes

# So little can always be read, whatever it holds.
_SMALL = 4 * limits.MEGABYTE
_WHY = "is left out: with it, where the session comes from would be more than is read"


def fitting(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return what can be written of recordings: the largest specs of environments are left out where it is too much.

    Of specs of one size the later ones go: those of recordings that go on with a session are mostly the same again.

    Raises:
        FormatError: If it is too much without them.
    """
    content = json_bytes({RECORDINGS: [*entries]})
    if len(content) <= _SMALL or _are_read(len(content), json_cost(content)):
        return entries
    found, sizes = [*entries], [_size(entry) for entry in entries]
    specs = [(len(json_bytes(entry[ENV])), number) for number, entry in enumerate(entries) if entry.get(ENV)]
    for _, number in sorted(specs, reverse=True):
        found[number] = {**found[number], ENV: None, ENV_ERROR: _WHY}
        sizes[number] = _size(found[number])
        if _are_read(*map(sum, zip(*sizes, strict=True))):
            return found
    megabytes = limits.LARGEST_JSON // limits.MEGABYTE
    raise FormatError(f"where the session comes from is more than is read, {megabytes} MB on the disk")


def _size(entry: Entry) -> tuple[int, int]:
    """Return how many bytes an entry takes, and how many it comes to in memory."""
    content = json_bytes({RECORDINGS: [entry]})
    return len(content), json_cost(content)


def _are_read(size: int, cost: int) -> bool:
    return size <= limits.LARGEST_JSON and cost <= limits.MOST_JSON_BYTES
