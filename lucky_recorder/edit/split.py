"""A session's episodes shared out among several new ones, such as one to train on and one to test with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lucky_recorder.edit import datasets
from lucky_recorder.edit.both import or_datasets
from lucky_recorder.edit.pick import OnEpisode, Pick, opened
from lucky_recorder.edit.shaped import Shaped, made
from lucky_recorder.edit.shares import after, folders_of, shared_out, shares_of

__all__ = ["split"]


@or_datasets(datasets.split)
def split(
    session: str | Path,
    parts: Mapping[str, float],
    *,
    output: str | Path | Mapping[str, str | Path],
    seed: int = 0,
    by_task: bool = False,
    dry_run: bool = False,
    on_episode: OnEpisode | None = None,
) -> dict[str, Shaped]:
    """Share a session's episodes out among several new sessions: each is in one of them, in the session's order.

    Which episode comes where follows from the seed and its number alone, on every machine. Parts are as large as whole
    episodes can make them: what is left over goes to the part that lacks most.

    Args:
        session: The session's folder, or a koyu dataset's.
        parts: How much of the episodes each part is to have, by its name; together 1.
        output: The folder in which each part is a session of its name; or each one's own folder, by name.
        seed: Another one shares them out in another way.
        by_task: Share out the episodes of each task by themselves, so that every part has its share of each.
        dry_run: Say only what would be done, after all that can be refused was.
        on_episode: Called after each episode: how many are done, and how many there are.

    Returns:
        What was made of each part, by its name.

    Raises:
        SettingsError: If the parts are not 1 together, or one would have no episode; otherwise as `merge`.
        FormatError: As `merge`.
        StorageError: As `merge`.
        VideoError: As `merge`. Parts that were whole before stay.

    Example:
        ```python
        lr.split("recorded", {"train": 0.9, "val": 0.1}, output="parts")
        ```
    """
    source = opened(session)
    shares = shares_of(parts)
    folders = folders_of(shares, output)
    chosen = shared_out(((e.index, e.tasks if by_task else ()) for e in source), shares, seed)
    every = {name: [Pick(source, index) for index in sorted(chosen[name])] for name in shares}
    # All is refused before the first is written.
    planned = {n: made(every[n], folders[n], len(source), dry_run=True, on_episode=None) for n in shares}
    if dry_run:
        return planned
    done = 0
    for name, picks in every.items():
        made(picks, folders[name], len(source), dry_run=False, on_episode=after(done, len(source), on_episode))
        done += len(picks)
    return planned
