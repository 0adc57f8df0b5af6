"""The progress bar of the recording commands."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from lucky_recorder.rollouts.collect import Summary

_COLUMNS = (
    "{task.completed}/{task.total} episodes",
    "{task.fields[at].discarded} discarded",
    "{task.fields[at].steps_per_second:.0f} steps/s",
    "{task.fields[megabytes]:.1f} MB",
)


class Bar:
    """Shows how a collection stands, while it is entered."""

    def __init__(self, episodes: int) -> None:
        from lucky_recorder.rollouts.collect import Summary

        first, *others = (TextColumn(text) for text in _COLUMNS)
        self._progress = Progress(first, BarColumn(), *others, TimeRemainingColumn())
        self._task = self._progress.add_task("", total=episodes, at=Summary(), megabytes=0.0)

    def show(self, summary: Summary) -> None:
        """Show how it stands now."""
        self._progress.update(self._task, completed=summary.kept, at=summary, megabytes=summary.bytes / 1e6)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()
