"""What was made of sessions: the way from picks to a new session that all functions share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lucky_recorder.edit.pick import OnEpisode, Pick
from lucky_recorder.lazy import lazy

if TYPE_CHECKING:
    from lucky_recorder.edit import assemble
else:
    # It imports av, and `import *` is to be quick.
    assemble = lazy("lucky_recorder.edit.assemble")


class Shaped(NamedTuple):
    """A session that was made of others; in a dry run, that would be.

    Attributes:
        path: Its folder.
        episodes: Its episodes.
        rows: Their rows, those of all robots.
        left_out: Episodes of the others that are not in it.
    """

    path: Path
    episodes: int
    rows: int
    left_out: int


def made(
    picks: Iterable[Pick],
    output: str | Path,
    there: int,
    *,
    dry_run: bool,
    on_episode: OnEpisode | None,
    rename: Mapping[str, str] | None = None,
) -> Shaped:
    """Make a session of picks, or say only what it would be.

    Args:
        picks: Its episodes, in order.
        output: Its folder.
        there: How many episodes the others have.
        dry_run: Say only what would be done.
        on_episode: Called after each episode.
        rename: Task descriptions that become others.
    """
    planned = assemble.plan(picks, Path(output), rename=rename)
    if not dry_run:
        planned.write(on_episode)
    return Shaped(planned.target, planned.episodes, planned.rows, there - planned.episodes)
