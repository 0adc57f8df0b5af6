from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from lucky_recorder.errors import FormatError
from lucky_recorder.lerobot.view import lerobot_view
from lucky_recorder.session.check import Fault, check_session
from lucky_recorder.session.reader import Session
from lucky_recorder.viewer.sheet import panels
from tests.session.breaking import INFO, STATS
from tests.session.building import Recording, arm_schema, camera, depth, mask, rgbd

KEY = "observation.images.Front_depth"
STEREO = {"sensor_model": "ActiveStereo", "sensor_params": {"baseline_m": 0.05}}


def change(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> list[str]:
    content = json.loads((folder / INFO).read_text())
    edit(content["features"][KEY]["info"])
    (folder / INFO).write_text(json.dumps(content))
    faults = check_session(folder, decode=False)
    assert {(f.file, f.episode) for f in faults} == {(INFO, None)}
    return [f.message for f in faults]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("depth_scale", 0, "depth_scale is 0, expected metres per code"),
        ("depth_scale", True, "depth_scale is True, expected metres per code"),
        ("depth_dtype", "uint8", "depth_dtype is 'uint8', expected uint16"),
        ("depth_units", "mm", "depth_units is 'mm', expected meters"),
        ("sensor_model", None, "sensor_model is None, expected a text"),
        ("zero_means", "", "zero_means is '', expected a text"),
        ("sensor_params", {"a": 1}, "sensor_params is there, and sensor_model is 'None'"),
        ("sensor_model", "ActiveStereo", "sensor_params is missing, and sensor_model is 'ActiveStereo'"),
        ("debug_channel", "shadow", "debug_channel is there, and sensor_model is 'None'"),
        ("debug_channel", "shadow", "NOTE is None, expected a text"),
        ("NOTE", "no depth", "debug_channel is None, expected a text"),
        ("video.is_depth_map", False, "video.is_depth_map is False, expected True"),
    ],
)
def test_wrong_info_blocks(full_copy: Path, field: str, value: Any, message: str) -> None:
    assert f"{KEY}: {message}" in change(full_copy, lambda info: info.update({field: value}))


@pytest.mark.parametrize("params", [None, {}, [0.05], {"baseline_m": "wide"}, {"baseline_m": True}])
def test_wrong_calibrations(full_copy: Path, params: Any) -> None:
    (said,) = change(full_copy, lambda info: info.update(STEREO | {"sensor_params": params}))
    assert said.startswith(f"{KEY}: sensor_params is ")


def test_a_sensor_with_a_diagnostic_channel(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema([depth("Front", **STEREO, debug_channel="shadow", NOTE="no depth")]))
    recording.keep(3)
    assert check_session(recording.close()) == []


def test_only_colour_has_statistics(full_copy: Path) -> None:
    stats = json.loads((full_copy / STATS).read_text())
    (full_copy / STATS).write_text(json.dumps(stats | {KEY: stats["observation.images.Front"]}))
    message = f"{KEY}: has an entry, and is no column or stream that has statistics"
    assert check_session(full_copy, decode=False) == [Fault(STATS, None, message)]


@pytest.mark.parametrize(
    ("hz", "rate"),
    [("200/3", "200/3"), ("200/3", "200"), ("50", "50/3"), ("50", "100"), ("1000", "1000"), ("30", "10")],
)
def test_depth_at_any_rate(tmp_path: Path, hz: str, rate: str) -> None:
    one = Fraction(rate)
    streams = [camera("Front", one), depth("Front", one), rgbd("Front", one), mask("Front", one)]
    recording = Recording(tmp_path, arm_schema(streams, hz=Fraction(hz)))
    for ticks in (1, 7):
        recording.keep(ticks)
    assert check_session(recording.close()) == []


def test_depth_of_another_episode(full_copy: Path) -> None:
    folder = full_copy / f"videos/{KEY}/chunk-000"
    shutil.copy(folder / "file-000.mkv", folder / "file-001.mkv")
    faults = check_session(full_copy)
    file = f"videos/{KEY}/chunk-000/file-001.mkv"
    assert Fault(file, 1, "4 frames, expected 5 for 5 ticks") in faults
    assert {f.episode for f in faults} == {1}


def test_a_damaged_depth_frame(full_copy: Path) -> None:
    file = "videos/observation.images.Slow_depth/chunk-000/file-001.mkv"
    content = bytearray((full_copy / file).read_bytes())
    content[-200] ^= 0xFF
    (full_copy / file).write_bytes(content)
    (fault,) = check_session(full_copy)
    assert (fault.file, fault.episode) == (file, 1)
    assert "is broken" in fault.message


@pytest.fixture
def diagnostic(tmp_path: Path) -> Path:
    info = {**STEREO, "debug_channel": "shadow", "NOTE": "1 in the shadow", "zero_means": "no shadow"}
    streams = [camera("Front"), depth("Front", **info), depth("Side")]
    recording = Recording(tmp_path / "session", arm_schema(streams))
    recording.keep(3)
    return recording.close()


def test_a_diagnostic_channel_is_not_read_as_depth(diagnostic: Path) -> None:
    episode = Session(diagnostic).episode(0)
    told = (
        r"Front_depth holds the diagnostic channel 'shadow', and no depth; read its codes with frames\(.*\), uint16\. "
    )
    meant = "NOTE: '1 in the shadow'; zero_means: 'no shadow'"
    for name in ("Front", "Front_depth", KEY):
        with pytest.raises(FormatError, match=told + meant):
            episode.depth(name)
    with episode.frames("Front_depth") as codes:
        assert codes[1].max() == 1001
    with closing(episode.depth("Side")) as metres:
        assert metres[1].max() == pytest.approx(1.001)


def test_a_diagnostic_channel_is_no_depth_for_lerobot_nor_on_the_contact_sheet(
    diagnostic: Path, tmp_path: Path
) -> None:
    view = lerobot_view(diagnostic, tmp_path / "view", depth=True)
    assert list(Session(view.path).cameras) == ["Front", "Side_depth"]
    assert f"{KEY}: a diagnostic channel, and no depth" in view.left_out
    session = Session(diagnostic)
    assert KEY in [panel.stream for panel in panels(session, session.episode(0), 1)]
