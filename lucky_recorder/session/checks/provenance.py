"""Checks of ``meta/provenance.json``: which recording an episode is of, and whether models are what they are named."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lucky_recorder.errors import shown
from lucky_recorder.session.checks.declared import is_whole
from lucky_recorder.session.checks.evidence import Evidence, Fault
from lucky_recorder.storage.checksums import digest

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
PROVENANCE = "meta/provenance.json"
_LEFT_OUT = "left_out_seeds"
_MODEL = re.compile(r"meta/models/([0-9a-f]{64})\.(?:mjb|xml)")
_SUM = re.compile(r"[0-9a-f]{64}")
_SPAN = re.compile(r"(\d{1,9}):(\d{1,9})")


def _recordings(evidence: Evidence) -> list[Any]:
    content = evidence.read(PROVENANCE, evidence.folder.json) if PROVENANCE in evidence.files else None
    entries = content.get("recordings") if content is not None else None
    return entries if isinstance(entries, list) else []


def models(evidence: Evidence) -> set[str]:
    """Return the names of the models: those that the recordings name, and those that lie there.

    A recording that was cut short, or whose disk was full, may have left one that nothing names. It harms nobody.
    """
    said = [entry.get("model") for entry in _recordings(evidence) if isinstance(entry, dict)]
    named = {model["file"] for model in said if isinstance(model, dict) and isinstance(model.get("file"), str)}
    return named | {name for name in evidence.under("meta") if _MODEL.fullmatch(name)}


def check_provenance(evidence: Evidence) -> Iterator[Fault]:
    """Check the file, if there is one, and the models; other recorders may have others of these names."""
    if not evidence.declared.is_ours:
        return
    for name in sorted(models(evidence)):
        yield from _model_faults(name, evidence)
    if PROVENANCE not in evidence.files:
        return
    content = evidence.read(PROVENANCE, evidence.folder.json)
    if content is None:
        return
    if not isinstance(content.get("recordings"), list):
        yield Fault(PROVENANCE, None, f"recordings is {shown(content.get('recordings'))}, expected a list")
    seen = 0
    for number, entry in enumerate(_recordings(evidence)):
        if not isinstance(entry, dict):
            yield Fault(PROVENANCE, None, f"recordings[{number}] is {shown(entry)}, expected an object")
            continue
        for message in _entry_faults(entry, evidence.row_count):
            yield Fault(PROVENANCE, None, f"recordings[{number}]: {message}")
        seen += sum(len(span) for span in _spans(entry.get("episodes")) or ())
    if seen > evidence.row_count:
        yield Fault(PROVENANCE, None, f"names {seen} episodes, there are {evidence.row_count}: one is named twice")


def _spans(said: object) -> list[range] | None:
    if not isinstance(said, str):
        return None
    found = [_SPAN.fullmatch(part) for part in said.split(",")] if said else []
    return None if None in found else [range(int(m[1]), int(m[2])) for m in found if m]


def _entry_faults(entry: Mapping[str, Any], episodes: int) -> Iterator[str]:
    spans = _spans(entry.get("episodes"))
    if spans is None or any(not span.start <= span.stop <= episodes for span in spans):
        yield f"episodes is {shown(entry.get('episodes'))}, expected ranges of the {episodes} that there are"
    # A recording that says nothing of itself has an entry only so that its episodes are not taken for another's.
    if not entry.keys() - {"episodes"}:
        return
    # Only what was made of others has the second.
    for name, seeds in (("discarded_seeds", entry.get("discarded_seeds")), (_LEFT_OUT, entry.get(_LEFT_OUT, []))):
        if not isinstance(seeds, list) or not all(seed is None or isinstance(seed, str) for seed in seeds):
            yield f"{name} is {shown(seeds)}, expected a list of texts"
    model = entry.get("model")
    if model is None:
        return
    if not isinstance(model, dict) or not _is_sum(model.get("sha256")) or not is_whole(model.get("bytes")):
        yield f"model is {shown(model)}, expected its sha256 and its bytes"
    elif model.get("file") is not None and _named_sum(model["file"]) != model["sha256"]:
        yield f"model: file is {shown(model['file'])}, expected it to be named by its sha256"


def _is_sum(value: object) -> bool:
    return isinstance(value, str) and bool(_SUM.fullmatch(value))


def _named_sum(name: object) -> str | None:
    match = _MODEL.fullmatch(name) if isinstance(name, str) else None
    return match[1] if match else None


def _model_faults(name: str, evidence: Evidence) -> Iterator[Fault]:
    said = _named_sum(name)
    if said is None:
        return
    if name not in evidence.files:
        yield Fault(name, None, "is missing, and meta/provenance.json names it")
        return
    found = evidence.read(name, lambda file: digest(evidence.folder, file))
    if found is not None and found.digest != said:
        yield Fault(name, None, "holds another model than its name says (its sha256 differs)")
