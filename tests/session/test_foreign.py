"""Sessions of another recorder, by the letter of the format's page: read, checked, and what is made of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lucky_recorder as lr
from lucky_recorder.session.check import check_session, inspect_session
from tests.session.foreign import EVERY_STREAM, IMAGES, Recorder, color_of, rows_of, write_session

DOUBLE, FLOAT = pa.float64(), pa.float32()
TWO = (9_000_000_000_000_000_001, -2)

RECORDERS = {
    "one robot": Recorder(),
    "two robots": Recorder(robots=TWO),
    "robots in no fixed order": Recorder(robots=TWO, turns=True),
    "three robots, full scene": Recorder(entity="sim_id", robots=(3, 1, 2)),
    "custom schema": Recorder(entity="entity_id", streams=()),
    "a single episode": Recorder(lengths=(3,)),
    "every stream": Recorder(streams=EVERY_STREAM),
    "depth only": Recorder(streams=("depth",)),
    "another version": Recorder(version="1.0"),
    "uncompressed": Recorder(compression="none"),
    "gzip": Recorder(compression="gzip"),
    "large lists": Recorder(lists=pa.large_list(DOUBLE)),
    "fixed-size lists": Recorder(lists=pa.list_(DOUBLE, 3)),
    "lists of float": Recorder(entity="entity_id", lists=pa.list_(FLOAT)),
    "fixed-size lists of float": Recorder(entity="entity_id", lists=pa.list_(FLOAT, 3)),
}


@pytest.fixture(params=RECORDERS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Recorder, Path]:
    recorder = RECORDERS[request.param]
    return recorder, write_session(tmp_path / "session_2026-10-08_14-30-05", recorder)


@pytest.fixture
def full(tmp_path: Path) -> Path:
    return write_session(tmp_path / "session_2026-10-08_14-30-05", RECORDERS["every stream"])


def test_rows_are_read_as_they_were_written(made: tuple[Recorder, Path]) -> None:
    recorder, root = made
    session = lr.Session(root)
    assert [e.index for e in session] == [*range(len(recorder.lengths))]
    assert session.entity_ids == tuple(recorder.robots)
    assert session.robots == tuple(map(str, recorder.robots))
    for number, episode in enumerate(session):
        written, read = rows_of(recorder, number), episode.rows()
        assert (episode.success, episode.data_ticks) == (number != 1, recorder.lengths[number])
        assert episode.tasks == (["Lift the cube", "Put it down"][number % 2],)
        for name in written:
            np.testing.assert_array_equal(np.stack(read[name].to_pylist()), np.stack(written[name].tolist()))


def test_no_fault_is_found(made: tuple[Recorder, Path]) -> None:
    recorder, root = made
    report = inspect_session(root)
    assert report.faults == []
    assert (report.episodes, report.rows) == (len(recorder.lengths), sum(recorder.lengths) * len(recorder.robots))


def test_pictures_are_read_by_index(full: Path) -> None:
    session = lr.Session(full)
    assert list(session.cameras) == ["Front", "Front_depth"]
    assert session.lidars == ("Top Deck",)
    for episode in (session.episode(0), session.episode(2)):
        with episode.frames("Front") as frames:
            assert len(frames) == episode.data_ticks
            for k, frame in enumerate(frames):
                assert np.abs(frame.astype(int) - color_of(episode.index, k)).max() <= 3
        depth = episode.depth("Front")
        assert [float(d.mean()) for d in depth] == pytest.approx(
            [1 + 0.01 * episode.index + k / 1000 for k in range(len(depth))]
        )
        depth.close()
        assert episode.rgbd_path("Front").is_file()


def test_a_stream_without_a_file_is_told(full: Path) -> None:
    episode = lr.Session(full).episode(1)
    assert not episode.has_video("Front")
    assert episode.has_video("Front_depth")
    with pytest.raises(lr.VideoError, match="episode 1 has no video of Front"):
        episode.frames("Front")


def test_what_the_page_leaves_open_is_told(full: Path) -> None:
    episode = lr.Session(full).episode(0)
    with pytest.raises(lr.FormatError, match="no JSON file beside it says what its ids are"):
        episode.masks("Front")
    with pytest.raises(lr.FormatError, match=r"lidar-Top Deck-000\.json: rate=None"):
        episode.scans("Top Deck")


def test_video_only(full: Path) -> None:
    shutil.rmtree(full / "meta")
    for file in full.glob("data/*/file-*"):
        file.unlink()
    session = lr.Session(full)
    assert session.is_video_only
    assert session.video_keys() == [
        f"{IMAGES}Front",
        f"{IMAGES}Front_depth",
        f"{IMAGES}Front_rgbd",
        "observation.masks.Front",
    ]
    assert check_session(full) == []


def test_a_session_whose_videos_are_all_missing(tmp_path: Path) -> None:
    """pandas stores a column of nothing without a type, beside a file where it has one."""
    root = write_session(tmp_path, Recorder(lengths=(2, 3, 4, 5)))
    episodes = lr.Session(root).episodes
    assert episodes.schema.field(f"videos/{IMAGES}Front/file_index").type == pa.int64()
    assert episodes[f"videos/{IMAGES}Front/chunk_index"].to_pylist() == [0, None, 1, 1]
