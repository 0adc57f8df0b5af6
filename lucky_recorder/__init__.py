"""Records Gymnasium and MuJoCo simulations as robot-learning data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lucky_recorder import envs as _envs
from lucky_recorder import forks as _forks
from lucky_recorder.lazy import names as _names
from lucky_recorder.version import __version__

if TYPE_CHECKING:
    from lucky_recorder import koyu as koyu
    from lucky_recorder import vector as vector
    from lucky_recorder.capture.commands import commands_to_ctrl
    from lucky_recorder.edit.checksum import checksum
    from lucky_recorder.edit.merge import merge, rename_task
    from lucky_recorder.edit.recover import recover
    from lucky_recorder.edit.relabel import relabel
    from lucky_recorder.edit.select import delete, select
    from lucky_recorder.edit.split import split
    from lucky_recorder.edit.trim import trim
    from lucky_recorder.episode.record import EpisodeRecord
    from lucky_recorder.episode.sink import Prepared, Sink
    from lucky_recorder.errors import (
        CaptureError,
        ForkError,
        FormatError,
        GLError,
        LuckyRecorderError,
        SettingsError,
        StateError,
        StorageError,
        StreamError,
        VideoError,
        WorkerDiedError,
        WorkerStalledError,
    )
    from lucky_recorder.lerobot.view import lerobot_view
    from lucky_recorder.recorder.observer import Observer
    from lucky_recorder.recorder.trajectories import record_trajectories
    from lucky_recorder.recorder.wrapper import RecordSession
    from lucky_recorder.rollouts.collect import collect
    from lucky_recorder.rollouts.evaluate import evaluate
    from lucky_recorder.rollouts.remake import remake
    from lucky_recorder.rollouts.render import render
    from lucky_recorder.rollouts.replay import replay
    from lucky_recorder.session.dataset import SessionDataset
    from lucky_recorder.session.reader import Session
    from lucky_recorder.settings.camera import Camera, FreeCamera
    from lucky_recorder.settings.column import Column
    from lucky_recorder.settings.koyu import KoyuSettings
    from lucky_recorder.settings.lidar import Lidar
    from lucky_recorder.settings.recorder import RecorderSettings

# Imported when first used: a name costs nothing until then.
_HOMES = {
    "Camera": "settings.camera",
    "CaptureError": "errors",
    "Column": "settings.column",
    "EpisodeRecord": "episode.record",
    "ForkError": "errors",
    "FormatError": "errors",
    "FreeCamera": "settings.camera",
    "GLError": "errors",
    "KoyuSettings": "settings.koyu",
    "Lidar": "settings.lidar",
    "LuckyRecorderError": "errors",
    "Observer": "recorder.observer",
    "Prepared": "episode.sink",
    "RecordSession": "recorder.wrapper",
    "RecorderSettings": "settings.recorder",
    "Session": "session.reader",
    "SessionDataset": "session.dataset",
    "SettingsError": "errors",
    "Sink": "episode.sink",
    "StateError": "errors",
    "StorageError": "errors",
    "StreamError": "errors",
    "VideoError": "errors",
    "WorkerDiedError": "errors",
    "WorkerStalledError": "errors",
    "checksum": "edit.checksum",
    "collect": "rollouts.collect",
    "commands_to_ctrl": "capture.commands",
    "delete": "edit.select",
    "evaluate": "rollouts.evaluate",
    "lerobot_view": "lerobot.view",
    "merge": "edit.merge",
    "record_trajectories": "recorder.trajectories",
    "recover": "edit.recover",
    "relabel": "edit.relabel",
    "remake": "rollouts.remake",
    "rename_task": "edit.merge",
    "render": "rollouts.render",
    "replay": "rollouts.replay",
    "select": "edit.select",
    "split": "edit.split",
    "trim": "edit.trim",
}

# Rooms with names of their own, such as ``lr.koyu.Dataset``.
_ROOMS = ("koyu", "vector")

__all__ = [
    "Camera",
    "CaptureError",
    "Column",
    "EpisodeRecord",
    "ForkError",
    "FormatError",
    "FreeCamera",
    "GLError",
    "KoyuSettings",
    "Lidar",
    "LuckyRecorderError",
    "Observer",
    "Prepared",
    "RecordSession",
    "RecorderSettings",
    "Session",
    "SessionDataset",
    "SettingsError",
    "Sink",
    "StateError",
    "StorageError",
    "StreamError",
    "VideoError",
    "WorkerDiedError",
    "WorkerStalledError",
    "__version__",
    "checksum",
    "collect",
    "commands_to_ctrl",
    "delete",
    "evaluate",
    "lerobot_view",
    "merge",
    "record_trajectories",
    "recover",
    "relabel",
    "remake",
    "rename_task",
    "render",
    "replay",
    "select",
    "split",
    "trim",
]


__getattr__ = _names(__name__, _HOMES, _ROOMS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# gymnasium knows the sample environments as soon as both are imported, in either order.
_envs.register_when_imported()
# A child must know whether its parent had drawn, through us or not, before anything of ours was used.
_forks.watch()
