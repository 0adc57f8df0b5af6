"""The tasks of a recorder: what they are called, and which one the rows from here on are of."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.moment import Moment, entry_of
from lucky_recorder.capture.task import key_of, told_by
from lucky_recorder.episode.keys import DEFAULT_TASK
from lucky_recorder.episode.parts import let_go, parts
from lucky_recorder.errors import SettingsError, StateError, shown
from lucky_recorder.settings import validators
from lucky_recorder.settings.recorder import RecorderSettings


class Tasks:
    """Descriptions of the tasks that are registered, by index.

    Attributes:
        descriptions: In index order; empty if none was registered.
        index: The task of the rows from here on.

    Args:
        settings: Where ``task`` says what rows are of, nobody else does.
        descriptions: Those of the settings' ``tasks``; a session's lanes share them, and add to them.
    """

    def __init__(self, settings: RecorderSettings, descriptions: list[str]) -> None:
        self.descriptions = descriptions
        self.index = 0
        self._said_by = settings.task

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
            StateError: If the setting ``task`` says it.
            SettingsError: If no task of that index is registered.
        """
        if self._said_by is not None:
            raise StateError(
                f"task={shown(self._said_by)} says what each row is of, so no task can be chosen by its index; "
                "leave that setting out, or give a callable that knows what you know"
            )
        count = max(1, len(self.descriptions))
        number = validators.index(index)
        if number is None or not 0 <= number < count:
            raise SettingsError.of("task index", index, f"give 0 to {count - 1}, or register the task before recording")
        self.index = number
        return number


class TaskSignal:
    """Hears what the infos of an environment say of its task, and passes it on to the rows that follow.

    What the last info says counts for the episode that begins after it: that of a reset, or of a step inside of which
    the environment has reset itself. Within an episode the task stays until another is said.

    Args:
        setting: ``task`` of the settings.
    """

    def __init__(self, setting: Any) -> None:
        self._setting = setting
        self._key = key_of(setting)
        self._said: Any = None
        self._info: Mapping[Any, Any] = {}
        self._moment: Moment | None = None

    def begin(self, moment: Moment) -> None:
        """Begin an episode after the info that was heard last."""
        self._moment = moment
        # A callable is asked before the first row; where it gives None, the task stays as it was.
        if self._key is None:
            moment.last_info = self._info
        else:
            moment.task = self._said

    def hear(self, info: Mapping[Any, Any]) -> None:
        """Take in what an environment has returned. What it says is looked at before the row that is of it."""
        moment = self._moment
        if self._key is None:
            self._info = info
            if moment is not None:
                moment.last_info = info
            return
        said = entry_of(info, self._key)
        # A text never changes. What is none will be looked at later, as it is now: some fill one array again and again.
        self._said = said = said if said.__class__ is str else copy.copy(said)
        if said is not None and moment is not None:
            moment.task = said

    def hear_reset(self, info: Mapping[Any, Any]) -> None:
        """Take in what a reset has returned.

        Raises:
            CaptureError: If what it says is no description of a task. Whoever is wrong here is so at once.
        """
        told_by(info, self._setting)
        self.hear(info)


class ListedTasks:
    """The tasks that a session lists, in the worker: those that were registered, and those that kept rows are of.

    A task that is found on the way gets its index here, where an episode is kept, as the episode does: one that only
    discarded attempts had never has one.

    Args:
        registered: Descriptions, in index order.
        are_said: Whether they are found on the way too.
    """

    def __init__(self, registered: Sequence[str], are_said: bool) -> None:
        self._fallback = (*registered, DEFAULT_TASK)[0]
        self._descriptions = list(registered) if are_said else list(registered) or [DEFAULT_TASK]
        self._known = {description: index for index, description in enumerate(self._descriptions)}

    def indices(self, said: Iterable[str | None]) -> NDArray[np.int64]:
        """Return the index of each description; one that is new gets the next. None is the first that is registered."""
        return np.array([self._index(self._fallback if one is None else one) for one in said], np.int64)

    def _index(self, description: str) -> int:
        known = self._known.get(description)
        if known is not None:
            return known
        self._descriptions.append(description)
        self._known[description] = index = len(self._descriptions) - 1
        return index

    def described(self, indices: NDArray[np.int64]) -> dict[int, str]:
        """Return the descriptions of the tasks that occur, by index, ascending."""
        found: set[int] = set()
        for part in parts(len(indices), indices.itemsize):
            found.update(np.unique(indices[part]).tolist())
            let_go(indices)
        return {index: self._descriptions[index] for index in sorted(found)}
