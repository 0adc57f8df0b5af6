"""The processes that record into one session, each a shard of its own, and who makes the session of these.

Nobody is asked to: whoever closes the last lane does it. A process that was killed closes nothing, and then the one
after it is the last, or the process that has started them all.
"""

from __future__ import annotations

import logging
import multiprocessing
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lucky_recorder import errors
from lucky_recorder.edit import shards as sharding
from lucky_recorder.episode.schema import Schema
from lucky_recorder.errors import LuckyRecorderError, SettingsError, StateError, StreamError, extended
from lucky_recorder.lazy import lazy
from lucky_recorder.recorder import exits
from lucky_recorder.recorder.fleet import AGAIN
from lucky_recorder.session import layout, likeness, resumed
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.vector import meeting as meetings
from lucky_recorder.vector.meeting import Meeting, Seat, State

if TYPE_CHECKING:
    from lucky_recorder.edit import turns as turning
else:
    # What reads sessions is imported where shards are merged.
    turning = lazy("lucky_recorder.edit.turns")

logger = logging.getLogger("lucky_recorder")

# Gymnasium names the processes of its vector environments by the number of the environment in them.
_WORKER = re.compile(r"Worker<.*>-(\d+)")


class Processes:
    """The processes that record into one session, as each of them knows them.

    Attributes:
        meeting: Where they find each other.
        settings: What is recorded, in every lane.

    Args:
        settings: As above.
        meeting: As above.
    """

    def __init__(self, settings: RecorderSettings, meeting: Meeting) -> None:
        self.settings = settings
        self.meeting = meeting
        self._shards: sharding.Shards | None = None

    # A lane.

    def refuse(self, has_sinks: bool) -> None:
        """Refuse what lanes in several processes cannot record; nothing is touched.

        Raises:
            SettingsError: Says what, and the remedy.
        """
        remedy = "make the environments in one, with vectorization_mode='sync'"
        sharding.refuse_bundles(self.settings, remedy)
        sharding.refuse(self.settings, has_sinks, remedy)
        if self.settings.total_episodes is not None:
            remedy = (
                "no lane knows how many episodes those in other processes have, so which are the first would be left "
                "to chance; leave it out, and close the environments when there are enough, or make them in one "
                "process, with vectorization_mode='sync'"
            )
            raise SettingsError.of("total_episodes", self.settings.total_episodes, remedy)

    def enlist(self) -> Seat:
        """Take a lane's number: that of the environment in its vector environment, or else the next that is free.

        Raises:
            StorageError: If the file system refuses.
        """
        found = _WORKER.fullmatch(multiprocessing.current_process().name)
        return self.meeting.enlist(None if found is None else int(found[1]))

    def claim(self) -> sharding.Shards:
        """Return the folder of the shards, which the first that asks for it makes.

        Raises:
            StateError: If the session has been made already.
            SettingsError: If a session cannot be gone on with; nothing is touched.
            StorageError: If the folder cannot be made.
        """
        with self.meeting.held():
            if self.meeting.has(meetings.OUTCOME):
                raise StateError(f"the session that these environments share has ended; {AGAIN}")
            is_first = not self.meeting.has(meetings.PLACE)
            if is_first and self.settings.resume is not None:
                resumed.refuse(self.settings.resume, None, self._chunking)
            shards = self._shards = sharding.Shards(self.settings) if is_first else self._found()
            if is_first:
                self.meeting.say(meetings.PLACE, {"folder": str(shards.folder), "begun": [shards.before, shards.takes]})
        return shards

    def _found(self) -> sharding.Shards:
        said = self.meeting.said(meetings.PLACE)
        return sharding.Shards(self.settings, Path(said["folder"]), tuple(said["begun"]))

    @property
    def is_used(self) -> bool:
        """Whether lanes of other processes record, or have recorded, or are about to."""
        return self.meeting.has(meetings.PLACE) or State.OPEN in self.meeting.lanes().values()

    def refuse_unlike(self, lane: int, schema: Schema) -> None:
        """Refuse a lane whose rows or streams are others than those of the lanes before it.

        Raises:
            SettingsError: Lists every difference.
        """
        given = likeness.recording(schema, self._chunking)._replace(name=f"lane {lane}")
        with self.meeting.held():
            said = self.meeting.said(meetings.LAYOUT)
            if not said:
                self.meeting.say(meetings.LAYOUT, {"lane": lane, "info": given.info, "beside": given.beside})
                return
        known = likeness.Side(f"lane {said['lane']}", said["info"], said["beside"])
        found = [*likeness.compared(known, given, [field for field in given.info if field not in likeness.FREE])]
        if known.info.get("fps") != given.info.get("fps"):
            found.append(
                f"steps a second: {known.name} has {known.info.get('fps')}, {given.name} {given.info.get('fps')}"
            )
        if found:
            raise SettingsError(
                f"lane {lane}: it has another layout than the lanes before it: {'; '.join(found)}; every row of a "
                "session has the same layout: record what is unlike the others in a session of its own"
            )

    @property
    def _chunking(self) -> layout.Chunking:
        return layout.Chunking(self.settings.files_per_chunk, self.settings.episodes_per_file)

    def leave(self, seat: Seat, counts: Mapping[str, Any]) -> None:
        """Close a lane, whose shard is closed; the last makes the session.

        It raises nothing but interrupts: this process is not the one that has asked for the session.
        """
        # One that is told to end ends in any case, when the session is there.
        with exits.held_back("forget"):
            try:
                with self.meeting.held():
                    self.meeting.leave(seat, counts)
                    is_last = State.OPEN not in self.meeting.lanes().values()
                    if is_last and self.place is not None:
                        self._make()
                        if not self.is_watched:
                            self.tell_of_gone()
                if is_last and self._is_left():
                    self.meeting.remove()
            except LuckyRecorderError as error:
                if not self.meeting.is_there and self._shards is not None:
                    told = f"{self._shards.beside()}when all lanes are closed, this makes a session"
                    error = extended(error, f"{told}: {self._shards.command()}")
                if not self.is_watched:
                    logger.warning("%s", error)
            finally:
                seat.give_up()

    @property
    def is_watched(self) -> bool:
        """Whether the process that has started this one asks what has failed here, and raises it."""
        return self.meeting.has(meetings.WATCHED)

    def _is_left(self) -> bool:
        """Tell whether the process that has started this one is gone, or has let go of the session."""
        parent = multiprocessing.parent_process()
        return self.meeting.has(meetings.LEFT) or (parent is not None and not parent.is_alive())

    # The session.

    @property
    def place(self) -> Path | None:
        """The folder of the shards; None before the first reset."""
        said = self.meeting.said(meetings.PLACE).get("folder")
        return Path(said) if isinstance(said, str) else None if self._shards is None else self._shards.folder

    @property
    def session(self) -> Path | None:
        """The session, which is there when all lanes are closed; None before the first reset, and if there is none."""
        said, place = self.meeting.said(meetings.OUTCOME), self.place
        if said:
            return None if said["session"] is None else Path(said["session"])
        if place is None:
            return None
        return self.settings.resume or place.with_name(place.name.removesuffix(layout.SHARDS))

    def finish(self) -> None:
        """Make the session, if nobody has made it and all lanes are closed, or their processes gone.

        Raises:
            LuckyRecorderError: If it cannot be made; the shards stay, and the error says which command does it.
        """
        if self.meeting.is_there and not self.meeting.has(meetings.OUTCOME):
            with exits.held_back(), self.meeting.held():
                if State.OPEN not in self.meeting.lanes().values() and self.place is not None:
                    self._make()

    def failures(self) -> Iterator[LuckyRecorderError]:
        """Give what has failed while lanes were closed."""
        for said in self.meeting.counts():
            if "failure" in said:
                kind = getattr(errors, said["kind"], StreamError)
                yield kind(said["failure"])

    def command(self) -> str:
        """Say which command makes a session of the shards; empty where nobody needs it, or knows it already."""
        place = self.place
        is_told = self.meeting.has(meetings.OUTCOME) or self.meeting.has(meetings.TOLD)
        if place is None or is_told or not place.is_dir():
            return ""
        shards = self._found()
        beside, command = shards.beside(), shards.command()
        return command and f"{beside}this makes a session of what they finished: {command}"

    def _make(self) -> None:
        if self.meeting.has(meetings.OUTCOME):
            return
        shards = self._found()
        try:
            found, path = turning.turns(shards.sessions, shards.takes), None
            if found.kept:
                path = shards.merge(found.kept, found.discarded, lambda done, total: exits.raise_held())
            else:
                shards.note_discarded(found.discarded)
        except BaseException as error:  # also an interrupt
            told = f"the shards are in {shards.folder}; {shards.beside()}"
            command = shards.command()
            told = f"{told}this makes a session of them: {command}" if command else f"{told}some may be added"
            self.meeting.say(meetings.TOLD)
            if not isinstance(error, LuckyRecorderError):
                logger.warning("broken off: %s", told)
                raise
            raise extended(error, told) from error
        states = self.meeting.lanes()
        gone = {str(n): found.lanes.get(n, 0) for n, state in states.items() if state is State.GONE}
        self.meeting.say(meetings.OUTCOME, {"session": None if path is None else str(path), "gone": gone})

    @property
    def gone(self) -> dict[str, int]:
        """How many episodes lanes had finished whose processes are gone, by the lane's number."""
        said: dict[str, int] = self.meeting.said(meetings.OUTCOME).get("gone", {})
        return said

    def tell_of_gone(self) -> None:
        """Say in one line what became of lanes whose processes have ended without closing them."""
        gone = self.gone
        if gone:
            which = f"lane{'s' * (len(gone) > 1)} {', '.join(gone)}"
            kept = f"{sum(gone.values())} episode{'s' * (sum(gone.values()) != 1)}"
            place = self.session or "no session"
            logger.warning("%s: ended without close(); what was finished there, %s, is in %s", which, kept, place)
