"""What is not on the disk, or not listed, because something has failed: the words of the one error that a user gets."""

from __future__ import annotations

from collections.abc import Iterator

from lucky_recorder.errors import LuckyRecorderError, extended
from lucky_recorder.storage.space import without_space


class Losses:
    """Counts what was lost with a failure, and what failed after it.

    Attributes:
        rows: Rows of the take that could not be written.
        dropped: Takes that came after it, and their rows.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.dropped = 0, 0
        self._later: list[LuckyRecorderError] = []

    def drop(self, rows: int) -> None:
        """Count a take that came after what has failed."""
        takes, before = self.dropped
        self.dropped = takes + 1, before + rows

    def follow(self, error: LuckyRecorderError) -> None:
        """Take note of what failed after the first."""
        self._later.append(error)

    def told(self, failure: LuckyRecorderError) -> LuckyRecorderError:
        """Return what failed first, with all that is to be said of it."""
        takes, rows = self.dropped
        said = []
        if self.rows:
            said.append(f"1 episode with {self.rows} rows could not be written")
        if takes:
            what = "1 episode" if takes == 1 else f"{takes} episodes"
            said.append(f"{what} with {rows} rows that came after it {'was' if takes == 1 else 'were'} dropped")
        said += [_further(error, failure) for error in self._later]
        said = [one for one in dict.fromkeys(said) if one]
        return extended(failure, *said) if said else failure


def _further(error: LuckyRecorderError, failure: LuckyRecorderError) -> str:
    """Return what an error says that is new: the same file often fails again, with more to be said."""
    text = without_space(str(error))
    for known in _said(failure):
        if text == known or text.startswith(f"{known}; "):
            return text[len(known) + 2 :]
    return str(error)


def _said(error: BaseException | None) -> Iterator[str]:
    """Go through what an error says, and what the errors say that it extends."""
    while isinstance(error, LuckyRecorderError):
        yield without_space(str(error))
        error = error.__cause__
