from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lucky_recorder.errors import SettingsError
from lucky_recorder.session.reader import Session
from lucky_recorder.viewer.sheet import panels, sheet
from tests.session.breaking import rewrite, with_value
from tests.session.building import Recording

SCANS = "data/chunk-000/lidar-top-001"
LABELS = "videos/observation.masks.Front/chunk-000/file-001.json"


@pytest.fixture
def session(full: Recording) -> Session:
    return Session(full.root)


def test_a_sheet_shows_every_stream_at_its_moment(session: Session) -> None:
    episode = session.episode(1)
    drawn = {panel.stream: panel.picture for panel in panels(session, episode, 3)}
    assert list(drawn) == [
        "observation.images.Front",
        "observation.images.Front_depth",
        "observation.images.Fast",
        "observation.images.Slow_depth",
        "observation.masks.Front",
        "lidar-side",
        "lidar-top",
    ]
    for camera, frame in (("Front", 3), ("Fast", 6)):
        with episode.frames(camera) as frames:
            np.testing.assert_array_equal(drawn[f"observation.images.{camera}"], frames[frame])
    assert (drawn["observation.images.Front_depth"][:8, :8] == 0).all()
    assert (drawn["observation.images.Front_depth"][8:] > 0).any(axis=2).all()
    # Frame 3 shows the background; frame 1 of the slower ones is what they show at tick 3.
    ground = drawn["observation.images.Front"] // 2
    np.testing.assert_array_equal(drawn["observation.masks.Front"], ground)
    page = sheet(list(panels(session, episode, 3)))
    np.testing.assert_array_equal(page[:48, :64], drawn["observation.images.Front"])


def test_a_mask_is_laid_over_its_picture(session: Session) -> None:
    episode = session.episode(1)
    drawn = {panel.stream: panel.picture for panel in panels(session, episode, 1)}
    color, mask = drawn["observation.images.Front"], drawn["observation.masks.Front"]
    np.testing.assert_array_equal(mask[:8, :8], color[:8, :8] // 2)
    assert (mask[20, 20] != color[20, 20] // 2).any()


def test_a_stream_that_failed_is_left_out(full_copy: Path) -> None:
    for name in (LABELS, LABELS.replace("json", "mp4"), f"{SCANS}.json", f"{SCANS}.parquet", f"{SCANS}.mp4"):
        (full_copy / name).unlink()
    meta = full_copy / "meta/episodes/chunk-000/file-001.parquet"
    for part in ("chunk_index", "file_index", "from_timestamp", "to_timestamp"):
        rewrite(meta, with_value(f"videos/observation.images.Front/{part}", 0, None))
    opened = Session(full_copy)
    shown = [panel.stream for panel in panels(opened, opened.episode(1), 0)]
    assert shown == [
        "observation.images.Front_depth",
        "observation.images.Fast",
        "observation.images.Slow_depth",
        "lidar-side",
    ]


def test_a_frame_that_is_not_there(session: Session) -> None:
    for frame_index in (-1, 5):
        with pytest.raises(SettingsError, match="episode 1 has frames 0 to 4"):
            panels(session, session.episode(1), frame_index)


def test_scans_of_nothing_are_black(full_copy: Path) -> None:
    rewrite(
        full_copy / f"{SCANS}.parquet", with_value("range", 0, [float("inf")] * 4 + [-1.0, float("nan"), 0.0, -5.0])
    )
    opened = Session(full_copy)
    drawn = {panel.stream: panel.picture for panel in panels(opened, opened.episode(1), 0)}
    assert not drawn["lidar-top"].any()
    rewrite(full_copy / f"{SCANS}.parquet", lambda table: table.slice(0, 0))
    opened = Session(full_copy)
    assert "lidar-top" not in {panel.stream for panel in panels(opened, opened.episode(1), 0)}
