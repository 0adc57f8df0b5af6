"""Sessions of another recorder, by the letter of the format's page: read, checked, and what is made of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.edit.convert import session_to_koyu
from lucky_recorder.koyu.check import check_koyu
from lucky_recorder.lerobot.rules import check_lerobot
from lucky_recorder.session.check import check_session, inspect_session
from lucky_recorder.viewer.sheet import panels, unshown
from tests.session.foreign import EVERY_STREAM, HZ, IMAGES, Recorder, color_of, rows_of, write_session

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


def test_the_contact_sheet_shows_what_is_known_of(full: Path) -> None:
    session = lr.Session(full)
    episode = session.episode(0)
    assert [panel.stream for panel in panels(session, episode, 1)] == [f"{IMAGES}Front", f"{IMAGES}Front_depth"]
    left_out = unshown(session, episode)
    assert list(left_out) == ["observation.masks.Front", "lidar-Top Deck"]
    assert all(str(full) in why for why in left_out.values())


def test_the_lerobot_view_has_the_rows_of_one_robot(made: tuple[Recorder, Path], tmp_path: Path) -> None:
    recorder, root = made
    kept = [e for e in range(len(recorder.lengths)) if "color" not in recorder.streams or not recorder.fails(e)]
    for robot in map(str, recorder.robots):
        view = lr.lerobot_view(root, tmp_path / f"view {robot}", robot=robot)
        # Its videos are the other recorder's: LeRobot may stumble over their B-frames, and nothing else.
        assert {b.message.split(":")[0] for b in check_lerobot(view.path)} <= {"has B-frames"}
        read = lr.Session(view.path)
        assert (read.info["codebase_version"], read.info["fps"]) == ("v3.0", HZ)
        assert len(read) == len(kept)
        for episode, number in zip(read, kept, strict=True):
            rows = rows_of(recorder, number)
            mine = rows[rows[recorder.entity] == int(robot)]
            assert episode.tasks == (["Lift the cube", "Put it down"][number % 2],)
            for name in read.features.keys() & set(mine) - {"index", "episode_index"}:
                stored = np.stack(episode.rows([name])[name].to_pylist())
                np.testing.assert_array_equal(stored, np.stack(mine[name].tolist()))


def test_bundles_have_the_rows_of_one_robot_each(made: tuple[Recorder, Path], tmp_path: Path) -> None:
    recorder, root = made
    settings = lr.KoyuSettings(name="bundles", path=tmp_path / "bundles")
    if recorder.is_custom:
        with pytest.raises(lr.SettingsError, match=r"a bundle needs a column 'observation\.state'"):
            session_to_koyu(root, settings)
        return
    session_to_koyu(root, settings)
    assert check_koyu(tmp_path / "bundles") == []
    with lr.koyu.Dataset(tmp_path / "bundles") as dataset:
        for number in range(len(dataset.episodes)):
            action = dataset.columns(number)["action"]
            # The action says which robot and which episode it is: see `rows_of`.
            robot, episode = int(action[0, 0]) % 100 // 10, int(action[0, 0]) // 100
            rows = rows_of(recorder, episode)
            mine = rows[rows[recorder.entity] == recorder.robots[robot]]
            np.testing.assert_array_equal(action, np.stack(mine["action"].tolist()).astype(np.float32))


def test_a_robot_that_misses_a_tick_is_told(tmp_path: Path) -> None:
    root = write_session(tmp_path / "session", RECORDERS["two robots"])
    file = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(file, partitioning=None)
    pq.write_table(table.set_column(1, "robot_id", pa.array([TWO[0], TWO[1], *[TWO[0]] * 6])), file)
    with pytest.raises(lr.FormatError, match="a tick has not one row of each of 2 robots, by robot_id"):
        lr.lerobot_view(root, tmp_path / "view", robot=str(TWO[0]))
    assert any("robot_id" in fault.message for fault in check_session(root))


@pytest.mark.parametrize("name", ["robot_id", "frame_index"])
@pytest.mark.parametrize(
    "values", [[[1]] * 8, ["a"] * 8, [{"a": 1}] * 8, [1, None] * 4], ids=["lists", "texts", "maps", "gaps"]
)
def test_robots_and_ticks_are_numbers(tmp_path: Path, name: str, values: list[object]) -> None:
    root = write_session(tmp_path / "session", RECORDERS["two robots"])
    file = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(file, partitioning=None)
    at = table.column_names.index(name)
    table = table.set_column(at, name, pa.array(values))
    if name == "frame_index":  # so that the rows have to be put in order
        at = table.column_names.index("robot_id")
        table = table.set_column(at, "robot_id", pa.array([TWO[1], TWO[0]] * 4))
    pq.write_table(table, file)
    with pytest.raises(lr.FormatError, match=str(root)):
        lr.Session(root).episode(0).rows_by_tick()


def test_a_camera_with_other_frames_than_its_rate_says_is_left_out_of_the_view(tmp_path: Path) -> None:
    """Its file says 50 frames a second, and the frames were taken at some other rate: no frame is certain."""
    root = write_session(tmp_path / "session", Recorder(lengths=(4, 5, 6)))
    shutil.copy(*(root / f"videos/{IMAGES}Front/chunk-{place}.mp4" for place in ("000/file-000", "001/file-000")))
    view = lr.lerobot_view(root, tmp_path / "view")
    assert (
        "episode 2: observation.images.Front has 4 frames for 6 ticks: none is certain to be a row's" in view.left_out
    )


FAULTS = {
    "a flag that is none": ("frame_flags", lambda column: [4, *column[1:]], "frame_flags is 4"),
    "a time of its own": ("timestamp", lambda column: [column[0], column[1] + 0.01, *column[2:]], "timestamp is"),
    "a tick left out": ("frame_index", lambda column: [0, *[k + 1 for k in column[1:]]], "frame_index is 2"),
    "another row number": ("index", lambda column: [k + 1 for k in column], "index is 1"),
    "an unknown task": ("task_index", lambda column: [7] * len(column), "is out of range"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_the_page_says_is_checked(tmp_path: Path, fault: str) -> None:
    name, change, message = FAULTS[fault]
    root = write_session(tmp_path / "session", Recorder(streams=()))
    file = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(file, partitioning=None)
    field = table.schema.field(name)
    changed = pa.array(change(table[name].to_pylist()), field.type)
    pq.write_table(table.set_column(table.column_names.index(name), field, changed), file)
    assert any(message in found.message for found in check_session(root))


def test_statistics_of_others_are_checked(tmp_path: Path) -> None:
    root = write_session(tmp_path / "session", Recorder(streams=()))
    stats = json.loads((root / "meta/stats.json").read_text())
    for part in ("min", "max", "mean", "std", "count"):
        wrong = json.loads(json.dumps(stats))
        wrong["action"][part][0] += 1
        (root / "meta/stats.json").write_text(json.dumps(wrong))
        assert any(f"action: {part} is" in fault.message for fault in check_session(root)), part
