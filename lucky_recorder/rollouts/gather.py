"""Many at once: attempts are made by workers, in any order, and become one session as if they had come one by one."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

import attrs
import cloudpickle

from lucky_recorder.edit.shards import Discarded
from lucky_recorder.errors import LuckyRecorderError, SettingsError, WorkerDiedError, extended, text_of
from lucky_recorder.recorder import exits
from lucky_recorder.recorder.wrapper import RecordSession
from lucky_recorder.rollouts.pieces import Attempt, Done, Engine, Lost, Piece
from lucky_recorder.rollouts.shard import Job, new_env
from lucky_recorder.rollouts.shards import Found, Made, Shards, refuse
from lucky_recorder.rollouts.workers import Workers
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.recorder import RecorderSettings

logger = logging.getLogger("lucky_recorder")

_WAIT_S = 0.25
_MOST_DEATHS = 3


class Wanted(NamedTuple):
    """What is wanted.

    Attributes:
        seed_of: The seed of each attempt, by its number.
        episodes: How many episodes are to be kept: the first so many of those that can be.
        is_picky: Whether attempts may be discarded, so that nobody knows how many it takes.
        patience: How many attempts in a row may leave nothing.
        give_up: Makes the error that is raised when more do, of how many are kept and how many left nothing.
        notice: Told after each attempt.
        what: What a seed is, for people.
    """

    seed_of: Callable[[int], int]
    episodes: int
    is_picky: bool
    patience: int
    give_up: Callable[[int, int], LuckyRecorderError]
    notice: Callable[[Attempt], object] = lambda attempt: None
    what: str = "seed"


class Gathered(NamedTuple):
    """What has come of it.

    Attributes:
        attempts: The attempts up to the last that is kept, in order of their numbers.
        surplus: Attempts that were finished beyond it.
        made: What was made of it; None where no episode is kept.
    """

    attempts: tuple[Attempt, ...]
    surplus: int
    made: Made | None


class Gathering:
    """Gives an engine what is to be done, and sees when enough is.

    Args:
        engine: Does it.
        wanted: What is wanted.
    """

    def __init__(self, engine: Engine, wanted: Wanted) -> None:
        self._engine = engine
        self._wanted = wanted
        self._found: dict[int, Found] = {}
        self._kept = 0
        self._next = 0
        self._again: deque[Piece] = deque()
        self._open = 0
        self._deaths: Counter[int] = Counter()
        # The attempts from 0 on of which each is finished: what became of those is settled.
        self._settled = self._settled_kept = self._fruitless = 0

    @property
    def is_enough(self) -> bool:
        """Whether the first episodes that can be kept are, so many as are wanted."""
        return self._settled_kept >= self._wanted.episodes

    @property
    def is_busy(self) -> bool:
        """Whether attempts are being made still."""
        return self._open > 0

    def run(self) -> None:
        """Have attempts made until it is enough.

        Raises:
            WorkerDiedError: If an attempt ends one worker after another.
            LuckyRecorderError: What would strike every worker; or too many attempts leave nothing.
        """
        self._settle()
        while not self.is_enough:
            exits.raise_held()
            self._submit()
            self.take_in(_WAIT_S)

    def _submit(self) -> None:
        most = 2 * self._engine.at_once
        while self._again and self._open < most:
            self._give(self._again.popleft())
        while self._open < most and self._is_wanted():
            self._give(Piece(self._next, (self._wanted.seed_of(self._next),)))
            self._next += 1

    def _is_wanted(self) -> bool:
        missing = self._wanted.episodes - self._kept
        # Where one attempt takes for ever, the others do not go on for ever without it.
        if self._next - self._settled > self._wanted.patience:
            return False
        if self._open < missing:
            return True
        # Those at work may all fail: a worker that waits for that would do so for nothing.
        return self._wanted.is_picky and missing > 0 and self._open < self._engine.at_once

    def _give(self, piece: Piece) -> None:
        self._open += 1
        self._engine.submit(piece)

    def take_in(self, timeout_s: float) -> bool:
        """Take in what became of a piece; returns whether there was one."""
        done = self._engine.next_done(timeout_s)
        if isinstance(done, Done):
            self._open -= 1
            for attempt in done.attempts:
                self._note(Found(attempt, done.shard))
        elif isinstance(done, Lost):
            self._open -= 1
            self._mourn(done)
        return done is not None

    def _note(self, found: Found) -> None:
        self._found[found.attempt.number] = found
        self._kept += found.attempt.episode is not None
        self._settle()
        self._wanted.notice(found.attempt)

    def _settle(self) -> None:
        while not self.is_enough and (found := self._found.get(self._settled)) is not None:
            self._settled += 1
            is_kept = found.attempt.episode is not None
            self._settled_kept += is_kept
            self._fruitless = 0 if is_kept else self._fruitless + 1
            if self._fruitless >= self._wanted.patience:
                raise self._wanted.give_up(self._settled_kept, self._fruitless)

    def _mourn(self, lost: Lost) -> None:
        if lost.error is not None:
            raise lost.error
        self._again.append(lost.piece)
        if not lost.is_struck:
            return
        seeds = ", ".join(map(str, lost.piece.seeds))
        what = self._wanted.what
        logger.warning(
            "%s, while it tried %s %s; that is tried again, what it had finished is kept", lost.why, what, seeds
        )
        self._deaths[lost.piece.number] += 1
        if self._deaths[lost.piece.number] >= _MOST_DEATHS:
            error = WorkerDiedError(f"{what} {seeds}: {_MOST_DEATHS} workers tried it, and none lived: {lost.why}")
            if lost.details:
                error.add_note(lost.details)
            raise error

    def kept(self) -> list[Found]:
        """Return the episodes that are kept: the first that are wanted; before it is enough, all that there are."""
        order = [self._found[number] for number in sorted(self._found)]
        return [one for one in order if one.attempt.episode is not None][: self._wanted.episodes]

    def discarded(self) -> list[Discarded]:
        """Return the attempts that were discarded, in order.

        Where as many are kept as are wanted, what comes after the last of them is left out, as it is of what is kept.
        """
        kept = self.kept()
        order = [self._found[number].attempt for number in sorted(self._found)]
        if kept and len(kept) >= self._wanted.episodes:
            order = [one for one in order if one.number < kept[-1].attempt.number]
        return [Discarded(one.number, str(one.seed)) for one in order if one.episode is None]

    def gathered(self, made: Made | None) -> Gathered:
        """Say what has come of it."""
        counted = [self._found[number].attempt for number in range(self._settled)]
        return Gathered(tuple(counted), len(self._found) - len(counted), made)


def gather(job: Job, settings: RecorderSettings, wanted: Wanted, workers: int) -> Gathered:
    """Have attempts made by worker processes, and make one session of them, one dataset, or both.

    Args:
        job: What a worker does.
        settings: Those of the environment that the job makes.
        wanted: What is wanted.
        workers: How many processes.

    Raises:
        SettingsError: If several processes cannot record it, or the job cannot be pickled; nothing is touched.
        LuckyRecorderError: What ended it. What was finished until then is a session all the same.
        KeyboardInterrupt: As ever; as with an error. A second one leaves the shards where they are.
    """
    pickled = _pickled(job)
    shards = Shards(settings)
    engine = Workers(pickled, shards.folder, workers)
    gathering = Gathering(engine, wanted)
    made: Made | None = None
    try:
        # Signals are heard between two pieces, where nothing is half taken in.
        with exits.held_back():
            failure = run_to_end(gathering, engine)
            made = _merged(gathering, shards, may_leave=failure is not None)
    except BaseException as error:  # also a second interrupt
        if made is None:
            # Whoever goes on to interrupt is told all the same where everything is.
            with exits.held_back():
                engine.kill()
                _tell_of(shards)
            raise
        failure = error
    if failure is not None:
        raise _told(failure, made, len(gathering.kept()))
    return gathering.gathered(made)


def run_to_end(gathering: Gathering, engine: Engine) -> BaseException | None:
    """Run to the end, whatever it is; returns what was raised. Signals are raised where they are held back."""
    failure: BaseException | None = None
    try:
        gathering.run()
    except BaseException as error:  # also an interrupt: what is finished is kept
        failure = error
    if failure is not None or gathering.is_busy:
        engine.stop()
    engine.close()
    is_there = True
    while is_there or not engine.is_closed:
        exits.raise_held()
        with contextlib.suppress(LuckyRecorderError):  # what fails now is of attempts that nobody wants any more
            is_there = gathering.take_in(_WAIT_S if not engine.is_closed else 0.0)
    return failure


def _merged(gathering: Gathering, shards: Shards, may_leave: bool) -> Made | None:
    """Make one of the shards; whoever has interrupted the run once may do so again."""
    found = gathering.kept()
    if not found:
        shards.note_discarded(gathering.discarded())
        return None
    return shards.make(found, gathering.discarded(), lambda done, total: exits.raise_held() if may_leave else None)


def _told(failure: BaseException, made: Made | None, episodes: int) -> BaseException:
    counted = "1 episode" if episodes == 1 else f"{episodes} episodes"
    left = "no episode was finished" if made is None else f"what was finished, {counted}, is in {_places(made)}"
    if isinstance(failure, LuckyRecorderError):
        told = extended(failure, left)
        told.__notes__ = list(getattr(failure, "__notes__", ()))
        told.__cause__ = None
        return told
    logger.warning("broken off: %s", left)
    return failure


def _places(made: Made) -> str:
    return " and ".join(str(path) for path in dict.fromkeys((made.path, made.koyu_path)) if path is not None)


def _tell_of(shards: Shards) -> None:
    commands = shards.commands()
    for path in shards.unreadable():
        logger.warning("%s: cannot be read, and is left out of the commands", path)
    for what, command in commands.items():
        logger.warning("what was finished is in %s; this makes a %s of it: %s", shards.folder, what, command)


def _pickled(job: Job) -> bytes:
    for field, part in (("env", job.make_env), ("policy", job.make_policy)):
        try:
            cloudpickle.dumps(part)
        except Exception as error:  # whatever an object of the user's raises
            why = f"cannot be sent to a worker process ({text_of(error)})"
            remedy = f"{why}; give 'module:name', or a function that makes it there"
            raise SettingsError.of(field, part, remedy) from error
    pickled: bytes = cloudpickle.dumps(job)
    return pickled


def settings_of(make_env: Callable[[], RecordSession]) -> RecorderSettings:
    """Make the environment once, to see what it records; it is closed again, and nothing is written.

    Raises:
        SettingsError: If it is none that several processes can record.
    """
    env = new_env(make_env)
    fleet = env.recorder.fleet
    try:
        if fleet.has_lanes:
            remedy = "is a lane of several environments; the function must return a RecordSession of its own"
            raise SettingsError.of("env", env, remedy)
        refuse(env.settings, fleet.has_own_sinks)
        # Also those that its maker has registered.
        return attrs.evolve(env.settings, tasks=tuple(fleet.tasks))
    finally:
        env.close()


def env_maker(env: Callable[[], RecordSession] | str) -> Callable[[], RecordSession]:
    """Return the function that makes an environment, also where its name is given.

    Raises:
        SettingsError: If it is neither.
    """
    if isinstance(env, str):
        named: Callable[[], RecordSession] = v.load_callable("env", env)
        return named
    if not callable(env):
        remedy = (
            "give a RecordSession, a function that makes one, or its name as 'module:name'; a vector environment's "
            "recorder is stepped in a loop of your own"
        )
        raise SettingsError.of("env", env, remedy)
    return env
