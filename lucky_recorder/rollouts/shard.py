"""A shard: what one worker records its attempts into, and what is known of them once they are written.

It is a session, or a dataset, or both, as the settings say.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from lucky_recorder.edit.shards import MOST_FILES
from lucky_recorder.errors import CaptureError, SettingsError
from lucky_recorder.koyu import layout
from lucky_recorder.lazy import lazy
from lucky_recorder.recorder import formats
from lucky_recorder.recorder.wrapper import RecordSession
from lucky_recorder.rollouts.pieces import Attempt, BrokenOff, Piece
from lucky_recorder.rollouts.policies import Policy
from lucky_recorder.rollouts.results import Rollout
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    from lucky_recorder.koyu import sink
else:
    # It is imported where bundles are written.
    sink = lazy("lucky_recorder.koyu.sink")

# What `KoyuSettings.id_seed` takes.
_SEED_BITS = 63

Run = Callable[[RecordSession, Policy, int], Generator[None, None, Rollout | None]]
"""Makes one attempt of a seed, and yields after every step."""


@dataclass(frozen=True)
class Job:
    """What every worker is to do.

    Attributes:
        make_env: Makes the recorded environment.
        make_policy: Makes the policy for it.
        run: Makes an attempt.
    """

    make_env: Callable[[], RecordSession]
    make_policy: Callable[[RecordSession], Policy]
    run: Run

    def bench(self, folder: Path) -> Shard:
        """Make the environment and the policy, and what is recorded of them below a folder."""
        return Shard(self, folder)


class _Unwritten(NamedTuple):
    """An attempt that has ended.

    Attributes:
        place: How many takes are through with the recorder once this one is.
        attempt: What will have become of it.
    """

    place: int
    attempt: Attempt


class Shard:
    """Makes attempts in an environment of its own, one after another.

    The recorder writes an attempt while the next is made, so what became of it is known later: `written` tells.

    Args:
        job: What is to be done.
        folder: Where the shard is recorded.
    """

    def __init__(self, job: Job, folder: Path) -> None:
        self.env = new_env(job.make_env)
        self._asked = self.env.settings
        self._is_compared = False
        _aim(self.env, folder)
        self._run = job.run
        self._policy = job.make_policy(self.env)
        self._unwritten: deque[_Unwritten] = deque()
        self._kept = 0

    @property
    def path(self) -> Path | None:
        """The session's folder, or the dataset's where only that is written; None before the first attempt."""
        return self.env.session_path

    @property
    def is_behind(self) -> bool:
        """Whether attempts are not written yet."""
        return bool(self._unwritten)

    def attempt(self, piece: Piece, which: int, is_stopped: Callable[[], bool]) -> Attempt:
        """Make one of the attempts of a piece; returns what will have become of it once it is written.

        Raises:
            BrokenOff: If it was broken off. It is open still.
            CaptureError: If the environment has begun several episodes within it.
        """
        before, begun, steps = self._taken, self._begun, 0
        run = self._run(self.env, self._policy, piece.seeds[which])
        while True:
            try:
                next(run)
            except StopIteration as end:
                rollout: Rollout | None = end.value
                break
            steps += 1
            if is_stopped():
                raise BrokenOff
        self._refuse_unlike()
        takes = self._taken - before
        if takes and self._koyu is not None:
            # The bundles are known by their take, and this is it only where no other was begun.
            takes = self._begun - begun
        return self._note(piece.number + which, piece.seeds[which], steps, takes, rollout)

    def _note(self, number: int, seed: int, steps: int, takes: int, rollout: Rollout | None) -> Attempt:
        outcome = self.env.recorder.last_outcome
        if takes > 1 or outcome is None:
            raise CaptureError(
                f"the environment has begun {takes} episodes within the attempt of seed {seed}: which of them is the "
                "attempt cannot be told; collect from it in one process, workers=1"
            )
        is_kept = bool(takes) and (outcome.success or not self.env.settings.discard_and_retry_failed)
        episode = self._kept if is_kept else None
        self._kept += is_kept
        bundles = self._bundles() if is_kept else ()
        attempt = Attempt(number, seed, steps, outcome.success, outcome.reason, episode, rollout, bundles)
        self._unwritten.append(_Unwritten(self._taken, attempt))
        return attempt

    def _bundles(self) -> tuple[Path, ...]:
        """Return where the bundles of the last take are, once it is written."""
        koyu = self._koyu
        if koyu is None:
            return ()
        place = koyu.folder(self.env.settings.output_dir) / layout.EPISODES
        take = self._begun - 1
        ids = [sink.capture_id(koyu.id_seed, take, robot) for robot in range(len(self.env.recorder.robots))]
        return tuple(place / layout.bundle_name(one) for one in ids)

    @property
    def _koyu(self) -> KoyuSettings | None:
        return self.env.settings.koyu if "koyu" in self.env.settings.written_formats else None

    def _refuse_unlike(self) -> None:
        """Refuse early what could not be added to what is there: the shards are, in the end."""
        recording, asked = self.env.recorder.recording, self._asked
        if self._is_compared or recording is None:
            return
        self._is_compared = True
        schema = recording.source.schema
        formats.refuse(asked, schema, self.env.recorder.fleet.tasks)
        if asked.koyu is not None and self._koyu is not None:
            sink.refuse_dataset(asked.koyu.folder(asked.output_dir), asked.koyu, schema)

    @property
    def _taken(self) -> int:
        recording = self.env.recorder.recording
        return 0 if recording is None else recording.taken

    @property
    def _begun(self) -> int:
        recording = self.env.recorder.recording
        return 0 if recording is None else recording.session.begun

    def written(self) -> list[Attempt]:
        """Return the attempts that are written, or discarded, by now, each once.

        Raises:
            LuckyRecorderError: What failed while they were written; the session is closed then.
        """
        counts = self.env.observer.counts
        if counts is None:
            return []
        if counts.failure is not None:
            raise counts.failure
        through = counts.kept + counts.discarded
        found = []
        while self._unwritten and self._unwritten[0].place <= through:
            found.append(self._unwritten.popleft().attempt)
        return found

    def close(self) -> list[Attempt]:
        """Close the session; returns the last attempts that are written.

        Raises:
            LuckyRecorderError: What failed.
        """
        self.env.close()
        return self.written()

    def __enter__(self) -> Shard:
        return self

    def __exit__(self, *failed: Any) -> None:
        self.env.close()


def new_env(make_env: Callable[[], RecordSession]) -> RecordSession:
    """Make the recorded environment.

    Raises:
        SettingsError: If what comes of it is none, or records already.
    """
    env = make_env()
    if not isinstance(env, RecordSession) or env.session_path is not None:
        raise SettingsError.of("env", env, "the function must return a new lucky_recorder.RecordSession, not yet reset")
    return env


def _aim(env: RecordSession, folder: Path) -> None:
    """Have a recorder that has not begun record a shard.

    It is not made anew: then nothing would be left of what its maker has said to it, nor of a class of his own.
    """
    env.settings = env.recorder.settings = env.observer.settings = attrs.evolve(
        env.settings,
        output_dir=folder,
        resume=None,
        total_episodes=None,
        files_per_chunk=MOST_FILES,
        episodes_per_file=1,
        koyu=_of_shard(env.settings, folder),
    )


def _of_shard(settings: RecorderSettings, folder: Path) -> KoyuSettings | None:
    """Return what a shard's bundles say: ids by which each is found, and times that are the clock's."""
    if settings.koyu is None:
        return None
    path = folder / settings.koyu.name
    return attrs.evolve(settings.koyu, path=path, id_seed=secrets.randbits(_SEED_BITS), time_origin_ns=None)
