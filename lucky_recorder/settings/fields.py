"""The keyword form of the settings: what ``RecordSession(env, **fields)`` takes, for type checkers and editors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, SupportsIndex, TypedDict

from lucky_recorder.settings.camera import Camera
from lucky_recorder.settings.column import Column
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.settings.lidar import Lidar
from lucky_recorder.settings.validators import Flag, Number, Rate


class RecorderFields(TypedDict, total=False):
    """The fields of `RecorderSettings`, with the types that their converters accept; a test compares the two."""

    output_dir: str | os.PathLike[str]
    mode: str
    robots: Iterable[str] | None
    columns: Iterable[Column | Mapping[str, Any]]
    gym_columns: Flag
    data_hz: Rate | None
    control_hz: Rate | None
    uneven_steps: str
    files_per_chunk: SupportsIndex
    episodes_per_file: SupportsIndex
    max_episode_length_s: Number | None
    discard_and_retry_failed: Flag
    total_episodes: SupportsIndex | None
    success: str | Callable[..., Any]
    episode_trigger: str | Callable[[int], bool] | None
    record_data: Flag
    record_cameras: Flag
    record_color_video: Flag
    record_masks: Flag
    policy_period: SupportsIndex
    video_format: str
    hardware_encoder: Flag
    video_preset: str
    render_quality: str
    metadata_every: SupportsIndex
    seed: SupportsIndex
    worker_timeout_s: Number
    cameras: Iterable[Camera | Mapping[str, Any]]
    lidars: Iterable[Lidar | Mapping[str, Any]]
    tasks: Iterable[str]
    task: str | Callable[..., Any] | None
    koyu: KoyuSettings | Mapping[str, Any] | None
    formats: Iterable[str] | None
    resume: str | os.PathLike[str] | None
    provenance: Flag
    save_model: Flag
    keep_states: Flag
    render: str


class DrawnFields(TypedDict, total=False):
    """Those of them that say what is drawn of a session afterwards."""

    cameras: Iterable[Camera | Mapping[str, Any]]
    lidars: Iterable[Lidar | Mapping[str, Any]]
    record_color_video: Flag
    record_masks: Flag
    render_quality: str
    video_format: str
    hardware_encoder: Flag
    video_preset: str
    seed: SupportsIndex
    worker_timeout_s: Number
