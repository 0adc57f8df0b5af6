"""Episodes that are whole on the disk and that ``meta/`` does not list: a recording goes on, or was cut short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError
from lucky_recorder.session import carried as footers
from lucky_recorder.session import layout
from lucky_recorder.session.carried import Carried, Row
from lucky_recorder.storage.untrusted import Folder, reason

# While a session is recorded, spools become a data file under the eyes of who looks for them.
_LOOKS = 5


class Found(NamedTuple):
    """What a session's data files hold beyond what ``meta/episodes`` lists.

    Attributes:
        rows: Of each such episode what ``meta/episodes`` will say, in order of ``episode_index``.
        spooled: Episodes, listed or not, whose rows are only in a spool: their data file was not assembled.
        carried: What the file of the latest episode carries of the session; None where no file does.
        reproducible: Whether every file that was looked into says that its episodes are.
        broken: Why a file is not whole, by its name.
    """

    rows: tuple[Row, ...] = ()
    spooled: frozenset[int] = frozenset()
    carried: Carried | None = None
    reproducible: bool = True
    broken: Mapping[str, str] = {}


def find(files: Folder, listed: Iterable[Row], per_file: int | None) -> Found:
    """Look for episodes in data files and spools. Files whose episodes are all listed are not opened.

    Args:
        files: The session's files.
        listed: The rows of ``meta/episodes``.
        per_file: Episodes per data file; None if that is not known: then every file is opened.

    Raises:
        FormatError: If the files carry an absurd number of episodes.
    """
    rows = list(listed)
    found, has_moved = _look(files, rows, per_file)
    for _ in range(_LOOKS):
        if not has_moved:
            break
        found, has_moved = _look(files, rows, per_file)
    return found


def _look(files: Folder, listed: list[Row], per_file: int | None) -> tuple[Found, bool]:
    """Look once; also tells whether a spool went away meanwhile, because its data file was assembled."""
    known = {row[keys.EPISODE_INDEX] for row in listed}
    full = Counter(_data_file(row) for row in listed)
    budget, reproducible = footers.Budget(files), True
    latest: tuple[int, Carried | None] = (-1, None)
    broken: dict[str, str] = {}
    has_moved = False
    held: dict[int, Row] = {}
    spooled: set[int] = set()
    # Data files come first: what one of them holds needs no spool.
    names = [name for name in footers.names(files) if per_file is None or full[name] < per_file]
    for name in sorted(names, key=lambda n: (layout.SPOOL.fullmatch(n) is not None, n)):
        spool = layout.SPOOL.fullmatch(name)
        if spool and (int(spool["episode"]) in held or (int(spool["episode"]) in known and files.has(spool["file"]))):
            continue
        try:
            one = footers.read(files, name)
        except FormatError as error:
            has_moved |= not files.has(name)
            broken[name] = reason(error, files.path / name)
            continue
        budget.take(one)
        reproducible &= one.carried is not None and one.carried.reproducible
        if one.carried is not None and one.episodes:
            # One is kept: what each carries of the session may be as large as one may be.
            latest = max(latest, (one.episodes[-1][keys.EPISODE_INDEX], one.carried), key=lambda known: known[0])
        for row in one.episodes:
            held.setdefault(row[keys.EPISODE_INDEX], row)
            if spool:
                spooled.add(row[keys.EPISODE_INDEX])
    rows = tuple(held[index] for index in sorted(held) if index not in known)
    return Found(rows, frozenset(spooled), latest[1], reproducible, broken), has_moved


def _data_file(row: Row) -> str | None:
    """Return the name of the data file that a row of ``meta/episodes`` names; None if it names none."""
    place = [row.get(part) for part in ("chunk_index", "file_index")]
    if not all(type(n) is int and 0 <= n <= keys.LARGEST_CHUNK for n in place):
        return None
    return layout.DATA_PATH.format(chunk_index=place[0], file_index=place[1])
