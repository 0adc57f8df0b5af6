"""A check in pieces: what is looked at episode by episode is so for some of them at a time, here or in processes.

The pieces are the same however many processes there are, and what is found in them is put together in their order. So
the same is found, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lucky_recorder.session.checks import episodes, lidars, masks, rgbd, rows, states, videos
from lucky_recorder.session.checks.evidence import Evidence, Fault, Known, Listed, Shared
from lucky_recorder.session.checks.measured import Moments, measure
from lucky_recorder.storage.spread import Progress

Check = Callable[[Evidence], Iterator[Fault]]

EACH: tuple[Check, ...] = (
    episodes.check_footers,
    rows.check_data_files,
    videos.check_videos,
    rgbd.check_rgbd,
    masks.check_masks,
    lidars.check_lidars,
    states.check_states,
)
"""The checks that look at one episode after the other."""

# Many make a piece take long to be known; of few, more is done for each piece than for its episodes.
_MOST_EPISODES, _MOST_FRAMES = 64, 20_000


class Looked(NamedTuple):
    """What was found in some episodes.

    Attributes:
        faults: What each of the checks has found, in the order of `EACH`.
        moments: What the columns come to; empty where that is not asked for.
        unreadable: Why a file could not be read, by its name.
        frames: Video frames looked at.
        bytes: How much was read of what takes long.
    """

    faults: list[list[Fault]]
    moments: list[Moments]
    unreadable: dict[str, str]
    frames: int
    bytes: int


def cut(evidence: Evidence) -> Iterator[list[Listed]]:
    """Cut a session's episodes into pieces; those of a data file stay together."""
    piece: list[Listed] = []
    frames, streams = 0, 1 + len(evidence.declared.streams)
    for listed in evidence.data_files.values():
        more = streams * sum(episode.length for episode in listed)
        if piece and (len(piece) + len(listed) > _MOST_EPISODES or frames + more > _MOST_FRAMES):
            yield evidence.whole(piece)
            piece, frames = [], 0
        piece, frames = piece + listed, frames + more
    if piece:
        yield evidence.whole(piece)


def known(evidence: Evidence) -> Known:
    """Return what there is to know before the first piece."""
    columns, entities = rows.first_rows(evidence)
    return evidence.known(Shared(columns, entities, masks.first_labels(evidence), lidars.first_sensors(evidence)))


def look(known: Known, piece: list[Listed], progress: Progress | None = None) -> Looked:
    """Look at some episodes.

    Args:
        known: What is known of the session.
        piece: The episodes.
        progress: How far the check has come, for those who are told on the way.
    """
    counted = progress or Progress()
    before = counted.done
    evidence = Evidence.part(known, piece, counted)
    faults = [list(check(evidence)) for check in EACH]
    moments = measure(evidence) if evidence.is_measured else []
    return Looked(faults, moments, evidence.unreadable, evidence.frames, counted.done - before)


class Found:
    """What was found in all pieces, put together.

    Attributes:
        faults: What each of the checks has found, in the order of `EACH`.
        moments: What the columns come to in all rows.
    """

    def __init__(self, evidence: Evidence, pieces: Iterator[Looked]) -> None:
        self._evidence = evidence
        self.faults: list[list[Fault]] = [[] for _ in EACH]
        self.moments = [Moments(column) for column in evidence.declared.measured]
        for piece in pieces:
            self._take(piece)

    def _take(self, piece: Looked) -> None:
        for all_of, more in zip(self.faults, piece.faults, strict=True):
            all_of += more
        if piece.moments:
            self.moments = [one.join(other) for one, other in zip(self.moments, piece.moments, strict=True)]
        self._evidence.unreadable |= piece.unreadable
        self._evidence.frames += piece.frames

    def of(self, check: Check) -> Sequence[Fault]:
        """Return what one of the checks has found."""
        return self.faults[EACH.index(check)]
