"""Watching a simulation for what a recording must not pass over: every step is compared with what it did.

A step moves the simulation's time on by the same amount as every other. MuJoCo also counts its physics steps, and
begins at 0 again when it is reset. Together they show a reset inside a step, a state that MuJoCo reset itself because
it was unstable, a step of another length, and a simulation that somebody moved between two steps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lucky_recorder.capture.pulse import Beat, is_reset
from lucky_recorder.capture.source import Source
from lucky_recorder.episode import clock
from lucky_recorder.errors import CaptureError

# Steps of one length differ by the rounding of a sum, and by no more.
_ROUNDING, _LEAST = 1e-5, 1e-9
_ALLOW = "uneven_steps='allow' records them all the same, with the time stamps of even ones"


def evenness(period: float) -> float:
    """Return by how much steps of one length may differ, in seconds, where a step lasts ``period`` seconds."""
    return max(_LEAST, _ROUNDING * period)


def _nothing() -> int:
    """Count what an environment without a simulation has none of."""
    return 0


class Watch:
    """Compares the simulation with itself from tick to tick.

    It has more attributes than a class here should: two comparisons are all that a step has time for, so what they
    need is kept at hand. The one before a step is a `Lane`'s: it calls `look_closer` where the time is not `settled`.

    Attributes:
        clock: An object whose ``time`` is the simulation's; None where there is none.
        settled: The time at which the last step has left it; NaN where that must not be relied on.
        last: The time of the last look.
        tick: The tick of the last look.
        is_idle: Whether the simulation did not move in the last step of an episode.

    Args:
        source: The simulation.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.is_idle = False
        self._began = self.last = self.settled = math.nan
        self._steps = self.tick = self._still = self._known_refusals = 0
        self._known_instabilities = b""
        self.attach(source)

    def attach(self, source: Source, is_in_step: bool = False) -> None:
        """Watch what a source is bound to now. The time of the last look stays: new data must go on from there.

        Args:
            source: As above.
            is_in_step: Whether a step is under way that has replaced the data.
        """
        pulse = source.pulse
        self.clock: Any = None if pulse is None else pulse.data
        self._count = _nothing if pulse is None else pulse.steps
        self._instabilities = source.instabilities
        refusals = source.refusals
        self._refusals = _nothing if refusals is None else refusals.item
        self._is_fresh = True
        # Other data count from another beginning.
        self._steps = 0 if is_in_step else self._count()
        self._note_instabilities()
        self.learn_rates()

    def learn_rates(self) -> None:
        """Take over how long a tick lasts, once it is known."""
        period = self._source.period
        self._period = period
        # The times themselves are rounded, too: one that counts the seconds since 1970 is right to a quarter of a ms.
        known = 0.0 if math.isnan(self.last) else self.last
        around = 0.0 if period is None else max(evenness(period), 4 * math.ulp(known))
        self._low = -math.inf if period is None else period - around
        self._high = math.inf if period is None else period + around

    def look_closer(self, now: float, tick: int) -> None:
        """Look before a step at a time that is not the one at which the last step has left the simulation.

        Raises:
            CaptureError: If it has run backwards, or on by anything but a tick.
        """
        self._require_time(now, tick)
        gap, is_first = now - self.last, math.isnan(self.last)
        if is_first:
            self._began, self._still = now, 0
            self._note_instabilities()
        before = self.last if math.isnan(self.settled) else self.settled
        if now < before:
            raise CaptureError(
                f"simulation time ran backwards, from {before:g} s to {now:g} s, at tick {tick} of the "
                "episode: the simulation was reset, or became unstable (NaN) and reset itself; call mark_reset() after "
                "a reset you mean"
            )
        self._steps = self._count()
        is_even = is_first or (math.isnan(self.settled) and self._low < gap < self._high)
        # A simulation that has not moved at all since the episode began is one whose time says nothing.
        if not is_first:
            self._check_stability(tick)
        if now == self._began:
            self._still += not is_first
            return
        if self._still:
            self._refuse_stillness(tick)
        if is_even:
            return
        if math.isnan(self.settled):
            self._refuse_uneven(gap, f"tick {tick - 1} of the episode")
        else:
            moved = now - self.settled
            self._refuse_uneven(gap, f"{moved:g} s of it passed outside of env.step, before tick {tick}: that tick")

    def is_on_time(self) -> bool:
        """Tell whether a step that is neither the first nor the last has lasted as long as the others: most have.

        Where it has not, whoever asks looks closer, with `after_step`.
        """
        if self.clock is None:
            return True
        now = self.clock.time
        if self._is_fresh or not self._low < now - self.last < self._high or self._refusals() != self._known_refusals:
            return False
        self.settled = now
        return True

    def after_step(self, is_done: bool = False, is_said: bool = False) -> bool:
        """Compare the simulation after a step with that before it.

        Args:
            is_done: Whether the environment says that the episode is over.
            is_said: Whether it says that it has reset itself.

        Returns:
            Whether the step led on; False if the simulation was reset inside of it.

        Raises:
            CaptureError: If it became unstable and reset itself, or the step was longer or shorter than the others.
        """
        if self.clock is None:
            return not is_said
        if not is_done and not is_said and self.is_on_time():
            return True
        now, tick = Beat(self.clock.time, self._count()), self.tick
        self._require_time(now.time, tick)
        self._check_stability(tick)
        # The steps are those of the last longer look: there were no fewer before this step.
        before = Beat(self.last, self._steps)
        if is_said or is_reset(before, now, self._period, is_done, is_first=tick == 0):
            self.settled = math.nan
            return False
        lasted = now.time - before.time
        is_even = self._low < lasted < self._high
        # No row follows the last step, so no time stamp depends on how long it was: an action that is repeated until
        # the episode is over is often cut short. One that took no time at all had no command.
        is_short = is_done and lasted < self._high
        self.is_idle = is_short and not is_even and lasted <= _LEAST
        is_still = now.time == self._began and not self._source.is_measured and not is_even
        if self._still and not is_still:
            self._refuse_stillness(tick)
        self._still += is_still
        if not (is_even or is_short or is_still):
            self._refuse_uneven(lasted, f"tick {tick} of the episode")
        self.settled, self._steps, self._is_fresh = now.time, now.steps, is_still
        return True

    def at_end(self, tick: int) -> None:
        """Look at what the simulation has done since the last tick of an episode.

        Raises:
            CaptureError: If it became unstable, or refused the commands.
        """
        if self.clock is None:
            return
        known = self.last if math.isnan(self.settled) else self.settled
        if self.clock.time < known and self._count() < self._steps:
            # Since the last tick it was reset, by whomever: what MuJoCo has counted by now, it has counted after that.
            self._known_refusals, self._known_instabilities = 0, bytes(len(self._known_instabilities))
        self._check_stability(tick)

    def note_steps(self) -> None:
        """Take note of the physics steps, where there is time for it: so a reset since then shows at the end."""
        self._steps = self._count()

    def take_at_once(self) -> None:
        """Take note that a tick has no step of its own: the next look measures it."""
        self.settled = math.nan

    @property
    def is_between(self) -> bool:
        """Whether the step of the last tick was not seen to end: it was taken at once, or a reset was marked since."""
        return math.isnan(self.settled)

    def is_a_tick_later(self) -> bool:
        """Tell whether the simulation stands a tick after the last look, and was not reset since, as far as it shows.

        Where its time stands still, nothing shows.
        """
        if self.clock is None or not self._period:
            return False
        return self._low < self.clock.time - self.last < self._high and self._count() >= self._steps

    def _require_time(self, now: float, tick: int) -> None:
        if not math.isfinite(now):
            raise CaptureError(
                f"the simulation's time is {now} at tick {tick} of the episode, so nothing shows how long steps last; "
                "reset the simulation, and look for what writes data.time"
            )

    def _check_stability(self, tick: int) -> None:
        refused, self._known_refusals = self._refusals() > self._known_refusals, self._refusals()
        if refused:
            raise CaptureError(
                "MuJoCo refused the commands (NaN, infinity or beyond 1e10) and applied zeros in their place, before "
                f"or at tick {tick} of the episode; clip data.ctrl, or give the actuator a ctrlrange"
            )
        counts = self._instabilities
        if counts is None or counts.tobytes() == self._known_instabilities:
            return
        known = np.frombuffer(self._known_instabilities, counts.dtype)
        self._note_instabilities()
        # MuJoCo counts up when it resets itself. Counts that fell are a reset that somebody meant.
        if (counts > known).any():
            raise CaptureError(
                "the simulation became unstable (NaN, infinity or a huge value) and reset itself at tick "
                f"{tick} of the episode; lower the time step or the commands, or call mark_reset() if you mean it"
            )

    def _refuse_uneven(self, lasted: float, what: str) -> None:
        """Count a step of another length, or refuse it."""
        assert self._period is not None
        if self._source.settings.uneven_steps == "allow":
            self._source.uneven_steps += 1
            return
        raise CaptureError(
            f"{what} lasted {lasted:g} s of simulated time, {self._expected()}: its time stamps would be wrong; "
            f"{self._remedy(lasted)}"
        )

    def _refuse_stillness(self, tick: int) -> None:
        """Count ticks at which the simulation had not begun to move, or refuse them."""
        still, self._still = self._still, 0
        if self._source.settings.uneven_steps == "allow":
            self._source.uneven_steps += still
            return
        raise CaptureError(
            f"the simulation's time stood still at the first {still + 1} ticks of the episode, and went on before tick "
            f"{tick}: their time stamps would be wrong; begin to tick when the simulation begins to move; {_ALLOW}"
        )

    def _expected(self) -> str:
        """Say how long a tick should last."""
        if not self._period:
            return "and in the others it stands still"
        lasts = f"{self._period:g} s ({clock.show(self._source.clocks.base)} Hz)"
        return f"the others {lasts}" if self._source.is_measured else f"and not {lasts}"

    def _remedy(self, lasted: float) -> str:
        if self._source.is_measured or lasted <= 0:
            return _ALLOW
        measured = clock.show(clock.rate_of_step(lasted))
        setting = "data_hz" if self._source.settings.control_hz is None else "control_hz"
        return f"where every tick lasts that long, {setting}={measured} says so; {_ALLOW}"

    def elapsed(self) -> float:
        """Return how long the step that was just taken has lasted, in seconds of the simulation's own time."""
        return float(self.clock.time - self.last) if self.clock is not None else 0.0

    def forgive_reset(self) -> None:
        """Let time be another before the next tick: somebody has reset the simulation and said so."""
        self.last = self.settled = math.nan
        self._is_fresh = True
        self._note_instabilities()

    def _note_instabilities(self) -> None:
        self._known_refusals = self._refusals()
        self._known_instabilities = b"" if self._instabilities is None else self._instabilities.tobytes()
