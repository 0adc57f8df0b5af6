"""Checks of ``states/``: a whole state at every tick, times that rise as the model says, and models that are there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from lucky_recorder.errors import shown
from lucky_recorder.session.checks.declared import is_whole, rate
from lucky_recorder.session.checks.evidence import INFO, Evidence, Fault, Listed
from lucky_recorder.session.kept_states import States
from lucky_recorder.session.layout import Place
from lucky_recorder.storage.checksums import digest

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
_PATH = "states/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_PLACE = ("states/chunk_index", "states/file_index")
_MODEL = re.compile(r"states/models/([0-9a-f]{64})\.mjb")
_STATES_FILE = re.compile(r"states/chunk-\d{3}/file-\d{3}\.parquet")
# How many values of a state each of a model's elements has.
_PARTS = {
    **{"qpos": (1, "nq"), "qvel": (1, "nv"), "act": (1, "na"), "ctrl": (1, "nu"), "qacc_warmstart": (1, "nv")},
    **{"qfrc_applied": (1, "nv"), "xfrc_applied": (6, "nbody"), "eq_active": (1, "neq"), "mocap_pos": (3, "nmocap")},
    **{"mocap_quat": (4, "nmocap"), "userdata": (1, "nuserdata"), "plugin_state": (1, "npluginstate")},
}
# What a step does not make, and what a plugin keeps for itself, may be any number, or none.
_GIVEN = {"ctrl", "qfrc_applied", "xfrc_applied", "eq_active", "mocap_pos", "mocap_quat", "userdata", "plugin_state"}
# What is added up over many steps, as MuJoCo adds its time step.
_ROUNDING, _LEAST = 1e-5, 1e-9


def files(evidence: Evidence, episodes: Sequence[Listed]) -> set[str]:
    """Name the files of states of some episodes, and the models, of which an interrupted recording may leave one.

    What has no name of ours there is somebody's own.
    """
    own = {n for n in evidence.under("states") if not (_STATES_FILE.fullmatch(n) or _MODEL.fullmatch(n) or ".tmp" in n)}
    models = {name for name in evidence.under("states") if _MODEL.fullmatch(name)}
    return own | models | {file for file in (_file(episode.values) for episode in episodes) if file is not None}


def _file(row: Mapping[str, Any]) -> str | None:
    place = [row.get(column) for column in _PLACE]
    return _states_file(Place(*place)) if all(is_whole(n, 0, 999) for n in place) else None  # type: ignore[arg-type]


def _states_file(place: Place) -> str:
    return f"states/chunk-{place.chunk_index:03d}/file-{place.file_index:03d}.parquet"


def check_models(evidence: Evidence) -> Iterator[Fault]:
    """Check that every model is the one that its name says."""
    info = evidence.info or {}
    if "states_path" not in info:
        return
    if info["states_path"] != _PATH:
        yield Fault(INFO, None, f"states_path is {shown(info['states_path'])}, expected {_PATH}")
    for name in evidence.under("states"):
        if said := _MODEL.fullmatch(name):
            found = evidence.read(name, lambda file: digest(evidence.folder, file))
            if found is not None and found.digest != said[1]:
                yield Fault(name, None, "holds another model than its name says (its sha256 differs)")


def check_states(evidence: Evidence) -> Iterator[Fault]:
    """Check the states of every episode."""
    for episode in evidence.episodes if "states_path" in (evidence.info or {}) else ():
        yield from _of_episode(episode, evidence)


def _of_episode(episode: Listed, evidence: Evidence) -> Iterator[Fault]:
    place = [episode.values.get(column) for column in _PLACE]
    if place == [None, None]:
        # The model was replaced in it by one of other states.
        return
    file, per_chunk = _file(episode.values), evidence.declared.files_per_chunk
    expected = None if per_chunk is None else _states_file(Place(*divmod(episode.number, per_chunk)))
    if file is None or (expected is not None and file != expected):
        yield Fault(episode.source, episode.number, f"its states are at {shown(place)}, expected {expected}")
        return
    if file not in evidence.files:
        yield Fault(file, episode.number, "is missing, and meta/episodes names it")
        return
    looked = _Looked(None, [])
    kept = evidence.read(file, lambda name: _looked_at(States(evidence.folder, name), looked))
    if kept is None:
        return
    for message in (*looked.faults, *_about_faults(kept, episode, evidence)):
        yield Fault(file, episode.number, message)
    model = f"states/models/{kept.about['model']}.mjb"
    if model not in evidence.files:
        yield Fault(model, episode.number, f"is missing, and {file} is of it")


class _Looked(NamedTuple):
    """What the rows of a file turn out to be."""

    time: float | None
    faults: list[str]


def _looked_at(kept: States, looked: _Looked) -> States:
    """Go through all states: they are finite, and time runs on by a tick, but where the simulation was reset."""
    resets = {*kept.about["resets"]}
    step, made = _tick_s(kept), _made(kept.about)
    if made is None:
        sizes = kept.about["sizes"]
        looked.faults.append(f"its parts are {shown(kept.about['parts'])}, of a model and states of {shown(sizes)}")
        return kept
    before: float | None = None
    for part in kept.parts():
        # What is not known was found to be null, and is NaN: the commands after the end, the state there, where nobody
        # knows how the last tick has ended, and its commands, where nobody knows them either.
        ticks = np.arange(part.first, part.first + len(part.states))
        is_end, is_last = ticks == len(kept), ticks == len(kept) - 1
        is_lost = is_last & (not kept.about["ended"]) & np.isnan(part.commands).all(axis=1)
        states = part.states[:, made], is_end & (not kept.about["ended"])
        for name, (values, is_open) in {"state": states, "ctrl": (part.commands, is_end | is_lost)}.items():
            broken = np.flatnonzero(~np.isfinite(values).all(axis=1) & ~is_open)
            if len(broken):
                looked.faults.append(f"tick {part.first + broken[0]}: {name} holds NaN or infinity")
        times = part.states[~states[1], 0]
        joined = times if before is None else np.concatenate([[before], times])
        first = part.first + (1 if before is None else 0)
        for offset in np.flatnonzero(_are_wrong(joined, step, kept.about["physics_steps"])).tolist():
            if first + offset not in resets:
                lasted = joined[offset + 1] - joined[offset]
                looked.faults.append(f"tick {first + offset - 1}: lasts {lasted:g} s of the states' time")
                break
        before = float(times[-1]) if len(times) else before
        if looked.faults:
            break
    return kept


def _made(about: Mapping[str, Any]) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Return which values of a state must be finite; None where its parts are not those of its sizes."""
    sizes, parts = about["sizes"], about["parts"]
    known = {name: times * sizes.get(of, 0) for name, (times, of) in _PARTS.items() if of in sizes}
    wrong = [name for name, values in known.items() if parts.get(name, 0) != values]
    if wrong or parts.get("time") != 1 or next(iter(parts)) != "time" or sum(parts.values()) != sizes["state"]:
        return None
    return np.repeat([name not in _GIVEN for name in parts], list(parts.values()))


def _are_wrong(times: np.ndarray[Any, np.dtype[np.float64]], step: float | None, additions: int | None) -> Any:
    lasted = np.diff(times)
    if step is None or additions is None:
        return lasted < 0
    # Every addition of the time step is rounded, to what a clock of seconds since 1970 can tell apart.
    rounded = (8.0 + additions) * np.spacing(np.abs(times[:-1]))
    room = np.maximum(max(_LEAST, _ROUNDING * step), np.minimum(rounded, step / 2))
    return np.abs(lasted - step) > room


def _tick_s(kept: States) -> float | None:
    """Return how long every tick lasts in the simulation's own time; None where they are not alike."""
    steps = kept.about["physics_steps"]
    return None if steps is None else float(steps * kept.about["timestep"])


def _about_faults(kept: States, episode: Listed, evidence: Evidence) -> Iterator[str]:
    # As `info.json` says the rate of rows: a number that was read back from a float may be another fraction.
    try:
        base = rate(float(Fraction(kept.about["hz"])))
    except (ValueError, ZeroDivisionError, OverflowError):
        base = None
    hz, robots = evidence.declared.hz, evidence.declared.robots
    if base is None:
        yield f"hz is {shown(kept.about['hz'])}, expected ticks per second"
    elif hz and robots:
        ratio = base / hz
        due = -(-len(kept) // round(ratio)) if round(ratio) and abs(ratio - round(ratio)) <= 1e-9 * ratio else None
        if due != episode.length // robots:
            yield f"{len(kept) + 1} states of {len(kept)} ticks, for {episode.length // robots} rows of a robot"
