"""Checks of one bundle: its sidecar, every row, every frame (spec: data.parquet, The invariant, Encoding)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError, VideoError, shown
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.checks.evidence import BundleEvidence, Fault
from lucky_recorder.koyu.checks.rows import BundleRows
from lucky_recorder.koyu.index import Feature
from lucky_recorder.settings.koyu import COLLECTION_MODES
from lucky_recorder.storage.untrusted import reason
from lucky_recorder.video.decode import FrameReader, VideoInfo, probe

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
LONGEST_GOP = 30
_ID = re.compile(r"[0-9a-f]{32}")
_SEED = re.compile(r"-?\d+")
_TEXTS = (
    "source_run_id",
    "source_checkpoint",
    "policy_name",
    "requested_manifest",
    "manifest_id",
    "source_project_id",
)


def check_bundle(bundle: BundleEvidence) -> Iterator[Fault]:
    """Check everything in a bundle."""
    for message in (*_sidecar_faults(bundle), *_feature_faults(bundle)):
        yield Fault(bundle.file(layout.SIDECAR), message)
    for message in _data_faults(bundle):
        yield Fault(bundle.file(layout.DATA), message)
    for feature in bundle.features.values():
        if feature.is_camera:
            name = layout.video_name(feature.key)
            yield from (Fault(bundle.file(name), message) for message in _video_faults(bundle, name, feature))
    yield from _strays(bundle)


# The sidecar.

Says = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_rate(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9


def _is_reward(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1)


def _is_moment(value: Any) -> bool:
    """Tell whether a text is an ISO 8601 moment in UTC."""
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).utcoffset() == timedelta(0)
    except ValueError:
        return False


_REQUIRED: dict[str, tuple[Says, str]] = {
    "capture_id": (lambda v: isinstance(v, str) and bool(_ID.fullmatch(v)), "32 hexadecimal digits"),
    "length": (lambda v: type(v) is int and v > 0, "a number of rows"),
    "fps": (_is_rate, "frames per second"),
    "task": (_is_text, "a text"),
    "task_description": (_is_text, "a text"),
    "collection_mode": (lambda v: v in COLLECTION_MODES, f"one of {', '.join(COLLECTION_MODES)}"),
    "features": (lambda v: isinstance(v, dict), "an object with dtype and shape per key"),
    "encoding": (lambda v: isinstance(v, dict), "an object"),
}
_OPTIONAL: dict[str, tuple[Says, str]] = {
    # Bundles that `koyu pull` makes have neither of the first two.
    "recorded_at": (_is_moment, "a moment in UTC, ISO 8601"),
    "record_hz": (_is_rate, "rows per second"),
    "reward": (_is_reward, "a number from 0 to 1, or null"),
    "events": (lambda v: isinstance(v, list), "a list"),
    "seed": (lambda v: v is None or (isinstance(v, str) and bool(_SEED.fullmatch(v))), "decimal digits, or null"),
    "end_reason": (_is_text, "a text"),
    "annotations": (lambda v: isinstance(v, dict), "an object"),
    **{name: (lambda v: v is None or _is_text(v), "a text, or null") for name in _TEXTS},
}


def _sidecar_faults(bundle: BundleEvidence) -> Iterator[str]:
    sidecar = bundle.sidecar
    for name, (is_good, expected) in (_REQUIRED | _OPTIONAL).items():
        if name not in sidecar:
            if name in _REQUIRED:
                yield f"{name} is missing"
        elif not is_good(sidecar[name]):
            yield f"{name}={shown(sidecar[name])}: expected {expected}"
    events = sidecar.get("events")
    for number, event in enumerate(events if isinstance(events, list) else []):
        step = event.get("step") if isinstance(event, dict) else None
        # What is marked after the last row comes before the one that would have been the next.
        if type(step) is not int or not 0 <= step <= bundle.length:
            yield f"events[{number}]: {shown(event)}: expected an object with a step of the episode, or its length"


def _feature_faults(bundle: BundleEvidence) -> Iterator[str]:
    declared = bundle.sidecar.get("features")
    features = declared if isinstance(declared, dict) else {}
    for key in (keys.STATE, keys.ACTION):
        if key not in features:
            yield f"features: {key} is missing"
    for key, feature in features.items():
        is_camera = key.startswith(keys.IMAGES)
        expected = "video" if is_camera else "float32"
        if isinstance(feature, dict) and feature.get("dtype") != expected:
            yield f"features[{key!r}]: dtype={shown(feature.get('dtype'))}: expected {expected!r}"


# The rows.


def _data_faults(bundle: BundleEvidence) -> Iterator[str]:
    name = bundle.file(layout.DATA)
    rows = BundleRows({key: f for key, f in bundle.features.items() if not f.is_camera})
    try:
        for table in bundle.dataset.batches(name):
            rows.add(table)
    except FormatError as error:
        # Of a file that cannot be read to its end, nothing else is told.
        yield reason(error, bundle.dataset.path / name)
        return
    if rows.count != bundle.length:
        yield f"{rows.count} rows, the sidecar says {bundle.length}"
    yield from rows.faults()


# The videos.


def _video_faults(bundle: BundleEvidence, name: str, feature: Feature) -> Iterator[str]:
    path = bundle.dataset.path / bundle.file(name)
    try:
        bundle.dataset.file(bundle.file(name))
        video = _decoded(bundle, path) if bundle.decode else probe(path)
    except FormatError as error:
        yield reason(error, path)
        return
    except VideoError as error:
        yield f"cannot be read: {reason(error, path)}"
        return
    said = {
        "frames": (video.frames, bundle.length),
        "codec": (video.codec, "h264"),
        "pixel format": (video.pix_fmt, "yuv420p"),
        "height and width": ((video.height, video.width), tuple(feature.shape[:2])),
    }
    for what, (found, expected) in said.items():
        if found != expected:
            yield f"{what} {found}, expected {expected}"
    yield from _keyframe_faults(video)


def _decoded(bundle: BundleEvidence, path: Any) -> VideoInfo:
    """Decode every frame; a frame that is broken or missing is an error."""
    with FrameReader(path, pixel_format="yuv420p") as frames:
        for _ in frames:
            pass
        bundle.progress.advance(frames.info.bytes)
        return frames.info


def _keyframe_faults(video: VideoInfo) -> Iterator[str]:
    if video.keyframes[0] != 0:
        yield f"its first {video.keyframes[0]} frames cannot be decoded: there is no keyframe before them"
    longest = int(np.diff([*video.keyframes, video.frames]).max())
    if longest > LONGEST_GOP:
        yield f"{longest} frames between two keyframes; more than {LONGEST_GOP} are no short GOP"


# What else lies there.


def _strays(bundle: BundleEvidence) -> Iterator[Fault]:
    cameras = {layout.video_name(f.key) for f in bundle.features.values() if f.is_camera}
    for file in bundle.dataset.files(bundle.name):
        name = file.removeprefix(f"{bundle.name}/")
        if name.endswith(".tmp") or name.startswith(layout.TEMPORARY):
            yield Fault(file, "left behind by an interrupted recording")
        elif name.endswith(layout.VIDEO_SUFFIX) and name not in cameras:
            yield Fault(file, "is no feature of the sidecar")
