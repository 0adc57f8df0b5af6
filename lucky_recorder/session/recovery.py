"""Completing a session whose recording was cut short, from what its data files carry.

First a plan is made, and nothing is touched. Then it is carried out in an order in which every step leaves the session
as it was before or after it: killed in the midst, it is planned and carried out again.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError, VideoError
from lucky_recorder.session import carried as footers
from lucky_recorder.session import layout, lists, metadata, noted, provenance, rebuilt, whole
from lucky_recorder.session.carried import Row
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.features import WHEN, episodes_schema, has_about, streams_of
from lucky_recorder.session.folder import SessionFolder, refuse_other_folders
from lucky_recorder.session.found import Found, find
from lucky_recorder.session.rowless import is_video_only
from lucky_recorder.storage import checksums, reserve
from lucky_recorder.storage.aside import SetAside, refuse_linked, set_aside
from lucky_recorder.storage.untrusted import Folder, format_errors, reason
from lucky_recorder.storage.write import TEMPORARY, storage_errors

_FOLDERS = (keys.DATA, keys.VIDEOS, keys.STATES, layout.META)
_UNFINISHED = "incomplete: it was being written when the recording was cut short"
_OF_NONE = "of an episode whose rows were not finished when the recording was cut short"


class Plan(NamedTuple):
    """What is to be done with a session.

    Attributes:
        episodes: The rows of ``meta/episodes`` of all episodes that there will be, in order.
        unlisted: Those of them that ``meta/episodes`` does not list yet.
        tasks: All task descriptions, in index order.
        assembled: Data files to be put together, and of what.
        served: Spools whose episodes are in their data file: they go.
        set_aside: What is put under ``lost+found/``, in this order.
        writes_meta: Whether ``meta/`` has to be written.
        order: What becomes of the files of ``meta/episodes``.
        columns: The columns of new ones.
        is_listed: Whether it is a session that can be read when this is done, be it one without an episode.
        freed: The reserve of a recording that did not end: it goes first.
        is_view: Whether it is a copy for LeRobot, of which nothing was recorded.
        left: What lies among the session's files and is none that a recording writes: it stays where it is.
        torn_sums: Whether a list of sums was being written when its writer was killed: that goes, and no more.
    """

    episodes: tuple[Row, ...] = ()
    unlisted: tuple[Row, ...] = ()
    tasks: tuple[str, ...] = ()
    assembled: tuple[tuple[str, tuple[str, ...]], ...] = ()
    served: tuple[str, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    writes_meta: bool = False
    order: lists.Order = lists.Order()
    columns: pa.Schema | None = None
    is_listed: bool = False
    freed: tuple[str, ...] = ()
    is_view: bool = False
    left: tuple[str, ...] = ()
    torn_sums: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.changes_files or self.torn_sums)

    @property
    def changes_files(self) -> bool:
        """Whether a file is to be changed that is summed; then what sums there are do not hold any more."""
        return bool(self.assembled or self.served or self.set_aside or self.writes_meta or self.freed)


def plan(path: Path) -> Plan:
    """Look at a session that nobody writes, and say what has to be done; nothing is touched.

    Raises:
        FormatError: If it is no session of this recorder, or damaged in a way that an interrupted recording does not
            leave behind: then nothing of it is touched, and the message says what is wrong.
    """
    freed, torn_sums = tuple(reserve.left_in(path)), os.path.lexists(path / layout.UNFINISHED_SUMS)
    return _planned(path)._replace(freed=freed, torn_sums=torn_sums)


def _planned(path: Path) -> Plan:
    refuse_others(path)
    refuse_linked(path, tuple(folder.rstrip("/") for folder in _FOLDERS))
    files = Folder(path)
    found = find(files, (), None)
    if _says_nothing(files, found) and not is_video_only(path):
        return _without_episodes(path, _files(path), found)
    folder = SessionFolder(path)
    if folder.is_video_only:
        return _without_rows(_files(path))
    if folder.info.get(metadata.VIEW) is True:
        # Its files are another session's, or carry nothing.
        return Plan(episodes=tuple(folder.listed.to_pylist()), is_listed=True, is_view=True)
    if not folder.is_ours:
        raise FormatError(f"{path}: another recorder wrote it, and its files do not carry what meta/ says")
    return _Planner(folder, found).plan()


def refuse_others(path: Path) -> None:
    """Refuse a folder in which nothing says that this recorder has made it; nothing is touched.

    A project may well have a ``data/`` of its own. What is in it is nobody's to move.

    Raises:
        FormatError: If it has no ``info.json``, no data file that carries episodes, and no session's name.
    """
    # One that was completed and had no episode has only its name left.
    if path.is_dir() and (any(map(layout.is_session_name, (path.name, path.resolve().name))) or reserve.left_in(path)):
        return
    refuse_other_folders(path)
    files = Folder(path)
    if not files.has(layout.INFO_PATH) and not find(files, (), None).rows:
        raise FormatError(
            f"{path}: nothing in it says that it is a session of this recorder: it has no {layout.INFO_PATH}, no data "
            "file that carries episodes, and is not called session_<date>_<time>; nothing was touched"
        )


def is_blank(path: Path) -> bool:
    """Tell whether it is a session whose recording ended before anything says what it was to hold.

    Raises:
        FormatError: If it is no session.
    """
    refuse_others(path)
    files = Folder(path)
    return not files.has(layout.INFO_PATH) and not is_video_only(path) and _says_nothing(files, find(files, (), None))


def _says_nothing(files: Folder, found: Found) -> bool:
    return not files.has(layout.INFO_PATH) and not found.rows and not _lists_anything(files.path)


def _files(path: Path) -> list[str]:
    """List what lies in the folders that are a session's own; what lies beside them is the user's."""
    found = [n for part in _FOLDERS for n in Folder(path).files(part) if part != keys.STATES or layout.is_own_file(n)]
    return [name for name in found if name not in (layout.CHECKSUMS_PATH, layout.UNFINISHED_SUMS)]


def _lists_anything(path: Path) -> bool:
    return any((path / layout.EPISODES).rglob("*.parquet"))


def _without_rows(names: Sequence[str]) -> Plan:
    """Plan for a session that was recorded without rows: what is finished is what there is."""
    said = tuple(SetAside(name, _UNFINISHED) for name in names if layout.is_left_over(name))
    return Plan(set_aside=said, left=_left(names), is_listed=True)


def _without_episodes(path: Path, names: Sequence[str], found: Found) -> Plan:
    """Plan for a recording that was cut short before its first episode was finished.

    Raises:
        FormatError: If a file is finished, and there is no trace of the rows that it would go with.
    """
    own = [name for name in names if layout.is_own_file(name)]
    finished = [name for name in own if not name.endswith(TEMPORARY)]
    if finished and not any(map(layout.is_of_rows, own)):
        raise FormatError(
            f"{path}: {finished[0]} is finished, and there is neither {layout.INFO_PATH} nor a data file to say what "
            "it is of. An interrupted recording leaves nothing like this: bring these back from a copy; nothing was "
            "changed"
        )
    said = [SetAside(name, found.broken.get(name) or (_OF_NONE if name in finished else _UNFINISHED)) for name in own]
    return Plan(set_aside=tuple(sorted(said, key=_by_weight)), left=_left(names))


def _left(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if not layout.is_own_file(name))


def _by_weight(one: SetAside) -> tuple[bool, str]:
    # Rows come last: as long as there is a trace of them, what is left beside them is no session without rows.
    return layout.is_of_rows(one.file), one.file


class _Planner:
    def __init__(self, folder: SessionFolder, found: Found) -> None:
        self._folder = folder
        self._found = found
        self._path = folder.path
        self._held = {row[keys.EPISODE_INDEX]: row for row in found.rows}
        self._names = _files(folder.path)
        self._why: dict[int, str] = {}
        self._lists = lists.read(folder.files)
        self._listed = {row[keys.EPISODE_INDEX]: row for row in lists.rows_of(self._lists.table)}
        self._folder.listed = self._lists.table

    def plan(self) -> Plan:
        kept = self._chain()
        for index, row in self._listed.items():
            if index >= len(kept):
                raise FormatError(f"{self._path}: {self._damage(index, row, len(kept))}")
        unlisted = tuple(self._with_known(row) for row in kept if row[keys.EPISODE_INDEX] not in self._listed)
        # What cannot be listed is refused now, before anything is touched.
        self._folder.table_of(unlisted)
        assembled = tuple(self._assembled(kept))
        consumed = {part for _, parts in assembled for part in parts}
        served = tuple(name for name in self._spools(kept) if name not in consumed)
        tasks = self._tasks(unlisted)
        named = {*whole.names(self._folder, kept, self._names), *(name for name, _ in assembled), *consumed, *served}
        named |= {layout.INFO_PATH, layout.STATS_PATH, layout.TASKS_PATH, layout.PROVENANCE_PATH}
        named |= {n for n in self._names if layout.MODEL_FILE.fullmatch(n) or layout.STATES_MODEL.fullmatch(n)}
        named |= self._lists.files.keys()
        strays = [name for name in self._names if name not in named]
        aside = [SetAside(name, self._reason(name, len(kept))) for name in strays if layout.is_own_file(name)]
        order = lists.order(self._lists, unlisted, self._folder.files_per_chunk)
        is_right = not any(order) and self._folder.is_current and self._says_tasks(tasks)
        return Plan(
            episodes=tuple(kept),
            unlisted=unlisted,
            tasks=tuple(tasks),
            assembled=assembled,
            served=served,
            set_aside=tuple(sorted(aside, key=_by_weight)),
            left=_left(strays),
            writes_meta=not is_right,
            order=order,
            columns=self._columns(unlisted),
            is_listed=True,
        )

    def _says_tasks(self, tasks: Sequence[str]) -> bool:
        """Tell whether ``meta/`` itself has these tasks: what data files carry of them, other readers do not know."""
        return self._folder.listed_tasks == tasks and self._folder.info.get("total_tasks") == len(tasks)

    def _chain(self) -> list[Row]:
        """Return the episodes from the first on without a gap: their numbers are their places."""
        kept: list[Row] = []
        first = 0
        for index in itertools.count():
            row = self._held.get(index)
            if row is None or row["dataset_from_index"] != first or self._differs(row, self._listed.get(index)):
                return kept
            is_listed = index in self._listed
            try:
                # Of what is listed the rows are read when they are counted anew.
                (whole.verify_videos if is_listed else whole.verify)(self._folder, Episode(self._folder, row))
            except (FormatError, VideoError) as error:
                self._why[index] = reason(error, self._path)
                return kept
            kept.append(row)
            first = row["dataset_to_index"]
        raise AssertionError

    def _with_known(self, row: Row) -> Row:
        listed = self._lists.known.get(row[keys.EPISODE_INDEX])
        return self._lists.with_known(row, agrees=listed is not None and not self._differs(row, listed))

    def _columns(self, unlisted: Sequence[Row]) -> pa.Schema:
        """Return the columns of new files of ``meta/episodes``."""
        own = self._lists.noted if any(name in row for row in unlisted for name in self._lists.noted.names) else ()
        has_them, streams = has_about(self._folder.listed, unlisted), streams_of(self._folder.features)
        return episodes_schema(streams, has_them, own, has_states=self._folder.has_states)

    def _differs(self, row: Row, listed: Row | None) -> bool:
        """Tell whether ``meta/episodes`` says other things of an episode than its own file."""
        # What somebody has added to the list, no file need say; nor does any say when it was recorded.
        apart = {keys.META_CHUNK, keys.META_FILE, *WHEN}
        said = {name: value for name, value in row.items() if not noted.is_own(name)}
        own = {*said, *episodes_schema(streams_of(self._folder.features), has_states=True).names} - apart
        return listed is not None and {k: v for k, v in listed.items() if v is not None and k in own} != said

    def _damage(self, index: int, row: Row, gap: int) -> str:
        name = self._folder.data_file(row)
        why = self._found.broken.get(name) or self._why.get(index) or f"{name} does not hold it as meta/episodes says"
        which = "is not whole"
        if gap < index:  # nothing lists that one
            which, why = f"episode {gap} before it is not whole", self._why.get(gap) or "its rows are missing"
        return (
            f"episode {index} is listed, and {which}: {why}. An interrupted recording leaves nothing like this: "
            "bring the file back from a copy; nothing was changed"
        )

    def _spools(self, kept: Sequence[Row]) -> Iterator[str]:
        for name in self._names:
            spool = layout.SPOOL.fullmatch(name)
            if spool and int(spool["episode"]) < len(kept):
                yield name

    def _assembled(self, kept: Sequence[Row]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Say which data files are to be put together: those of which an episode is only in a spool."""
        spooled = [row for row in kept if row[keys.EPISODE_INDEX] in self._found.spooled]
        for place, rows in itertools.groupby(spooled, lambda r: layout.Place(r["chunk_index"], r["file_index"])):
            name = layout.DATA_PATH.format(**place._asdict())
            spools = [layout.spool_file(name, row[keys.EPISODE_INDEX]) for row in rows]
            parts = [name, *spools] if name in self._names and name not in self._found.broken else spools
            yield name, tuple(parts)

    def _tasks(self, unlisted: Sequence[Row]) -> list[str]:
        """Return every task: what is listed or carried, and of earlier versions' files what their rows say."""
        # Every file was opened: also one whose episodes are listed may carry tasks that are not.
        known = self._folder.tasks_with(self._found.carried)
        for row in unlisted:
            told = [task for task in row["tasks"] if task not in known]
            if not told:
                continue
            episode = Episode(self._folder, row)
            try:
                parts = [rows[keys.TASK_INDEX].unique() for rows in episode.batches([keys.TASK_INDEX])]
            except KeyError:
                raise FormatError(f"{episode.data_path()}: has no column {keys.TASK_INDEX!r}") from None
            with format_errors(episode.data_path()):
                indices = sorted({index for part in parts for index in part.to_pylist()})
            for index, task in zip(indices, row["tasks"], strict=False):
                if index == len(known):
                    known.append(task)
            if not set(row["tasks"]) <= set(known):
                raise FormatError(f"{self._path}: episode {episode.index}: its tasks {told} have no index that is free")
        return known

    def _reason(self, name: str, kept: int) -> str:
        if why := self._lists.broken.get(name):
            return why
        if why := self._found.broken.get(name):
            return f"not whole: {why}"
        episode = whole.episode_of(name, self._folder.files_per_chunk, self._rows_of(name))
        if episode is not None and episode in self._held and episode >= kept:
            gap = self._why.get(kept) or "its rows are missing"
            if episode == kept:
                return f"of episode {episode}, which is not whole: {gap}"
            return f"of episode {episode}: episode {kept} before it is not whole ({gap}), and numbers have no gap"
        return _UNFINISHED if name.endswith(TEMPORARY) else "no episode names this file"

    def _rows_of(self, name: str) -> int | None:
        """Return the first episode whose rows are in a data file."""
        place = [row for row in self._held.values() if layout.DATA_PATH.format(**_place(row)) == name]
        return place[0][keys.EPISODE_INDEX] if place else None


def _place(row: Row) -> Mapping[str, int]:
    return {part: row[part] for part in ("chunk_index", "file_index")}


def carry_out(path: Path, planned: Plan) -> None:
    """Do what is planned.

    Raises:
        StorageError: If the file system refuses. The same plan can be made and carried out again.
    """
    # First: the disk may be full.
    _remove(path, planned.freed)
    if planned.torn_sums:
        _remove(path, [layout.UNFINISHED_SUMS])
    if planned.changes_files:
        checksums.drop(path, layout.CHECKSUMS_PATH)
    for one in planned.set_aside:
        set_aside(path, one.file, one.reason)
    files = Folder(path)
    for name, parts in planned.assembled:
        footers.stage_assembled(files, name, parts).commit()
        _remove(path, [part for part in parts if part != name])
    _remove(path, planned.served)
    if planned.writes_meta:
        _write_meta(path, planned)
    _remove_empty(path)


def _write_meta(path: Path, planned: Plan) -> None:
    """Write ``meta/`` in the order of a recording: no file lists what is not there before it."""
    folder = SessionFolder(path)
    if not folder.files.has(layout.TASKS_PATH) or folder.listed_tasks != list(planned.tasks):
        metadata.write_tasks(path / layout.TASKS_PATH, planned.tasks)
    if planned.columns is not None:
        lists.carry_out(path, planned.order, planned.columns, folder.files_per_chunk)
    totals = rebuilt.totals(folder, [Episode(folder, row) for row in planned.episodes])
    provenance.settle(path, len(planned.episodes) - len(planned.unlisted), len(planned.episodes))
    metadata.write_totals(path, folder.info, len(planned.tasks), totals)


def _remove(path: Path, names: Sequence[str]) -> None:
    for name in names:
        with storage_errors(path / name):
            (path / name).unlink()


def _remove_empty(path: Path) -> None:
    """Leave no folder of a stream that has no file, as a recording does; those of somebody else stay."""
    for part in _FOLDERS:
        folders = sorted((p for p in (path / part).rglob("*") if p.is_dir()), reverse=True)
        for folder in (*folders, path / part):
            is_own = layout.is_own_folder(folder.relative_to(path).as_posix())
            # A disk that is mounted there cannot be removed.
            if is_own and folder.is_dir() and not os.path.ismount(folder) and not any(folder.iterdir()):
                with storage_errors(folder):
                    folder.rmdir()
