"""Observer: what a start needs, and that a refused one leaves nothing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import mujoco
import pytest

import lucky_recorder as lr
from tests.recorder.states import IDLE


def test_half_a_simulation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(lr.SettingsError, match="model and data: give both"):
        lr.Observer(output_dir=tmp_path, model=mujoco.MjModel.from_xml_string("<mujoco/>"))


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"data_hz": None}, "data_hz=None"),
        ({"cameras": [{"name": "nowhere"}]}, "camera 'nowhere': source"),
        ({"cameras": [{"name": "a", "source": "render"}]}, "camera 'a': source"),
        ({"gym_columns": True}, "gym_columns"),
        ({"columns": [{"name": "a", "source": "qpos:nowhere"}]}, "column 'a': source"),
        ({"columns": [{"name": "a", "source": "gym:reward"}]}, "column 'a': source"),
        ({"robots": ["nobody"]}, "robots"),
        ({"cameras": [{"name": "wall", "frame_rate": 40}]}, "camera 'wall': frame_rate"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_start_that_cannot_be_recorded_leaves_nothing(
    bare: Any, tmp_path: Path, settings: dict[str, Any], names: str
) -> None:
    observer, _ = bare(output_dir=tmp_path / "new", **settings)
    before = threading.active_count()
    with pytest.raises(lr.SettingsError, match=names):
        observer.start_recording()
    assert observer.state is IDLE
    assert not (tmp_path / "new").exists()
    assert threading.active_count() == before


def test_a_folder_that_cannot_be_made_leaves_the_observer_idle(bare: Any, tmp_path: Path, wall: Any) -> None:
    (tmp_path / "file").write_text("not a folder")
    observer, _ = bare(output_dir=tmp_path / "file", cameras=[wall])
    before = threading.active_count()
    with pytest.raises(lr.StorageError, match=str(tmp_path / "file")):
        observer.start_recording()
    assert observer.state is IDLE
    assert threading.active_count() == before


def test_a_machine_without_gl_leaves_nothing(
    bare: Any, tmp_path: Path, wall: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lucky_recorder.capture.draw import context as gl

    monkeypatch.setattr(gl, "_candidates", list)
    observer, advance = bare(output_dir=tmp_path / "new", cameras=[wall])
    with pytest.raises(lr.GLError, match="apt-get install"):
        observer.start_recording()
    assert observer.state is IDLE
    assert not (tmp_path / "new").exists()
    states, advance = bare(output_dir=tmp_path / "new", cameras=[{**wall, "enabled": False}])
    states.start_recording()
    advance()
    states.stop_recording()
    assert lr.Session(states.session_path).info["total_frames"] == 1


def test_a_simulation_without_mujoco_is_recorded_through_columns(tmp_path: Path, read_back: Any) -> None:
    clock = iter(range(10))
    observer = lr.Observer(
        output_dir=tmp_path, mode="custom", data_hz=10, columns=[lr.Column("n", lambda _: next(clock), dtype="int32")]
    )
    with observer:
        observer.start_recording()
        for _ in range(3):
            observer.tick()
        observer.end_current_episode(success=True)
    (episode,) = read_back(observer.session_path)
    assert episode.rows["n"].tolist() == [0, 1, 2]
    assert episode.rows["timestamp"].tolist() == [0, 0.1, 0.2]


def test_settings_may_be_a_mapping_or_an_object_with_fields_on_top(tmp_path: Path) -> None:
    settings = lr.RecorderSettings(output_dir=tmp_path, tasks=["Pick"])
    assert lr.Observer(settings, data_hz=50).settings == lr.Observer(settings.to_dict(), data_hz=50).settings
    with pytest.raises(lr.SettingsError, match="did you mean 'data_hz'"):
        lr.Observer(settings, data_hertz=50)
