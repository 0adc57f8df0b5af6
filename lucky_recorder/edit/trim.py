"""Rows cut off at the ends of episodes, with the frames that belong to them; no video is encoded again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lucky_recorder.edit import datasets
from lucky_recorder.edit.both import or_datasets
from lucky_recorder.edit.pick import OnEpisode, Pick, numbers, opened
from lucky_recorder.edit.shaped import Shaped, made
from lucky_recorder.errors import SettingsError
from lucky_recorder.lazy import lazy
from lucky_recorder.session.reader import Session

if TYPE_CHECKING:
    from lucky_recorder.edit import starts
else:
    # It imports av, and `import *` is to be quick.
    starts = lazy("lucky_recorder.edit.starts")

__all__ = ["trim"]


@or_datasets(datasets.trim)
def trim(
    session: str | Path,
    output: str | Path,
    *,
    start: int = 0,
    end: int = 0,
    episodes: str | Iterable[int] | None = None,
    snap: bool = False,
    dry_run: bool = False,
    on_episode: OnEpisode | None = None,
) -> Shaped:
    """Write a session's episodes as a new session without some rows at their ends.

    Frames, depth, masks and scans go with the rows. ``frame_index`` and ``timestamp`` begin at 0 again;
    ``post_reset`` stays with the row that had it. What is cut is not reproducible by the same run: the new session is
    not ``bit_reproducible``.

    Videos are cut and not encoded again, so an episode can begin only where each of its videos has a keyframe: every
    ten frames in those of this recorder. It can end anywhere.

    Args:
        session: The session's folder, or a koyu dataset's.
        output: The new session's folder; there must be nothing of that name.
        start: Ticks that are cut off at the beginning; a tick is a row of each robot.
        end: Ticks that are cut off at the end.
        episodes: Those that are trimmed, by number: ``"0:40,52"``, an end is left out, or the numbers themselves. The
            others are taken whole; by default all are trimmed.
        snap: Where an episode cannot begin there, let it begin at the nearest tick at which it can.
        dry_run: Say only what would be done, after all that can be refused was.
        on_episode: Called after each episode: how many are done, and how many there are.

    Raises:
        SettingsError: If nothing is left of an episode, or one cannot begin there: names the nearest ticks at which it
            can; otherwise as `merge`.
        FormatError: As `merge`.
        StorageError: As `merge`.
        VideoError: If a video has B-frames, as others' may have; otherwise as `merge`.
    """
    source = opened(session)
    every = source.episodes["episode_index"].to_pylist()
    chosen = set(every) if episodes is None else numbers(source, episodes)
    if not (start or end):
        raise SettingsError.of("start", start, "say how many ticks are cut off, by start, end or both")
    picks = [_picked(source, index, start, end) if index in chosen else Pick(source, index) for index in every]
    return made(_begun(source, picks, snap), output, len(every), dry_run=dry_run, on_episode=on_episode)


def _picked(source: Session, index: int, start: int, end: int) -> Pick:
    ticks = source.episode(index).length // max(1, len(source.robots))
    if start + end >= ticks:
        remedy = (
            f"episode {index} of {source.path} has {ticks} ticks, and nothing would be left; leave it out of episodes"
        )
        raise SettingsError.of("start + end", start + end, remedy)
    return Pick(source, index, start, ticks - end)


def _begun(source: Session, picks: Sequence[Pick], snap: bool) -> list[Pick]:
    """Let every trimmed episode begin where it can."""
    known, begun = starts.Starts(source), []
    for pick in picks:
        if pick.stop is None:
            begun.append(pick)
            continue
        possible = [tick for tick in known.of(pick.episode) if pick.stop is None or tick < pick.stop]
        if pick.first in possible:
            begun.append(pick)
            continue
        near = sorted(possible, key=lambda tick, first=pick.first: (abs(tick - first), tick))  # type: ignore[misc]
        if not snap:
            below, above = [t for t in near if t < pick.first][:1], [t for t in near if t > pick.first][:1]
            can = " or ".join(map(str, below + above))
            raise SettingsError.of(
                "start",
                pick.first,
                f"episode {pick.episode} of {source.path} cannot begin there without encoding its videos again; it can "
                f"at {can}, and snap takes the nearest",
            )
        begun.append(pick._replace(first=near[0]))
    return begun
