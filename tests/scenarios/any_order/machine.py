"""What every machine that drives a recorder shares: a folder, failures, books, and the comparison at the end."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

import lucky_recorder as lr
from lucky_recorder.testing import check_koyu, check_session, read_count
from tests.scenarios.any_order.books import Books, Episode, Plan, Session, State
from tests.scenarios.any_order.faults import Faults

OURS = (lr.StreamError, lr.StorageError)
MAYBE = st.booleans()


@st.composite
def plans(draw: Any, length: bool = False) -> Plan:
    """Set a recorder up in some way that its formats can hold."""
    camera = draw(MAYBE)
    data_every, camera_every = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 2)]))
    return Plan(
        camera=camera,
        data_every=data_every,
        camera_every=camera_every,
        # A bundle has one frame to a row.
        koyu=data_every == camera_every == 1 and draw(MAYBE),
        discards=draw(MAYBE),
        total=draw(st.sampled_from([None, None, 1, 2])),
        most_ticks=draw(st.sampled_from([None, None, 3, 5])),
        per_file=draw(st.sampled_from([1, 1, 2])),
        metadata_every=draw(st.sampled_from([1, 25])),
        length=draw(st.sampled_from([None, 2, 4])) if length else None,
    )


class AnyOrder(RuleBasedStateMachine):
    """Drives one recorder after another, and keeps the books of the one at hand."""

    # The name of the camera, and how the number is read off its pictures.
    camera = "seen"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="any-order-"))
        self.faults = Faults(lambda: self.counts.kept + self.counts.discarded).__enter__()
        self.past: list[Books] = []
        self.books: Books
        # Whether the call that is made next ends an episode, which may be the last.
        self.may_complete = False

    # What a subclass says of its recorder.

    @property
    def counts(self) -> Any:
        """How many episodes the recorder counts; None before the first session."""
        raise NotImplementedError

    @property
    def stands(self) -> tuple[Any, ...]:
        """All that can be seen of the recorder's state without changing it; its first entry is the state."""
        raise NotImplementedError

    def read_frame(self, picture: Any, count: int) -> int:
        """Return the number that a picture shows, where it should show ``count``."""
        return read_count(picture)

    # Calls.

    def begin_books(self, plan: Plan) -> None:
        """Begin the books of another recorder, in a folder of its own."""
        self.books = Books(plan)
        self.past.append(self.books)

    @property
    def place(self) -> Path:
        """The folder of the recorder at hand."""
        return self.folder / str(len(self.past))

    def works(self, call: Callable[[], Any], then: Callable[[], Any] = lambda: None) -> bool:
        """Make a call that the state allows, and keep the books; what has failed in the worker may come out here.

        Args:
            call: The call.
            then: Notes what it has done.

        Returns:
            Whether it went well; else the session is closed, in the books too.
        """
        try:
            call()
        except OURS:
            assert self.faults.struck is not None, "nothing has failed"
            self.surface()
            return False
        except Exception:
            self.completed()
            raise
        self.completed()
        then()
        return True

    def surface(self) -> None:
        """Note that what has failed in the worker was told of: the session is closed."""
        self.books.session.struck = self.faults.struck
        self.books.close()
        self.faults.begin()
        self.may_complete = False

    def refuses(self, call: Callable[[], Any], error: type[Exception] = lr.StateError) -> None:
        """Make a call that makes no sense here: it is refused in our own words, and nothing changes."""
        before = self.stands
        with pytest.raises(error):
            call()
        assert self.stands == before

    def agrees(self) -> None:
        """Compare where the recorder stands with the books; after every rule."""
        assert self.stands[0] == self.books.state.value, self.stands

    def flushed(self) -> None:
        """Compare what is on the disk by now: a `flush` has vouched for it."""
        books, session = self.books, self.books.session
        assert self.counts.kept == len(session.kept(books.plan))
        if session.path is not None and session.kept(books.plan):
            read = lr.Session(session.path)
            assert [(e.length, e.success) for e in read] == [
                (len(e.counts), e.success) for e in books.episodes(session)
            ]

    def ended(self, success: bool) -> None:
        """Note the end of an episode, which may have been the last."""
        self.ends_now(success)
        self.completed()

    def ends_now(self, success: bool) -> None:
        """Note that the call which is made next ends an episode: it may fail in it, and is not the last then."""
        self.books.end(success)
        self.may_complete = True

    def completed(self) -> None:
        """Note that the session is over, if the episode that has ended was the last one."""
        if self.may_complete and self.faults.struck is None:
            self.books.close_if_complete()
        self.may_complete = False

    # The comparison.

    def finish(self) -> None:
        """Close the recorder at hand."""
        raise NotImplementedError

    def teardown(self) -> None:
        """Close everything, and compare all that was written with the books."""
        if sys.exc_info()[0] is not None:
            # A rule has raised: what it leaves is not compared, since that would hide it.
            with contextlib.suppress(lr.LuckyRecorderError):
                self.finish()
            self.tidy()
            return
        try:
            if self.past:
                self.finish()
            for number, books in enumerate(self.past, 1):
                for session in books.sessions:
                    self.compare(books, session)
                self.compare_bundles(books, self.folder / str(number))
        finally:
            self.tidy()

    def tidy(self) -> None:
        """Give back what a run has taken."""
        self.faults.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def compare(self, books: Books, session: Session) -> None:
        """Check one session, and read every row and frame of it."""
        expected = books.episodes(session)
        if session.path is None or not session.path.exists():
            # An environment that nobody has stepped shows no rate, so there is nothing to write.
            assert expected == []
            return
        read = check_session(session.path)
        assert not list(session.path.rglob("*.tmp"))
        assert len(read) == len(expected)
        for episode, wanted in zip(read, expected, strict=True):
            assert episode.success is wanted.success
            self.compare_rows(episode.rows(), wanted)
            has_video = self.camera in read.cameras and episode.has_video(self.camera)
            assert has_video is (wanted.frames is not None)
            if wanted.frames is not None:
                with episode.frames(self.camera) as frames:
                    self.compare_frames(frames, wanted.frames)

    def compare_rows(self, rows: Any, wanted: Episode) -> None:
        """Compare the rows of one episode."""
        assert [int(state[0]) for state in rows["observation.state"].to_pylist()] == wanted.counts
        assert [float(command[0]) for command in rows["action"].to_pylist()] == wanted.commands
        assert rows["task_index"].to_pylist() == wanted.tasks
        assert rows["frame_flags"].to_pylist() == wanted.flags
        assert rows["frame_index"].to_pylist() == list(range(len(wanted.counts)))
        if "next.reward" in rows.column_names:
            assert rows["next.reward"].to_pylist() == wanted.rewards
            assert rows["next.done"].to_pylist() == wanted.dones

    def compare_frames(self, frames: Any, wanted: list[int]) -> None:
        """Compare the frames of one episode."""
        shown = [self.read_frame(np.asarray(picture), count) for picture, count in zip(frames, wanted, strict=True)]
        assert shown == wanted

    def compare_bundles(self, books: Books, place: Path) -> None:
        """Check a dataset, and read every row and frame of it."""
        if not books.plan.koyu or not (place / "bundles/manifest.json").exists():
            assert not (place / "bundles").exists()
            return
        wanted = [
            episode
            for session in books.sessions
            for episode in books.episodes(session)
            # One whose video has failed is no bundle.
            if not books.plan.camera or episode.frames is not None
        ]
        with check_koyu(place / "bundles") as dataset:
            found = range(len(dataset.episodes))
            states = [dataset.columns(k)["observation.state"][:, 0].astype(int).tolist() for k in found]
            # They are listed by their ids, which are drawn.
            assert sorted(states) == sorted(episode.counts for episode in wanted)
            for k, counts in enumerate(states):
                episode = next(e for e in wanted if e.counts == counts)
                sidecar = dataset.sidecar(k)
                json.dumps(sidecar, allow_nan=False)
                assert [e["step"] for e in sidecar["events"] if e["type"] == "said"] == episode.events
                if episode.frames is not None:
                    with dataset.frames(k, f"observation.images.{self.camera}") as frames:
                        self.compare_frames(frames, episode.frames)


def allowed(books: Books, *states: State) -> bool:
    """Tell whether a verb makes sense where the books say that the recorder stands."""
    return books.state in states
