"""The console: tables, trees and the progress bar. The command line's one door to rich."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from lucky_recorder.cli.lines import encodable, printable

if TYPE_CHECKING:
    from lucky_recorder.rollouts.collect import Summary

__all__ = ["Bar", "Bytes", "Episodes", "Steps", "Table", "Tree", "show", "table", "tree"]

_SHOWN = 4
# Nobody reads more, and a stranger's folder may have a million tasks.
_MOST_ROWS = 1000
_BAR_COLUMNS = (
    "{task.completed}/{task.total} episodes kept",
    "{task.fields[at].discarded} discarded",
    "{task.fields[at].wanted} still wanted",
    "{task.fields[at].steps_per_second:.0f} steps/s",
    "{task.fields[megabytes]:.1f} MB",
)


def show(*drawn: Table | Tree) -> None:
    """Print tables and trees, whatever the terminal's encoding. What a folder says is text, never markup."""
    console = Console(markup=False, highlight=False)
    with console.capture() as captured:
        for one in drawn:
            console.print(one)
    sys.stdout.write(encodable(captured.get()))


def table(titles: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    """Draw a table of texts, a column per title."""
    drawn = Table(box=SIMPLE_HEAD, title_justify="left")
    for title in titles:
        drawn.add_column(title, overflow="fold")
    every = iter(rows)
    for row in itertools.islice(every, _MOST_ROWS):
        drawn.add_row(*map(printable, row))
    if more := sum(1 for _ in every):
        drawn.add_row(f"… {more} more")
    return drawn


def tree(folder: Path) -> Tree:
    """Draw a folder and what it holds; of many files, the first few."""
    drawn = Tree(Text(f"{printable(folder.name)}/"))
    entries = sorted(folder.iterdir(), key=lambda entry: (entry.is_file(), entry.name))
    for entry in entries[:_SHOWN]:
        drawn.add(tree(entry) if entry.is_dir() else Text(f"{printable(entry.name)}  {_size(entry)}"))
    if len(entries) > _SHOWN:
        drawn.add(f"… {len(entries) - _SHOWN} more")
    return drawn


def _size(file: Path) -> str:
    return f"{file.stat().st_size / 1e3:.1f} kB"


class _Shown:
    """A bar that is shown while it is entered."""

    _progress: Progress

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()


class Bar(_Shown):
    """Shows how a collection stands, while it is entered."""

    def __init__(self, episodes: int, begun: Summary) -> None:
        """Make the bar, not shown yet.

        Args:
            episodes: How many episodes are to be kept.
            begun: How the collection stands before its first step.
        """
        first, *others = (TextColumn(text) for text in _BAR_COLUMNS)
        self._progress = Progress(first, BarColumn(), *others, TimeRemainingColumn())
        self._task = self._progress.add_task("", total=episodes, at=begun, megabytes=0.0)

    def show(self, summary: Summary) -> None:
        """Show how it stands now."""
        # Where a session is gone on with, those count that are there.
        self._progress.update(
            self._task,
            completed=summary.kept,
            total=summary.kept + summary.wanted,
            at=summary,
            megabytes=summary.bytes / 1e6,
        )


class Bytes(_Shown):
    """Shows how much has been read of what takes long, while it is entered; only on a terminal, and it goes again."""

    _unit, _each = "MB", 1_000_000

    def __init__(self) -> None:
        """Make the bar, not shown yet."""
        console = Console(stderr=True)
        columns = (
            BarColumn(),
            TextColumn(f"{{task.fields[done]}} of {{task.fields[all]}} {self._unit}"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("", total=None, done=0, all=0)

    def tell(self, done: int, total: int) -> None:
        """Show how far it has come."""
        said: dict[str, Any] = {"done": done // self._each, "all": total // self._each}
        self._progress.update(self._task, completed=done, total=total, **said)


class Episodes(Bytes):
    """Shows how many episodes are done, in the same way."""

    _unit, _each = "episodes", 1


class Steps(_Shown):
    """Shows which of some steps is being done, while it is entered; only on a terminal, and it goes again."""

    def __init__(self, total: int) -> None:
        """Make the bar, not shown yet.

        Args:
            total: How many steps there are.
        """
        console = Console(stderr=True)
        columns = (BarColumn(), TextColumn("{task.completed}/{task.total} {task.description}"))
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("", total=total)
        self._begun = 0

    def tell(self, name: str) -> None:
        """Show that the next step has begun."""
        self._progress.update(self._task, completed=self._begun, description=name)
        self._begun += 1
