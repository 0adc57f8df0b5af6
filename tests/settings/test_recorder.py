from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as running
from hypothesis import strategies as st

from lucky_recorder.episode.keys import GYM_COLUMNS
from lucky_recorder.episode.schema import Schema
from lucky_recorder.errors import LuckyRecorderError, SettingsError, shown
from lucky_recorder.settings.camera import Camera, FreeCamera
from lucky_recorder.settings.column import Column
from lucky_recorder.settings.lidar import Lidar
from lucky_recorder.settings.recorder import PRESETS, RecorderSettings

HUGE = 10**5000  # has no repr: Python refuses to print it


def gripper_width(simulation: Any) -> float:
    return 0.0


def failing() -> Iterator[str]:
    yield "first"
    raise ZeroDivisionError("no second")


NOT_BOOLEANS: list[Any] = [
    None,
    0,
    1,
    "true",
    "false",
    "",
    1.0,
    [],
    np.int64(1),
    np.array(True),
    np.array([True, False]),
    HUGE,
]
NOT_COUNTS: list[Any] = [
    None, 0, -1, 1.0, 1.5, "1", "", True, np.True_, math.nan, math.inf, [1], (1,), {}, 2**31, HUGE, np.float64(2),
    np.array([1, 2]), np.int64(-3), Fraction(1, 2), 1j, np.timedelta64(3, "s"),
]  # fmt: skip
NOT_TIMES = [
    0, -1, 0.0, -0.5, math.nan, math.inf, -math.inf, "1", "", True, np.True_, [1.0], {}, 1j, HUGE, 10**400,
    Fraction(1, 10**400), np.float64("nan"), np.float32(-1), np.array([1.0, 2.0]), object(), np.timedelta64(3, "s"),
]  # fmt: skip
NOT_RATES = [0, -50, "0", "50 Hz", "", "200/0", math.nan, math.inf, True, [50], {}, HUGE, "1e999999999", np.array([50])]
NOT_LISTS = [None, "Front", b"Front", 5, 1.5, True, {"name": "Front"}, {"a", "b"}, frozenset("ab"), np.array(5), HUGE]
NOT_TEXTS = ["", "  ", "\n", 5, None, b"x", ["x"], ("x",), True, "\ud800", np.array(["x"]), HUGE]
NOT_WORDS: list[Any] = [
    "",
    " ",
    None,
    5,
    True,
    ["h264"],
    ("h264",),
    b"h264",
    {},
    np.array(["h264", "x"]),
    np.array([]),
    HUGE,
]

RECORDER_REFUSES: dict[str, list[Any]] = {
    "output_dir": [None, "", 5, b"/tmp", ["a"], True, "a\0b", "~nobody-of-this-name/data", np.array(["a"]), {}, HUGE],
    "mode": [*NOT_WORDS, "drone", "Robot Arm", "ROBOT_ARM"],
    "robots": [*(v for v in NOT_LISTS if v is not None), ["a", "a"], *([text] for text in NOT_TEXTS), failing()],
    "columns": [*NOT_LISTS, ["x"], [None], [5], [{}], [{"name": "x"}], [[("name", "x")]], [Camera("x")], [HUGE]],
    "gym_columns": NOT_BOOLEANS,
    "data_hz": NOT_RATES,
    "files_per_chunk": [*NOT_COUNTS, 1001, np.int64(1001)],
    "episodes_per_file": [*NOT_COUNTS, 1001, np.int64(1001)],
    "max_episode_length_s": NOT_TIMES,
    "discard_and_retry_failed": NOT_BOOLEANS,
    "total_episodes": [*(v for v in NOT_COUNTS if v is not None), 40_001],
    "success": [*NOT_WORDS, "always", "info:", "info: ", "auto:", "terminated ", "os.path", ":f", "m:"],
    "episode_trigger": [*(v for v in NOT_WORDS if v is not None), "auto", "info", ":f", "m:", "a b:c", "m:1"],
    "record_data": NOT_BOOLEANS,
    "record_cameras": NOT_BOOLEANS,
    "record_color_video": NOT_BOOLEANS,
    "record_masks": NOT_BOOLEANS,
    "policy_period": NOT_COUNTS,
    "video_format": [*NOT_WORDS, "h265", "vp9", "H264"],
    "hardware_encoder": NOT_BOOLEANS,
    "video_preset": [*NOT_WORDS, "placebo", "Fast"],
    "render_quality": [*NOT_WORDS, "best"],
    "metadata_every": NOT_COUNTS,
    "seed": [-1, 1.0, "1", True, None, math.nan, 2**63, HUGE, np.float64(1), [1]],
    "worker_timeout_s": [*NOT_TIMES, None, 1_000_001, 1e300],
    "cameras": [*NOT_LISTS, ["Front"], [None], [5], [{}], [{"width": 64}], [FreeCamera()], [Column("x", len)], [HUGE],
                [Camera("Front"), Camera("Front", source="other")]],
    "lidars": [*NOT_LISTS, ["Lidar"], [None], [{}], [{"site": "x"}], [Camera("Front")], np.array([1, 2]), HUGE,
               [Lidar("Top"), Lidar("Top", site="other")]],
    "tasks": [*NOT_LISTS, ["Pick", "Pick"], *([text] for text in NOT_TEXTS), failing()],
    "koyu": [True, False, 0, "", "pick-cube", {}, {"nme": "pick-cube"}, {"name": "a/b"}, np.array([1, 2]), HUGE],
    "formats": ["session", [], ["koyu"], ["session", "koyu"], ["session", "session"], [None], [np.array([1, 2])],
                np.array(["x"]), HUGE],
}  # fmt: skip

CAMERA_REFUSES: dict[str, list[Any]] = {
    "name": [*NOT_TEXTS, "a b", "a/b", "..", "a.b", "Kamera-Ö", "Front\n", "Front_depth", "x_rgbd", "x" * 101],
    "source": ["", " ", -1, 1.5, True, [0], (0,), np.array([0, 1]), Camera("x"), HUGE, {"distnce": 1},
               {"name": "x"}, {5: 5}, "\ud800"],
    "width": [*NOT_COUNTS, 14, 15, 17, 65, 8194, np.int64(65)],
    "height": [*NOT_COUNTS, 14, 15, 17, 65, 8194, np.int64(65)],
    "frame_rate": NOT_RATES,
    "enabled": NOT_BOOLEANS,
    "depth_mode": [*NOT_WORDS, "RGBD", "depth", False],
    "depth_scale": [*NOT_TIMES, None],
    "sensor_model": ["active_stereo", "", 0, False, [], np.array([1, 2]), HUGE],
    "sensor_params": [None, 5, "x", ["x"], [1, 2], {"baseline_m": 0.1}, {5: 1.0}, {"": 1.0}, HUGE],
    "debug_channel": [*(v for v in NOT_WORDS if v is not None), "disparity"],
    "masks": [[], (), "cube", False, ["cube", "cube"], [""], [5], [f"g{i}" for i in range(256)], HUGE],
    "record_masks": NOT_BOOLEANS,
}  # fmt: skip

FREE_CAMERA_REFUSES: dict[str, list[Any]] = {
    "lookat": [5, "0,0,0", [], [0, 0], [0, 0, 0, 0], [0, 0, "0"], [0, 0, math.nan], [0, 0, math.inf], [0, 0, None],
               [0, 0, True], [0, 0, 1j], [0, 0, HUGE], {"x": 0}, np.zeros((3, 3)), np.array(0.0), np.zeros(2)],
    "distance": NOT_TIMES,
    "azimuth": [None, "90", True, math.nan, math.inf, -math.inf, [90], 1j, HUGE, np.array([1.0, 2.0])],
    "elevation": [None, "-45", False, math.nan, math.inf, {}, HUGE],
}  # fmt: skip

COLUMN_REFUSES: dict[str, list[Any]] = {
    "name": [*NOT_TEXTS, "a/b", "a\nb", "a\0b", "a\x7fb", "observation.images.x", "observation.masks.x", "videos/x"],
    "source": [*NOT_WORDS, "imu", "sensor", "sensor:", "sensor: ", ":imu", ":", "a b:c", "sensr imu:x", "1:2", 1.5],
    "dtype": [None, "", "float16", "float128", "longdouble", "complex64", "object", "O", "str", "U5", "datetime64[s]",
              "f4,f8", "f4,,f8", ",", "(2,)f4", "numbers", str, object, list, complex, 5, 1.5, [("a", 5)],
              {"names": [1]}, np.array([1.0]), np.array(5), HUGE],
    "shape": ["3", 0, -1, True, 1.5, None, [0], [3, -1], [1.5], ["3"], [None], [[3]], {3}, {3: 3}, np.array(3.5),
              1_000_001, (1000, 1001), (10**6,) * 4, HUGE, [HUGE]],
    "names": ["x", ["x", "y"], [], [""], [5], [None], {"x"}, {"x": 0}, 5, np.array([5]), HUGE, failing()],
    "unit": [*NOT_TEXTS[:2], 5, True, ["m"], b"m", HUGE],
    "allow_nan": NOT_BOOLEANS,
}  # fmt: skip


def _ids(value: Any) -> str:
    """Name a case by what is the same in every process: no addresses, no order of a set."""
    return shown(value)[:20] if isinstance(value, str | bytes | int | float | list | tuple) else type(value).__name__


def _table(refuses: dict[str, list[Any]]) -> pytest.MarkDecorator:
    cases = [(field, value) for field, values in refuses.items() for value in values]
    return pytest.mark.parametrize(
        ("field", "value"), cases, ids=[f"{field}-{i}-{_ids(value)}" for i, (field, value) in enumerate(cases)]
    )


def _refused(build: Callable[[], Any], field: str) -> str:
    with pytest.raises(SettingsError) as caught:
        build()
    message = str(caught.value)
    assert field in message
    assert len(message.rpartition(": ")[2]) > 8, "the message ends with a remedy"
    assert len(message) < 1000
    return message


@_table(RECORDER_REFUSES)
def test_the_recorder_refuses(field: str, value: Any) -> None:
    _refused(lambda: RecorderSettings(**{field: value}), field)


@_table(CAMERA_REFUSES)
def test_a_camera_refuses(field: str, value: Any) -> None:
    message = _refused(lambda: Camera(**{"name": "Front", field: value}), field)
    assert message.startswith("camera ") or (field == "source" and "camera" in message)


@_table(FREE_CAMERA_REFUSES)
def test_a_free_camera_refuses(field: str, value: Any) -> None:
    assert _refused(lambda: FreeCamera(**{field: value}), field).startswith("free camera: ")


@_table(COLUMN_REFUSES)
def test_a_column_refuses(field: str, value: Any) -> None:
    message = _refused(lambda: Column(**{"name": "grip", "source": "sensor:grip", field: value}), field)
    assert message.startswith("column ")


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        (RecorderSettings, RECORDER_REFUSES),
        (Camera, CAMERA_REFUSES),
        (FreeCamera, FREE_CAMERA_REFUSES),
        (Column, COLUMN_REFUSES),
    ],
    ids=["recorder", "camera", "free camera", "column"],
)
def test_every_field_is_in_the_table(kind: Any, table: dict[str, list[Any]]) -> None:
    assert list(table) == [f.name for f in attrs.fields(kind)]


@pytest.mark.parametrize("value", [0, -1, "x", HUGE], ids=_ids)
def test_the_message_names_field_value_and_remedy(value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        RecorderSettings(files_per_chunk=value)
    assert str(caught.value) == f"files_per_chunk={shown(value)}: give a whole number from 1 to 1000"
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, LuckyRecorderError)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.fractions(), st.complex_numbers(), st.text(max_size=8),
    st.binary(max_size=4), st.dates(), st.builds(object),
    st.sampled_from([np.int8(3), np.float32(0.1), np.True_, np.str_("x"), np.zeros(2), np.array(1), np.arange(0)]),
    st.sampled_from([np.timedelta64(3, "s"), np.datetime64("2026-01-01"), int, len, Path("x"), Camera("x")]),
)  # fmt: skip
KEYS = st.one_of(st.text(max_size=6), st.integers(), st.sampled_from(["name", "source"]))
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(iter),
        st.dictionaries(KEYS, inner, max_size=3),
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("kind", [RecorderSettings, Camera, Column, FreeCamera])
@running(deadline=None)
@given(data=st.data())
def test_nothing_but_a_settings_error_escapes(kind: Any, data: st.DataObject) -> None:
    needed = {Camera: {"name": "Front"}, Column: {"name": "x", "source": "sensor:x"}}.get(kind, {})
    field = data.draw(st.sampled_from([f.name for f in attrs.fields(kind)]))
    value = data.draw(JUNK)
    with contextlib.suppress(SettingsError):
        settings = kind(**{**needed, field: value})
        assert attrs.evolve(settings) == settings, "settled values settle as themselves"


@running(deadline=None)
@given(fields=st.dictionaries(st.one_of(st.text(max_size=8), st.sampled_from([*RECORDER_REFUSES])), JUNK, max_size=4))
def test_nothing_but_a_settings_error_escapes_from_a_mapping(fields: dict[str, Any]) -> None:
    with contextlib.suppress(SettingsError):
        settings = RecorderSettings.from_dict(fields)
        assert RecorderSettings.of(settings) == settings


@pytest.mark.parametrize(
    ("field", "value", "settled"),
    [
        ("output_dir", "data", Path("data")),
        ("output_dir", Path("data"), Path("data")),
        ("output_dir", PurePosixPath("data"), Path("data")),
        ("output_dir", "~/data", Path.home() / "data"),
        ("output_dir", "Aufnahmen/Würfel 立方体", Path("Aufnahmen/Würfel 立方体")),
        ("mode", np.str_("full_scene"), "full_scene"),
        ("robots", ["left", "right"], ("left", "right")),
        ("robots", np.array(["left", "right"]), ("left", "right")),
        ("gym_columns", np.True_, True),
        ("data_hz", np.float32(200 / 3), Fraction(200, 3)),
        ("data_hz", "200/3", Fraction(200, 3)),
        ("files_per_chunk", np.int64(1000), 1000),
        ("episodes_per_file", np.uint8(7), 7),
        ("max_episode_length_s", np.float32(2.5), 2.5),
        ("max_episode_length_s", Fraction(5, 2), 2.5),
        ("max_episode_length_s", 3, 3.0),
        ("total_episodes", 40_000, 40_000),
        ("success", "info:is_success", "info:is_success"),
        ("success", "info:metrics/success rate", "info:metrics/success rate"),
        ("success", "my.module:verdict", "my.module:verdict"),
        ("success", operator.truth, operator.truth),
        ("episode_trigger", "my.module:Trigger.every_third", "my.module:Trigger.every_third"),
        ("record_masks", np.False_, False),
        ("seed", np.uint64(2**63 - 1), 2**63 - 1),
        ("worker_timeout_s", 1_000_000, 1e6),
        ("lidars", [], ()),
        ("formats", ["session"], ("session",)),
        ("tasks", (t for t in ["Pick up the cube", "立方体を取る"]), ("Pick up the cube", "立方体を取る")),
        ("cameras", [MappingProxyType({"name": "Front"})], (Camera("Front"),)),
        ("cameras", (c for c in [Camera("Front"), {"name": "Wrist"}]), (Camera("Front"), Camera("Wrist"))),
    ],
)
def test_plausible_values_settle(field: str, value: Any, settled: Any) -> None:
    got = getattr(RecorderSettings(**{field: value}), field)
    assert got == settled
    assert isinstance(got, type(settled))


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_taken(preset: str) -> None:
    assert RecorderSettings(video_preset=preset).video_preset == preset


@pytest.mark.parametrize("width", [16, 18, 640, 8192, np.int32(64)])
def test_even_sizes_are_taken(width: int) -> None:
    assert Camera("Front", width=width, height=width).height == int(width)


@pytest.mark.parametrize(("width", "height", "remedy"), [(65, 64, "64 or 66"), (64, 65, "64 or 66")])
def test_an_odd_size_is_told_the_sizes_beside_it(width: int, height: int, remedy: str) -> None:
    with pytest.raises(SettingsError, match=rf"^camera 'Front': (width|height)=65: .*{remedy}"):
        Camera("Front", width=width, height=height)


@pytest.mark.parametrize("source", ["front", "render", "an odd name/1", 0, np.int64(3), FreeCamera(distance=2), None])
def test_sources_of_a_camera(source: Any) -> None:
    assert Camera("Front", source=source).source == source


def test_a_free_camera_may_be_a_table() -> None:
    camera = Camera("Front", source={"lookat": np.array([0, 0, 1]), "distance": 2})  # type: ignore[arg-type]
    assert camera.source == FreeCamera(lookat=(0.0, 0.0, 1.0), distance=2.0)
    assert camera.key == "observation.images.Front"


@pytest.mark.parametrize(
    ("shape", "settled", "scalar"),
    [((), (), True), (1, (1,), True), ([1], (1,), True), (np.int64(3), (3,), False), ([2, 3], (2, 3), False),
     (np.array([2, 3]), (2, 3), False), (1_000_000, (1_000_000,), False)],
)  # fmt: skip
def test_shapes_of_a_column(shape: Any, settled: tuple[int, ...], scalar: bool) -> None:
    column = Column("x", "sensor:x", shape=shape)
    assert column.shape == settled
    assert all(type(n) is int for n in column.shape)
    assert column.is_scalar is scalar


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(float, "float64"), (int, "int64"), (bool, "bool"), (np.float32, "float32"), (np.dtype("u1"), "uint8"),
     ("f4", "float32"), (">f8", "float64"), ("double", "float64"), (np.str_("int16"), "int16")],
)  # fmt: skip
def test_dtypes_of_a_column(dtype: Any, name: str) -> None:
    assert Column("x", "sensor:x", dtype=dtype).dtype == name


@pytest.mark.parametrize(
    "source",
    ["sensor:imu", "qpos:a joint", "qvel:j", "xpos:b/c", "xquat:b", "site_xpos:s", "ctrl:a", "gym:action", "gym:obs.a",
     "info:is_success", "my.module:Class.method", gripper_width, functools.partial(gripper_width)],
)  # fmt: skip
def test_sources_of_a_column(source: Any) -> None:
    assert Column("x", source).source is source


def test_names_of_a_column_are_one_per_value() -> None:
    assert Column("x", "sensor:x", shape=(2, 2), names=("a", "b", "c", "d")).names == ("a", "b", "c", "d")
    with pytest.raises(SettingsError, match=r"^column 'x': names=\('a',\): give 3 names"):
        Column("x", "sensor:x", shape=(3,), names=("a",))


@pytest.mark.parametrize("entity", ["robot_id", "sim_id", "entity_id"])
def test_the_names_of_the_leading_columns_are_taken(entity: str) -> None:
    leading = Schema(entity, "custom", (), Fraction(50), ()).leading
    for field in leading:
        _refused(lambda name=field.name: Column(name, "sensor:x"), "name")  # type: ignore[misc]


@pytest.mark.parametrize("name", ["action", "observation.state"])
def test_only_a_custom_schema_may_name_a_column_as_the_modes_do(name: str) -> None:
    column = Column(name, "sensor:x")
    assert RecorderSettings(mode="custom", columns=(column,)).columns == (column,)
    for mode in ("robot_arm", "full_scene"):
        with pytest.raises(SettingsError, match=f"columns='{name}': stands twice"):
            RecorderSettings(mode=mode, columns=(column,))


@pytest.mark.parametrize("name", GYM_COLUMNS)
def test_columns_of_the_gym_are_taken_when_they_are_on(name: str) -> None:
    column = Column(name, "gym:action")
    assert RecorderSettings(columns=(column,)).columns == (column,)
    with pytest.raises(SettingsError, match=f"columns='{name}'"):
        RecorderSettings(columns=(column,), gym_columns=True)


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(SettingsError, match="columns='x': stands twice"):
        RecorderSettings(columns=(Column("x", "sensor:x"), Column("x", "sensor:y")))


def test_a_custom_schema_needs_columns() -> None:
    with pytest.raises(SettingsError, match=r"^columns=\(\): custom mode needs columns"):
        RecorderSettings(mode="custom")
    assert RecorderSettings(mode="custom", gym_columns=True).columns == ()
    assert RecorderSettings(mode="custom", record_data=False, cameras=(Camera("Front"),)).columns == ()


@pytest.mark.parametrize(
    ("gates", "recorded"),
    [
        ({}, ["Front"]),
        ({"record_cameras": False}, []),
        ({"record_color_video": False}, []),
        ({"record_data": False}, ["Front"]),
        ({"cameras": ()}, []),
    ],
)
def test_the_gates_say_which_cameras_record(gates: dict[str, Any], recorded: list[str]) -> None:
    cameras = (Camera("Front"), Camera("Wrist", enabled=False))
    settings = RecorderSettings(**{"cameras": cameras, **gates})
    assert [c.name for c in settings.recorded_cameras] == recorded


@pytest.mark.parametrize(
    "gates",
    [
        {"record_cameras": False},
        {"record_color_video": False},
        {"cameras": ()},
        {"cameras": (Camera("Front", enabled=False),)},
    ],
)
def test_recording_nothing_is_refused(gates: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"^record_data=False: and no camera or lidar records"):
        RecorderSettings(**{"cameras": (Camera("Front"),), "record_data": False, **gates})


def test_capacity_and_the_last_chunk() -> None:
    assert RecorderSettings().capacity_per_chunk == 40
    assert RecorderSettings(files_per_chunk=4, episodes_per_file=3).capacity_per_chunk == 12
    assert RecorderSettings(files_per_chunk=1, total_episodes=1000).total_episodes == 1000
    with pytest.raises(SettingsError, match=r"^total_episodes=1001: at most 1000; raise files_per_chunk$"):
        RecorderSettings(files_per_chunk=1, total_episodes=1001)


def test_settings_do_not_change() -> None:
    settings = RecorderSettings()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        settings.mode = "custom"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ouput_dir": "x"}, "ouput_dir='x': unknown field; did you mean 'output_dir'?"),
        ({"zzz": 1}, "zzz=1: unknown field; known: output_dir, mode,"),
        ({5: 1}, "5=1: unknown field"),
        ({"cameras": [{"name": "F", "wdth": 64}]}, "cameras[0].wdth=64: unknown field; did you mean 'width'?"),
        ({"cameras": [{"name": "F"}, {"width": 64}]}, "cameras[1].name is missing: every Camera needs one"),
        ({"cameras": [{"name": "F", "source": {"distnce": 1}}]}, "camera 'F': source.distnce=1: unknown field; did"),
        ({"cameras": [{"name": "F", "source": {"distance": 0}}]}, "free camera: distance=0: give a finite number"),
        ({"cameras": [{"name": "F", "width": 65}]}, "camera 'F': width=65: video needs an even size; use 64 or 66"),
        ({"cameras": {"name": "F"}}, "cameras={'name': 'F'}: give a list"),
        ({"cameras": Camera("F")}, "cameras=Camera(name='F'"),
        ({"cameras": ["F"]}, "cameras[0]='F': give a Camera or a table of its fields"),
        ({"columns": [{"name": "x"}]}, "columns[0].source is missing: every Column needs one"),
        ({"columns": [{"name": "x", "source": "sensor:x", "dtype": "U3"}]}, "column 'x': dtype='U3': give one of"),
        ({"tasks": "Pick"}, "tasks='Pick': give a list"),
        ({"tasks": ["Pick", 5]}, "tasks[1]=5: give a text that is not empty"),
        ({"mode": "drone"}, "mode='drone': the Drone recorder mode does not produce a usable dataset"),
        ({"koyu": {"nme": "x"}}, "koyu.nme='x': unknown field; did you mean 'name'?"),
    ],
)
def test_messages_of_tables(fields: dict[Any, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        RecorderSettings.of(fields)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("settings", [5, 1.5, True, [], [("mode", "custom")], b"x.toml", object(), HUGE], ids=_ids)
def test_only_settings_mappings_and_files_are_settings(settings: Any) -> None:
    with pytest.raises(SettingsError, match=r"^settings=.*: give RecorderSettings, a mapping"):
        RecorderSettings.of(settings)


def test_fields_go_on_top() -> None:
    base = RecorderSettings(mode="full_scene", tasks=("a",), cameras=(Camera("Front"),))
    changed = RecorderSettings.of(base, tasks=["b"], cameras=[{"name": "Wrist"}])
    assert changed == attrs.evolve(base, tasks=("b",), cameras=(Camera("Wrist"),))
    assert RecorderSettings.of(base) == base
    assert RecorderSettings.of(None) == RecorderSettings.of() == RecorderSettings.of({}) == RecorderSettings()
    assert RecorderSettings.of({"mode": "custom"}, mode="full_scene").mode == "full_scene"


def test_many_tasks_settle_quickly_enough_to_be_a_list_in_a_file() -> None:
    tasks = [f"Task {i}" for i in range(20_000)]
    assert RecorderSettings(tasks=tasks).tasks == tuple(tasks)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="tasks='Task 7': stands twice"):
        RecorderSettings(tasks=[*tasks, "Task 7"])  # type: ignore[arg-type]
