"""Which episodes of shards a session has got already: whoever added them may have been killed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from lucky_recorder.episode import keys
from lucky_recorder.session import about
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.features import WHEN
from lucky_recorder.session.reader import Session

# What is numbered anew where an episode is added.
_RENUMBERED = (keys.INDEX, keys.EPISODE_INDEX, keys.TASK_INDEX)


def added(session: Path, before: int, wanted: Sequence[tuple[Path, int]]) -> dict[int, int]:
    """Find episodes of other sessions in one that they are added to.

    They are compared value by value: their rows, and what is known of each besides. So whatever others have added
    meanwhile is taken for none of them.

    Args:
        session: The session.
        before: How many episodes it had before any of them was added.
        wanted: The folders that they are of, and their ``episode_index`` there, in the order in which they are added.

    Returns:
        Of those that are there, by their place in ``wanted``: their ``episode_index`` in the session.

    Raises:
        FormatError: If one of the sessions cannot be read.
    """
    opened = Session(session)
    shards = {path: Session(path) for path, _ in wanted}
    left, found = dict(enumerate(wanted)), dict[int, int]()
    for index in range(before, len(opened)):
        mine = opened.episode(index)
        number = next((n for n, (path, e) in left.items() if _are_same(mine, shards[path].episode(e))), None)
        if number is not None:
            del left[number]
            found[number] = index
    return found


def _are_same(mine: Episode, theirs: Episode) -> bool:
    said, known = about.noted(mine.meta), about.noted(theirs.meta)
    if (mine.length, mine.success, mine.tasks) != (theirs.length, theirs.success, theirs.tasks):
        return False
    return not any(_differ(said, known, name) for name in said) and _have_same_rows(mine.rows(), theirs.rows())


def _differ(said: Mapping[str, object], known: Mapping[str, object], name: str) -> bool:
    # When it was is not known of one that no `meta/` lists yet.
    is_unknown = name in WHEN and None in (said[name], known.get(name))
    return not is_unknown and said[name] != known.get(name)


def _have_same_rows(mine: pa.Table, theirs: pa.Table) -> bool:
    names = [name for name in mine.column_names if name not in _RENUMBERED]
    if set(names) != set(theirs.column_names) - {*_RENUMBERED}:
        return False
    return all(_hold_same(mine[name], theirs[name]) for name in names)


def _hold_same(mine: pa.ChunkedArray, theirs: pa.ChunkedArray) -> bool:
    # What is no number is not equal to itself, and is written in one way.
    return mine.equals(theirs) or repr(mine.to_pylist()) == repr(theirs.to_pylist())
