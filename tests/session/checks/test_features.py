from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lucky_recorder.session.check import Fault
from tests.session.breaking import FRONT, INFO, Edit


def feature(name: str, **fields: Any) -> Callable[[dict], None]:
    return lambda info: info["features"][name].update(fields)


def stream_info(**fields: Any) -> Callable[[dict], None]:
    return lambda info: info["features"][FRONT]["info"].update(fields)


WRONG_FEATURES = {
    "index dtype": (feature("index", dtype="int32"), "index: dtype"),
    "index shape": (feature("index", shape=[2]), "index: shape"),
    "index names": (feature("index", names=["a"]), "index: names"),
    "flag names": (feature("frame_flags", names=["a", "b"]), "frame_flags: names"),
    "action dtype": (feature("action", dtype="float32"), "action: dtype"),
    "unknown dtype": (feature("action", dtype=["x"]), "action: dtype"),
    "action shape": (feature("action", shape=[0]), "action"),
    "negative shape": (feature("action", shape=[-3]), "action: shape"),
    "absurd shape": (feature("action", shape=[1 << 60]), "action: shape"),
    "absurd product": (feature("action", shape=[1 << 15] * 8), "action: shape"),
    "names of one robot": (feature("action", names=["a", "b", "c"]), "action: 3 names, expected 6"),
    "no names": (feature("action", names=None), "action: names"),
    "names of numbers": (feature("observation.state", names=[1] * 6), "observation.state: names"),
    "no lucky names": (feature("observation.state", lucky_names=None), "observation.state: lucky_names"),
    "few lucky names": (feature("observation.state", lucky_names=["a"]), "observation.state: 1 lucky_names"),
    "unit": (feature("action", unit=3), "action: unit"),
    "no object": (lambda info: info["features"].update(action=[]), "action: is []"),
    "missing column": (lambda info: info["features"].pop("task_index"), "features: task_index is missing"),
    "missing action": (lambda info: info["features"].pop("action"), "features: action is missing"),
    "missing entity": (lambda info: info["features"].pop("robot_id"), "features: expected one of robot_id"),
    "two entities": (
        lambda info: info["features"].update(sim_id=info["features"]["robot_id"]),
        "features: expected one of robot_id",
    ),
    "channels": (feature(FRONT, shape=[48, 64, 1]), f"{FRONT}: shape"),
    "no shape": (feature(FRONT, shape=None), f"{FRONT}: shape"),
    "axes": (feature(FRONT, names=["channels"]), f"{FRONT}: names"),
    "no info": (feature(FRONT, info=None), f"{FRONT}: info"),
    "fps": (stream_info(**{"video.fps": "50"}), f"{FRONT}: video.fps"),
    "codec": (stream_info(**{"video.codec": "mpeg4"}), f"{FRONT}: video.codec"),
    "pixels": (stream_info(**{"video.pix_fmt": "yuv444p"}), f"{FRONT}: video.pix_fmt"),
    "depth map": (stream_info(**{"video.is_depth_map": 0}), f"{FRONT}: video.is_depth_map"),
    "audio": (stream_info(has_audio=True), f"{FRONT}: has_audio"),
    "height": (stream_info(**{"video.height": 64}), f"{FRONT}: video.height"),
    "a name with a slash": (
        lambda info: info["features"].update({"observation.images./..": info["features"][FRONT]}),
        "is no stream's name",
    ),
}


@pytest.mark.parametrize("case", WRONG_FEATURES)
def test_every_wrong_feature_is_a_fault(edit: Edit, case: str) -> None:
    change, message = WRONG_FEATURES[case]
    assert any(f.file == INFO and message in f.message for f in edit(INFO, change))


def test_a_depth_stream_is_described_in_full(edit: Edit) -> None:
    key = f"{FRONT}_depth"
    good = {
        "video.fps": 50,
        "video.codec": "ffv1",
        "video.pix_fmt": "gray16le",
        "video.is_depth_map": True,
        "has_audio": False,
        "depth_scale": 0.001,
        "depth_dtype": "uint16",
        "depth_units": "meters",
        "sensor_model": "None",
        "zero_means": "no surface",
    }
    axes = ["height", "width", "channels"]

    def add(**changes: Any) -> Callable[[dict], None]:
        entry = {"dtype": "video", "shape": [48, 64, 1], "names": axes, "info": good | changes}
        return lambda info: info["features"].update({key: entry})

    def said(faults: list[Fault]) -> list[str]:
        return [f.message for f in faults if f.file == INFO]

    assert said(edit(INFO, add())) == []
    for field in good:
        assert any(field in message for message in said(edit(INFO, add(**{field: None})))), field
