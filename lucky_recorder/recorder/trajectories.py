"""Trajectories become a session: what somebody else has simulated is recorded as if it had been simulated here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.schedule import clocks
from lucky_recorder.capture.source import Source, open_source
from lucky_recorder.episode import clock
from lucky_recorder.episode.record import Outcome
from lucky_recorder.episode.sink import Sink
from lucky_recorder.errors import SettingsError, extended
from lucky_recorder.notices import tell
from lucky_recorder.recorder.given import Episodes, numbers, table
from lucky_recorder.recorder.observer import observer_of
from lucky_recorder.recorder.recorder import Recorder
from lucky_recorder.recorder.stage import trigger
from lucky_recorder.recorder.success import truth
from lucky_recorder.recorder.take import OPEN, Take
from lucky_recorder.recorder.trajectory import Column, Trajectory, seconds_of_tick
from lucky_recorder.recorder.walk import Walk, refuse_of_the_environment
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    import mujoco

_STATES, _CTRL, _SUCCESS = "states", "ctrl", "success"
_RESETS, _RAN, _TASK = "resets", "new_policy_step", "task_index"
_MOVED = ("mocap_pos", "mocap_quat")


def record_trajectories(
    model: mujoco.MjModel,
    *,
    states: Any = None,
    qpos: Any = None,
    qvel: Any = None,
    ctrl: Any = None,
    success: Any,
    resets: Any = None,
    new_policy_step: Any = None,
    task_index: Any = None,
    settings: RecorderSettings | Mapping[str, Any] | str | Path | None = None,
    sinks: Iterable[Sink] = (),
    **fields: Any,
) -> Path:
    """Record episodes that somebody else has simulated: from their states and commands, with pictures drawn here.

    Row i of an episode is the state before tick i, and the command during it. Where there is one state more than
    commands, it is the one after the last tick: it is no row, but ``success``, columns that are asked after the step
    and kept states have it. Nothing is stepped: what no state holds, such as an environment's reward, is not there.

    Episodes are of any lengths: an array of shape ``(episodes, ticks, n)``, a list of arrays ``(ticks, n)``, or an
    iterator that gives such arrays one after the other. Arrays are numpy's, or of a library that shares its memory
    (DLPack: torch, jax). What is known beforehand is looked at whole before anything is written; of an iterator each
    episode, before it is begun.

    The rate of the ticks is that of the states' time, or the setting ``control_hz`` or ``data_hz`` where they have
    none. With a lower ``data_hz`` only every so many ticks are rows.

    Args:
        model: The MuJoCo model. Only ever read; an iterator may change it between two episodes.
        states: Full states, as ``mj_getState`` gives them with ``mjSTATE_INTEGRATION`` or ``mjSTATE_FULLPHYSICS``: how
            many values there are tells which. Or a mapping from parts of a state by name (``time``, ``qpos``,
            ``qvel``, ``act``, ``mocap_pos``, ``mocap_quat``, ``eq_active``, ``userdata``) to such arrays.
        qpos: Positions, and ``qvel`` velocities, in the place of states.
        qvel: As above.
        ctrl: Commands, ``data.ctrl`` of each tick. May be left out where neither a column nor kept states hold them.
        success: Whether the episodes succeeded: a truth value for all, one for each, or a function that is given the
            moment of the state after the last tick.
        resets: Of each episode, the ticks before which the simulation was reset: their rows are flagged
            ``post_reset``, and time may run backwards there. None: before the first tick of each.
        new_policy_step: Of each episode, whether a policy has run for each tick, shape ``(ticks,)``. None: at every
            ``policy_period``-th.
        task_index: The task of all episodes, or of each, as an index of ``tasks``. None: the first.
        settings: What to record: settings, a mapping, or the path of a TOML file.
        sinks: Formats of your own that take the episodes, as for `Observer`.
        **fields: Settings by keyword, on top of ``settings``; their ``success`` has no meaning here.

    Returns:
        The session's folder.

    Raises:
        SettingsError: If something that is given, or a setting, cannot be recorded: names it, the episode and the tick.
            Of an iterator, the session has the episodes before that one.
        CaptureError: If a column's function gives what cannot be recorded.
        GLError: If pictures are asked for and no OpenGL context can be made; nothing is on the disk then.
        LuckyRecorderError: What failed in the worker.

    Example:
        ```python
        lr.record_trajectories(model, states=states, ctrl=ctrl, success=True, cameras=[lr.Camera("front")])
        ```
    """
    settled = RecorderSettings.of(settings, **fields)
    refuse_of_the_environment(settled.columns)
    layout = simulator.StateLayout(model)
    given = _Given(layout, settled, {**_parts(states, qpos, qvel), _CTRL: ctrl})
    of_all = {_SUCCESS: success, _TASK: task_index}
    of_each = {**given.inputs, **{n: v for n, v in ((_RESETS, resets), (_RAN, new_policy_step)) if v is not None}}
    episodes = Episodes(of_each, of_all)
    if episodes.count is not None:
        for number, found in enumerate(episodes):
            given.trajectory(number, found)
            _verdict(found[_SUCCESS], number)
    return _Recording(settled, sinks, given).record(episodes)


def _parts(states: Any, qpos: Any, qvel: Any) -> dict[str, Any]:
    """Return what is given of the states, by its argument or the name of the part."""
    apart = {name: value for name, value in (("qpos", qpos), ("qvel", qvel)) if value is not None}
    if states is None and not apart:
        raise SettingsError("states: nothing is given; give states, or qpos and qvel")
    if states is not None and not isinstance(states, Mapping):
        if apart:
            raise SettingsError(f"{next(iter(apart))}: stands in the states too; leave one of the two out")
        return {_STATES: states}
    if twice := [name for name in apart if states is not None and name in states]:
        raise SettingsError(f"{twice[0]}: stands in the states too; leave one of the two out")
    parts = {**(states or {}), **apart}
    if missing := [name for name in ("qpos", "qvel") if name not in parts]:
        raise SettingsError(
            f"{missing[0]}: is not given, and the other of qpos and qvel is; give both, zeros where nobody knows them"
        )
    return parts


class _Given:
    """Makes trajectories of what is given, and refuses what cannot be one.

    Attributes:
        layout: Where the parts of a state stand.
        inputs: What is given of each episode, by its name.
        hz: Ticks a second; None before the first episode has shown it.
    """

    def __init__(self, layout: simulator.StateLayout, settings: RecorderSettings, inputs: Mapping[str, Any]) -> None:
        self.layout = layout
        self.inputs = {name: value for name, value in inputs.items() if value is not None}
        self.hz: Fraction | None = None
        self._settings = settings
        self._names = [name for name in self.inputs if name != _CTRL]
        if unknown := [name for name in self._names if name != _STATES and name not in layout.parts]:
            known = ", ".join(layout.parts)
            raise SettingsError(f"states: the model's states have no part {unknown[0]!r}; they have: {known}")
        self._refuse_single()
        self._refuse_gaps()
        self._has_warned = False
        self._needs_end = next((c for c in settings.columns if c.is_called_after and settings.record_data), None)

    def _refuse_single(self) -> None:
        """Refuse an array that is one episode: its rows would be taken for episodes."""
        for name, value in self.inputs.items():
            shape = getattr(value, "shape", ())
            if len(shape) == 2 and (name in (_STATES, _CTRL) or name in self.layout.parts):
                remedy = f"where it is one episode, give {name}=[...], a list of one"
                raise SettingsError(f"{name}: is of shape {tuple(shape)}, without an axis of episodes; {remedy}")

    def _refuse_gaps(self) -> None:
        """Refuse what leaves out something that the model has, and rows or states would be wrong without."""
        parts, settings = self.layout.parts, self._settings
        if "act" in parts and not {"act", _STATES} & {*self._names}:
            remedy = 'give states, or states={"qpos": ..., "qvel": ..., "act": ...}'
            raise SettingsError(f"states: the model has {parts['act'].stop - parts['act'].start} activations; {remedy}")
        asks = (
            settings.keep_states or settings.mode != "custom" or any("ctrl:" in str(c.source) for c in settings.columns)
        )
        if _CTRL in parts and _CTRL not in self.inputs and asks and settings.record_data:
            raise SettingsError(
                f"ctrl: is not given, and the model takes {self.layout.model.nu} commands; give data.ctrl of each tick"
            )

    # An episode.

    def trajectory(self, number: int, found: Mapping[str, Any]) -> tuple[Trajectory, int]:
        """Make the trajectory of an episode, and look at all of it.

        Args:
            number: The episode's number.
            found: What is given of it, by name.

        Returns:
            The trajectory, and how many of its ticks last another time than the others, where that is allowed.

        Raises:
            SettingsError: If it cannot be recorded.
        """
        columns = [column for name in self._names for column in self._columns(name, found[name], number)]
        commands = self._commands(found[_CTRL], number) if _CTRL in self.inputs else None
        ticks = self._ticks(columns, commands, number)
        self._warn_of_mocap(columns)
        made = Trajectory(
            self.layout,
            columns,
            commands,
            ticks,
            _resets(found.get(_RESETS), ticks, number),
            self._ran(found.get(_RAN), ticks, number),
        )
        made.require_finite(f"{_CTRL}[{number}]")
        hz = self.hz = self.hz or self._rate(made.times)
        uneven = made.settle_times(hz, self._settings.uneven_steps == "allow")
        self._refuse_long(ticks, hz, number)
        self._refuse_open_end(made, number, found[_SUCCESS])
        return made, uneven

    def _columns(self, name: str, value: Any, number: int) -> list[Column]:
        field = f"{name}[{number}]"
        if name != _STATES:
            place = self.layout.parts[name]
            size = place.stop - place.start
            values = table(value, field, lambda n: "" if n == size else f"the model's {name} has {size}", flat=True)
            return [Column(values, slice(0, size), place, field)]
        values = table(value, field, self._why_no_state)
        return [Column(values, *place, field) for place in self.layout.places(values.shape[1])]

    def _why_no_state(self, size: int) -> str:
        if self.layout.places(size):
            return ""
        sizes = " or ".join(f"{count} ({name})" for name, count in self.layout.sizes.items())
        model = self.layout.model
        return (
            f"a state of this model, with nq={model.nq} and nv={model.nv}, has {sizes}: give the model that they are "
            "of, or qpos and qvel"
        )

    def _commands(self, value: Any, number: int) -> NDArray[Any]:
        nu = self.layout.model.nu
        return table(value, f"{_CTRL}[{number}]", lambda n: "" if n == nu else f"the model takes {nu} commands")

    def _ticks(self, columns: list[Column], commands: NDArray[Any] | None, number: int) -> int:
        counts = {column.field: len(column.values) for column in columns}
        ticks = next(iter(counts.values())) if commands is None else len(commands)
        if wrong := [(field, count) for field, count in counts.items() if count not in (ticks, ticks + 1)]:
            field, count = wrong[0]
            other = f"{_CTRL}[{number}]" if commands is not None else next(iter(counts))
            raise SettingsError(
                f"{field}: has {count} ticks, and {other} {ticks}; give as many, or one state more: that after the last"
            )
        return ticks

    def _warn_of_mocap(self, columns: list[Column]) -> None:
        """Say, once, that bodies stay where the model has them, since nobody says where they are."""
        missing = [
            n for n in _MOVED if (place := self.layout.parts.get(n)) and not any(_covers(c, place) for c in columns)
        ]
        if missing and not self._has_warned:
            self._has_warned = True
            tell(
                f"the model has mocap bodies, and nothing says their {missing[0]}: they stay where the model has them; "
                "give states={..., 'mocap_pos': ..., 'mocap_quat': ...}, or whole ones (mjSTATE_INTEGRATION)"
            )

    def _ran(self, value: Any, ticks: int, number: int) -> NDArray[np.bool_]:
        if value is None:
            every = np.zeros(ticks, bool)
            every[:: self._settings.policy_period] = True
            return every
        field = f"{_RAN}[{number}]"
        ran = numbers(value, field)
        if ran.shape != (ticks,) or ran.dtype.kind not in "biuf" or not np.isin(ran, (0, 1)).all():
            raise SettingsError.of(field, value, f"give True or False for each of the {ticks} ticks")
        told: NDArray[np.bool_] = np.asarray(ran, bool)
        return told

    def _rate(self, times: NDArray[Any] | None) -> Fraction:
        """Return how many ticks there are a second, by the settings or else by the states' time."""
        settings = self._settings
        if settings.control_hz is not None:
            return settings.control_hz
        lasts, noise = seconds_of_tick(times)
        if lasts:
            return clock.rate_of_step(lasts, noise)
        if settings.data_hz is None:
            remedy = "the states do not say how long a tick is; give the rate of the ticks in Hz, or set control_hz"
            raise SettingsError.of("data_hz", None, remedy)
        return settings.data_hz

    def _refuse_long(self, ticks: int, hz: Fraction, number: int) -> None:
        limit = self._settings.max_episode_length_s
        if limit is not None and ticks > clock.ticks_within(limit, hz):
            remedy = f"episode {number} lasts {float(ticks / hz):g} s; leave it out, or cut the arrays"
            raise SettingsError.of("max_episode_length_s", limit, remedy)

    def _refuse_open_end(self, made: Trajectory, number: int, success: Any) -> None:
        """Refuse what asks for the state after a tick where nobody knows it."""
        what = f"column {self._needs_end.name!r}: is" if self._needs_end else "success: is" if callable(success) else ""
        if what and not made.knows_end:
            raise SettingsError(
                f"{what} asked after the last tick, and episode {number} has no state after it; give one state more "
                "than commands"
            )
        if self._needs_end and any(made.resets[1:] if 0 in made.resets else made.resets):
            raise SettingsError(
                f"{what} asked after each tick, and nobody knows the state that a reset in episode {number} has taken "
                "the place of; begin another episode there"
            )


def _covers(column: Column, place: slice) -> bool:
    return bool(column.full.start <= place.start and place.stop <= column.full.stop)


def _resets(value: Any, ticks: int, number: int) -> tuple[int, ...]:
    if value is None:
        return (0,)
    field = f"{_RESETS}[{number}]"
    found = [v.index(one) for one in value] if hasattr(value, "__iter__") else [None]
    told = sorted({one for one in found if one is not None})
    if None in found or (told and not 0 <= told[0] <= told[-1] < ticks):
        raise SettingsError.of(field, value, f"give ticks of the episode, from 0 to {ticks - 1}")
    return tuple(told)


def _verdict(success: Any, number: int) -> Callable[[Any], Any] | bool:
    return success if callable(success) else truth(success, f"{_SUCCESS}[{number}]")


class _Recording:
    """Records trajectories by a recorder of their own."""

    def __init__(self, settings: RecorderSettings, sinks: Iterable[Sink], given: _Given) -> None:
        self._recorder = Recorder(settings, sinks)
        self._given = given
        self._settings = self._recorder.settings
        self._is_wanted = trigger(settings)
        self._walk: Walk | None = None
        self._source: Source | None = None

    def record(self, episodes: Episodes) -> Path:
        recorder = self._recorder
        try:
            with observer_of(recorder):
                for number, found in enumerate(episodes):
                    trajectory, uneven = self._given.trajectory(number, found)
                    success = _verdict(found[_SUCCESS], number)
                    if not self._is_wanted(number):
                        continue
                    if not self._begin(found[_TASK]):
                        break
                    self._take_in(recorder.open_take(), trajectory, uneven, success)
        except SettingsError as error:
            if recorder.path is None or recorder.recording is None or not recorder.recording.counts.kept:
                raise
            kept = recorder.recording.counts.kept
            raise extended(error, f"the {kept} episodes before it are in {recorder.path}") from error
        if recorder.path is None:
            raise SettingsError(f"{next(iter(self._given.inputs))}: there is no episode in it; nothing was written")
        return recorder.path

    def _begin(self, task: Any) -> bool:
        """Begin an episode; returns whether one may be begun."""
        recorder, given = self._recorder, self._given
        if task is not None:
            recorder.set_task(task)
        if self._walk is None:
            mover = simulator.Mover(given.layout.model)
            rates = clocks(self._settings, given.hz, what="the rate of the ticks")
            self._source = source = open_source(self._settings, given.layout.model, mover.data, rates=rates)
            self._walk = Walk(source, given.layout, mover)
            self._mover = mover
            recorder.start(source)
            return True
        if not recorder.is_recording:
            return False
        recorder.begin()
        return True

    def _take_in(self, take: Take, trajectory: Trajectory, uneven: int, success: Callable[[Any], Any] | bool) -> None:
        assert self._walk is not None
        assert self._source is not None
        if self._walk.takes_many:
            # Elsewhere they are counted tick by tick.
            self._source.uneven_steps += uneven
        try:
            self._walk.lead(take, take.lane, trajectory)
            verdict = success if isinstance(success, bool) else self._asked(success, take, trajectory)
        except BaseException as error:  # whatever a function of the user's raises, and an interrupt
            take.fail(error)
            raise
        if take.state is OPEN:
            self._recorder.end(Outcome(verdict))

    def _asked(self, success: Callable[[Any], Any], take: Take, trajectory: Trajectory) -> bool:
        """Ask a function of the user's about the state after the last tick."""
        ticks = trajectory.ticks
        self._mover.put(trajectory.states(ticks, ticks + 1, len(self._given.layout.fresh))[0])
        self._mover.command(trajectory.commands(ticks - 1, ticks)[0])
        take.refresh()
        return truth(success(take.moment), "the success callable's answer")
