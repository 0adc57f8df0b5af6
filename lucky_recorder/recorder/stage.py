"""Stages: what becomes of an environment's episodes, and what is told of those that are not recorded."""

from __future__ import annotations

import enum
from collections.abc import Callable

from lucky_recorder.notices import tell
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.settings.validators import load_callable


class Stage(enum.Enum):
    """What becomes of the environment's episodes."""

    RECORDED = "recorded"
    SKIPPED = "skipped"
    """``episode_trigger`` leaves the present one out."""
    DONE = "done"
    """The present one is over: no step is a row before the next reset, whoever begins an episode meanwhile."""
    BEGINS = "begins"
    """The environment has reset itself: with the next step, or the next look, another one begins."""
    CLOSED = "closed"


def trigger(settings: RecorderSettings) -> Callable[[int], bool]:
    """Return which episodes are recorded, by their number from 0."""
    asked = settings.episode_trigger
    if asked is None:
        return lambda number: True
    return load_callable("episode_trigger", asked) if isinstance(asked, str) else asked


class Unrecorded:
    """What happened that is no row, and is told of.

    Attributes:
        steps: Steps after the last of an episode that nobody has been told of.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._has_told_of_reset = self._has_told_of_first = self._has_told_of_last = False

    def tell_of_reset(self) -> None:
        """Warn, once, that steps are lost because the environment resets itself inside of them."""
        if not self._has_told_of_reset:
            self._has_told_of_reset = True
            tell(
                "the environment reset itself inside a step: what the simulation was like after it is gone, and the "
                "command with it. Such a step is no row where rows hold that; the rows before it stand, the verdict "
                "is what the step returned, and the next episode begins with its observation"
            )

    def tell_of_last(self) -> None:
        """Warn, once, that last steps are lost because nothing has moved in them."""
        if not self._has_told_of_last:
            self._has_told_of_last = True
            tell(
                "the step that ended an episode is no row: the simulation did not move in it, or, in the session's "
                "first step, not as long as the environment states, so that its command or its rate is not known; the "
                "rows before it stand, and the verdict is what the step returned"
            )

    def tell_of_first(self) -> None:
        """Warn, once, that first steps are lost because the environment resets itself at the beginning of them."""
        if not self._has_told_of_first:
            self._has_told_of_first = True
            tell(
                "the environment reset itself at the beginning of the step after an episode's last one, and went on in "
                "it: nobody could look in between, so that step is no row, and its episode begins with the one after "
                "it; call env.reset() after terminated or truncated"
            )

    def tell_of_steps(self) -> None:
        """Warn of the steps after the last of an episode, with their number."""
        count, self.steps = self.steps, 0
        if count:
            tell(
                f"{count} steps came after one that had ended its episode, without a reset that worked, and as far as "
                "can be seen the environment has not reset itself: they are not recorded; call env.reset() after "
                "terminated or truncated. If it does reset itself, let it say so: env.metadata['autoreset_mode'] = "
                "'next_step' or 'same_step'"
            )
