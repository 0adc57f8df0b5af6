"""Logs: what writes ``meta/provenance.json`` as a session grows, and the models beside it.

What cannot be written of it is told, and never fails a recording. Once there is such a file, every recording has an
entry in it, be it one that says nothing but its episodes: else these would be taken for those of the one before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lucky_recorder.errors import FormatError, LuckyRecorderError
from lucky_recorder.notices import tell
from lucky_recorder.session import layout
from lucky_recorder.session.fitting import fitting
from lucky_recorder.session.provenance import (
    DISCARDED,
    EPISODES,
    MODEL,
    RECORDINGS,
    Entry,
    first_of,
    is_said,
    logger,
    model_of,
    models,
    read,
    shifted,
    spans,
    text_of,
)
from lucky_recorder.storage.checksums import digest
from lucky_recorder.storage.names import owned
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.storage.write import json_bytes, link, make_folder, stage, sync_folder, write_json


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


class _Growing:
    """The log of a recording: its entry follows those that are there."""

    def __init__(self) -> None:
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

    def announce(self) -> None:
        """Write the entry before its first episode has its name: so it is known whose an episode is, come what may."""
        if self._entry is None and not self._is_broken:
            self._try(self._first)

    def write(self, episodes: int) -> None:
        """Write the entry, once there is something to be said in it."""
        if not self._is_broken and (episodes > self._first or self._entry is not None or self._has_news()):
            self._try(episodes)

    def largest(self) -> int:
        """Return how many bytes the next write takes, about."""
        return 2 * len(self._written) + (1 << 14)

    def _has_news(self) -> bool:
        """Tell whether there is something to be said, without an episode."""
        return False

    def _begun(self) -> dict[str, Any]:
        """Return what is said from the beginning on."""
        return {}

    def _grown(self) -> dict[str, Any]:
        """Return what is said anew each time."""
        return {}

    def _is_wanted(self) -> bool:
        return True

    def _try(self, episodes: int) -> None:
        try:
            if self._is_wanted():
                self._write(episodes)
        except Exception as error:  # whatever is wrong with it, the episodes are what counts
            self._tell(error)

    def _write(self, episodes: int) -> None:
        if self._entry is None:
            self._entry = {EPISODES: "", **self._begun()}
        self._entry |= {EPISODES: f"{self._first}:{episodes}", **self._grown()}
        content = {RECORDINGS: fitting([*self._before, self._entry])}
        written = json_bytes(content)
        if written != self._written:
            write_json(owned(self._root, layout.PROVENANCE_PATH), content)
            self._written = written

    def _tell(self, error: Exception) -> None:
        """Tell once that it could not be written; the next write tries again."""
        if not self._has_told:
            logger.warning("%s: where the session comes from is not noted: %s", self._root, str(error))
        self._has_told = True


class Recorded(_Growing):
    """The log of a recording that says where it comes from.

    Args:
        origin: What it knows of itself.
    """

    def __init__(self, origin: Origin) -> None:
        super().__init__()
        self._origin = origin

    def _has_news(self) -> bool:
        # A new session says where it comes from also where nothing was finished.
        return bool(self._origin.discarded()) or not self._first

    def _begun(self) -> dict[str, Any]:
        return {**self._origin.told(), MODEL: self._keep_model()}

    def _grown(self) -> dict[str, Any]:
        assert self._entry is not None
        model = self._entry[MODEL]
        counted = model if model is None else {**model, "others": self._origin.other_models()}
        return {MODEL: counted, DISCARDED: list(self._origin.discarded())}

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


class Unsaid(_Growing):
    """The log of a recording that does not say where it comes from: written where others have said so of theirs."""

    def _is_wanted(self) -> bool:
        return bool(self._before)


class Combined:
    """The log of a session that is made of others: what `combined` has found, and their models.

    Args:
        content: As `combined` returns it.
        sources: The folders of the sessions that it is of: the models are taken from there. One that no session has
            whole is told of, and its sum stays.
    """

    def __init__(self, content: Mapping[str, Any], sources: Iterable[Path]) -> None:
        self._models, lost = _found(content.get(RECORDINGS, ()), tuple(sources))
        for name, why in lost.items():
            tell(f"{name}: {why}; the new session has its sum, and not the model itself")
        self._entries = _without(content.get(RECORDINGS, ()), lost)
        self._is_written = False
        self._root: Path

    def begin(self, root: Path, first: int) -> None:
        """Learn where the session is."""
        self._root = root

    def announce(self) -> None:
        """Do nothing: a session that is made of others is there as a whole, or not at all."""

    def write(self, episodes: int) -> None:
        """Write all of it, once the first episode is listed; where it ends there, `settled` cuts off the rest."""
        if not self._is_written:
            self._is_written = True
            self._copy_models()
            self._write(self._entries)

    def _write(self, entries: Sequence[Entry]) -> None:
        if not any(map(is_said, entries)):
            return
        try:
            write_json(owned(self._root, layout.PROVENANCE_PATH), {RECORDINGS: fitting(entries)})
        except (LuckyRecorderError, OSError) as error:
            logger.warning("%s: where the session comes from is not noted: %s", self._root, str(error))

    def _copy_models(self) -> None:
        lost = [name for name, path in self._models.items() if not self._is_copied(name, path)]
        self._entries = _without(self._entries, lost)

    def _is_copied(self, name: str, path: Path) -> bool:
        try:
            target = owned(self._root, name)
            if not target.is_file():
                make_folder(target.parent)
                link(path, target)
                sync_folder(target.parent)
        except (LuckyRecorderError, OSError) as error:
            logger.warning("%s: the model is not kept: %s", self._root, str(error))
            return False
        return True

    def largest(self) -> int:
        """Return how many bytes the next write takes, about."""
        return len(json_bytes({RECORDINGS: self._entries}))


class Added(Combined):
    """The log of a session that gets the episodes of others, after those that it has.

    Args:
        content: As for `Combined`, with one recording: that of all of them.
        sources: As above.
        tried: Of each episode that is added, how many of the discarded seeds were tried before it. Seeds beyond the
            next episode are not said: should that one not come, whoever goes on with the session tries it again.
        there: The numbers in the session of those that it has got before; the others follow in their order.
    """

    def __init__(
        self, content: Mapping[str, Any], sources: Iterable[Path], tried: Sequence[int], there: Iterable[int] = ()
    ) -> None:
        super().__init__(content, sources)
        self._tried, self._there = tried, set(there)

    def begin(self, root: Path, first: int) -> None:
        """Read what is there; what cannot be read is left alone."""
        super().begin(root, first)
        self._first, self._is_left_alone, self._has_models = first, False, False
        self._before: list[Entry] = []
        try:
            before = list(read(Folder(root)))
        except FormatError as error:
            logger.warning("%s: where the new episodes come from is not noted: %s", root, error)
            self._is_left_alone = True
            return
        begun = len(self._there)
        added: list[Entry] = [{**e, EPISODES: self._following(shifted(e, first - begun), first)} for e in self._entries]
        self._before = [entry for entry in before if not self._is_own(entry, added)]
        self._entries = added

    def _following(self, episodes: str, first: int) -> str:
        """Return which episodes are of the recording, with those that are there."""
        if not self._there:
            return episodes
        return text_of([*self._there, *(n for span in spans(episodes) or () for n in span if n >= first)])

    def _is_own(self, entry: Entry, added: Sequence[Entry]) -> bool:
        """Tell whether an entry is what was said when this was begun before: it is said once."""
        held = spans(entry.get(EPISODES)) or []
        if any(held):
            return all(number in self._there for span in held for number in span)
        free = {EPISODES: "", DISCARDED: ()}
        return is_said(entry) and any({**entry, **free} == {**one, **free} and _begins(one, entry) for one in added)

    def announce(self) -> None:
        """Say before the first episode has its name whose it is."""
        if not self._has_models:
            self.write(self._first)

    def write(self, episodes: int) -> None:
        """Write what is said of the episodes that there are."""
        if self._is_left_alone:
            return
        if not self._has_models:
            self._has_models = True
            self._copy_models()
        added = episodes - self._first
        most = self._tried[added] if added < len(self._tried) else None
        entries = [{**e, DISCARDED: e[DISCARDED][:most]} if DISCARDED in e else e for e in self._entries]
        self._write(first_of([*self._before, *entries], episodes))

    def largest(self) -> int:
        """Return how many bytes the next write takes, about."""
        return len(json_bytes({RECORDINGS: [*self._before, *self._entries]}))


def _begins(entry: Entry, other: Entry) -> bool:
    """Tell whether the seeds that one says were discarded begin with those of the other."""
    seeds, begun = (one.get(DISCARDED) or [] for one in (entry, other))
    return begun == seeds[: len(begun)]


def _found(entries: Iterable[Entry], sources: Sequence[Path]) -> tuple[dict[str, Path], dict[str, str]]:
    """Say where each model is to be had, and why of one that is not; where two sessions have one, the first will do."""
    found: dict[str, Path] = {}
    lost: dict[str, str] = {}
    for name in sorted(models(entries)):
        for folder in map(Folder, sources):
            try:
                if not folder.has(name):
                    continue
                if digest(folder, name).digest != Path(name).stem:
                    raise FormatError(f"{folder.path / name}: holds another model than its name says")
                found[name] = folder.file(name)
                break
            except FormatError as error:
                lost[name] = str(error)
        else:
            lost.setdefault(name, "no session has it")
    return found, {name: why for name, why in lost.items() if name not in found}


def _without(entries: Iterable[Entry], lost: Iterable[str]) -> list[Entry]:
    """Return entries that name no file of those models."""
    gone = set(lost)
    return [{**entry, MODEL: {**entry[MODEL], "file": None}} if model_of(entry) in gone else entry for entry in entries]


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
