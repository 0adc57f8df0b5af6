"""The gates: which settings let which folders appear, and what is then in them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv, check_session, read_count
from lucky_recorder.video.decode import decode_all

GATES = list(itertools.product([True, False], repeat=5))
PIXELS = {"width": 64, "height": 48}


def folders(path: Path) -> set[str]:
    """Everything in a session down to the streams, without the files themselves."""
    found = {p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_dir()}
    return {f for f in found if f.count("/") <= 1 and not f.startswith("data/")}


def record(tmp_path: Path, front: bool, render: bool, **gates: bool) -> lr.RecordSession:
    cameras = [
        lr.Camera("Front", source="wall", enabled=front, **PIXELS),
        lr.Camera("Seen", source="render", enabled=render, **PIXELS),
    ]
    env = lr.RecordSession(
        CountEnv(4, mujoco=True, render_mode="rgb_array"), output_dir=tmp_path, cameras=cameras, **gates
    )
    for seed in range(2):
        env.reset(seed=seed)
        for _ in range(4):
            env.step([0.0])
    env.close()
    return env


@pytest.mark.parametrize(("data", "cameras", "color", "front", "render"), GATES)
def test_exactly_what_the_gates_let_through_is_on_the_disk(
    tmp_path: Path, data: bool, cameras: bool, color: bool, front: bool, render: bool
) -> None:
    gates = {"record_data": data, "record_cameras": cameras, "record_color_video": color}
    streams = {
        f"videos/observation.images.{name}"
        for name, is_enabled in (("Front", front), ("Seen", render))
        if cameras and color and is_enabled
    }
    if not data and not streams:
        with pytest.raises(lr.SettingsError, match="record_data=False: and no camera or lidar records"):
            record(tmp_path, front, render, **gates)
        assert list(tmp_path.iterdir()) == []
        return
    env = record(tmp_path, front, render, **gates)
    path = env.session_path
    expected = (
        streams
        | ({"videos"} if streams else set())
        | ({"data", "meta", "meta/episodes", "meta/models"} if data else set())
    )
    assert folders(path) == expected
    session = check_session(path)
    assert session.is_video_only is (not data)
    for stream in streams:
        videos = sorted((path / stream).rglob("*.mp4"))
        assert [p.relative_to(path / stream).as_posix() for p in videos] == [
            "chunk-000/file-000.mp4",
            "chunk-000/file-001.mp4",
        ]
        for number, video in enumerate(videos):
            frames = decode_all(video)
            assert len(frames) == 4
            if stream.endswith("Seen"):
                assert [read_count(f) for f in frames] == [100 * number + t for t in range(4)]
    if data:
        listed = {key for key, feature in session.info["features"].items() if feature["dtype"] == "video"}
        assert {f"videos/{key}" for key in listed} == streams
        assert ("video_path" in session.info) is bool(streams)
        assert {c.split("/")[1] for c in session.episodes.column_names if c.startswith("videos/")} == listed
        assert [e.length for e in session] == [4, 4]


def test_a_camera_that_is_off_needs_neither_a_model_nor_gl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lucky_recorder.capture.draw import context as gl

    monkeypatch.setattr(gl, "_candidates", list)
    cameras = [lr.Camera("nowhere", enabled=False), lr.Camera("seen", source="render", **PIXELS)]
    env = lr.RecordSession(
        CountEnv(2, render_mode="rgb_array"), output_dir=tmp_path, mode="custom", gym_columns=True, cameras=cameras
    )
    env.reset()
    env.step([0.0])
    env.close()
    assert list(check_session(env.session_path).cameras) == ["seen"]


@pytest.mark.parametrize(("files", "episodes", "capacity"), [(1, 1, 1), (40, 1, 40), (3, 4, 12), (1000, 1000, 10**6)])
def test_the_capacity_of_a_chunk_can_only_be_read(files: int, episodes: int, capacity: int) -> None:
    settings = lr.RecorderSettings(files_per_chunk=files, episodes_per_file=episodes)
    assert settings.capacity_per_chunk == capacity
    with pytest.raises(AttributeError):
        settings.capacity_per_chunk = 5  # type: ignore[misc]
    with pytest.raises(lr.SettingsError, match=r"capacity_per_chunk=5: unknown field"):
        lr.RecorderSettings.of(capacity_per_chunk=5)


@pytest.mark.parametrize("field", ["files_per_chunk", "episodes_per_file"])
@pytest.mark.parametrize("value", [0, 1001, -1, 1.5, "4", None, True])
def test_chunks_have_1_to_1000_files_of_1_to_1000_episodes(field: str, value: Any) -> None:
    with pytest.raises(lr.SettingsError, match=rf"{field}=.*give a whole number from 1 to 1000"):
        lr.RecorderSettings(**{field: value})


@pytest.mark.parametrize(("files", "episodes"), [(1, 1), (2, 3), (3, 1), (1, 4)])
def test_files_are_numbered_from_000_in_every_chunk(tmp_path: Path, files: int, episodes: int) -> None:
    camera = lr.Camera("Seen", source="render", **PIXELS)
    env = lr.RecordSession(
        CountEnv(1, render_mode="rgb_array"),
        output_dir=tmp_path,
        mode="custom",
        gym_columns=True,
        cameras=[camera],
        files_per_chunk=files,
        episodes_per_file=episodes,
    )
    for _ in range(7):
        env.reset()
        env.step([0.0])
    env.close()
    check_session(env.session_path)
    data = {p.relative_to(env.session_path / "data").as_posix() for p in env.session_path.glob("data/*/*")}
    video = {"/".join(p.parts[-2:]) for p in env.session_path.glob("videos/*/*/*")}
    numbers = [divmod(n // episodes, files) for n in range(7)]
    assert data == {f"chunk-{chunk:03d}/file-{file:03d}.parquet" for chunk, file in numbers}
    assert video == {f"chunk-{n // files:03d}/file-{n % files:03d}.mp4" for n in range(7)}
