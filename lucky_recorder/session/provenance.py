"""``meta/provenance.json``: where a session comes from, recording by recording, and the models beside it.

It says what a person, or `remake`, needs to record the same again. No reader of rows or frames needs it: what cannot be
written of it is told in the log, and never fails a recording.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lucky_recorder.episode import limits
from lucky_recorder.errors import FormatError, LuckyRecorderError, shown
from lucky_recorder.session import layout
from lucky_recorder.storage.names import owned
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.storage.write import json_bytes, link, make_folder, stage, sync_folder, write_json

# What is logged is a text: whoever keeps records would keep an error, and all that its traceback leads to.
logger = logging.getLogger("lucky_recorder")

Entry = Mapping[str, Any]
RECORDINGS, EPISODES, MODEL, DISCARDED = "recordings", "episodes", "model", "discarded_seeds"
# Of episodes that are not in the session, but were in those that it is made of.
LEFT_OUT = "left_out_seeds"
_RANGE = re.compile(r"(\d{1,9}):(\d{1,9})")


class Model(NamedTuple):
    """A model, as a file that its simulator reads.

    Attributes:
        content: The file's bytes.
        suffix: How its name ends.
        is_kept: Whether the file is written; its sum is said in any case.
    """

    content: bytes
    suffix: str
    is_kept: bool


class Origin(Protocol):
    """What a recording knows of itself. All of it is asked by the thread that writes."""

    def told(self) -> dict[str, Any]:
        """Return, as plain JSON values, what holds for the whole recording."""

    def model(self) -> Model | None:
        """Return the model that it began with; None where there is none. It is asked once."""

    def other_models(self) -> int:
        """Return how many models, of other content, have taken its place by now."""

    def discarded(self) -> Sequence[str | None]:
        """Return the seeds of the attempts that were discarded by now, in order; None for one without a seed."""


class Log(Protocol):
    """Writes where a session comes from, as it grows."""

    def begin(self, root: Path, first: int) -> None:
        """Learn where the session is, and how many episodes it has already."""

    def announce(self) -> None:
        """Learn that an episode is about to get its name."""

    def write(self, episodes: int) -> None:
        """Write it for a session of so many episodes. It raises nothing but interrupts."""

    def largest(self) -> int:
        """Return how many bytes the next write takes, about."""


class Recorded:
    """The log of a recording: its entry follows those that are there."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._before: list[Entry] = []
        self._first = 0
        self._entry: dict[str, Any] | None = None
        self._is_broken = self._has_told = False
        self._written = b""
        self._root: Path

    def begin(self, root: Path, first: int) -> None:
        """Read what is there, so that nothing of it is lost; what cannot be read is left alone."""
        self._root, self._first = root, first
        try:
            self._before = list(read(Folder(root)))
        except FormatError as error:
            self._is_broken = True
            self._tell(error)

    def write(self, episodes: int) -> None:
        """Write the entry, once there is an episode of this recording, or a seed that was discarded."""
        has_news = episodes > self._first or self._entry is not None or self._origin.discarded() or not self._first
        if has_news and not self._is_broken:
            self._try(episodes)

    def announce(self) -> None:
        """Write the entry before its first episode has its name: so it is known whose an episode is, come what may."""
        if self._entry is None and not self._is_broken:
            self._try(self._first)

    def largest(self) -> int:
        """Return how many bytes the next write takes, about."""
        return 2 * len(self._written) + (1 << 14)

    def _try(self, episodes: int) -> None:
        try:
            self._write(episodes)
        except Exception as error:  # whatever is wrong with it, the episodes are what counts
            self._tell(error)

    def _write(self, episodes: int) -> None:
        if self._entry is None:
            self._entry = {EPISODES: "", **self._origin.told(), MODEL: self._keep_model()}
        if self._entry[MODEL] is not None:
            self._entry[MODEL]["others"] = self._origin.other_models()
        self._entry |= {EPISODES: f"{self._first}:{episodes}", DISCARDED: list(self._origin.discarded())}
        content = {RECORDINGS: [*self._before, self._entry]}
        written = json_bytes(content)
        if written != self._written:
            write_json(owned(self._root, layout.PROVENANCE_PATH), content)
            self._written = written

    def _keep_model(self) -> dict[str, Any] | None:
        model = self._origin.model()
        if model is None:
            return None
        digits = hashlib.sha256(model.content).hexdigest()
        name = layout.model_file(digits, model.suffix) if model.is_kept else None
        try:
            path = None if name is None else owned(self._root, name)
            if path is not None and not path.is_file():
                stage(path, lambda file: _write(file, model.content), size=len(model.content)).commit()
        except LuckyRecorderError as error:
            logger.warning("%s: the model is not kept: %s", self._root, str(error))
            name = None
        return {"sha256": digits, "bytes": len(model.content), "file": name}

    def _tell(self, error: Exception) -> None:
        """Tell once that it could not be written; the next write tries again."""
        if not self._has_told:
            logger.warning("%s: where the session comes from is not noted: %s", self._root, str(error))
        self._has_told = True


class Combined:
    """The log of a session that is made of others: what `combined` has found, and their models."""

    def __init__(self, content: Mapping[str, Any], sources: Iterable[Path]) -> None:
        """Take what is to be written.

        Args:
            content: As `combined` returns it.
            sources: The folders of the sessions that it is of: the models are taken from there.
        """
        self._content = content
        self._sources = tuple(sources)
        self._is_written = False
        self._root: Path

    def begin(self, root: Path, first: int) -> None:
        """Learn where the session is."""
        self._root = root

    def announce(self) -> None:
        """Do nothing: a session that is made of others is there as a whole, or not at all."""

    def write(self, episodes: int) -> None:
        """Write all of it, once the first episode is listed."""
        if not self._content.get(RECORDINGS) or self._is_written:
            return
        self._is_written = True
        try:
            for name in sorted(models(self._content[RECORDINGS])):
                self._copy(name)
            write_json(owned(self._root, layout.PROVENANCE_PATH), self._content)
        except (LuckyRecorderError, OSError) as error:
            logger.warning("%s: where the session comes from is not noted: %s", self._root, str(error))

    def _copy(self, name: str) -> None:
        folder = next((f for f in map(Folder, self._sources) if f.has(name)), None)
        if folder is None:
            raise FormatError(f"{name}: no session has it")
        target = owned(self._root, name)
        if target.is_file():
            return
        make_folder(target.parent)
        link(folder.file(name), target)
        sync_folder(target.parent)

    def largest(self) -> int:
        """Return how many bytes the next write takes, about."""
        return len(json_bytes(self._content))


class Added(Combined):
    """The log of a session that gets the episodes of others, after those that it has."""

    def begin(self, root: Path, first: int) -> None:
        """Read what is there; what cannot be read is left alone."""
        super().begin(root, first)
        try:
            before = list(read(Folder(root)))
        except FormatError as error:
            logger.warning("%s: where the new episodes come from is not noted: %s", root, error)
            self._is_written = True
            return
        added = [{**entry, EPISODES: _shifted(entry, first)} for entry in self._content.get(RECORDINGS, ())]
        self._content = {RECORDINGS: [*before, *added]}


def _shifted(entry: Entry, by: int) -> str:
    return ",".join(f"{span.start + by}:{span.stop + by}" for span in spans(entry.get(EPISODES)) or ())


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


# Reading it.


def read(files: Folder) -> tuple[dict[str, Any], ...]:
    """Return the recordings that a session is made of, in order; none where nothing says so.

    Raises:
        FormatError: If what says so cannot be read, or is not what it should be.
    """
    if not files.has(layout.PROVENANCE_PATH):
        return ()
    content = files.json(layout.PROVENANCE_PATH)
    path, entries = files.path / layout.PROVENANCE_PATH, content.get(RECORDINGS)
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise FormatError(f"{path}: {RECORDINGS}={shown(entries)}: expected a list of objects")
    for number, entry in enumerate(entries):
        if spans(entry.get(EPISODES)) is None:
            said = shown(entry.get(EPISODES))
            raise FormatError(
                f"{path}: {RECORDINGS}[{number}] {EPISODES}={said}: expected ranges, such as '0:40,52:60'"
            )
    return tuple(entries)


def spans(text: object) -> list[range] | None:
    """Return the episodes that a text such as ``"0:40,52:60"`` names, ascending; None where it is none."""
    if not isinstance(text, str) or len(text) > limits.MEGABYTE:
        return None
    matches = [_RANGE.fullmatch(one) for one in text.split(",")] if text else []
    found = [range(int(match[1]), int(match[2])) for match in matches if match]
    is_ascending = all(a.stop <= b.start for a, b in pairwise(found))
    return found if is_ascending and len(found) == len(matches) and all(r.start <= r.stop for r in found) else None


def text_of(episodes: Iterable[int]) -> str:
    """Write episodes as ranges; see `spans`."""
    runs = [list(run) for _, run in groupby(enumerate(sorted(set(episodes))), lambda pair: pair[1] - pair[0])]
    return ",".join(f"{run[0][1]}:{run[-1][1] + 1}" for run in runs)


def of_episode(entries: Iterable[Entry], episode: int) -> Entry | None:
    """Return the entry of the recording that an episode is of; None where nothing says so."""
    return next((e for e in entries if any(episode in span for span in spans(e.get(EPISODES)) or ())), None)


def models(entries: Iterable[Entry]) -> set[str]:
    """Return the names of the models' files; what is no such name is left out."""
    said = (entry.get(MODEL) for entry in entries)
    names = (model.get("file") for model in said if isinstance(model, dict))
    return {name for name in names if isinstance(name, str) and layout.MODEL_FILE.fullmatch(name)}


# Making others of it.


def combined(sources: Iterable[tuple[Iterable[Entry], Mapping[int, int]]]) -> dict[str, Any]:
    """Say where a session comes from that is made of episodes of others.

    Args:
        sources: Of each of these, in order: its recordings, as `read` returns them, and the episodes that are kept, by
            their old number, with their new one.

    Returns:
        The content of the file: the recordings of which an episode is kept, in order, each once. What they say of seeds
        that were discarded is of the whole recording.
    """
    found: list[tuple[Entry, set[int]]] = []
    for entries, kept in sources:
        for entry in entries:
            numbers = set(_renumbered(entry, kept))
            same = next((known for said, known in found if said is entry), None)
            if same is not None:
                same |= numbers
            elif numbers:
                found.append((entry, numbers))
    return {RECORDINGS: [{**entry, EPISODES: text_of(numbers)} for entry, numbers in found]}


def as_one(content: Mapping[str, Any], episodes: int, discarded: Sequence[str | None]) -> dict[str, Any]:
    """Return the content of a session that several processes have recorded together: one recording.

    Args:
        content: What `combined` has found in what each of them has recorded.
        episodes: How many episodes there are.
        discarded: The seeds of the attempts that were discarded, in order.
    """
    found = content[RECORDINGS]
    own = [{**entry, EPISODES: f"0:{episodes}", DISCARDED: list(discarded)} for entry in found[:1]]
    models = [entry.get(MODEL) for entry in found]
    if own and all(isinstance(model, dict) for model in models):
        # Whoever had another model than the first counts, as within a recording.
        others = sum(model.get("others", 0) + (model.get("sha256") != models[0].get("sha256")) for model in models)
        own[0][MODEL] = {**models[0], "others": others}
    return {RECORDINGS: own}


def _renumbered(entry: Entry, kept: Mapping[int, int]) -> Iterator[int]:
    held = spans(entry.get(EPISODES)) or ()
    return (new for old, new in kept.items() if any(old in span for span in held))


def extend(root: Path, listed: int, episodes: int) -> None:
    """Count the episodes as the last recording's that it had finished, and not listed, when it was cut short.

    Args:
        root: The session's folder.
        listed: Episodes that ``meta/`` listed.
        episodes: Episodes that there are.
    """
    try:
        entries = list(read(Folder(root)))
        held = spans(entries[-1].get(EPISODES)) if entries else None
        # One that ends before what is listed was not the last: that one said nothing.
        if held and listed <= held[-1].stop < episodes:
            numbers: Collection[range] = [*held[:-1], range(held[-1].start, episodes)]
            text = ",".join(f"{span.start}:{span.stop}" for span in numbers)
            write_json(
                owned(root, layout.PROVENANCE_PATH), {RECORDINGS: [*entries[:-1], {**entries[-1], EPISODES: text}]}
            )
    except (LuckyRecorderError, OSError) as error:
        logger.warning("%s: where the last episodes come from is not noted: %s", root, str(error))
