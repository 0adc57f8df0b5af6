"""Filming states that were recorded: pictures and scans of an episode, made as its recording would have made them.

A simulation is brought to one state after another, and is looked at as if it were running: the same snapshots, the same
queue, the same files. What a recording has besides (rows, verdicts, the user's own simulation) is missing here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.schedule import Clocks
from lucky_recorder.capture.source import Source, open_source
from lucky_recorder.episode.record import FinishedScans, FinishedVideo
from lucky_recorder.episode.sink import Sink
from lucky_recorder.errors import LuckyRecorderError, SettingsError
from lucky_recorder.recorder.committer import Committer
from lucky_recorder.recorder.messages import Counts, Seen
from lucky_recorder.recorder.opened import queue_depth
from lucky_recorder.recorder.worker import Worker
from lucky_recorder.recorder.writer import LaneWriter
from lucky_recorder.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Model(NamedTuple):
    """A model that states are of.

    Attributes:
        sha256: Its sum.
        content: The bytes of an MJB file.
        version: The version of MuJoCo that wrote it.
        plugins: The names of its plugins, as they were then; None where one is not known.
    """

    sha256: str
    content: bytes
    version: str
    plugins: Sequence[str | None] = ()


class Film(NamedTuple):
    """What was made of an episode.

    Attributes:
        ticks: How many states were filmed.
        videos: The finished file of each stream, by key.
        scans: The scans of each lidar, by name.
        is_reproducible: Whether the same bytes would be made again.
    """

    ticks: int
    videos: dict[str, FinishedVideo]
    scans: dict[str, FinishedScans]
    is_reproducible: bool


def clocks_of(settings: RecorderSettings, data: Fraction, base: Fraction, ticks_per_step: int) -> Clocks:
    """Return the rates at which states are filmed.

    Args:
        settings: What is filmed.
        data: Rows a second.
        base: States a second.
        ticks_per_step: States to a step of the environment.

    Raises:
        SettingsError: If there is not a state for every frame.
    """
    asked = [(f"camera {c.name!r}: frame_rate", c.frame_rate) for c in settings.recorded_cameras]
    asked += [(f"lidar {x.name!r}: rate", x.rate) for x in settings.recorded_lidars]
    for field, rate in (("data_hz", data), *asked):
        if rate is not None and (base / rate).denominator != 1:
            remedy = f"there are {base} states a second, and not one for every frame; give a rate that divides that"
            raise SettingsError.of(field, str(rate), remedy)
    return Clocks(data, base / max(1, ticks_per_step), base)


class Stage:
    """A simulation that shows recorded states, and is looked at.

    Attributes:
        source: How it is looked at; the same one for all models.

    Args:
        settings: What is looked at.
        clocks: The rates.
        model: The first model.

    Raises:
        SettingsError: If the model has not what is asked for.
        FormatError: If MuJoCo does not read it.
    """

    def __init__(self, settings: RecorderSettings, clocks: Clocks, model: Model) -> None:
        self._sha256 = model.sha256
        self._restored = simulator.Restored(model.content, model.version, model.plugins)
        self.source: Source = open_source(settings, self._restored.model, self._restored.data, rates=clocks)

    def turn_to(self, model: Model) -> bool:
        """Show another model; returns whether it is another.

        Raises:
            SettingsError: If it has not what is looked at.
            FormatError: If MuJoCo does not read it.
        """
        if model.sha256 == self._sha256:
            return False
        restored = simulator.Restored(model.content, model.version, model.plugins)
        self.source.rebind(restored.model, restored.data, may_differ=True)
        self._restored, self._sha256 = restored, model.sha256
        return True

    @property
    def size(self) -> int:
        """Values of a state."""
        return self._restored.size

    def show(self, state: NDArray[np.float64]) -> None:
        """Show a state, float64, shape ``(size,)``."""
        self._restored.show(state)


class Filming:
    """Films episodes, one after another.

    Args:
        stage: What is filmed.
        place: Says where videos are written.

    Raises:
        GLError: If pictures are asked for and no OpenGL context can be made.
    """

    def __init__(self, stage: Stage, place: Sink) -> None:
        source = stage.source
        self._stage = stage
        self._committer = Committer(source.settings, Counts(), (), are_said=False)
        self._committer.sinks = (place,)
        self._writer = LaneWriter(self._committer, source)
        self._worker = Worker(queue_depth(source), source.settings.worker_timeout_s)
        self._worker.start()
        try:
            self._prepare()
        except BaseException:  # also an interrupt: a thread and a GL context must not stay behind
            self.close()
            raise

    def _prepare(self) -> None:
        """Have the worker draw and scan the model that is shown."""
        source, devices = self._stage.source, self._writer.devices
        model = source.model_copy()
        if model is not None:
            self._worker.call(partial(devices.open_renderer, model))
        if source.schema.scans:
            self._worker.call(partial(devices.renew_casters, source.casters()))

    def film(
        self, take: int, key: str, model: Model, states: Iterable[NDArray[np.float64]], between: Callable[[], None]
    ) -> Film:
        """Film an episode.

        Args:
            take: Its number, higher than that of the one before.
            key: What its noise is keyed by.
            model: The model that its states are of.
            states: The state before each tick, in order.
            between: Called before each tick; what it raises breaks the episode off.

        Raises:
            LuckyRecorderError: What has failed; nothing more can be filmed then.
        """
        if self._stage.turn_to(model):
            self._prepare()
        stage, source, writer, worker = self._stage, self._stage.source, self._writer, self._worker
        # Here, and not before: a model that was turned to has others.
        sync, snapshot = source.sync, source.snapshot
        ticks = 0
        for state in states:
            between()
            stage.show(state)
            if sync is not None:
                sync()
            seen = [] if snapshot is None else snapshot(ticks)
            if seen:
                worker.put(partial(writer.draw, Seen(take, key, ticks, seen)))
                self._committer.raise_failure()
            ticks += 1
        videos, scans = worker.call(partial(writer.filmed, take, ticks))
        return Film(ticks, videos, scans, worker.call(writer.devices.draw_the_same_again))

    def close(self) -> None:
        """Remove the files of an episode that was broken off, let go of what draws, and end the thread."""
        with contextlib.suppress(LuckyRecorderError):  # a thread that hangs is left, as where a recording is closed
            self._worker.call(self._writer.abort)
            self._worker.call(self._writer.close)
        self._worker.stop()
