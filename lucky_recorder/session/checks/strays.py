"""Checks for files that no episode names, and for what an interrupted recording leaves behind (spec: Folder layout)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lucky_recorder.errors import FormatError, shown
from lucky_recorder.session.checks import states, unlisted
from lucky_recorder.session.checks.evidence import INFO, STATS, SUMS, TASKS, Evidence, Fault, Listed, video_file
from lucky_recorder.session.checks.provenance import PROVENANCE, models
from lucky_recorder.session.found import find
from lucky_recorder.session.layout import Place

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
_META_FILE = re.compile(r"meta/episodes/chunk-\d{3,}/file-\d{3,}\.parquet")
_DATA_FILE = re.compile(r"data/chunk-\d{3,}/file-\d{3,}\.parquet")
_SPOOL = re.compile(r"(?P<file>data/chunk-\d{3,}/file-\d{3,}\.parquet)\.(?P<episode>\d{1,9})\.tmp")

# By these it is known which episodes are listed.
_FOUND_BY = ("episode_index", "chunk_index", "file_index")
_UNFINISHED_SUMS = f"{SUMS}.tmp"
_TORN_SUMS = "not finished: `lucky-recorder checksum` was interrupted; run it again, or `lucky-recorder recover`"
_CUT_SHORT = "the recording was cut short; `lucky-recorder recover` puts it right"


def check_missing(evidence: Evidence) -> Iterator[Fault]:
    """Check that every file the format and ``meta/episodes`` ask for is there and is no link to elsewhere."""
    missing = [file for file in (INFO, STATS, TASKS) if file not in evidence.files]
    hint = f": {_CUT_SHORT}" if missing and _found(evidence) else ""
    for file in missing:
        yield Fault(file, None, f"is missing{hint}")
    for file, episodes in evidence.data_files.items():
        if file not in evidence.files:
            spools = sum(name.startswith(f"{file}.") for name in evidence.files)
            hint = f"; {spools} of its episodes are spooled beside it: {_CUT_SHORT}" if spools else ""
            yield Fault(file, episodes[0].number, f"is missing{hint}")


def check_unreadable(evidence: Evidence) -> Iterator[Fault]:
    """Tell which files could not be read; runs when all other checks have tried."""
    for file, why in evidence.unreadable.items():
        if file in evidence.files:
            yield Fault(file, None, why)


def check_strays(evidence: Evidence) -> Iterator[Fault]:
    """Check that nothing lies under ``data/``, ``videos/`` and ``meta/`` that no episode names."""
    named = {INFO, STATS, SUMS, TASKS, *evidence.data_files, *_streams(evidence, evidence.episodes)}
    named |= {PROVENANCE, *models(evidence), *states.files(evidence, evidence.episodes)}
    everything = (file for folder in ("data", "meta", "videos", "states") for file in evidence.under(folder))
    strays = [file for file in everything if file not in named and not _META_FILE.fullmatch(file)]
    # Of episodes that are whole and not listed yet, the data file or spool is told, with the remedy. Their streams are
    # theirs: whoever took these for strays and removed them would lose the episodes.
    found = _streams(evidence, _found(evidence)) if strays and evidence.declared.is_ours else set()
    for file in strays:
        # Others leave the streams of a failed attempt behind (spec: Failed and discarded episodes).
        is_told = evidence.declared.is_ours or ".tmp" in file or _DATA_FILE.fullmatch(file)
        if is_told and file not in found:
            yield from _stray(file, evidence)


def _found(evidence: Evidence) -> list[Listed]:
    """Return the episodes that are whole and that ``meta/episodes`` does not list."""
    listed = [{key: row[key] for key in _FOUND_BY if key in row} for _, row in evidence.rows if "episode_index" in row]
    try:
        rows = find(evidence.folder, listed, None).rows
    except FormatError:  # absurdly many: none of them will be read
        return []
    places = [Place(row["chunk_index"], row["file_index"]) for row in rows]
    counts = [(row["episode_index"], row["length"], row["dataset_from_index"]) for row in rows]
    return [Listed("", *of, place, row) for of, place, row in zip(counts, places, rows, strict=True)]


def _streams(evidence: Evidence, episodes: Sequence[Listed]) -> set[str]:
    """Name the files of all streams of some episodes."""
    return {*_videos(evidence, episodes), *unlisted.files(evidence, episodes), *states.files(evidence, episodes)}


def _videos(evidence: Evidence, episodes: Sequence[Listed]) -> Iterator[str]:
    for episode in episodes:
        for stream in evidence.declared.streams.values():
            place = [episode.values.get(f"videos/{stream.key}/{part}_index") for part in ("chunk", "file")]
            if all(isinstance(number, int) for number in place):
                yield video_file(stream.key, Place(*place), stream.suffix)  # type: ignore[arg-type]


def _stray(file: str, evidence: Evidence) -> Iterator[Fault]:
    if spool := _SPOOL.fullmatch(file):
        waits = "the spool of an episode, whose data file was not assembled"
        yield Fault(file, int(spool["episode"]), f"{waits}: {_CUT_SHORT}")
    elif file == _UNFINISHED_SUMS:
        yield Fault(file, None, _TORN_SUMS)
    elif ".tmp" in file:
        yield Fault(file, None, "incomplete, left behind by an interrupted recording")
    elif not _DATA_FILE.fullmatch(file):
        yield Fault(file, None, "no episode names this file")
    else:
        footer = evidence.footer(file)
        held = (
            [shown(e.get("episode_index")) for e in footer if isinstance(e, dict)] if isinstance(footer, list) else []
        )
        which = f" ({', '.join(held)})" if held else ""
        # What cannot be read is told by `check_unreadable`.
        if file not in evidence.unreadable:
            yield Fault(file, None, f"holds episodes that meta/episodes does not list{which}: {_CUT_SHORT}")
