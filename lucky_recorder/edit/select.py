"""Some of a session's episodes as a new session: those that are wanted, or all but those that are not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lucky_recorder.edit import sql
from lucky_recorder.edit.pick import OnEpisode, Pick, numbers, opened
from lucky_recorder.edit.shaped import Shaped, made
from lucky_recorder.errors import SettingsError
from lucky_recorder.session.reader import Session

__all__ = ["delete", "select"]


def select(
    session: str | Path,
    output: str | Path,
    *,
    success_only: bool = False,
    tasks: Iterable[str] | None = None,
    episodes: str | Iterable[int] | None = None,
    min_length: int | None = None,
    where: str | None = None,
    dry_run: bool = False,
    on_episode: OnEpisode | None = None,
) -> Shaped:
    """Write those of a session's episodes as a new session that meet every condition, in their order.

    All tasks stay listed, also one of which no episode is left.

    Args:
        session: The session's folder.
        output: The new session's folder; there must be nothing of that name.
        success_only: Only those that succeeded.
        tasks: Only those in which one of these tasks occurs.
        episodes: Only these, by number: ``"0:40,52"``, an end is left out, or the numbers themselves.
        min_length: Only those of at least so many rows, as ``length`` in ``meta/episodes`` counts them.
        where: Only those of which this SQL expression is true. Its names are the columns of ``meta/episodes``, with an
            underscore for each character that is no letter or digit; ``pip install "lucky-recorder[sql]"``.
        dry_run: Say only what would be done, after all that can be refused was.
        on_episode: Called after each episode: how many are done, and how many there are.

    Raises:
        SettingsError: If a condition names what is not there, or no episode meets them all; otherwise as `merge`.
        FormatError: As `merge`.
        StorageError: As `merge`.
        VideoError: As `merge`.

    Example:
        ```python
        lr.select("recorded", "good", success_only=True, where="length > 100")
        ```
    """
    source = opened(session)
    chosen = set(source.episodes["episode_index"].to_pylist())
    if episodes is not None:
        chosen &= numbers(source, episodes)
    if success_only:
        chosen &= {e.index for e in source if e.success}
    if tasks is not None:
        chosen &= _of_tasks(source, tasks)
    if min_length is not None:
        chosen &= {e.index for e in source if e.length >= min_length}
    if where is not None:
        chosen &= sql.where(source, where)
    if not chosen:
        raise SettingsError(f"select: none of the {len(source)} episodes of {source.path} meets every condition")
    return _made(source, chosen, output, dry_run, on_episode)


def _of_tasks(source: Session, tasks: Iterable[str]) -> set[int]:
    wanted = [tasks] if isinstance(tasks, str) else list(tasks)
    if unknown := [task for task in wanted if task not in source.tasks]:
        raise SettingsError.of("tasks", unknown[0], f"{source.path} has no such task; it has {source.tasks}")
    return {e.index for e in source if not set(wanted).isdisjoint(e.tasks)}


def _made(source: Session, chosen: set[int], output: str | Path, dry_run: bool, on_episode: OnEpisode | None) -> Shaped:
    picks = [Pick(source, index) for index in sorted(chosen)]
    return made(picks, output, len(source), dry_run=dry_run, on_episode=on_episode)


def delete(
    session: str | Path,
    output: str | Path,
    *,
    episodes: str | Iterable[int],
    dry_run: bool = False,
    on_episode: OnEpisode | None = None,
) -> Shaped:
    """Write a session's episodes but for some as a new session, in their order; the session itself stays as it is.

    Args:
        session: The session's folder.
        output: The new session's folder; there must be nothing of that name.
        episodes: Those that are left out, by number: ``"0:40,52"``, an end is left out, or the numbers themselves.
        dry_run: As for `select`.
        on_episode: As for `select`.

    Raises:
        SettingsError: If one of them is not there, or no episode is left; otherwise as `merge`.
        FormatError: As `merge`.
        StorageError: As `merge`.
        VideoError: As `merge`.
    """
    source = opened(session)
    kept = set(source.episodes["episode_index"].to_pylist()) - numbers(source, episodes)
    if not kept:
        raise SettingsError.of("episodes", episodes, f"these are all that {source.path} has; nothing is left")
    return _made(source, kept, output, dry_run, on_episode)
