"""The states of an observer, and the way there."""

from __future__ import annotations

import lucky_recorder as lr
from lucky_recorder.recorder.observer import State

IDLE, IN, BETWEEN = State.IDLE, State.IN_EPISODE, State.BETWEEN_EPISODES


def lead_to(observer: lr.Observer, state: State) -> None:
    if state is not IDLE:
        observer.start_recording()
    if state is BETWEEN:
        observer.end_current_episode(True)
    assert observer.state is state
