"""``episode.json``, a bundle's sidecar: what it says of itself, written and read back (spec: episode.json)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lucky_recorder.episode import clock, keys
from lucky_recorder.episode.parts import let_go, parts
from lucky_recorder.episode.record import About, EpisodeRecord, Outcome, Reason
from lucky_recorder.errors import FormatError, shown
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.features import BundleLayout
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.storage.untrusted import Folder

ACTION_SOURCE = "action_source"
# The reasons with which a reward that the caller gave counts; `reward` says what becomes of each.
_JUDGED = (Reason.VERDICT, Reason.NO_VERDICT, Reason.TIME_LIMIT)


@dataclass(frozen=True)
class Sidecars:
    """What the sidecars of one recording have in common.

    Attributes:
        bundle: What its bundles hold.
        settings: What they say of themselves.
        encoding: How its videos were made.
    """

    bundle: BundleLayout
    settings: KoyuSettings
    encoding: Mapping[str, Any]

    def of(self, record: EpisodeRecord, robot: int, began_ns: int, capture_id: str) -> dict[str, Any]:
        """Return the sidecar of one robot's bundle.

        Args:
            record: The finished episode.
            robot: The robot's place among the robots.
            began_ns: When it began, nanoseconds since 1970 in whole microseconds.
            capture_id: The bundle's.
        """
        tasks = record.columns[keys.TASK_INDEX][:: len(self.bundle.robots)]
        return {
            "schema_version": layout.SCHEMA_VERSION,
            "capture_id": capture_id,
            "recorded_at": clock.moment(began_ns),
            "length": record.data_ticks,
            "fps": self.bundle.fps,
            "record_hz": self.bundle.fps,
            **_named(record.tasks[int(tasks[0])]),
            "collection_mode": self.settings.collection_mode,
            "features": self.bundle.features,
            "encoding": self.encoding if self.bundle.cameras else {},
            **self.settings.provenance,
            "reward": reward(record.outcome),
            "seed": record.about.seed,
            "end_reason": record.end_reason,
            "annotations": dict(record.about.annotations),
            "events": self._events(record, tasks),
            "dataset": self.settings.name,
            "robot": self.bundle.robots[robot],
            "names": self.bundle.names(robot),
            ACTION_SOURCE: self.settings.action,
        }

    def _events(self, record: EpisodeRecord, tasks: Any) -> list[Mapping[str, Any]]:
        """Return what happened within an episode, in order: what was marked, and where the task became another."""
        changes: list[int] = []
        for part in parts(len(tasks) - 1, tasks.strides[0]):
            after = slice(part.start + 1, part.stop + 1)
            changes += (after.start + (tasks[after] != tasks[part]).nonzero()[0]).tolist()
            let_go(tasks)
        events = [{"step": step, "type": "task", **_named(record.tasks[int(tasks[step])])} for step in changes]
        events += [{"step": e.tick, "type": e.kind, **e.fields} for e in record.events]
        return sorted(events, key=lambda event: event["step"])


def _named(description: str) -> dict[str, str]:
    return {"task": layout.slug(description), "task_description": description}


def reward(outcome: Outcome) -> float | None:
    """Return an episode's reward, 0 to 1; None where nobody has judged it.

    A verdict is 1.0 for success, 0.0 for failure, or the number that came with it. The time limit is a failure: the
    episode had all its time. One that was stopped or broken off has no verdict, nor has one whose environment says
    nothing of success.
    """
    if outcome.reason not in _JUDGED:
        return None
    if outcome.reward is not None:
        return outcome.reward
    return None if outcome.reason is Reason.NO_VERDICT else float(outcome.success)


def about_of(sidecar: Mapping[str, Any]) -> About:
    """Return what a sidecar says of its episode besides its rows; what others mean by these names is left out."""
    seed, reason, said = (sidecar.get(name) for name in ("seed", "end_reason", "annotations"))
    return About(
        seed=seed if isinstance(seed, str) and seed.isdecimal() else None,
        ended_by=reason if isinstance(reason, str) and reason else None,
        annotations=said if isinstance(said, dict) else {},
    )


def read_sidecar(dataset: Path, folder: str) -> dict[str, Any]:
    """Return the sidecar of a bundle, by its folder's name.

    Raises:
        FormatError: If it is broken, or of a version that is not known.
    """
    relative = f"{layout.EPISODES}/{folder}/{layout.SIDECAR}"
    path, sidecar = dataset / relative, Folder(dataset).json(relative)
    layout.refuse_other_versions(sidecar, str(path))
    for name, kind in (("capture_id", str), ("length", int), ("features", dict)):
        if not isinstance(sidecar.get(name), kind):
            raise FormatError(f"{path}: {name}={shown(sidecar.get(name))}: expected {kind.__name__}")
    return sidecar
