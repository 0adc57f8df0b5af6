"""Making an episode again: the environment that it was recorded in is built anew, and plays the recorded actions.

What it gives is recorded like any other episode, into a folder that is thrown away, and compared with what is there.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pyarrow as pa
from gymnasium.envs.registration import EnvSpec

from lucky_recorder.capture.find import find_simulation
from lucky_recorder.episode import keys
from lucky_recorder.errors import LuckyRecorderError, SettingsError, shown, text_of
from lucky_recorder.recorder.circumstances import given_options
from lucky_recorder.recorder.secrets import MASK
from lucky_recorder.recorder.wrapper import RecordSession
from lucky_recorder.rollouts.evaluate import to_env
from lucky_recorder.session import provenance
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.reader import Session
from lucky_recorder.settings import validators as v
from lucky_recorder.storage.untrusted import format_errors

# What numbers the rows, what is said of them and not of the simulation, and what settings decide.
_NOT_COMPARED = (keys.INDEX, keys.EPISODE_INDEX, keys.TASK_INDEX, keys.FRAME_FLAGS, keys.SUCCESS, *keys.ENTITY_COLUMNS)
_MODES = {label.entity_column: mode for mode, label in keys.MODES.items()}
_LONGEST_SEED = 1000
# Arguments that were masked, each of which is named.
_MOST_NAMED = 5
_WRAPPERS = "gymnasium.wrappers"
# They film or show, and change nothing of what an environment does.
_SHOWING = ("RecordVideo", "HumanRendering", "RenderCollection")
_TRUST = (
    "to build it would run code that the session names; import the package that registers it first, or, if you trust "
    "the session, say allow_code=True (--allow-code)"
)


class Difference(NamedTuple):
    """The first place where an episode that was made again is another.

    Attributes:
        row: The row within the episode, from 0.
        column: The column; ``length`` where one of the two has no such row.
        recorded: What is recorded.
        remade: What it is now.
    """

    row: int
    column: str
    recorded: Any
    remade: Any


class Remade(NamedTuple):
    """How an episode compares with itself, made again.

    Attributes:
        rows: Rows that were compared.
        columns: The columns that were compared.
        left_out: Those that cannot be: what made them is not known here.
        difference: The first place where they differ; None where they are the same.
        changed: What is other than it was when the episode was recorded, in words: versions, the model, and arguments
            of the environment that were masked, or that JSON gives back as something else.
    """

    rows: int
    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    difference: Difference | None
    changed: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether every value that was compared is the same."""
        return self.difference is None


def remake(session: str | Path | Session, episode: int, *, allow_code: bool = False) -> Remade:
    """Build the environment of an episode again, play the recorded actions, and compare the rows, bit for bit.

    The environment is the one that ``meta/provenance.json`` names, reset with the recorded seed and options. Its
    actions are those that were sent, ``gym.action``, or, where these were not recorded, the commands of ``action``, if
    the environment takes these. Pictures are not drawn.

    Args:
        session: The session.
        episode: The episode's number.
        allow_code: Whether code that the session names may be run: an environment that is not registered here as the
            session says, or wrappers that are not gymnasium's.

    Raises:
        SettingsError: If it cannot be made again: says what is not recorded, or why the environment cannot be built.
        IndexError: If there is no such episode.
        FormatError: If the session cannot be read.
    """
    opened = session if isinstance(session, Session) else Session(session)
    recorded = opened.episode(episode)
    entry = provenance.of_episode(opened.provenance, recorded.index)
    spec = _spec(opened, recorded, entry, allow_code)
    seed, options = _beginning(recorded)
    table = recorded.rows_by_tick()
    _refuse_resets_inside(recorded, table)
    with tempfile.TemporaryDirectory() as folder:
        path = _played(opened, spec, table, seed, options, Path(folder))
        again = Session(path)
        return _compared(opened, recorded, table, again, entry or {})


# What is known of it.


def _refuse(episode: Episode, why: str) -> SettingsError:
    return SettingsError.of("episode", episode.index, f"cannot be made again: {why}")


def _spec(session: Session, episode: Episode, entry: Mapping[str, Any] | None, allow_code: bool) -> EnvSpec:
    said = entry.get("env") if entry is not None else None
    if not isinstance(said, dict):
        why = "nothing in the session says where it comes from; record with provenance=True"
        if entry is not None:
            error = entry.get("env_error")
            why = f"its environment is not known: {error}" if error else "an Observer recorded it, without environment"
        raise _refuse(episode, why)
    try:
        spec = _without_windows(EnvSpec.from_json(json.dumps(said)))
    except Exception as error:  # whatever a stranger's spec makes of it
        raise _refuse(episode, f"its environment's spec is none ({shown(text_of(error))})") from error
    if not allow_code:
        _refuse_code(episode, spec)
    return spec


def _without_windows(spec: EnvSpec) -> EnvSpec:
    """Leave out what films or shows the environment: nobody looks, and nothing is to be written."""
    kept = [w for w in spec.additional_wrappers if _class_of(w.entry_point) not in _SHOWING]
    spec.additional_wrappers = tuple(kept)
    kwargs = dict(spec.kwargs)
    spec.kwargs = {k: value for k, value in kwargs.items() if (k, value) != ("render_mode", "human")}
    return spec


def _class_of(entry_point: object) -> str:
    return str(entry_point).rpartition(":")[2]


def _refuse_code(episode: Episode, spec: EnvSpec) -> None:
    known = gym.registry.get(spec.id)
    if known is None or known.entry_point != spec.entry_point:
        what = f"its environment {spec.id!r} ({shown(spec.entry_point)})"
        raise _refuse(episode, f"{what} is {'not registered' if known is None else 'another'} here; {_TRUST}")
    for wrapper in spec.additional_wrappers:
        module = str(wrapper.entry_point).partition(":")[0]
        if not f"{module}.".startswith(f"{_WRAPPERS}."):
            raise _refuse(episode, f"it was wrapped in {shown(wrapper.entry_point)}; {_TRUST}")
    for value in _texts([spec.kwargs, *(wrapper.kwargs for wrapper in spec.additional_wrappers)]):
        # Some environments and wrappers load what an argument names.
        if v.is_callable_name(value):
            raise _refuse(episode, f"an argument of its environment is {shown(value)}; {_TRUST}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from _texts(inner)


def _beginning(episode: Episode) -> tuple[int, dict[str, Any] | None]:
    seed, plain = episode.seed, episode.options
    if seed is None or not (seed.isascii() and seed.isdecimal() and len(seed) <= _LONGEST_SEED):
        raise _refuse(episode, "the reset that it began with had no seed; record with reset(seed=...)")
    options = None if plain is None else given_options(plain)
    if plain is not None and options is None:
        raise _refuse(episode, f"the options of its reset were no JSON: {shown(plain)}; give plain values")
    return int(seed), options


def _refuse_resets_inside(episode: Episode, table: pa.Table) -> None:
    if keys.FRAME_FLAGS not in table.column_names or table[keys.FRAME_FLAGS].null_count:
        raise _refuse(episode, f"a row has no {keys.FRAME_FLAGS}: it is not known whether it was reset within")
    with format_errors(episode.data_path()):
        flags, ticks = (table[name].to_numpy().astype(np.int64) for name in (keys.FRAME_FLAGS, keys.FRAME_INDEX))
    was_reset = flags & keys.POST_RESET != 0
    if len(ticks) and not was_reset[ticks == ticks[0]].all():
        raise _refuse(episode, "its first row is not the first after a reset: something before it was cut off")
    inside = ticks[was_reset & (ticks > 0)]
    if len(inside):
        raise _refuse(episode, f"it was reset within, before tick {inside[0]}, and that reset's seed is not recorded")


# Playing it.


def _played(
    session: Session, spec: EnvSpec, table: pa.Table, seed: int, options: dict[str, Any] | None, folder: Path
) -> Path:
    """Record the episode again; returns the session that it is in."""
    env = _recorder(session, spec, None, folder)
    try:
        env.reset(seed=seed, options=copy.deepcopy(options))
        if env.recorder.robots != session.robots:
            # Of a part of the model: the session names the bodies.
            env.close()
            env = _recorder(session, spec, session.robots, folder)
            env.reset(seed=seed, options=options)
        _play(env, table)
    except LuckyRecorderError:
        raise
    except Exception as error:  # whatever an environment raises that is given what somebody else has recorded
        why = _raised(error, spec)
        raise SettingsError.of("env", spec.id, f"does not take what is recorded: {why}") from error
    finally:
        env.close()
    assert env.session_path is not None
    return env.session_path


def _play(env: RecordSession, table: pa.Table) -> None:
    for action in _actions(env, table):
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated or env.recorder.take is None:
            break
    if env.recorder.take is not None:
        env.end_episode(success=True)


def _recorder(session: Session, spec: EnvSpec, robots: tuple[str, ...] | None, folder: Path) -> RecordSession:
    mode = next((mode for column, mode in _MODES.items() if column in session.features), "custom")
    has_gym = keys.REWARD in session.features or mode == "custom"
    try:
        env = gym.make(spec)
    except Exception as error:  # whatever an environment raises when it is made
        why = _raised(error, spec)
        raise SettingsError.of("env", spec.id, f"cannot be built here: {why}") from error
    return RecordSession(
        env,
        output_dir=folder,
        mode=mode,
        robots=robots,
        gym_columns=has_gym,
        # Where a simulation shows how long a step lasts, it is believed, and compared with the rows.
        control_hz=session.hz if find_simulation(env) is None else None,
        uneven_steps="allow",
        save_model=False,
    )


def _raised(error: Exception, spec: EnvSpec) -> str:
    """Say what an environment has raised, and that an argument of it was hidden: that may be why."""
    masked = _masked(_arguments(spec.kwargs, [wrapper.kwargs for wrapper in spec.additional_wrappers]))
    return "; ".join([f"{type(error).__name__}: {shown(text_of(error))}", *islice(masked, _MOST_NAMED)])


def _actions(env: RecordSession, table: pa.Table) -> Iterator[Any]:
    """Yield the recorded actions, one for each tick, as the environment takes them."""
    robots = len(env.recorder.robots)
    names, space = table.column_names, env.action_space
    sent = [name for name in names if name == keys.GYM_ACTION or name.startswith(f"{keys.GYM_ACTION}.")]
    if sent:
        # Every robot's row has the whole action.
        rows = table.select(sent).take(np.arange(0, table.num_rows, robots))
        for row in range(rows.num_rows):
            yield _built(space, {name: rows[name][row].as_py() for name in sent}, keys.GYM_ACTION)
        return
    if keys.ACTION not in names:
        raise SettingsError("no action is recorded: record with gym_columns=True, and an episode can be made again")
    turn = to_env(env, "actuators")
    for row in range(table.num_rows):
        yield turn(np.asarray(table[keys.ACTION][row].as_py(), np.float64))[0]


def _built(space: Any, row: Mapping[str, Any], name: str) -> Any:
    """Build an action of a space out of the columns of its parts."""
    spaces = getattr(space, "spaces", None)
    if isinstance(spaces, Mapping):
        return {key: _built(inner, row, f"{name}.{key}") for key, inner in spaces.items()}
    if isinstance(spaces, tuple | list):
        return tuple(_built(inner, row, f"{name}.{number}") for number, inner in enumerate(spaces))
    if name not in row or space.shape is None:
        raise SettingsError.of("action_space", space, f"no column {name!r} is recorded of it, or none that can be sent")
    value = row[name]
    return value if isinstance(value, str) else np.asarray(value, space.dtype).reshape(space.shape)[()]


# Comparing it.


def _compared(
    session: Session, episode: Episode, recorded: pa.Table, again: Session, entry: Mapping[str, Any]
) -> Remade:
    if again.hz != session.hz:
        why = f"a step of the environment lasts 1/{again.hz} s, and its rows are 1/{session.hz} s apart"
        raise _refuse(episode, f"{why}: not every action is recorded")
    remade = next(iter(again)).rows_by_tick() if len(again) else recorded.slice(0, 0)
    names = [n for n in recorded.column_names if n in remade.column_names and n not in _NOT_COMPARED]
    left = [n for n in recorded.column_names if n not in (*names, *_NOT_COMPARED)]
    rows = min(recorded.num_rows, remade.num_rows)
    found = [d for name in names if (d := _difference(name, recorded[name], remade[name], rows)) is not None]
    if recorded.num_rows != remade.num_rows:
        found.append(Difference(rows, "length", recorded.num_rows, remade.num_rows))
    first = min(found, key=lambda difference: difference.row, default=None)
    return Remade(rows, tuple(names), tuple(left), first, tuple(_changes(entry, again)))


def _difference(name: str, recorded: pa.ChunkedArray, remade: pa.ChunkedArray, rows: int) -> Difference | None:
    mine, theirs = recorded.slice(0, rows), remade.slice(0, rows)
    if mine.equals(theirs):
        return None
    for row in range(rows):
        was, now = mine[row].as_py(), theirs[row].as_py()
        if not _are_same(was, now):
            return Difference(row, name, was, now)
    return None


def _are_same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_are_same, one, other))
    # What is no number is the same as itself.
    return bool(one == other or (one != one and other != other))


def _changes(entry: Mapping[str, Any], again: Session) -> Iterator[str]:
    """Say what is other than when the episode was recorded."""
    now = again.provenance[-1] if again.provenance else {}
    had, has = ({"python": e.get("python"), **_object(e.get("packages"))} for e in (entry, now))
    for name, version in had.items():
        if name in has and has[name] != version:
            yield f"{name} {shown(version)}, now {shown(has[name])}"
    spec = _object(entry.get("env"))
    # Not what the arguments were, but what became of them.
    if isinstance(entry.get("env_error"), str):
        yield f"the environment's arguments: {shown(entry['env_error'])}"
    wrappers = [_object(wrapper).get("kwargs") for wrapper in spec.get("additional_wrappers") or ()]
    yield from islice(_masked(_arguments(spec.get("kwargs"), wrappers)), _MOST_NAMED)
    sums = [_object(e.get("model")).get("sha256") for e in (entry, now)]
    if sums[0] != sums[1]:
        yield f"the model: its sum was {shown(sums[0])}, and is {shown(sums[1])}"


def _arguments(kwargs: Any, wrappers: list[Any]) -> dict[str, Any]:
    return {"kwargs": kwargs, "additional_wrappers": wrappers}


def _masked(value: Any, name: str = "") -> Iterator[str]:
    """Name the arguments that were taken for secrets: the environment gets the mask in their place."""
    if isinstance(value, str) and MASK in value:
        yield f"the argument {name}: it was masked as a secret, and is {shown(value)} now"
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _masked(one, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            yield from _masked(one, f"{name}.{number}")


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
