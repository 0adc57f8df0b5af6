"""Sessions merged into one, and a task called otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lucky_recorder.edit import datasets
from lucky_recorder.edit.both import or_datasets
from lucky_recorder.edit.pick import OnEpisode, every, named_once, opened
from lucky_recorder.edit.shaped import Shaped, made
from lucky_recorder.errors import SettingsError

__all__ = ["merge", "rename_task"]


@or_datasets(datasets.merge)
def merge(
    sessions: Iterable[str | Path],
    output: str | Path,
    *,
    dry_run: bool = False,
    on_episode: OnEpisode | None = None,
) -> Shaped:
    """Write all episodes of several sessions as one new session, in their order.

    Rows, videos and scans are as they were; videos are linked, or copied where there are no links. Statistics are
    exact. Tasks of one description are one task. The sessions stay as they are.

    Args:
        sessions: The sessions' folders, or those of koyu datasets.
        output: The new session's folder; there must be nothing of that name.
        dry_run: Say only what would be done, after all that can be refused was.
        on_episode: Called after each episode: how many are done, and how many there are.

    Raises:
        SettingsError: If a session is named twice, there is nothing to write, or ``output`` is there already.
        FormatError: If a session cannot be read, or two do not fit into one: lists every difference.
        StorageError: If a session is being written, or the file system refuses.
        VideoError: If a video cannot be read. Whatever is raised, nothing is left of the new session.

    Example:
        ```python
        lr.merge(["monday", "tuesday"], "both")
        ```
    """
    picks = [pick for path in named_once(sessions) for pick in every(opened(path))]
    return made(picks, output, len(picks), dry_run=dry_run, on_episode=on_episode)


@or_datasets(datasets.rename_task)
def rename_task(
    session: str | Path,
    output: str | Path,
    old: str,
    new: str,
    *,
    dry_run: bool = False,
    on_episode: OnEpisode | None = None,
) -> Shaped:
    """Write a session's episodes as a new session in which a task has another description.

    Args:
        session: The session's folder, or a koyu dataset's.
        output: The new session's folder.
        old: The description of the task.
        new: What it becomes. Where there is such a task already, the two become one.
        dry_run: As for `merge`.
        on_episode: As for `merge`.

    Raises:
        SettingsError: If there is no such task, or ``new`` is no description; otherwise as `merge`.
        FormatError: As `merge`.
        StorageError: As `merge`.
        VideoError: As `merge`.
    """
    source = opened(session)
    if old not in source.tasks:
        raise SettingsError.of("old", old, f"{source.path} has no such task; it has {source.tasks}")
    if new == old:
        raise SettingsError.of("new", new, "give another description")
    picks = every(source)
    return made(picks, output, len(picks), dry_run=dry_run, on_episode=on_episode, rename={old: new})
