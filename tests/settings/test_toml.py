from __future__ import annotations

import functools
import json
import math
import operator
import tomllib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import settings as running
from hypothesis import strategies as st

from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import validators
from lucky_recorder.settings.camera import Camera, FreeCamera
from lucky_recorder.settings.column import Column
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.settings.lidar import Lidar
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.settings.visual import RND_FLAGS, VIS_FLAGS


class Verdict:
    def __call__(self, env: Any) -> bool:
        return True

    def judge(self, env: Any) -> bool:
        return True

    @classmethod
    def always(cls, env: Any) -> bool:
        return True


def gripper_width(simulation: Any) -> float:
    return 0.0


def _together(names: Sequence[str]) -> bool:
    try:
        validators.portable(names)
    except SettingsError:
        return False
    return True


SOURCES: list[Any] = ["sensor:imu", "info:a b", gripper_width, operator.truth, Verdict.always]
VERDICTS: list[Any] = ["auto", "terminated", "info:a/b", "m:f", operator.truth]
NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True).filter(
    lambda n: _together([n]) and not n.casefold().endswith(("_depth", "_rgbd"))
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(str.strip)
TIMES = st.floats(min_value=1e-300, max_value=1e300)
RATES = st.fractions(min_value=Fraction(1, 100), max_value=10**6, max_denominator=10**4)

COLUMN_NAMES = st.from_regex(r"[a-z.]{1,6}[ äé立]{0,2}x", fullmatch=True).filter(lambda n: _together([n]))


@st.composite
def cameras(draw: st.DrawFn, name: str) -> Camera:
    free = st.builds(
        FreeCamera,
        lookat=st.none() | st.tuples(*[st.floats(-1e9, 1e9)] * 3),
        distance=st.none() | TIMES,
        azimuth=st.floats(-1e4, 1e4),
    )
    return Camera(
        name,
        source=draw(st.one_of(st.none(), TEXTS, st.integers(0, 99), free)),
        width=2 * draw(st.integers(8, 4096)),
        frame_rate=draw(st.none() | RATES),
        enabled=draw(st.booleans()),
        depth_scale=draw(TIMES),
        geom_groups=draw(st.none() | st.lists(st.integers(0, 5), unique=True)),
        site_groups=draw(st.none() | st.lists(st.integers(0, 5), unique=True)),
        flags=draw(st.dictionaries(st.sampled_from((*VIS_FLAGS, *RND_FLAGS)), st.booleans())),
        record_pose=draw(st.booleans()),
    )


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    shape = draw(st.lists(st.integers(1, 3), max_size=2).map(tuple))
    size = math.prod(shape)
    source = draw(st.sampled_from(SOURCES))
    return Column(
        name,
        source=source,
        when=draw(st.sampled_from([None, "before", "after"])) if callable(source) else None,
        dtype=draw(st.sampled_from(["float32", "float16", "int64", "bool", *(["str"] if shape in ((), (1,)) else [])])),
        shape=shape,
        names=draw(st.none() | st.lists(TEXTS, min_size=size, max_size=size, unique=True).map(tuple)),
        unit=draw(st.none() | TEXTS),
    )


@st.composite
def recorder_settings(draw: st.DrawFn) -> RecorderSettings:
    names = draw(st.lists(NAMES, max_size=3, unique=True).filter(_together))
    own = draw(st.lists(COLUMN_NAMES, max_size=2, unique=True).filter(_together))
    return RecorderSettings(
        output_dir=Path.cwd() / draw(TEXTS.filter(lambda text: "\0" not in text)),
        mode=draw(st.sampled_from(["robot_arm", "full_scene"])),
        robots=draw(st.none() | st.lists(TEXTS, unique=True, max_size=3).filter(_together).map(tuple)),
        columns=tuple(draw(columns(name)) for name in own),
        data_hz=draw(st.none() | RATES),
        max_episode_length_s=draw(st.none() | TIMES),
        total_episodes=draw(st.none() | st.integers(1, 40_000)),
        success=draw(st.sampled_from(VERDICTS)),
        episode_trigger=draw(st.sampled_from([None, "m:f", gripper_width])),
        seed=draw(st.integers(0, 2**63 - 1)),
        worker_timeout_s=draw(st.floats(1e-9, 1e6)),
        cameras=tuple(draw(cameras(name)) for name in names),
        tasks=tuple(draw(st.lists(TEXTS, unique=True, max_size=3))),
        task=draw(st.sampled_from([None, "info:a.b", "m:f", gripper_width])),
    )


def _with_names(settings: RecorderSettings) -> RecorderSettings:
    """Write callables as the names that stand for them in a file."""

    def named(value: Any) -> Any:
        return f"{value.__module__}:{value.__qualname__}" if callable(value) else value

    return attrs.evolve(
        settings,
        success=named(settings.success),
        episode_trigger=named(settings.episode_trigger),
        task=named(settings.task),
        columns=tuple(attrs.evolve(c, source=named(c.source)) for c in settings.columns),
    )


@running(deadline=None)
@given(recorder_settings())
def test_settings_come_back_from_json_and_toml(settings: RecorderSettings) -> None:
    written = json.loads(json.dumps(settings.to_dict(), allow_nan=False))
    assert RecorderSettings.from_dict(written, allow_code=True) == _with_names(settings)
    assert RecorderSettings.of(tomllib.loads(settings.to_toml())) == _with_names(settings)


def test_settings_come_back_from_a_file(tmp_path: Path) -> None:
    free = FreeCamera(lookat=(0, 0, 1), distance=1.5)
    settings = RecorderSettings(
        output_dir=tmp_path / "Würfel",
        data_hz="200/3",
        columns=(
            Column("grip", gripper_width),
            Column("imu", "sensor:imu", shape=(3,), names=("x", "y", "z"), unit="m/s²"),
        ),
        cameras=(Camera("Front", source=free, frame_rate=25), Camera("Wrist", source=0)),
        tasks=('Say "hi"\\ and\tgo\x7f\n', "立方体"),
    )
    path = tmp_path / "recorder.toml"
    path.write_text(settings.to_toml(), encoding="utf-8")
    assert RecorderSettings.from_toml(path, allow_code=True) == _with_names(settings)
    path.write_text(settings.to_toml().replace("\n", "\r\n"), encoding="utf-8-sig")  # as Windows editors write it
    assert RecorderSettings.from_toml(path, allow_code=True) == _with_names(settings)
    path.write_text(attrs.evolve(settings, columns=settings.columns[1:]).to_toml(), encoding="utf-8")
    assert RecorderSettings.of(str(path), mode="full_scene").mode == "full_scene"
    assert RecorderSettings.of(path).columns == settings.columns[1:]


SEEN = RecorderSettings(
    record_masks=True,
    hardware_encoder=True,
    video_format="hevc",
    cameras=[
        Camera(
            "Front", depth_mode="rgbd", depth_scale=0.0005, sensor_model="ActiveStereo", masks=["cube", "hand"],
            sensor_params={"noise_px": 0.1}, debug_channel="disparity", frame_rate=Fraction(100, 3),
        ),
    ],
    lidars=[Lidar("Top", site="tip", azimuth=(-90, 90, 5), rate=10, noise_m=0.01, record_video_proxy=True)],
)  # fmt: skip


@pytest.mark.parametrize(
    "settings", [SEEN, RecorderSettings(koyu=KoyuSettings("x", path="bundles", id_seed=2**63 - 1))]
)
def test_what_is_nested_comes_back_from_json_and_toml(settings: RecorderSettings) -> None:
    assert RecorderSettings.of(json.loads(json.dumps(settings.to_dict()))) == settings
    assert RecorderSettings.of(tomllib.loads(settings.to_toml())) == settings


def test_toml_leaves_out_what_is_none() -> None:
    assert "data_hz" not in RecorderSettings().to_toml()
    assert RecorderSettings().to_dict()["data_hz"] is None


@pytest.mark.parametrize("source", [lambda sim: 0.0, functools.partial(gripper_width), Verdict(), Verdict().judge])
def test_a_callable_without_a_name_is_not_read_back_as_another(source: Any) -> None:
    written = Column("x", source)
    fields = RecorderSettings(columns=(written,), success=source).to_dict()
    json.dumps(fields)
    with pytest.raises(SettingsError, match=r"^column 'x': source='[\w.]+:<.*>'"):
        RecorderSettings.from_dict(fields)
    with pytest.raises(SettingsError, match=r"^success='[\w.]+:<.*>'"):
        RecorderSettings.from_dict({**fields, "columns": []})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"mode = ", "Invalid value"),
        (b"mode = 'custom'\nmode = 'custom'", "Cannot overwrite"),
        (b"\xff\xfe", "codec can't decode"),
        (b"seed = " + b"9" * 5000, "Exceeds the limit"),
        (b"\0", "Invalid statement"),
    ],
)
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "recorder.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=f"^settings file='.*recorder.toml': cannot be read as TOML: .*{message}"):
        RecorderSettings.from_toml(path)


@pytest.mark.parametrize("name", ["", ".", "missing.toml", "a\0b", "x" * 300])
def test_a_file_that_cannot_be_read_is_named(name: str) -> None:
    with pytest.raises(SettingsError, match=r"^settings file="):
        RecorderSettings.of(name)


def test_a_wrong_field_in_a_file_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "recorder.toml"
    path.write_text("[[cameras]]\nname = 'Front'\nwidth = 65\n")
    with pytest.raises(SettingsError, match=r"^camera 'Front': width=65: "):
        RecorderSettings.of(path)
    path.write_text("[recorder]\nmode = 'custom'\n")
    with pytest.raises(SettingsError, match=r"^recorder={'mode': 'custom'}: unknown field; "):
        RecorderSettings.of(path)
    path.write_text("max_episode_length_s = nan\n")
    with pytest.raises(SettingsError, match=r"^max_episode_length_s=nan: "):
        RecorderSettings.of(path)
    path.write_text("seed = 2026-01-01\n")
    with pytest.raises(SettingsError, match=r"^seed=datetime.date\(2026, 1, 1\): "):
        RecorderSettings.of(path)
