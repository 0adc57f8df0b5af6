"""Completing what interrupted recordings left: sessions, folders of sessions, koyu datasets."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lucky_recorder.errors import LuckyRecorderError
from lucky_recorder.koyu import begun
from lucky_recorder.lazy import lazy
from lucky_recorder.session import recovery as session_recovery
from lucky_recorder.session.folder import NONE_EVER, sessions_under
from lucky_recorder.session.layout import INFO_PATH
from lucky_recorder.storage.aside import SetAside
from lucky_recorder.storage.lock import Lock
from lucky_recorder.storage.names import owned
from lucky_recorder.storage.untrusted import format_errors

if TYPE_CHECKING:
    from lucky_recorder.koyu import check as dataset_check
    from lucky_recorder.koyu import recovery as dataset_recovery
    from lucky_recorder.session import check
else:
    # They import av, and `import *` is to be quick.
    dataset_check, dataset_recovery = lazy("lucky_recorder.koyu.check"), lazy("lucky_recorder.koyu.recovery")
    check = lazy("lucky_recorder.session.check")

__all__ = ["Recovered", "SetAside", "Verdict", "recover"]

_NO_LOCKS = (
    "this file system has no locks, so it cannot be told whether it is being recorded; "
    "where you know that it is not, say so with --force"
)
_TORN_SUMS = "a list of sums that was not finished {}: `lucky-recorder checksum` was interrupted"
_ALONE = "it was left alone"
_A_VIEW = "a copy for LeRobot, which nothing records into: recover the session it was made of, and make it anew"


class Verdict(enum.StrEnum):
    """What became of a session or a dataset.

    Attributes:
        COMPLETE: There was nothing to do.
        RECOVERED: It is complete now; in a dry run, it would be.
        EMPTY: No episode was finished; what was begun is set aside.
        IN_PROGRESS: It is being recorded, and was left alone.
        REFUSED: It cannot be completed exactly, and was left alone.
        FAULTY: It was completed as far as it goes, and has faults of another kind: `lucky-recorder check` tells them.
    """

    COMPLETE = "complete"
    RECOVERED = "recovered"
    EMPTY = "no episode"
    IN_PROGRESS = "in progress"
    REFUSED = "refused"
    FAULTY = "faulty"


class Recovered(NamedTuple):
    """What was done with a session or a dataset.

    Attributes:
        path: Its folder.
        verdict: What became of it.
        episodes: Episodes that it lists now; bundles of a dataset.
        brought_back: Those of them that were not listed before.
        set_aside: What was put under ``lost+found/`` in it, and why; its names as they were.
        why: What is to be said of it: why it was refused, what is still wrong.
    """

    path: Path
    verdict: Verdict
    episodes: int = 0
    brought_back: int = 0
    set_aside: tuple[SetAside, ...] = ()
    why: str = ""


def recover(path: str | Path, *, dry_run: bool = False, force: bool = False) -> list[Recovered]:
    """Complete what interrupted recordings left: every finished episode is listed, and what is torn is set aside.

    Nothing is deleted but spools whose episodes are in their data file by now, reserves, half-made bundles, and lists
    of sums: one that is not finished, and one of files that are changed here. What is being recorded is left alone. It
    may be called again at any time, also after it was killed itself.

    Args:
        path: A session, a koyu dataset, or a folder that holds some: an output directory, or its ``DataSessions``.
        dry_run: Say only what would be done.
        force: Also where a file system has no locks: the caller knows that nobody records there.

    Returns:
        What was done, for each session or dataset.

    Raises:
        FormatError: If there is no such folder, or it is nothing of this kind.
    """
    path = Path(path)
    sessions, datasets = under(path)
    # A session that is a link is somebody else's to complete, unless it is named itself.
    done = [_told(one, lambda one: _session(_own(path, one), dry_run, force)) for one in sessions]
    return done + [_told(one, lambda one: _dataset(one, dry_run, force)) for one in datasets]


def under(path: Path) -> tuple[list[Path], list[Path]]:
    """Return the sessions and the datasets that a path stands for: itself, or those in it.

    Raises:
        FormatError: If there is no such folder, or it is nothing of this kind.
    """
    with format_errors(path):
        return _found_under(path)


def _found_under(path: Path) -> tuple[list[Path], list[Path]]:
    if path.is_dir() and not (path / INFO_PATH).exists():
        if dataset_recovery.is_dataset(path):
            return [], [path]
        sessions = sessions_under(path)
        datasets = sorted(p for p in path.iterdir() if not p.is_symlink() and dataset_recovery.is_dataset(p))
        if sessions or datasets:
            return sessions, datasets
    session_recovery.refuse_others(path)
    return [path], []


def _own(path: Path, session: Path) -> Path:
    return owned(path, session.relative_to(path).as_posix())


def _told(path: Path, recover_one: Callable[[Path], Recovered]) -> Recovered:
    """Do one; where it cannot be done, the others are all the same."""
    try:
        return recover_one(path)
    except LuckyRecorderError as error:
        return Recovered(path, Verdict.REFUSED, why=str(error).removeprefix(f"{path}: "))
    except OSError as error:  # a folder that may not be looked into
        return Recovered(path, Verdict.REFUSED, why=f"cannot be read ({error.strerror or error})")


def _session(path: Path, dry_run: bool, force: bool) -> Recovered:
    lock = Lock(path)
    try:
        taken = lock.try_past_readers()
        if taken is False:
            return Recovered(path, Verdict.IN_PROGRESS, why=_ALONE)
        if taken is None and not force:
            return Recovered(path, Verdict.REFUSED, why=_NO_LOCKS)
        return _session_of_nobody(path, dry_run)
    finally:
        lock.release()


def _session_of_nobody(path: Path, dry_run: bool) -> Recovered:
    planned = session_recovery.plan(path)
    episodes, left = len(planned.episodes), _left(planned.left)
    is_session = bool(episodes) or planned.is_listed
    said = _A_VIEW if planned.is_view else "" if is_session else NONE_EVER
    torn = _TORN_SUMS.format("would be removed" if dry_run else "was removed") if planned.torn_sums else ""
    why = "; ".join(part for part in (said, left, torn) if part)
    if not (dry_run or planned.is_empty):
        session_recovery.carry_out(path, planned)
    if not planned.changes_files:
        return Recovered(path, Verdict.COMPLETE if is_session else Verdict.EMPTY, episodes, why=why)
    verdict = Verdict.RECOVERED if is_session else Verdict.EMPTY
    if not dry_run and verdict is Verdict.RECOVERED:
        # What somebody has put there was told of already.
        faults = [fault for fault in check.check_session(path, decode=False) if fault.file not in planned.left]
        verdict, why = _judged(faults, why)
    return Recovered(path, verdict, episodes, len(planned.unlisted), planned.set_aside, why)


def _left(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - 1} more are" if len(names) > 1 else " is"
    return f"{names[0]}{more} not the recorder's, and stayed in place; `lucky-recorder check` tells of every stray file"


def _dataset(path: Path, dry_run: bool, force: bool) -> Recovered:
    if begun.is_begun(path):
        if begun.is_beginning(path):
            return Recovered(path, Verdict.IN_PROGRESS, why=_ALONE)
        return Recovered(path, Verdict.EMPTY, why=begun.NONE_EVER)
    is_written = dataset_recovery.is_written(path)
    if is_written:
        return Recovered(path, Verdict.IN_PROGRESS, why=_ALONE)
    if is_written is None and not force:
        return Recovered(path, Verdict.REFUSED, why=_NO_LOCKS)
    planned = dataset_recovery.plan(path)
    if planned.is_empty:
        return Recovered(path, Verdict.COMPLETE, planned.bundles)
    if not (dry_run or dataset_recovery.carry_out(path, planned)):
        return Recovered(path, Verdict.IN_PROGRESS, why=_ALONE)
    verdict, swept = Verdict.RECOVERED if planned.bundles else Verdict.EMPTY, len(planned.workshops)
    why = f"{swept} folders with half-made bundles {'would be' if dry_run else 'were'} removed" if swept else ""
    if not dry_run and verdict is Verdict.RECOVERED:
        verdict, why = _judged(dataset_check.check_koyu(path, decode=False), why)
    return Recovered(path, verdict, planned.bundles, planned.unlisted, planned.set_aside, why)


def _judged(faults: Sequence[Any], why: str = "") -> tuple[Verdict, str]:
    """Say what has become of what was completed: what is wrong for another reason is not mended, and must be said."""
    if not faults:
        return Verdict.RECOVERED, why
    remain = f"{len(faults)} faults remain, the first: {faults[0].file}: {faults[0].message}"
    return Verdict.FAULTY, f"{remain}; {why}" if why else remain
