from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lucky_recorder as lr
from lucky_recorder.session.reader import Session
from lucky_recorder.video.probe import tracks
from tests.session.breaking import rewrite, with_value
from tests.session.building import Recording

SCANS = "data/chunk-000/lidar-top-001"
LABELS = "videos/observation.masks.Front/chunk-000/file-001.json"


@pytest.fixture
def session(full: Recording) -> Session:
    return Session(full.root)


@pytest.fixture
def describe(full_copy: Path) -> Callable[..., lr.Session]:
    """Change the description of the scans of episode 1."""

    def describe(**fields: Any) -> Session:
        file = full_copy / f"{SCANS}.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))
        return Session(full_copy)

    return describe


def test_depth_is_read_in_metres(session: Session) -> None:
    for camera in ("Front", "Front_depth", "observation.images.Front_depth"):
        depth = session.episode(1).depth(camera)
        assert len(depth) == 5
        assert depth[3].dtype == np.float32
        np.testing.assert_array_equal(depth[3][8:], np.float32(1.003))
        np.testing.assert_array_equal(depth[3][:8, :8], 0)
        np.testing.assert_array_equal(depth.codes[3][8:], 1003)
        assert [float(frame[20, 20]) for frame in depth] == [float(np.float32(1 + k / 1000)) for k in range(5)]
        depth.close()


def test_masks_are_read_with_their_labels(session: Session) -> None:
    masks = session.episode(1).masks("Front")
    assert masks.labels == {0: "background", 1: "cube", 2: "arm"}
    assert [int(masks[k][20, 20]) for k in range(len(masks))] == [0, 1, 2, 0, 1]
    assert masks[2].dtype == np.uint8
    assert masks.of(1, "cube").sum() == 64 * 48 - 64
    assert not masks.of(1, "arm").any()
    with pytest.raises(KeyError, match="no label 'table'; the mask has background, cube, arm"):
        masks.of(1, "table")
    masks.close()


def test_the_combined_file_has_both_tracks(session: Session) -> None:
    color, depth = tracks(session.episode(2).rgbd_path("Front"))
    assert (color.codec, depth.codec, color.frames, depth.frames) == ("h264", "ffv1", 6, 6)


def test_scans_are_read_as_points(session: Session, full: Recording) -> None:
    assert session.lidars == ("side", "top")
    scans = session.episode(1).scans("top")
    written = full.committed[1].scans["top"]
    assert (len(scans), scans.rate, scans.shape) == (3, 25, (2, 4))
    np.testing.assert_array_equal(scans.ranges(2), written.ranges[2])
    points = scans.to_points(2)
    # Back into the sensor: the quaternion turns by 0.6 rad about z.
    turn = np.array([[np.cos(0.6), -np.sin(0.6), 0], [np.sin(0.6), np.cos(0.6), 0], [0, 0, 1]])
    seen = (points - [0.1, 0.2, 0.3]) @ turn
    np.testing.assert_allclose(np.linalg.norm(seen, axis=1), written.ranges[2][1:], rtol=1e-6)
    angles = np.degrees(np.arctan2(seen[:, 1], seen[:, 0]))
    np.testing.assert_allclose(angles, [-10, 10, 30, -30, -10, 10, 30], atol=1e-4)
    np.testing.assert_allclose(np.degrees(np.arcsin(seen[:, 2] / written.ranges[2][1:])), [-5] * 3 + [5] * 4, atol=1e-4)
    with pytest.raises(IndexError):
        scans.to_points(3)


def test_a_session_tells_what_an_episode_has(session: Session, full_copy: Path) -> None:
    assert session.episode(0).has_masks("Front")
    assert not session.episode(0).has_masks("Fast")
    assert session.episode(0).has_scans("top")
    assert not session.episode(0).has_scans("bottom")
    assert session.episode(0).has_video("Slow_depth")
    with pytest.raises(KeyError):
        session.episode(0).has_video("Slow")


def test_what_is_not_there(session: Session) -> None:
    episode = session.episode(0)
    with pytest.raises(KeyError, match="no camera 'Fast_depth'"):
        episode.depth("Fast")
    with pytest.raises(lr.FormatError, match="is missing"):
        episode.masks("Fast")
    with pytest.raises(lr.FormatError, match="is missing"):
        episode.rgbd_path("Fast")
    with pytest.raises(lr.FormatError, match="is missing"):
        episode.scans("bottom")


@pytest.mark.parametrize("name", ["../../../meta/x", "/etc/passwd", "a/../../../../b", "a\0b", ".."])
def test_names_do_not_lead_out_of_the_folder(session: Session, name: str) -> None:
    episode = session.episode(0)
    for read in (episode.masks, episode.rgbd_path, episode.scans):
        with pytest.raises(lr.FormatError):
            read(name)


@pytest.mark.parametrize("scale", [0, -1, None, True, "0.001", 1e300, [1]])
def test_a_scale_that_is_none(full_copy: Path, scale: object) -> None:
    file = full_copy / "meta/info.json"
    info = json.loads(file.read_text())
    info["features"]["observation.images.Front_depth"]["info"]["depth_scale"] = scale
    file.write_text(json.dumps(info))
    with pytest.raises(lr.FormatError, match="depth_scale="):
        Session(full_copy).episode(0).depth("Front")


@pytest.mark.parametrize("labels", ['{"a": "b"}', '{"1": 2}', "[]", "{", '{"' + "9" * 5000 + '": "b"}', '{"²": "b"}'])
def test_labels_that_are_none(full_copy: Path, labels: str) -> None:
    (full_copy / LABELS).write_text(labels)
    with pytest.raises(lr.FormatError, match="file-001"):
        Session(full_copy).episode(1).masks("Front")


@pytest.mark.parametrize(
    "fields",
    [
        {"rate": 0},
        {"rate": None},
        {"rate": 1e999999},
        {"azimuth_deg": []},
        {"azimuth_deg": None},
        {"azimuth_deg": [[0.0], [1.0]]},
        {"azimuth_deg": [[0.0], [1.0, 2.0]]},
        {"azimuth_deg": ["left"] * 4},
        {"azimuth_deg": [10**400, 0, 0, 0]},
        {"azimuth_deg": [None, 0, 0, 0]},
        {"elevation_deg": 5},
        {"azimuth_deg": [0.0] * 2000, "elevation_deg": [0.0] * 2000},
        {"azimuth_deg": [0.0] * 3},
    ],
)
def test_grids_that_are_none(describe: Callable[..., Session], fields: dict[str, Any]) -> None:
    text = {k: v if v != float("inf") else "Infinity" for k, v in fields.items()}
    episode = describe(**text).episode(1)
    with pytest.raises(lr.FormatError, match="lidar-top-001"):
        episode.scans("top")


@pytest.mark.parametrize(
    "change",
    [
        with_value("range", 1, [1.0]),
        with_value("range", 1, None),
        with_value("range", 1, [None] * 8),
        with_value("sensor_position", 0, [0.0] * 4),
        with_value("sensor_orientation", 0, []),
        lambda table: table.drop_columns(["range"]),
        lambda table: table.rename_columns([c.replace("range", "Range") for c in table.column_names]),
        lambda table: pa.table({"range": [1.0]}),
        lambda table: table.append_column("range", table["range"]),
    ],
)
def test_scans_that_are_none(full_copy: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    rewrite(full_copy / f"{SCANS}.parquet", change)
    with pytest.raises(lr.FormatError, match="lidar-top-001"):
        Session(full_copy).episode(1).scans("top")


def test_a_file_of_another_stream_is_read_as_what_it_should_be(full_copy: Path) -> None:
    color, mask, depth = (
        full_copy / f"videos/observation.{name}/chunk-000/file-001.{suffix}"
        for name, suffix in (("images.Front", "mp4"), ("masks.Front", "mp4"), ("images.Front_depth", "mkv"))
    )
    contents = [file.read_bytes() for file in (color, mask, depth)]
    for file, content in zip((depth, color, mask), contents, strict=True):
        file.write_bytes(content)
    episode = Session(full_copy).episode(1)
    assert episode.frames("Front")[0].shape == (48, 64, 3)
    assert episode.depth("Front")[0].shape == (48, 64)
    assert episode.masks("Front")[0].shape == (48, 64)
