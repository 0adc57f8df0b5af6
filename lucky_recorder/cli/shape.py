"""Making sessions out of others, and telling what was made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from lucky_recorder.cli.console import Episodes
from lucky_recorder.cli.lines import say
from lucky_recorder.edit import merge as merging
from lucky_recorder.edit import select as selecting
from lucky_recorder.edit import split as splitting
from lucky_recorder.edit import trim as trimming
from lucky_recorder.edit.shaped import Shaped
from lucky_recorder.errors import SettingsError


def merge(sessions: list[Path], output: Path, dry_run: bool) -> None:
    """Merge sessions; errors as for all that follow.

    Raises:
        LuckyRecorderError: If it cannot be done; nothing was made then.
    """
    _make(merging.merge, dry_run, sessions, output)


def select(
    session: Path,
    output: Path,
    success_only: bool,
    tasks: list[str] | None,
    episodes: str | None,
    min_length: int | None,
    where: str | None,
    dry_run: bool,
) -> None:
    """Take the episodes that meet every condition."""
    conditions = {"success_only": success_only, "tasks": tasks or None, "episodes": episodes}
    _make(selecting.select, dry_run, session, output, **conditions, min_length=min_length, where=where)


def delete(session: Path, output: Path, episodes: str, dry_run: bool) -> None:
    """Take all episodes but some."""
    _make(selecting.delete, dry_run, session, output, episodes=episodes)


def split(
    session: Path,
    output: Path,
    named: Mapping[str, float | None],
    others: Iterable[str],
    seed: int,
    by_task: bool,
    dry_run: bool,
) -> None:
    """Share episodes out among the parts that have a share."""
    parts = {name: share for name, share in named.items() if share is not None}
    for other in others:
        name, _, share = other.rpartition("=")
        if name in parts:
            raise SettingsError.of("--part", other, f"the part {name!r} has a share already; give each part one")
        try:
            parts[name] = float(share)
        except ValueError:
            raise SettingsError.of("--part", other, "write a name and a share, such as holdout=0.1") from None
    if not parts:
        raise SettingsError("split: say how much each part is to have, such as --train 0.9 --val 0.1")
    _make(splitting.split, dry_run, session, parts, output=output, seed=seed, by_task=by_task)


def rename_task(session: Path, output: Path, old: str, new: str, dry_run: bool) -> None:
    """Give a task another description."""
    _make(merging.rename_task, dry_run, session, output, old, new)


def trim(session: Path, output: Path, start: int, end: int, episodes: str | None, snap: bool, dry_run: bool) -> None:
    """Cut rows off at the ends of episodes."""
    _make(trimming.trim, dry_run, session, output, start=start, end=end, episodes=episodes, snap=snap)


def _make(function: Callable[..., Shaped | dict[str, Shaped]], dry_run: bool, *given: Any, **named: Any) -> None:
    with Episodes() as bar:
        done = function(*given, **named, dry_run=dry_run, on_episode=bar.tell)
    for one in done.values() if isinstance(done, dict) else [done]:
        out = f", {one.left_out} left out" if one.left_out else ""
        made = "would be made" if dry_run else "made and checked"
        say(f"{one.path}: {made}: {one.episodes} episodes, {one.rows} rows{out}")
    if dry_run:
        say("nothing was written")
