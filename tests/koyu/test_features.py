from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import SettingsError
from lucky_recorder.koyu.features import encoding_of, layout_of
from lucky_recorder.settings.koyu import KoyuSettings
from tests.session.building import arm_schema, camera, custom_schema

PLAIN = KoyuSettings("cubes")
GYM = KoyuSettings("cubes", action="gym")
GYM_ACTION = Field("gym.action", "float32", (2,))
ACTION = Field("action", "float64", (2,))


def test_state_and_action_come_first_and_scalars_are_vectors_of_one() -> None:
    extra = [Field("speed", "float64"), Field("pose", "float64", (2, 3)), Field("touch", "bool", (4,))]
    made = layout_of(arm_schema([camera("Front")], extra=extra), PLAIN)
    assert made.features == {
        "observation.state": {"dtype": "float32", "shape": [3]},
        "action": {"dtype": "float32", "shape": [3]},
        "speed": {"dtype": "float32", "shape": [1]},
        "pose": {"dtype": "float32", "shape": [2, 3]},
        "touch": {"dtype": "float32", "shape": [4]},
        "observation.images.Front": {"dtype": "video", "shape": [48, 64, 3]},
    }
    assert list(made.features)[:2] == ["observation.state", "action"]
    assert made.fps == 50.0


def test_each_robot_has_its_own_names() -> None:
    made = layout_of(arm_schema(robots=("left", "right"), extra=[Field("x", "float64", (2,), names=("a", "b"))]), PLAIN)
    assert made.names(1)["action"] == ["right.pan", "right.lift", "right.grip"]
    assert [made.names(robot)["x"] for robot in (0, 1)] == [["a", "b"]] * 2


def test_texts_stay_out_of_bundles() -> None:
    schema = arm_schema(extra=[Field("said", "string", nullable=True), Field("x", "float64")])
    assert list(layout_of(schema, PLAIN).features) == ["observation.state", "action", "x"]


def test_depth_and_masks_stay_out_of_bundles() -> None:
    color = camera("Front")
    others = [replace(color, key=f"{color.key}_{kind}", kind=kind, encoder="ffv1") for kind in ("depth", "rgbd")]
    assert layout_of(arm_schema([color, *others]), PLAIN).cameras == (color,)


def test_the_policys_action_may_be_the_action() -> None:
    schema = arm_schema(extra=[GYM_ACTION])
    plain, gym = layout_of(schema, PLAIN).features, layout_of(schema, GYM).features
    assert (plain["action"]["shape"], plain["gym.action"]["shape"]) == ([3], [2])
    assert (gym["action"]["shape"], gym["action.actuators"]["shape"]) == ([2], [3])
    assert "gym.action" not in gym


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint32", "uint64"])
def test_whole_numbers_that_float32_rounds_are_refused(dtype: str) -> None:
    with pytest.raises(SettingsError, match=rf"^column 'n': dtype='{dtype}': .*float32, which rounds"):
        layout_of(arm_schema(extra=[Field("n", dtype)]), PLAIN)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "bool", "float32", "float64"])
def test_other_numbers_are_taken(dtype: str) -> None:
    assert layout_of(arm_schema(extra=[Field("n", dtype)]), PLAIN).features["n"]["dtype"] == "float32"


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        ([Field("action", "float64", (2,))], PLAIN, "needs a column 'observation.state', .* here are action;"),
        ([Field("observation.state", "float64")], PLAIN, "needs a column 'action', and the columns here are obs"),
        ([Field("observation.state", "float64")], GYM, "no column 'gym.action': the action space has parts, .* leave"),
        ([Field("observation.state", "string"), ACTION], PLAIN, "needs a column 'observation.state', and .* here are"),
        ([], PLAIN, "the columns here are none"),
    ],
)
def test_a_bundle_needs_state_and_action(columns: list[Field], settings: KoyuSettings, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        layout_of(custom_schema(*columns), settings)


@pytest.mark.parametrize("name", ["step", "Step", "STEP", "\u017ftep", "action.actuators", "Action.Actuators"])
def test_names_of_the_formats_own_are_refused(name: str) -> None:
    schema = arm_schema(extra=[GYM_ACTION, Field(name, "float64")])
    with pytest.raises(SettingsError, match=f"^column name='{name}'"):
        layout_of(schema, GYM)


def test_names_that_differ_in_case_only_are_refused() -> None:
    schema = arm_schema(extra=[Field("f1", "float64"), Field("F1", "float64")])
    with pytest.raises(SettingsError, match=r"^column name='F1': is the same name as 'f1'"):
        layout_of(schema, PLAIN)


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (camera("Slow", 25), "camera 'Slow': frame_rate='25': row i .* is frame i of every video: .* record at 50 Hz"),
        (replace(camera("F"), encoder="hevc", codec="hevc"), "camera 'F': encoded as hevc: .*set video_format"),
        (replace(camera("F"), encoder="av1", codec="av1"), "camera 'F': encoded as av1"),
        (replace(camera("F"), encoder="h264_nvenc"), "encoded as h264_nvenc: .*hardware_encoder=False"),
    ],
)
def test_videos_that_are_no_bundles_are_refused(stream: object, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        layout_of(arm_schema([camera("Fine"), stream]), PLAIN)  # type: ignore[list-item]


def test_a_recording_without_rows_is_refused() -> None:
    with pytest.raises(SettingsError, match="record_data=False"):
        layout_of(replace(arm_schema(), has_rows=False), PLAIN)


def test_a_rate_need_not_be_whole() -> None:
    assert layout_of(arm_schema([camera("F", Fraction(200, 3))], hz=Fraction(200, 3)), PLAIN).fps == 200 / 3


def test_the_encoding_is_the_encoders() -> None:
    encoding = {"codec": "h264", "encoder": "libx264", "pix_fmt": "yuv420p", "crf": 20, "gop": 10, "preset": "fast"}
    assert encoding_of("fast") == encoding
