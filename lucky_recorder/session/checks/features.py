"""Checks of the features of ``info.json``: each column and stream described in full (spec: info.json)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lucky_recorder.errors import shown
from lucky_recorder.session.checks.declared import (
    DTYPES,
    ENTITIES,
    TEXT,
    VECTORS,
    Declared,
    column_shape,
    rate,
    shape_of,
)
from lucky_recorder.session.checks.evidence import INFO, Evidence, Fault

# Repeated on purpose: a check that used the writer's constants would not find a wrong one.
_FLAGS = ["new_policy_step", "post_reset"]
_LEADING_DTYPES = {
    **dict.fromkeys(("index", *ENTITIES, "episode_index", "frame_index", "task_index"), "int64"),
    "timestamp": "float64",
    "frame_flags": "uint8",
}
_STREAM_KEY = re.compile(r"observation\.images\.[A-Za-z0-9_-]+")
_ANY_STREAM_KEY = re.compile(r"observation\.images\.[^/]+")
_AXES = ["height", "width", "channels"]
_COLOR = {
    "video.codec": ("h264", "hevc", "av1"),
    "video.pix_fmt": ("yuv420p",),
    "video.is_depth_map": (False,),
    "has_audio": (False,),
}
_DEPTH = {
    "video.codec": ("ffv1",),
    "video.pix_fmt": ("gray16le",),
    "video.is_depth_map": (True,),
    "has_audio": (False,),
    "depth_dtype": ("uint16",),
    "depth_units": ("meters",),
}
# What a copy for LeRobot does not say of depth.
_UNSAID = ("video.codec", "video.pix_fmt")
_NO_MODEL = "None"
_DIAGNOSTIC = ("debug_channel", "NOTE")


def check_features(evidence: Evidence) -> Iterator[Fault]:
    """Check every entry, and that the columns every row starts with are there."""
    declared = evidence.declared
    if declared.features is None:
        return
    if sum(entity in declared.features for entity in ENTITIES) != 1:
        yield _fault("features", f"expected one of {', '.join(ENTITIES)}")
    for name in declared.leading:
        if name not in declared.features and name not in ENTITIES:
            yield _fault("features", f"{name} is missing")
    vectors = () if "entity_id" in declared.features else VECTORS
    yield from (_fault("features", f"{name} is missing") for name in vectors if name not in declared.features)
    for name, feature in declared.features.items():
        yield from _check_feature(name, feature, declared, name in vectors)


def _check_feature(name: str, feature: Any, declared: Declared, is_vector: bool) -> Iterator[Fault]:
    if not isinstance(feature, dict):
        yield _fault(name, f"is {shown(feature)}, expected an object")
    elif feature.get("dtype") == "video":
        yield from _check_stream(name, feature, declared)
    else:
        yield from _check_column(name, feature, is_vector)
        if name in declared.leading:
            yield from _check_leading(name, feature, declared.is_ours)
        elif declared.robots is not None:
            yield from _check_names(name, feature, declared.robots, is_vector)


def _check_column(name: str, feature: Mapping[str, Any], is_vector: bool) -> Iterator[Fault]:
    dtype, wanted = feature.get("dtype"), "float64" if is_vector else _LEADING_DTYPES.get(name)
    if not isinstance(dtype, str) or dtype not in ((wanted,) if wanted else DTYPES):
        yield _fault(name, f"dtype is {shown(dtype)}, expected {wanted or ', '.join(DTYPES)}")
    if column_shape(feature.get("shape"), is_vector) is None:
        yield _fault(name, f"shape is {shown(feature.get('shape'))}, expected a list of positive whole numbers")
    if dtype == TEXT and feature.get("shape") != [1]:
        yield _fault(name, f"shape is {shown(feature.get('shape'))}, expected [1]: a row holds one text")
    if not isinstance(feature.get("unit", ""), str):
        yield _fault(name, f"unit is {shown(feature['unit'])}, expected a text")


def _check_leading(name: str, feature: Mapping[str, Any], is_ours: bool) -> Iterator[Fault]:
    names = _FLAGS if name == "frame_flags" else None if is_ours else feature.get("names")
    if feature.get("shape") != [1]:
        yield _fault(name, f"shape is {shown(feature.get('shape'))}, expected [1]")
    if feature.get("names") != names:
        yield _fault(name, f"names is {shown(feature.get('names'))}, expected {names}")


def _check_names(name: str, feature: Mapping[str, Any], robots: int, is_vector: bool) -> Iterator[Fault]:
    """A name per value, every robot in turn; a custom column may name its values once for all robots, or not at all."""
    shape = column_shape(feature.get("shape"), is_vector)
    size = math.prod(shape or ())
    lengths = {size * robots} if is_vector else {size, size * robots}
    for key in ("names", "lucky_names"):
        required = size > 0 and is_vector and (key == "names" or name == "observation.state")
        names = feature.get(key)
        if names is None and not required:
            continue
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            yield _fault(name, f"{key} is {shown(names)}, expected a list of texts")
        elif shape and len(names) not in lengths:
            yield _fault(name, f"{len(names)} {key}, expected {size * robots}: {size} for each of {robots} robots")


def _check_stream(key: str, feature: Mapping[str, Any], declared: Declared) -> Iterator[Fault]:
    is_ours, is_depth = declared.is_ours, key.endswith("_depth")
    channels = 1 if is_depth else 3
    shape, details = shape_of(feature.get("shape"), 1 << 28), feature.get("info")
    if not (_STREAM_KEY if is_ours else _ANY_STREAM_KEY).fullmatch(key):
        yield _fault(key, "is no stream's name: observation.images.<Name>")
    if shape is None or len(shape) != 3 or shape[2] != channels:
        yield _fault(key, f"shape is {shown(feature.get('shape'))}, expected [height, width, {channels}]")
    if is_ours and feature.get("names") != _AXES:
        yield _fault(key, f"names is {shown(feature.get('names'))}, expected {_AXES}")
    if not isinstance(details, dict):
        yield _fault(key, f"info is {shown(details)}, expected an object")
        return
    if rate(details.get("video.fps")) is None:
        yield _fault(key, f"video.fps is {shown(details.get('video.fps'))}, expected a rate in Hz")
    stream = declared.streams.get(key)
    unsaid = _UNSAID if stream is not None and stream.is_renamed else ()
    for field, allowed in (_DEPTH if is_depth else _COLOR).items():
        if field not in unsaid and not any(
            details.get(field) == a and type(details.get(field)) is type(a) for a in allowed
        ):
            yield _fault(key, f"{field} is {shown(details.get(field))}, expected {' or '.join(map(str, allowed))}")
    yield from _check_sizes(key, shape, details)
    yield from _check_depth(key, details) if is_depth else ()


def _check_sizes(key: str, shape: tuple[int, ...] | None, details: Mapping[str, Any]) -> Iterator[Fault]:
    """LeRobot's own size fields may be left out; where they stand they are right."""
    for field, size in zip(("video.height", "video.width", "video.channels"), shape or (), strict=False):
        if field in details and details[field] != size:
            yield _fault(key, f"{field} is {shown(details[field])}, expected {size}")


def _check_depth(key: str, details: Mapping[str, Any]) -> Iterator[Fault]:
    """Check what a depth stream's codes mean, and with which sensor they were measured."""
    if not _is_positive(details.get("depth_scale")):
        yield _fault(key, f"depth_scale is {shown(details.get('depth_scale'))}, expected metres per code")
    for field in ("sensor_model", "zero_means"):
        if not isinstance(details.get(field), str) or not details[field]:
            yield _fault(key, f"{field} is {shown(details.get(field))}, expected a text")
    has_model = details.get("sensor_model") != _NO_MODEL
    if has_model != ("sensor_params" in details):
        yield _fault(key, f"sensor_params {'is missing' if has_model else 'is there'}, and {_model(details)}")
    elif has_model and not _is_calibration(details["sensor_params"]):
        yield _fault(key, f"sensor_params is {shown(details['sensor_params'])}, expected numbers by name")
    yield from _check_diagnostic(key, details, has_model)


def _check_diagnostic(key: str, details: Mapping[str, Any], has_model: bool) -> Iterator[Fault]:
    """A diagnostic channel is named, and a note says what its values are; neither stands alone."""
    present = [field for field in _DIAGNOSTIC if field in details]
    if present and not has_model:
        yield _fault(key, f"{present[0]} is there, and {_model(details)}")
    for field in _DIAGNOSTIC if present else ():
        if not isinstance(details.get(field), str) or not details[field]:
            yield _fault(key, f"{field} is {shown(details.get(field))}, expected a text")


def _model(details: Mapping[str, Any]) -> str:
    return f"sensor_model is {shown(details.get('sensor_model'))}"


def _is_positive(value: object) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf  # type: ignore[operator]


def _is_calibration(value: object) -> bool:
    numbers = value.values() if isinstance(value, dict) else ()
    return bool(numbers) and all(type(n) in (int, float) and abs(n) < math.inf for n in numbers)


def _fault(name: str, message: str) -> Fault:
    return Fault(INFO, None, f"{name}: {message}")
