"""Settings that no bundle can be made of are refused when they are built, or at the first reset."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from tests.koyu.recording import KOYU, PAIR, SMALL, bundles, seen_counts


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"video_format": "hevc"}, "video_format='hevc': a koyu bundle's videos are H.264"),
        ({"video_format": "av1"}, "video_format='av1'"),
        ({"record_data": False, "cameras": [{"name": "a"}]}, "record_data=False: a koyu bundle is made of rows"),
        ({"koyu": {"name": "a/b"}}, "koyu.name='a/b': use letters"),
        ({"koyu": {}}, "koyu.name is missing"),
        ({"koyu": {"name": "x", "collection_mode": "demo"}}, "koyu.collection_mode='demo': choose one of teleop, eval"),
        ({"koyu": {"name": "x", "time_origin_ns": 1}}, "koyu.time_origin_ns=1: give whole microseconds"),
        ({"koyu": {"name": "x", "id_seed": -1}}, "koyu.id_seed=-1: give a whole number"),
        ({"koyu": {"name": "x", "action": "gym"}}, "koyu.action='gym': what the policy sent is"),
        ({"koyu": None, "formats": ["koyu"]}, "formats=.*: bundles need a name: give koyu=KoyuSettings"),
        ({"formats": ["zarr"]}, "'zarr': choose one of session, koyu"),
        ({"formats": ["koyu", "koyu"]}, "formats='koyu': stands twice"),
        (
            {"formats": ["koyu"], "cameras": [{"name": "a", "depth_mode": "rgbd"}]},
            "camera 'a': its depth stream is written into a session only; add 'session' to formats",
        ),
        ({"formats": ["koyu"], "lidars": [{"name": "top"}]}, "lidar 'top' is written into a session only"),
    ],
)
def test_settings_that_no_bundle_is_made_of_are_refused_when_they_are_built(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(lr.SettingsError, match=message):
        lr.RecorderSettings(**{"output_dir": tmp_path, "koyu": KOYU, **settings})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"columns": PAIR[:1]}, "a bundle needs a column 'action', and the columns here are observation.state"),
        ({"columns": PAIR[1:]}, "a bundle needs a column 'observation.state'"),
        ({"columns": [*PAIR, lr.Column("n", "gym:reward", dtype="int64")]}, "column 'n': dtype='int64': .*float32"),
        ({"cameras": [{"name": "seen", "source": "render", "frame_rate": 25, **SMALL}]}, "frame_rate='25'"),
    ],
)
def test_a_recording_that_is_no_bundle_is_refused_at_its_first_reset(
    film: Any, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    env = film(**settings)
    with pytest.raises(lr.SettingsError, match=message):
        env.reset()
    assert list(tmp_path.iterdir()) == []
    assert not env.is_recording
    env.close()


def test_a_camera_at_the_data_rate_is_not_off_it(film: Any, run: Any) -> None:
    env = film(cameras=[{"name": "seen", "source": "render", "frame_rate": 50, **SMALL}], data_hz=Fraction(50))
    run(env)
    env.close()
    assert [seen_counts(read) for read in bundles(env)] == [[0, 1, 2]]


def test_settings_come_back_from_a_file(tmp_path: Path) -> None:
    settings = lr.RecorderSettings(koyu=lr.KoyuSettings("cubes", path=tmp_path, id_seed=5), formats=("koyu",))
    (tmp_path / "recorder.toml").write_text(settings.to_toml())
    assert lr.RecorderSettings.from_toml(tmp_path / "recorder.toml") == settings
    assert lr.RecorderSettings.from_dict(settings.to_dict()) == settings
