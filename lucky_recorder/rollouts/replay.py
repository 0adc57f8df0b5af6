"""Replaying an episode: its simulation is stepped again from its recorded states, with its recorded commands.

No environment is needed, nor its code: the model is in the session. `remake` is for the whole of it: it builds the
environment again and plays the actions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.door import simulator
from lucky_recorder.errors import FormatError
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.kept_states import States
from lucky_recorder.session.reader import Session

_State = NDArray[np.float64]


class Difference(NamedTuple):
    """The first tick after which the simulation is in another state than the recorded one.

    Attributes:
        tick: The tick, from 0.
        what: The first value that differs, such as ``qpos of joint 'elbow'``.
        recorded: What is recorded of it.
        replayed: What it is now.
    """

    tick: int
    what: str
    recorded: float
    replayed: float

    @property
    def by(self) -> float:
        """By how much they differ."""
        return abs(self.replayed - self.recorded)


class Replayed(NamedTuple):
    """How an episode compares with itself, stepped again.

    Attributes:
        ticks: Ticks that were stepped.
        difference: The first that leads to another state; None where none does.
        unlike: How many do: each is stepped from the recorded state before it.
        left_out: Ticks that were not stepped: those before a reset, and a last one whose end nobody knows.
        not_brought_back: What the recording has said that its states cannot bring back, in words.
    """

    ticks: int
    difference: Difference | None
    unlike: int
    left_out: int
    not_brought_back: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether every state is the recorded one, to the bit."""
        return self.difference is None


def replay(session: str | Path | Session, episode: int) -> Replayed:
    """Step an episode's simulation again, and compare every state with the recorded one, bit for bit.

    It begins in the first recorded state, with the model that is kept with it, and is given the recorded commands, and
    whatever else is given to a step: applied forces, the poses of mocap bodies. What a step makes (positions,
    velocities, activations, the solver's warm start) is compared. Where the two differ, it goes on from the recorded
    state, so that it is known how many ticks do not follow from the one before. Callbacks that are installed are
    called, as in any simulation.

    Args:
        session: A session that keeps states (``keep_states=True``).
        episode: The episode's number.

    Raises:
        IndexError: If there is no such episode.
        FormatError: If it has no states, they cannot be read, or the model is of another version of MuJoCo than the
            one that is installed; names the one that reads it. Also where the model has plugins that are not loaded, or
            where others stand in their places, and where two states lie further apart than anybody would step.
    """
    opened = session if isinstance(session, Session) else Session(session)
    recorded = opened.episode(episode)
    kept = recorded.states()
    stepped = _stepper(recorded, kept)
    first: Difference | None = None
    ticks = unlike = 0
    for tick, before, commands, after in _ticks(kept):
        ticks += 1
        try:
            found = stepped.step(before, commands, after)
        except FormatError as error:
            raise FormatError(f"{recorded.states_path()}: tick {tick}: {error}") from error
        if found is not None:
            unlike += 1
            first = first or Difference(tick, *found)
    return Replayed(ticks, first, unlike, len(kept) - ticks, kept.not_brought_back)


def _stepper(episode: Episode, kept: States) -> simulator.Replay:
    try:
        stepper = simulator.Replay(episode.model(), kept.about["mujoco"], kept.about["plugins"])
    except FormatError as error:
        raise FormatError(f"{episode.states_path()}: {error}") from error
    said = (kept.about["sizes"]["state"], kept.about["sizes"]["nu"])
    if stepper.sizes != said:
        raise FormatError(
            f"{episode.states_path()}: states and commands of {said} values, its model has {stepper.sizes}"
        )
    return stepper


def _ticks(kept: States) -> Iterator[tuple[int, _State, _State, _State]]:
    """Go through the ticks that lead from one known state to the next: the state, the commands, the next state."""
    resets = {*kept.about["resets"]}
    last: tuple[_State, _State] | None = None
    for part in kept.parts():
        for k, state in enumerate(part.states):
            tick = part.first + k
            is_known = tick < len(kept) or kept.about["ended"]
            if last is not None and tick not in resets and is_known:
                yield tick - 1, *last, state
            last = state, part.commands[k]
