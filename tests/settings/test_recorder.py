"""The recorder's settings: what each field refuses, and what the fields say together."""

from __future__ import annotations

import operator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs
import numpy as np
import pytest

from lucky_recorder.episode.keys import GYM_COLUMNS
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings.camera import Camera, FreeCamera
from lucky_recorder.settings.choices import PRESETS
from lucky_recorder.settings.column import Column
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.settings.lidar import Lidar
from lucky_recorder.settings.recorder import RecorderSettings
from tests.settings.refusals import HUGE, each_of, named, refused

FLAG = "give true or false"
COUNT = "give a whole number from 1 to"
SUCCESS = "give 'auto', 'terminated', 'info:KEY', a callable, or 'module:function'"
TRIGGER = "give a callable of the episode number, or 'module:function'"

# What a kind of value refuses is in test_validators; here, that each field is of its kind, and what is its own.
REFUSED: list[tuple[str, Any, str]] = [
    ("output_dir", "", "output_dir='': give a folder"),
    ("mode", "Robot Arm", "mode='Robot Arm': choose one of robot_arm, full_scene, custom"),
    ("mode", "drone", "mode='drone': the Drone recorder mode does not produce a usable dataset"),
    ("robots", "left", "robots='left': give a list"),
    ("robots", ["a", "a"], "robots='a': stands twice"),
    ("columns", None, "columns=None: give a list"),
    ("columns", [5], "columns[0]=5: give a Column or a table of its fields"),
    ("columns", [Camera("x")], "columns[0]=Camera(name='x'"),
    ("columns", [Column("x", "ctrl:x"), Column("x", "ctrl:y")], "columns='x': stands twice"),
    ("gym_columns", 1, f"gym_columns=1: {FLAG}"),
    ("data_hz", 0, "data_hz=0: a rate must be above 0 Hz"),
    ("files_per_chunk", 1001, "files_per_chunk=1001: give a whole number from 1 to 1000"),
    ("episodes_per_file", 0, "episodes_per_file=0: give a whole number from 1 to 1000"),
    ("max_episode_length_s", 0, "max_episode_length_s=0: give a finite number above 0"),
    ("discard_and_retry_failed", "false", f"discard_and_retry_failed='false': {FLAG}"),
    ("total_episodes", 0, f"total_episodes=0: {COUNT}"),
    *(("success", value, f"success={value!r}: {SUCCESS}")
      for value in ["", None, True, "always", "info:", "info: ", "auto:", "terminated ", "os.path", ":f", "m:"]),
    *(("episode_trigger", value, f"episode_trigger={value!r}: {TRIGGER}") for value in ["", 5, "auto", "m:", "a b:c"]),
    ("record_data", None, f"record_data=None: {FLAG}"),
    ("record_cameras", 0, f"record_cameras=0: {FLAG}"),
    ("record_color_video", "", f"record_color_video='': {FLAG}"),
    ("record_masks", [], f"record_masks=[]: {FLAG}"),
    ("policy_period", 0, f"policy_period=0: {COUNT}"),
    ("video_format", "h265", "video_format='h265': choose one of h264, hevc, av1"),
    ("hardware_encoder", 1, f"hardware_encoder=1: {FLAG}"),
    ("video_preset", "placebo", "video_preset='placebo': choose one of ultrafast, superfast, veryfast"),
    ("render_quality", "best", "render_quality='best': choose one of model, fast, fastest"),
    ("metadata_every", 0, f"metadata_every=0: {COUNT}"),
    ("seed", -1, "seed=-1: give a whole number from 0 to 9223372036854775807"),
    ("control_hz", 0, "control_hz=0: a rate must be above 0 Hz"),
    ("uneven_steps", "ignore", "uneven_steps='ignore': choose one of refuse, allow"),
    ("worker_timeout_s", None, "worker_timeout_s=None: give a finite number above 0"),
    ("worker_timeout_s", 1_000_001, "worker_timeout_s=1000001: give at most 1000000 seconds"),
    ("cameras", {"name": "F"}, "cameras={'name': 'F'}: give a list"),
    ("cameras", Camera("F"), "cameras=Camera(name='F'"),
    ("cameras", ["F"], "cameras[0]='F': give a Camera or a table of its fields"),
    ("cameras", [FreeCamera()], "cameras[0]=FreeCamera("),
    ("cameras", [Camera("F"), Camera("F", source="other")], "cameras='F': stands twice"),
    ("lidars", ["Top"], "lidars[0]='Top': give a Lidar or a table of its fields"),
    ("lidars", [Lidar("Top"), Lidar("Top", site="other")], "lidars='Top': stands twice"),
    ("tasks", "Pick", "tasks='Pick': give a list"),
    ("tasks", ["Pick", 5], "tasks[1]=5: give a text that is not empty"),
    ("tasks", ["Pick", "Pick"], "tasks='Pick': stands twice"),
    *(("task", value, f"task={value!r}: give 'info:KEY', a callable, or 'module:function'; what is known beforehand is "
       "a list: tasks=[...]") for value in ("Pick up the cube", "info:", "auto", 3, ["Pick"])),
    ("koyu", "pick-cube", "koyu='pick-cube': give a KoyuSettings or a table of its fields"),
    ("koyu", {}, "koyu.name is missing: every KoyuSettings needs one"),
    ("formats", "session", "formats='session': give a list"),
    ("formats", [None], "formats[0]=None: choose one of session, koyu"),
    ("formats", ["session", "session"], "formats='session': stands twice"),
    ("provenance", "yes", "provenance='yes': give true or false"),
    ("save_model", 1.5, "save_model=1.5: give"),
    ("keep_states", "yes", "keep_states='yes': give true or false"),
    ("render", "later", "render='later': choose one of live, deferred"),
    ("resume", "", "resume='': give a folder"),
]  # fmt: skip


@each_of(REFUSED)
def test_the_recorder_refuses(field: str, value: Any, message: str) -> None:
    refused(lambda: RecorderSettings(**{field: value}), message)


def test_every_field_is_in_the_table() -> None:
    assert {field for field, _, _ in REFUSED} == {f.name for f in attrs.fields(RecorderSettings)}


def test_a_task_of_rows_that_are_not_recorded_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^task='info:said': tasks stand in the rows, and record_data is off"):
        RecorderSettings(mode="custom", record_data=False, cameras=(Camera("Front"),), task="info:said")


@pytest.mark.parametrize(
    ("field", "value", "settled"),
    [
        ("output_dir", "data", Path("data")),
        ("mode", np.str_("full_scene"), "full_scene"),
        ("files_per_chunk", np.int64(1000), 1000),
        ("total_episodes", 40_000, 40_000),
        ("success", "info:is_success", "info:is_success"),
        ("success", "info:metrics/success rate", "info:metrics/success rate"),
        ("success", "my.module:verdict", "my.module:verdict"),
        ("success", operator.truth, operator.truth),
        ("task", "info:language_instruction", "info:language_instruction"),
        ("task", "info:said.of task", "info:said.of task"),
        ("task", "my.module:task", "my.module:task"),
        ("task", operator.truth, operator.truth),
        ("episode_trigger", "my.module:Trigger.every_third", "my.module:Trigger.every_third"),
        ("worker_timeout_s", 1_000_000, 1e6),
        ("lidars", [], ()),
        ("formats", ["session"], ("session",)),
        ("resume", "DataSessions/session_2026-10-08_14-30-05", Path.cwd() / "DataSessions/session_2026-10-08_14-30-05"),
        ("koyu", {"name": "pick-cube"}, KoyuSettings("pick-cube")),
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


@pytest.mark.parametrize("cameras", [(), (Camera("Front"),), (Camera("Front", record_masks=False),)])
def test_masks_of_nothing_are_refused(cameras: tuple[Camera, ...]) -> None:
    with pytest.raises(SettingsError, match=r"^record_masks=True: no camera says what to label; give one masks="):
        RecorderSettings(record_masks=True, cameras=cameras)


@pytest.mark.parametrize("off", [{"enabled": False}, {"record_masks": False}])
def test_masks_that_a_camera_leaves_out_are_no_mistake(off: dict[str, bool]) -> None:
    settings = RecorderSettings(record_masks=True, cameras=(Camera("Front", masks=["cube"], **off), Camera("Wrist")))
    assert "mask" not in settings.kinds_of(settings.cameras[0])


@pytest.mark.parametrize(
    ("gates", "idle"),
    [
        ({}, []),
        ({"record_color_video": False}, ["Front", "Masked"]),
        ({"record_color_video": False, "record_masks": True}, ["Front"]),
        ({"record_color_video": False, "record_cameras": False}, []),
        ({"record_masks": True}, []),
    ],
)
def test_cameras_that_are_on_and_write_nothing(gates: dict[str, bool], idle: list[str]) -> None:
    cameras = (Camera("Front"), Camera("Masked", masks=["cube"]), Camera("Off", enabled=False))
    assert [c.name for c in RecorderSettings(cameras=cameras, **gates).idle_cameras] == idle


BUNDLES = KoyuSettings("pick-cube")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"formats": ["koyu"], "koyu": None}, "formats=('koyu',): bundles need a name: give koyu=KoyuSettings"),
        ({"record_data": False, "cameras": [Camera("F")]}, "record_data=False: a koyu bundle is made of rows"),
        ({"video_format": "hevc"}, "video_format='hevc': a koyu bundle's videos are H.264"),
        (
            {"koyu": {"name": "x", "action": "gym"}},
            "koyu.action='gym': what the policy sent is recorded with gym_columns",
        ),
        (
            {"formats": ["koyu"], "cameras": [Camera("F", depth_mode="separate")]},
            "camera 'F': its depth stream is written into a session only; add 'session' to formats",
        ),
        ({"formats": ["koyu"], "lidars": [Lidar("Top")]}, "lidar 'Top' is written into a session only; add 'session'"),
    ],
)
def test_what_no_bundle_can_be_made_of_is_refused(fields: dict[str, Any], message: str) -> None:
    refused(lambda: RecorderSettings(**{"koyu": BUNDLES, **fields}), message)


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({}, ("session",)),
        ({"koyu": BUNDLES}, ("session", "koyu")),
        ({"koyu": BUNDLES, "formats": ["koyu"]}, ("koyu",)),
        ({"koyu": BUNDLES, "formats": ["session"], "video_format": "hevc"}, ("session",)),
    ],
)
def test_which_formats_are_written(fields: dict[str, Any], written: tuple[str, ...]) -> None:
    assert RecorderSettings(**fields).written_formats == written


def test_only_what_writes_a_stream_is_recorded() -> None:
    masked = Camera("a", masks=["cube"])
    off = Camera("b", enabled=False, masks=["cube"])
    blind = Camera("c", masks=["cube"], record_masks=False)
    settings = RecorderSettings(
        cameras=[masked, off, blind], record_color_video=False, record_masks=True, lidars=[Lidar("x", enabled=False)]
    )
    assert settings.recorded_cameras == (masked,)
    assert settings.kinds_of(masked) == ("mask",)
    assert settings.recorded_lidars == ()


@pytest.mark.parametrize("settings", [5, 1.5, True, [], [("mode", "custom")], b"x.toml", object(), HUGE], ids=named)
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
    assert RecorderSettings(tasks=tasks).tasks == tuple(tasks)
    with pytest.raises(SettingsError, match="tasks='Task 7': stands twice"):
        RecorderSettings(tasks=[*tasks, "Task 7"])


@pytest.mark.parametrize(
    ("session", "place"),
    [("data/DataSessions/session_a", "data"), ("DataSessions/session_a", "."), ("elsewhere/session_a", "elsewhere")],
)
def test_a_session_that_is_gone_on_with_says_where_everything_goes(
    session: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = RecorderSettings(resume=session)
    assert settings.output_dir == tmp_path / place
    assert RecorderSettings(resume=session, output_dir=place) == settings
    assert RecorderSettings.of(settings.to_dict()) == settings
    assert attrs.evolve(settings, seed=0) == settings
    with pytest.raises(SettingsError, match=r"^output_dir='other': resume='.*' lies in .*; leave output_dir out"):
        RecorderSettings(resume=session, output_dir="other")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"formats": ["koyu"], "koyu": {"name": "x"}}, r"^formats=\('koyu',\): a session is gone on with"),
        (
            {"record_data": False, "cameras": (Camera("F"),)},
            "^record_data=False: a session is gone on with",
        ),
    ],
)
def test_what_is_no_session_cannot_be_gone_on_with(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        RecorderSettings(resume="session", **fields)


def test_states_need_rows_and_a_session() -> None:
    with pytest.raises(SettingsError, match="keep_states=True: meta/ says where states are, and record_data is off"):
        RecorderSettings(keep_states=True, record_data=False, cameras=[Camera("a")])
    with pytest.raises(SettingsError, match="keep_states is written into a session only"):
        RecorderSettings(keep_states=True, formats=["koyu"], koyu=KoyuSettings("x"))
