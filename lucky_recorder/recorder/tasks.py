"""The tasks of a recorder: what they are called, and which one the rows from here on are of."""

from __future__ import annotations

from collections.abc import Sequence

from lucky_recorder.episode.keys import DEFAULT_TASK
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import validators


class Tasks:
    """Descriptions of tasks, by index.

    Attributes:
        descriptions: In index order; empty if none was registered.
        index: The task of the rows from here on.
    """

    def __init__(self, descriptions: Sequence[str]) -> None:
        self.descriptions = list(descriptions)
        self.index = 0

    @property
    def current(self) -> str:
        """The description of the task of the rows from here on."""
        return (self.descriptions or [DEFAULT_TASK])[self.index]

    def register(self, description: str) -> int:
        """Register a task and return its index, counted from 0.

        Raises:
            SettingsError: If the description is empty or registered already.
        """
        if not isinstance(description, str) or not description.strip():
            raise SettingsError.of("task", description, "give a description that is not empty")
        if description in self.descriptions:
            known = self.descriptions.index(description)
            raise SettingsError.of("task", description, f"is registered already, as {known}")
        self.descriptions.append(description)
        return len(self.descriptions) - 1

    def choose(self, index: int) -> int:
        """Choose the task of the rows from here on, and return its index.

        Raises:
            SettingsError: If no task of that index is registered.
        """
        count = max(1, len(self.descriptions))
        number = validators.index(index)
        if number is None or not 0 <= number < count:
            raise SettingsError.of("task index", index, f"give 0 to {count - 1}, or register the task before recording")
        self.index = number
        return number
