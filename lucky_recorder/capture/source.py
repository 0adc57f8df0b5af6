"""A source: one simulation as the recorder sees it, with its columns, cameras and clock."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lucky_recorder.capture.attached import Attached, attach, check_unrecorded_masks
from lucky_recorder.capture.channels import OWN, Channel, DerivedColumn
from lucky_recorder.capture.door import renderer as drawing
from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.moment import Moment
from lucky_recorder.capture.pulse import Pulse
from lucky_recorder.capture.rates import is_vouched_for, measured
from lucky_recorder.capture.relayout import difference
from lucky_recorder.capture.render import check_rendered
from lucky_recorder.capture.robots import Robot
from lucky_recorder.capture.schedule import Clocks, clocks, schedule
from lucky_recorder.capture.snapshot import Scenes, Snapshot
from lucky_recorder.capture.streams import at_rates, scans_of, streams_of, to_draw, warn_of_idle
from lucky_recorder.capture.sync import Sync, needs_gl
from lucky_recorder.capture.task import task_channel, task_reader
from lucky_recorder.episode import clock
from lucky_recorder.episode.keys import GYM_ACTION, MODES
from lucky_recorder.episode.schema import Schema, Stream
from lucky_recorder.errors import SettingsError, StateError
from lucky_recorder.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    import mujoco
    from numpy.typing import NDArray


class Source:
    """One simulation being recorded.

    What follows from its model and data is an `Attached`, replaced as a whole where an environment makes them
    anew. The methods are many, since each is one thing that a recording asks of a simulation; they hold no state.

    Attributes:
        settings: What is recorded.
        schema: What its rows and frames are.
        moment: What callables are given: one object for the whole recording.
        clocks: The rates.
        period: How long a base tick lasts, in seconds of the simulation's own time; 0 where that stands still, None
            where there is none or it is not known yet.
        is_measured: Whether the rates were taken from how long the first step has lasted.
        uneven_steps: How many steps have lasted another time, where that is allowed.
        task: Says which task the coming row is of; None where the user does.
        needs_gl: Whether pictures are drawn here, rather than by the environment's own ``render()``.
        renderer: Draws its pictures in the worker; None where nothing is drawn here.
    """

    def __init__(
        self,
        settings: RecorderSettings,
        simulation: simulator.Simulation | None,
        clocks: Clocks,
        env: Any = None,
        render: Callable[[], Any] | None = None,
        scenes: Scenes | None = None,
    ) -> None:
        self.settings = settings
        self.clocks = clocks
        self.moment = Moment(env=getattr(env, "unwrapped", env))
        self.period = float(1 / clocks.base) if simulation is not None and clocks.is_settled else None
        self.is_measured = False
        self.uneven_steps = 0
        self.needs_gl = needs_gl(settings)
        self._env = env
        self._render = render
        self._scenes = scenes or Scenes()
        # First: it refuses what cannot be recorded from this simulation, and the schema relies on that.
        attached = attach(settings, simulation, env, render, self._scenes)
        check_rendered(settings, render)
        check_unrecorded_masks(settings, simulation)
        self.task = task_reader(settings, env)
        self._said_tasks = () if self.task is None else (task_channel(self.task),)
        self._streams = streams_of(settings, clocks, simulation)
        self.schema = self._schema_of(attached, self._streams)
        warn_of_idle(settings)
        self._look_through(attached)
        cameras, quality = settings.recorded_cameras, settings.render_quality
        # Only built here. The worker opens it: an OpenGL context is current in one thread at a time.
        self.renderer = drawing.Renderer(cameras, quality) if self.needs_gl else None

    def _schema_of(self, attached: Attached, streams: tuple[Stream, ...]) -> Schema:
        settings = self.settings
        # Made in any case: they refuse what cannot be drawn.
        scans = scans_of(settings, self.clocks, attached.simulation)
        mode = MODES[settings.mode]
        return Schema(
            entity_column=mode.entity_column,
            entity_label=mode.label,
            robots=tuple(r.name for r in attached.robots),
            hz=self.clocks.data,
            columns=tuple(c.field for c in attached.columns),
            streams=() if settings.is_deferred else streams,
            scans=() if settings.is_deferred else scans,
            has_rows=settings.record_data,
            has_states=settings.keep_states,
            to_draw=to_draw(settings, streams),
        )

    def _look_through(self, attached: Attached) -> None:
        """Look at another model and data from here on."""
        self._attached = attached
        self._schedule = schedule(self.settings, self.clocks, attached.captures)
        if attached.simulation is not None:
            self.moment.model, self.moment.data = attached.simulation.model, attached.simulation.private

    # What is looked at.

    @property
    def env(self) -> Any:
        """The environment, with the wrappers that are recorded; None where there is none."""
        return self._env

    @property
    def robots(self) -> tuple[Robot, ...]:
        """Whose rows there are."""
        return self._attached.robots

    @property
    def entity_ids(self) -> tuple[int, ...]:
        """The robots' ids, in the order of their rows."""
        return tuple(r.entity_id for r in self.robots)

    @property
    def columns(self) -> tuple[DerivedColumn, ...]:
        """The columns, each with the channel it derives from."""
        return self._attached.columns

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels, each once."""
        return (*self._attached.channels, *self._said_tasks)

    @property
    def pulse(self) -> Pulse | None:
        """Where the simulation's time and its physics steps are read; None without MuJoCo."""
        simulation = self._attached.simulation
        return simulator.pulse_of(simulation.data) if simulation else None

    @property
    def reads_after_steps(self) -> bool:
        """Whether a row holds something of the simulation as a step has left it, such as the command."""
        return any(channel.phase == "after" and not channel.is_returned for channel in self.channels)

    @property
    def instabilities(self) -> NDArray[np.int32] | None:
        """How often MuJoCo has found a bad state and reset itself, always up to date; None where it never does."""
        simulation = self._attached.simulation
        return simulation.instabilities if simulation else None

    @property
    def refusals(self) -> NDArray[np.int32] | None:
        """How often MuJoCo has applied zeros in the place of bad commands, shape ``(1,)``, always up to date."""
        simulation = self._attached.simulation
        return simulation.refusals if simulation else None

    # Looking. A lane asks for these functions once and calls them at every tick: a property costs as much as a copy.

    @property
    def sync_level(self) -> Sync:
        """How much must follow from a state before it is looked at."""
        return self._attached.level

    @property
    def sync(self) -> Callable[[], None] | None:
        """The function that brings the private data to the present state; None if nothing looks through it."""
        simulation, level = self._attached.simulation, self._attached.level
        if simulation is None or level is Sync.NOTHING:
            return None
        return simulation.bringing(level)

    @property
    def snapshot(self) -> Callable[[int], list[Snapshot]] | None:
        """The function that takes a snapshot of all that is due at a tick; None without cameras and lidars."""
        return self._schedule.snapshot if self.schema.streams or self.schema.scans else None

    @property
    def states(self) -> simulator.StateReader | None:
        """What reads the full states; None where they are not kept."""
        return self._attached.states

    @property
    def fingerprint(self) -> Callable[[], bytes] | None:
        """The function that tells one state of the simulation from another; None without MuJoCo."""
        simulation = self._attached.simulation
        return simulation.fingerprint if simulation else None

    def refresh(self) -> None:
        """Bring the private data to the present state, with everything that follows from it."""
        if self._attached.simulation is not None:
            self._attached.simulation.sync(Sync.FORWARD)

    def present(self) -> dict[str, NDArray[Any]]:
        """Return the columns that are known before a policy acts, as a row of the present state would have them.

        Returns:
            Arrays of a column's shape; with several robots, of shape ``(robots, *shape)``.
        """
        robots = len(self.robots)
        values = {c.field.name: c.derive(_reading(c.channel, self.moment), robots, None) for c in self._known_before()}
        # Copied: a row may be a view of the simulation's own memory, which changes with the next step.
        return {name: np.array(rows if robots > 1 else rows[0]) for name, rows in values.items()}

    def _known_before(self) -> list[DerivedColumn]:
        # Read before the step as well, but the policy has not chosen its action yet.
        said = {OWN + c.name for c in self.settings.columns if str(c.source).startswith("gym:action")}
        return [
            c
            for c in self.columns
            if c.channel.phase == "before"
            and c.channel.name not in said
            and not f"{c.channel.name}.".startswith(f"{GYM_ACTION}.")
        ]

    # What an episode needs of the model as it is when the episode begins.

    def commands(self) -> simulator.CommandMap | None:
        """Return the mapping of the commands, with the ranges of this moment."""
        simulation = self._attached.simulation
        if simulation is None or not any(c.is_command for c in self.columns):
            return None
        return simulator.CommandMap.of_all(simulation.model)

    def casters(self) -> list[simulator.Caster]:
        """Return what scans for each lidar, on a private copy of the model as it is now."""
        simulation = self._attached.simulation
        assert simulation is not None
        # The worker reads this copy, while the environment may go on changing its own model.
        model = copy.copy(simulation.model)
        simulator.refresh_bounds(model)
        return [simulator.Caster(lidar, model) for lidar in self.settings.recorded_lidars]

    def model_copy(self) -> mujoco.MjModel | None:
        """Return a private copy of the model for the renderer, or None if nothing is drawn."""
        simulation = self._attached.simulation
        return copy.copy(simulation.model) if simulation and self.needs_gl else None

    def asset_change(self) -> simulator.AssetChange | None:
        """Return what a rendering context must be told of the model since it was last asked."""
        assets = self._attached.assets
        return assets.change() if assets else None

    # What may change while a recording goes on.

    def rebind(self, model: mujoco.MjModel, data: mujoco.MjData, *, may_differ: bool = False) -> bool:
        """Look at another model and data, if these are not the ones it looks at; returns whether the model is another.

        A refusal leaves everything as it was.

        Args:
            model: The model.
            data: Its data.
            may_differ: Whether it is what has become of the model in place, so that streams stay what they were.

        Raises:
            SettingsError: If the new model gives other columns, since a session's rows all have one layout, or lacks
                something that is recorded, such as a camera.
        """
        bound = self._attached.simulation
        if bound is None or (bound.model is model and bound.data is data):
            return False
        try:
            attached = attach(self.settings, simulator.Simulation(model, data), self._env, self._render, self._scenes)
            streams = streams_of(self.settings, self.clocks, attached.simulation)
            changed = "" if may_differ else difference(self.schema, self._schema_of(attached, streams))
        except SettingsError as error:
            # Nobody has changed a setting: what is wrong is that the model is another.
            why = "the environment replaced its model, or its data, and this session cannot go on with the new one"
            raise SettingsError(f"{why}: {error}") from error
        if changed:
            raise SettingsError(
                f"the environment replaced its model by one of another layout: {changed}; "
                "every row of a session has the same layout: record the other model in a session of its own"
            )
        is_other = bound.model is not model
        # Where only the data are new, the worker keeps its rendering context. The record of what that context was told
        # is kept too: a fresh one would miss what has changed since.
        self._look_through(attached if is_other else replace(attached, assets=self._attached.assets))
        return is_other

    @property
    def has_rates(self) -> bool:
        """Whether the rates are known; until then only tick 0 can be recorded."""
        return self.clocks.is_settled

    def is_vouched_for(self, seconds: float) -> bool:
        """Tell whether a step that is the first and the last of its episode shows how long steps last.

        It may have been cut short, or have held more than a step, so that something else must say so too, or nothing.
        """
        return is_vouched_for(self.settings, self._env, seconds)

    def learn_rates(self, seconds: float) -> None:
        """Take the rates from how long the first step has lasted; a refusal leaves everything as it was.

        Streams, columns and robots were refused when the source was opened, if they could not be recorded.

        Args:
            seconds: Simulated time that the step has taken.

        Raises:
            SettingsError: If a rate does not divide that of the steps, or a codec cannot hold so many frames a second.
            StateError: If the rates are known already.
        """
        if self.has_rates:
            raise StateError(f"the rates are known already: {self.clocks.control} steps a second")
        # All that may be refused comes first, then the new values: so a refusal changes nothing.
        pulse = self.pulse
        # A simulation whose time counts the seconds since 1970 knows it to a quarter of a microsecond.
        noise = 2 * math.ulp(pulse.data.time) / seconds if pulse is not None and seconds > 0 else 0.0
        settled = measured(self.settings, self._env, seconds, noise)
        self._streams = at_rates(self.settings, settled, self._streams)
        self.clocks = settled
        self.schema = self._schema_of(self._attached, self._streams)
        # As it was measured, and not as the rate says: later steps are rounded in the same way.
        is_stated = seconds > 0 and settled.control != clock.rate_of_step(seconds, noise)
        self.period = float(1 / settled.control) if is_stated else seconds
        self.is_measured = True
        # It was taken before it was known how long it should last.
        self.uneven_steps += is_stated
        self._schedule = schedule(self.settings, settled, self._attached.captures)


def _reading(channel: Channel, moment: Moment) -> NDArray[Any]:
    """Return a channel's present value with an axis of one tick in front."""
    if channel.view is not None:
        return channel.view[None]
    return np.asarray(channel.read(moment), channel.dtype)[None]


def open_source(
    settings: RecorderSettings,
    model: mujoco.MjModel | None = None,
    data: mujoco.MjData | None = None,
    env: Any = None,
    render: Callable[[], Any] | None = None,
    rates: Clocks | None = None,
    scenes: Scenes | None = None,
) -> Source:
    """Look at a simulation for the first time.

    Args:
        settings: What is recorded.
        model: The model, if MuJoCo simulates it.
        data: The data that belong to it.
        env: The environment as it is stepped, if there is one.
        render: Its ``render()``, if that gives pictures.
        rates: The rates, or `UNSETTLED` where the first step will show them; None: as the settings say.
        scenes: What all lanes copy scenes into; None: this one is the only lane.

    Raises:
        SettingsError: If the settings cannot be recorded from it.
    """
    simulation = simulator.Simulation(model, data) if model is not None and data is not None else None
    return Source(settings, simulation, rates or clocks(settings, settings.control_hz), env, render, scenes)
