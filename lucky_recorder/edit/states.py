"""The states of an episode, given to another session: linked, or cut with its rows."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.edit.window import Window
from lucky_recorder.episode import clock
from lucky_recorder.episode.record import FinishedStates, Model
from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.session import layout
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.kept_states import States
from lucky_recorder.storage.spill import Spill
from lucky_recorder.storage.write import link, make_folder, storage_errors


def given_states(episode: Episode, window: Window, root: Path, number: int) -> FinishedStates | None:
    """Return the states of some of an episode's ticks; None where it has none.

    Args:
        episode: The episode.
        window: Which of its data ticks are taken.
        root: The folder of the session that they are given to.
        number: Tells the name of the file from those of other episodes.

    Raises:
        FormatError: If they cannot be read, or there are not as many as rows.
        StorageError: If the file system refuses.
    """
    if not episode.has_states:
        return None
    kept, model = episode.states(), Model(episode.model())
    if not window.is_whole:
        return _cut(kept, model, window, ticks_per_row(kept, window.ticks, episode), root)
    target = root / layout.states_take(number)
    make_folder(target.parent)
    link(episode.states_path(), target)
    nothing = np.empty((0, kept.about["sizes"]["state"]))
    return FinishedStates(nothing, np.empty((0, kept.about["sizes"]["nu"])), model, kept.about, target)


def ticks_per_row(kept: States, rows: int, episode: Episode) -> int:
    """Return how many ticks of the states there are to a tick of the rows.

    Args:
        kept: The states.
        rows: Ticks of the rows.
        episode: Whose they are.

    Raises:
        FormatError: If they are not as many as these need.
    """
    # As `info.json` says the rate of rows: a number that was read back from a float may be another fraction.
    try:
        ratio = clock.rate(float(Fraction(kept.about["hz"]))) / episode.hz
    except (ValueError, ZeroDivisionError, OverflowError, SettingsError):
        ratio = Fraction(0)
    # Two such numbers may be whole multiples of each other but for the last digit of a float.
    per_row = round(ratio) if abs(ratio - round(ratio)) <= 1e-9 * ratio else 0
    if per_row < 1 or -(-len(kept) // per_row) != rows:
        raise FormatError(f"{episode.states_path()}: its {len(kept)} ticks are not those of {rows} rows")
    return per_row


def _cut(kept: States, model: Model, window: Window, per_row: int, root: Path) -> FinishedStates:
    first, stop = window.first * per_row, min(window.stop * per_row, len(kept))
    is_end = stop == len(kept)
    # What stands after the last tick is the state before the next one, but for a reset in between.
    ended = kept.about["ended"] if is_end else stop not in kept.about["resets"]
    with storage_errors(root):
        states, commands = Spill(root), Spill(root)
        for part in kept.parts():
            for spill, values, end in ((states, part.states, stop + 1), (commands, part.commands, stop)):
                taken = values[max(0, first - part.first) : max(0, end - part.first)].copy()
                if not ended and spill is states and part.first <= stop < part.first + len(values):
                    taken[-1] = np.nan
                spill.append(taken)
        sizes, ticks = kept.about["sizes"], stop - first
        held = _whole(states, (ticks + 1, sizes["state"])), _whole(commands, (ticks, sizes["nu"]))
    resets = [tick - first for tick in kept.about["resets"] if first < tick < stop]
    tried = [tick - first for tick in kept.about["tried"] if first <= tick < stop]
    return FinishedStates(*held, model, {**kept.about, "ended": ended, "resets": resets, "tried": tried})


def _whole(spill: Spill, shape: tuple[int, int]) -> NDArray[Any]:
    # Nothing can be mapped of an empty file, as of a model without commands.
    return spill.whole().array(0, shape, np.float64) if spill.size else np.empty(shape)
