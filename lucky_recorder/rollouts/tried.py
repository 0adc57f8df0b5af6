"""What a session that is gone on with says of the attempts that were made for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lucky_recorder.errors import FormatError
from lucky_recorder.session.provenance import LEFT_OUT
from lucky_recorder.session.reader import Session
from lucky_recorder.session.recovery import is_blank

_SEED = "seed"


def largest_seed(session: Path) -> int | None:
    """Return the largest seed that was tried for a session, kept or discarded; None where it does not say so of all."""
    if is_blank(session):
        return None
    opened = Session(session)
    if _SEED not in opened.episodes.column_names:
        return None
    kept = opened.episodes[_SEED].to_pylist()
    discarded = _discarded(opened)
    if discarded is None:
        return None
    said = [*kept, *discarded]
    if not said or not all(isinstance(one, str) and one.isdecimal() for one in said):
        return None
    return max(map(int, said))


def _discarded(session: Session) -> list[object] | None:
    """Return the seeds that were discarded; None where a recording does not say which were."""
    try:
        recordings: Sequence[Mapping[str, Any]] = session.provenance
    except FormatError:
        return None
    seeds: list[object] = []
    for recording in recordings:
        said = recording.get("discarded_seeds")
        if not isinstance(said, list):
            return None
        seeds += said
        # In a session that was made of others: what was tried for those.
        left = recording.get(LEFT_OUT, [])
        if not isinstance(left, list):
            return None
        seeds += left
    return seeds if recordings else None
