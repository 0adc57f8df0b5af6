"""How a session stands, in one word."""

from __future__ import annotations

import enum


class State(enum.StrEnum):
    """How a session stands.

    Attributes:
        COMPLETE: Nobody writes it, and ``meta/`` lists all that is there.
        CUT_SHORT: Nobody writes it, and its recording did not end: `lucky_recorder.recover` completes it.
        IN_PROGRESS: It is being recorded.
    """

    COMPLETE = "complete"
    CUT_SHORT = "cut short"
    IN_PROGRESS = "in progress"
