"""``meta/provenance.json``: where a session comes from, recording by recording, and the models beside it.

It says what a person, or `remake`, needs to record the same again. No reader of rows or frames needs it. It is written
by a `lucky_recorder.session.log.Log`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from lucky_recorder.episode import limits
from lucky_recorder.errors import FormatError, LuckyRecorderError, shown
from lucky_recorder.session import layout
from lucky_recorder.storage.names import owned
from lucky_recorder.storage.untrusted import Folder
from lucky_recorder.storage.write import write_json

# What is logged is a text: whoever keeps records would keep an error, and all that its traceback leads to.
logger = logging.getLogger("lucky_recorder")

Entry = Mapping[str, Any]
RECORDINGS, EPISODES, MODEL, DISCARDED = "recordings", "episodes", "model", "discarded_seeds"
ENV, ENV_ERROR = "env", "env_error"
# Of episodes that are not in the session, but were in those that it is made of.
LEFT_OUT = "left_out_seeds"
_RANGE = re.compile(r"(\d{1,9}):(\d{1,9})")


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
        for name in (DISCARDED, LEFT_OUT):
            if name in entry and not _are_seeds(entry[name]):
                said = shown(entry[name])
                raise FormatError(f"{path}: {RECORDINGS}[{number}] {name}={said}: expected a list of texts")
    return tuple(entries)


def _are_seeds(value: object) -> bool:
    return isinstance(value, list) and all(seed is None or isinstance(seed, str) for seed in value)


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


def is_said(entry: Entry) -> bool:
    """Tell whether a recording says where it comes from, and not only which episodes are of it."""
    return bool(entry.keys() - {EPISODES})


def models(entries: Iterable[Entry]) -> set[str]:
    """Return the names of the models' files; what is no such name is left out."""
    return {name for name in map(model_of, entries) if name is not None}


def model_of(entry: Entry) -> str | None:
    """Return the name of a recording's model's file; None where it has none."""
    model = entry.get(MODEL)
    name = model.get("file") if isinstance(model, dict) else None
    return name if isinstance(name, str) and layout.MODEL_FILE.fullmatch(name) else None


def shifted(entry: Entry, by: int) -> str:
    """Return the episodes of a recording where so many come before the first of them."""
    return _text(range(span.start + by, span.stop + by) for span in spans(entry.get(EPISODES)) or ())


# Making others of it.


def combined(sources: Iterable[tuple[Iterable[Entry], Mapping[int, int]]]) -> dict[str, Any]:
    """Say where a session comes from that is made of episodes of others.

    Args:
        sources: Of each of these, in order: its recordings, as `read` returns them, and the episodes that are kept, by
            their old number, with their new one.

    Returns:
        The content of the file: the recordings of which an episode is kept, in order, each once. What they say of seeds
        that were discarded is of the whole recording; those of the other recordings are left out. Episodes of which
        nothing is said are those of a recording that says nothing, so that nobody takes them for another's.
    """
    found: list[tuple[Entry, set[int]]] = []
    dropped: list[Entry] = []
    for entries, kept in sources:
        unsaid = set(kept.values())
        for entry in entries:
            numbers = set(_renumbered(entry, kept))
            unsaid -= numbers
            same = next((known for said, known in found if said is entry), None)
            if same is not None:
                same |= numbers
            elif numbers:
                found.append((entry, numbers))
            elif not any(entry is one for one in dropped):
                dropped.append(entry)
        if unsaid:
            found.append(({}, unsaid))
    content = {RECORDINGS: [{**entry, EPISODES: text_of(numbers)} for entry, numbers in found]}
    # A recording of which an episode comes from another part of the list is there with its seeds.
    gone = [entry for entry in dropped if not any(entry is one for one, _ in found)]
    return with_left_out(content, [seed for entry in gone for seed in _tried(entry)], ())


def _tried(entry: Entry) -> Iterator[str | None]:
    """Give the seeds of a recording of which it has no episode."""
    for name in (DISCARDED, LEFT_OUT):
        said = entry.get(name)
        yield from said if isinstance(said, list) else ()


def with_left_out(
    content: Mapping[str, Any], seeds: Sequence[str | None], kept: Collection[str | None]
) -> dict[str, Any]:
    """Say which seeds were left out, so that who goes on with it does not try them again: another part may have them.

    Args:
        content: What `combined` has found.
        seeds: The seeds of the episodes that were left out now, in order; None for one that is not known.
        kept: Those of the episodes that are kept. They were not left out, whatever a part says that was without them.
    """
    found = [dict(entry) for entry in content[RECORDINGS]]
    said = [entry for entry in found if is_said(entry)]
    if seeds and said:
        before = said[-1].get(LEFT_OUT)
        said[-1][LEFT_OUT] = [*(before if isinstance(before, list) else ()), *seeds]
    for entry in found:
        if isinstance(left := entry.get(LEFT_OUT), list):
            entry[LEFT_OUT] = [seed for seed in left if not isinstance(seed, str) or seed not in kept]
            if not entry[LEFT_OUT]:
                del entry[LEFT_OUT]
    return {**content, RECORDINGS: found}


def as_one(content: Mapping[str, Any], episodes: int, discarded: Sequence[str | None]) -> dict[str, Any]:
    """Return the content of a session that several processes have recorded together: one recording.

    Args:
        content: What `combined` has found in what each of them has recorded.
        episodes: How many episodes there are.
        discarded: The seeds of the attempts that were discarded, in order.
    """
    found = list(filter(is_said, content[RECORDINGS]))
    said = {**found[0], DISCARDED: list(discarded)} if found else {}
    # Nobody has tried for this one what its parts hold beyond it.
    said.pop(LEFT_OUT, None)
    models = [entry.get(MODEL) for entry in found]
    if found and all(isinstance(model, dict) for model in models):
        # Whoever had another model than the first counts, as within a recording.
        others = sum(model.get("others", 0) + (model.get("sha256") != models[0].get("sha256")) for model in models)
        said[MODEL] = {**models[0], "others": others}
    return {RECORDINGS: [{**said, EPISODES: f"0:{episodes}"}]}


def _renumbered(entry: Entry, kept: Mapping[int, int]) -> Iterator[int]:
    held = spans(entry.get(EPISODES)) or ()
    return (new for old, new in kept.items() if any(old in span for span in held))


def settled(entries: Sequence[Entry], listed: int, episodes: int) -> list[Entry]:
    """Say whose the episodes are of a session that was cut short.

    Those that it had finished and not listed are the last recording's: each one has its entry before its first episode
    has a name. Where a session was being made of others, those that did not come any more are nobody's.

    Args:
        entries: What it says of its recordings.
        listed: Episodes that ``meta/`` lists.
        episodes: Episodes that there are.
    """
    if not entries:
        return []
    held = [spans(entry.get(EPISODES)) or [] for entry in entries]
    last = held[-1]
    # One that ends before what is listed was not the last: that one said nothing.
    if last and listed <= last[-1].stop < episodes and last[-1].stop == max(r.stop for one in held for r in one):
        last[-1] = range(last[-1].start, episodes)
    return first_of([{**entry, EPISODES: _text(one)} for entry, one in zip(entries, held, strict=True)], episodes)


def first_of(entries: Iterable[Entry], episodes: int) -> list[Entry]:
    """Return what is said of the first so many episodes; a recording that begins later is left out."""
    found: list[Entry] = []
    for entry in entries:
        held = spans(entry.get(EPISODES)) or []
        there = [range(r.start, min(r.stop, episodes)) for r in held if r.start <= episodes]
        if there or not held:
            found.append({**entry, EPISODES: _text(there)})
    return found


def _text(held: Iterable[range]) -> str:
    return ",".join(f"{span.start}:{span.stop}" for span in held)


def settle(root: Path, listed: int, episodes: int) -> None:
    """Write what `settled` says; arguments as there."""
    try:
        entries = list(read(Folder(root)))
        found = settled(entries, listed, episodes)
        if found != entries:
            write_json(owned(root, layout.PROVENANCE_PATH), {RECORDINGS: found})
    except (LuckyRecorderError, OSError) as error:
        logger.warning("%s: where the last episodes come from is not noted: %s", root, str(error))
