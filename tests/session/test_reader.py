from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.session.folder import CameraStream, sessions_under
from lucky_recorder.session.reader import Session
from tests.session.building import HEIGHT, WIDTH, Recording, arm_schema, camera

FRONT = "observation.images.Front"


@pytest.fixture
def session(good: Recording) -> Session:
    return lr.Session(good.root)


def test_what_a_session_says_of_itself(session: Session, good: Recording) -> None:
    assert len(session) == 7
    assert session.path == good.root
    assert session.hz == Fraction(50)
    assert session.robots == ("left", "right")
    assert session.tasks == ["Pick up the cube", "Put it down"]
    assert session.episodes["episode_index"].to_pylist() == list(range(7))
    assert session.info["total_frames"] == len(good.all_rows("timestamp"))
    assert set(session.stats) == {"action", "observation.state", FRONT, "observation.images.Wrist"}
    assert list(session.features)[-1] == "observation.images.Wrist"
    assert session.is_video_only is False
    assert repr(session) == f"Session({str(good.root)!r}, episodes=7)"


def test_cameras(session: Session) -> None:
    assert list(session.cameras) == ["Front", "Wrist"]
    wrist = CameraStream("Wrist", "observation.images.Wrist", WIDTH, HEIGHT, Fraction(25), "h264")
    assert session.cameras["Wrist"] == wrist


def test_a_string_will_do_as_a_path(good: Recording) -> None:
    assert len(Session(str(good.root))) == 7


def test_rows_of_an_episode(session: Session, good: Recording) -> None:
    for episode, record in zip(session, good.committed, strict=True):
        rows = episode.rows()
        assert rows.num_rows == episode.length == record.rows
        assert set(rows["episode_index"].to_pylist()) == {episode.index}
        np.testing.assert_array_equal(rows["observation.state"].to_pylist(), record.columns["observation.state"])
        assert episode.success == record.outcome.success
        assert episode.data_ticks == record.data_ticks
    assert session.episode(1).tasks == ("Pick up the cube", "Put it down")
    assert repr(session.episode(2)) == "Episode(2, length=12, success=False)"


def test_only_the_episode_s_row_group_is_read(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    original = pq.ParquetFile.read_row_groups
    monkeypatch.setattr(
        pq.ParquetFile,
        "read_row_groups",
        lambda self, groups, **options: asked.append(groups) or original(self, groups, **options),
    )
    session.episode(4).rows()
    assert asked == [[1]]


def test_row_groups_of_another_writer_are_found_too(copy: Path, good: Recording) -> None:
    path = copy / "data/chunk-000/file-001.parquet"
    pq.write_table(pq.ParquetFile(path).read(), path, row_group_size=7, write_statistics=False)
    rows = Session(copy).episode(4).rows(["action"])
    np.testing.assert_array_equal(rows["action"].to_pylist(), good.committed[4].columns["action"])


def test_some_columns(session: Session) -> None:
    assert session.episode(0).rows(["timestamp", "action"]).column_names == ["timestamp", "action"]
    with pytest.raises(KeyError, match=r"no column 'velocity'; .* observation\.state"):
        session.episode(0).rows(["velocity"])


@pytest.mark.parametrize("camera", ["Front", FRONT])
def test_frames_by_index(session: Session, camera: str) -> None:
    with session.episode(5).frames(camera) as frames:
        assert len(frames) == 6
        assert frames[3].shape == (HEIGHT, WIDTH, 3)
        # Frame 3 of attempt 5 was painted (27, 40, 100).
        assert np.abs(frames[3].mean(axis=(0, 1)) - (27, 40, 100)).max() < 6
    assert session.episode(5).video_path(camera).name == "file-001.mp4"
    assert len(session.episode(5).frames("Wrist")) == 3


def test_an_unknown_camera(session: Session) -> None:
    with pytest.raises(KeyError, match="no camera 'Back'; the session has Front, Wrist"):
        session.episode(0).frames("Back")


def test_a_stream_that_failed(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front")]))
    recording.keep(2, success=False, failed_stream=FRONT)
    episode = Session(recording.close()).episode(0)
    with pytest.raises(lr.VideoError, match="episode 0 has no video of Front"):
        episode.frames("Front")


@pytest.mark.parametrize("index", [7, -1, 10**30])
def test_an_unknown_episode(session: Session, index: int) -> None:
    with pytest.raises(IndexError, match="lists 7 episodes"):
        session.episode(index)


def test_a_session_travels_to_other_processes(session: Session) -> None:
    assert session.episodes.num_rows == 7
    assert pickle.loads(pickle.dumps(session)).episode(3).rows().num_rows == 8


def test_reading_needs_no_simulator(good: Recording) -> None:
    code = (
        "import sys, lucky_recorder as lr;"
        f"s = lr.Session({str(good.root)!r});"
        "e = s.episode(3); e.rows(); e.frames('Front')[0]; s.tasks; s.stats; s.cameras;"
        "bad = {'mujoco', 'gymnasium'} & set(sys.modules);"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_reading_changes_nothing(copy: Path) -> None:
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in copy.rglob("*")}
    for episode in Session(copy):
        episode.rows()
        len(episode.frames("Front"))
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in copy.rglob("*")} == before


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(lr.FormatError, match="no such folder"):
        Session(tmp_path / "nowhere")


def test_a_folder_that_is_no_session(tmp_path: Path) -> None:
    with pytest.raises(lr.FormatError, match="neither meta/ nor data/ nor videos/"):
        Session(tmp_path)


def test_a_folder_of_sessions_names_the_latest(good: Recording, tmp_path: Path) -> None:
    parent = tmp_path / "DataSessions"
    for name in ("session_2026-10-08_14-30-06", "session_2026-10-08_14-30-05"):
        shutil.copytree(good.root, parent / name)
    (parent / "session_notes").mkdir()
    (tmp_path / "data").mkdir()
    for folder in (parent, tmp_path):
        with pytest.raises(lr.FormatError, match=r"\(2\).*the latest is .*session_2026-10-08_14-30-06"):
            Session(folder)
    assert [p.name[-2:] for p in sessions_under(tmp_path)] == ["05", "06"]


def test_an_interrupted_session(copy: Path) -> None:
    whole = Session(copy)
    shutil.rmtree(copy / "meta")
    session = Session(copy)
    assert (session.state, session.unlisted) == ("cut short", tuple(range(7)))
    assert (session.info, session.tasks, session.features) == (whole.info, whole.tasks, whole.features)


def test_an_interrupted_session_without_a_finished_file(tmp_path: Path) -> None:
    folder = tmp_path / f"videos/{FRONT}"
    folder.mkdir(parents=True)
    (folder / "attempt-000000.mp4.tmp").touch()
    with pytest.raises(lr.FormatError, match="cut short"):
        Session(tmp_path)


def test_a_video_only_session(copy: Path) -> None:
    shutil.rmtree(copy / "meta")
    shutil.rmtree(copy / "data")
    session = Session(copy)
    assert session.is_video_only
    assert (len(session), list(session), session.info, session.features, session.cameras) == (0, [], {}, {}, {})
    assert session.video_keys() == [FRONT, "observation.images.Wrist"]
    files = session.video_files("Front")
    assert files == session.video_files(FRONT)
    assert [str(f.relative_to(copy / "videos" / FRONT)) for f in files] == [
        f"chunk-{n // 2:03d}/file-{n % 2:03d}.mp4" for n in range(7)
    ]
    assert session.video_files("Back") == session.video_files("../../..") == []
    for read in (lambda: session.episode(0), lambda: session.episodes, lambda: session.tasks, lambda: session.hz):
        with pytest.raises(lr.FormatError, match="video only"):
            read()
    with pytest.raises(lr.FormatError, match="video only"):
        session.stats  # noqa: B018


def test_sizes_on_disk(session: Session, good: Recording) -> None:
    assert session.bytes_on_disk() == sum(p.stat().st_size for p in good.root.rglob("*") if p.is_file())
