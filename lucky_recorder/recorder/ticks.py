"""The ticks of a loop of one's own: recorded at once, or as a block around the step."""

from __future__ import annotations

import contextlib
import inspect
import logging
import threading
from collections.abc import Iterator, Mapping
from types import FrameType

from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.source import Source
from lucky_recorder.errors import CaptureError, StateError
from lucky_recorder.recorder.policies import Ran, ran_of
from lucky_recorder.recorder.recorder import Recorder
from lucky_recorder.recorder.take import OPEN, Take

logger = logging.getLogger("lucky_recorder")

Said = bool | Mapping[str, bool]
# Frames that may be left and entered again are not found on the stack in between.
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Ticks:
    """Takes the ticks of a recorder, for an `Observer`.

    Args:
        recorder: Whose takes they are.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._block: _Block | None = None
        self._has_warned = False

    def tick(self, new_policy_step: Said) -> None:
        """Record a tick at once; see `Observer.tick`."""
        ran = self._ran("tick", new_policy_step)
        self._refuse_late_columns()
        take = None
        try:
            take = self._looked_at()
            if take is None:
                return
            if not self._has_warned and take.lane.ticks == 0:
                self._warn_of_late_commands()
            take.lane.watch.take_at_once()
            take.settle(ran)
        except BaseException as error:  # also an interrupt: nobody could tell whether this tick was recorded
            self._fail(take, error)
            raise

    @contextlib.contextmanager
    def step(self, new_policy_step: Said) -> Iterator[None]:
        """Record the tick that a block is; see `Observer.step`."""
        ran = self._ran("step", new_policy_step)
        take = block = None
        try:
            take = self._looked_at()
            if take is not None:
                self._block = block = _Block(take)
            yield
            if take is not None:
                if take.state is OPEN:
                    _refuse_reset(take)
                take.settle(ran)
        except BaseException as error:  # also an interrupt: of half a tick nothing must stay
            self._fail(take, error)
            raise
        finally:
            # One that was left without a word may get here late, when another goes on.
            if self._block is block:
                self._block = None

    def refuse_inside(self, verb: str) -> None:
        """Refuse what is said of rows and episodes inside of a `step`: it could only mean the half row that is open.

        Raises:
            StateError: Inside of a `step`.
        """
        if self._block is not None and self._block.goes_on():
            raise StateError(
                f"{verb}() inside of `with observer.step():`: its tick is still open; leave the block first"
            )

    def _ran(self, verb: str, said: Said) -> Ran:
        """Return whose policy has run, where a tick may begin."""
        if self._block is not None:
            self.refuse_inside(verb)
        self._recorder.require_session(verb)
        return True if said is True else ran_of(said, self._recorder.robots)

    def _looked_at(self) -> Take | None:
        """Take the first half of a tick, in a new take where one is due; None where the session has ended instead."""
        take = self._recorder.open_take()
        if not take.look():
            if not self._recorder.is_recording:
                return None
            take = self._recorder.begin()
            take.look()
        return take

    def _fail(self, take: Take | None, error: BaseException) -> None:
        """End the take of a tick that has raised; where an interrupt struck before it was known, the one that is open.

        Args:
            take: The take, if it is known.
            error: What was raised.
        """
        take = take or self._recorder.take
        if take is not None:
            take.fail(error)

    def _refuse_late_columns(self) -> None:
        """Refuse a tick where a column is asked after the step: at a tick that is taken at once there is none yet.

        Raises:
            StateError: Then.
        """
        if self._recorder.open_take().lane.looks_after:
            asked = ", ".join(repr(c.name) for c in self._recorder.settings.columns if c.is_called_after)
            raise StateError(
                f"tick() records before physics moves on, and when='after' asks after it: column {asked}; step inside "
                "`with observer.step():`, or leave when out"
            )

    def _warn_of_late_commands(self) -> None:
        """Say so, once, where a control callback writes commands in the physics that comes after the tick."""
        assert self._recorder.recording is not None
        if has_commands(self._recorder.recording.source) and "mjcb_control" in simulator.installed_callbacks():
            self._has_warned = True
            logger.warning(
                "mjcb_control is installed: what it writes into data.ctrl during mj_step is not known when tick() is "
                "called, so rows hold the commands of the step before; use `with observer.step(): mujoco.mj_step(...)`"
            )


class _Block:
    """The block of a `with observer.step():` that was entered, and may have been left without a word.

    An interrupt can strike just as a context manager is called to leave it. So whether the block goes on is told by
    what cannot be interrupted: half a tick is open, and the block's frame runs, elsewhere than where it was entered.

    Args:
        take: The take whose half tick is open.
    """

    def __init__(self, take: Take) -> None:
        self._take = take
        self._frame = _who_enters(inspect.currentframe())
        self._entered = None if self._frame is None else self._frame.f_lasti
        self._thread = threading.get_ident()

    def goes_on(self) -> bool:
        """Tell whether it has not been left, as seen from a verb that is called."""
        if self._take.state is not OPEN or not self._take.lane.is_open:
            return False
        if self._thread != threading.get_ident():
            return True
        frame = inspect.currentframe()
        while frame is not None and frame is not self._frame:
            frame = frame.f_back
        if frame is None:
            return self._frame is None or bool(self._frame.f_code.co_flags & _SUSPENDS)
        # Nobody enters a block anew where he is in it.
        return frame.f_lasti != self._entered


def _who_enters(frame: FrameType | None) -> FrameType | None:
    """Return the frame that a block is in: around ours are those of the context manager."""
    ours = (globals(), vars(contextlib))
    while frame is not None and any(frame.f_globals is names for names in ours):
        frame = frame.f_back
    return frame


def has_commands(source: Source) -> bool:
    """Tell whether commands of a MuJoCo simulation are recorded."""
    return source.pulse is not None and any(c.channel.phase == "after" for c in source.columns)


def _refuse_reset(take: Take) -> None:
    """Refuse a step in which the simulation was reset: the commands from before that are not known any more."""
    led_on = take.led_on()
    take.lane.watch.note_steps()
    if not led_on:
        raise CaptureError(
            "simulation time ran backwards inside of `with observer.step():`: the simulation was reset there, and the "
            "commands of the tick are gone; reset it between two steps, and call mark_reset()"
        )
