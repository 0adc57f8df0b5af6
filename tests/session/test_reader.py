from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.session import reader
from lucky_recorder.session.reader import CameraStream, Session, sessions_under
from session.building import HEIGHT, WIDTH, Recording, arm_schema, camera

FRONT = "observation.images.Front"


@pytest.fixture
def session(good: Recording) -> Session:
    return lr.Session(good.root)


@pytest.fixture
def info(copy: Path) -> Callable[..., Path]:
    """Change fields of the copy's info.json."""

    def info(**fields: Any) -> Path:
        path = copy / "meta/info.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))
        return copy

    return info


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
        assert episode.ticks == record.ticks
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
    shutil.rmtree(copy / "meta")
    with pytest.raises(lr.FormatError, match="cut short before metadata was first written"):
        Session(copy)


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


@pytest.mark.parametrize("version", ["v2.1", "v4.0", "v30", "3.0-beta", "", None, 3.0, "2026.10"])
def test_unknown_versions(info: Callable[..., Path], version: object) -> None:
    with pytest.raises(lr.FormatError, match=r"info\.json: codebase_version=.*only v3"):
        Session(info(codebase_version=version))


def test_later_versions_of_three_are_read(info: Callable[..., Path]) -> None:
    assert len(Session(info(codebase_version="v3.1"))) == 7


@pytest.mark.parametrize(
    "template",
    [
        "../{chunk_index:03d}/{file_index:03d}.parquet",
        "/etc/passwd",
        "data/../../chunk-{chunk_index:03d}",
        "data/{chunk_index.__class__}",
        "data/{chunk_index:999999999d}",
        "data/{video_key}/{chunk_index:03d}",
        "data/{0}",
        "data/{",
        "data",
        "nowhere.parquet",
        "data\0.parquet",
        "x" * 5000,
        "",
        None,
        7,
    ],
)
def test_data_paths_that_are_none(info: Callable[..., Path], template: object) -> None:
    episode = Session(info(data_path=template)).episode(0)
    with pytest.raises(lr.FormatError):
        episode.rows()


@pytest.mark.parametrize("template", ["../{video_key}.mp4", "/dev/zero", "{video_key}/../../x", None])
def test_video_paths_that_are_none(info: Callable[..., Path], template: object) -> None:
    episode = Session(info(video_path=template)).episode(0)
    with pytest.raises(lr.FormatError):
        episode.frames("Front")


def test_a_video_key_that_escapes(info: Callable[..., Path], session: Session) -> None:
    key = "../../../outside"
    features = {**session.features, key: session.features[FRONT]}
    opened = Session(info(features=features))
    episode = reader.Episode(
        opened, {**opened.episodes.to_pylist()[0], f"videos/{key}/chunk_index": 0, f"videos/{key}/file_index": 0}
    )
    with pytest.raises(lr.FormatError, match="outside the session folder"):
        episode.video_path(key)


def test_links_that_lead_outside(copy: Path, tmp_path: Path) -> None:
    for name, read in {
        "data/chunk-000/file-000.parquet": lambda s: s.episode(0).rows(),
        f"videos/{FRONT}/chunk-000/file-000.mp4": lambda s: s.episode(0).frames("Front"),
        "meta/tasks.parquet": lambda s: s.tasks,
        "meta/stats.json": lambda s: s.stats,
        "meta/info.json": lambda s: s.info,
    }.items():
        shutil.move(copy / name, tmp_path / "outside")
        (copy / name).symlink_to(tmp_path / "outside")
        with pytest.raises(lr.FormatError, match="outside the session folder"):
            read(Session(copy))
        (copy / name).unlink()
        shutil.move(tmp_path / "outside", copy / name)


def test_a_session_behind_a_link_is_read(good: Recording, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(good.root)
    assert Session(tmp_path / "latest").episode(2).rows().num_rows == 12


def test_a_pipe_is_no_file(copy: Path) -> None:
    path = copy / "data/chunk-000/file-000.parquet"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(lr.FormatError, match="is no file"):
        Session(copy).episode(0).rows()


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"NaN", b'{"a": NaN}', b"[" * 100_000, b"1" * 10_000])
def test_broken_json(copy: Path, content: bytes) -> None:
    (copy / "meta/info.json").write_bytes(content)
    with pytest.raises(lr.FormatError, match=r"meta/info\.json"):
        Session(copy)


def test_absurdly_large_json(copy: Path) -> None:
    with (copy / "meta/info.json").open("r+b") as file:
        file.truncate(1 << 27)
    with pytest.raises(lr.FormatError, match="no metadata"):
        Session(copy)


@pytest.mark.parametrize(
    "name", ["meta/episodes/chunk-000/file-000.parquet", "meta/tasks.parquet", "data/chunk-000/file-000.parquet"]
)
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "folder"])
def test_broken_parquet(copy: Path, name: str, damage: str) -> None:
    path = copy / name
    content = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes(b"" if damage == "empty" else content[:-20])
    session = Session(copy)
    read = {"tasks": lambda: session.tasks, "file-000": lambda: session.episode(0).rows()}[path.stem]
    if "episodes" in name and damage in ("missing", "folder"):
        # What a lost list of episodes lists is unknown.
        assert [e.index for e in session] == [4, 5, 6]
        return
    with pytest.raises(lr.FormatError, match=name):
        read()


@pytest.mark.parametrize("hz", [0, -50, "fast", None, True, [50], 1e400])
def test_rates_that_are_none(info: Callable[..., Path], hz: object) -> None:
    session = Session(info(hz=hz if hz != 1e400 else 10**400 - 10**400))
    with pytest.raises(lr.FormatError, match=r"info\.json: hz="):
        session.hz  # noqa: B018


@pytest.mark.parametrize("features", [None, [], {"action": 3}])
def test_features_that_are_none(info: Callable[..., Path], features: object) -> None:
    session = Session(info(features=features))
    with pytest.raises(lr.FormatError, match=r"info\.json: features="):
        session.cameras  # noqa: B018


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [48, -64, 3]},
        {"shape": [48, 64]},
        {"shape": "48x64"},
        {"shape": [48, True, 3]},
        {"shape": [1 << 40, 64, 3]},
        {"info": None},
        {"info": {"video.fps": 0}},
        {"info": {}, "names": "x" * 1000},
    ],
)
def test_streams_that_are_none(info: Callable[..., Path], session: Session, change: dict[str, Any]) -> None:
    opened = Session(info(features={**session.features, FRONT: session.features[FRONT] | change}))
    with pytest.raises(lr.FormatError, match=r"info\.json: features\['observation.images.Front'\]") as error:
        opened.episode(0).frames("Front")
    assert len(str(error.value)) < 600


@pytest.mark.parametrize("robots", [[], "left", [1, 2], {}])
def test_robots_that_are_none(info: Callable[..., Path], robots: object) -> None:
    with pytest.raises(lr.FormatError, match=r"info\.json: robots="):
        Session(info(robots=robots)).robots  # noqa: B018


EPISODES = "meta/episodes/chunk-000/file-001.parquet"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns("length"), "has other columns than"),
        (lambda t: t.set_column(0, "episode_index", pa.array([4, 5, 5])), "stands twice"),
        (lambda t: t.set_column(0, "episode_index", pa.array([4, 5, None])), "is missing or stands twice"),
        (lambda t: t.set_column(5, "length", pa.array([10, -12, 8])), "length=-12"),
        (lambda t: t.set_column(1, "chunk_index", pa.array([0, None, 1])), "chunk_index=None"),
        (lambda t: t.set_column(2, "file_index", pa.array([1, 10**12, 0])), "file_index=1000000000000"),
        (lambda t: t.set_column(5, "length", pa.array([10, 10, 8])), "meta/episodes says 10"),
    ],
)
def test_episodes_that_are_none(copy: Path, change: Callable[[pa.Table], pa.Table], message: str) -> None:
    pq.write_table(change(pq.ParquetFile(copy / EPISODES).read()), copy / EPISODES)
    with pytest.raises(lr.FormatError, match=message):
        Session(copy).episode(5).rows()


def test_episodes_without_their_columns(copy: Path) -> None:
    for path in copy.glob("meta/episodes/*/*"):
        pq.write_table(pq.ParquetFile(path).read().drop_columns("dataset_to_index"), path)
    with pytest.raises(lr.FormatError, match="no int64 column 'dataset_to_index'"):
        len(Session(copy))


def test_no_episodes_at_all(copy: Path) -> None:
    shutil.rmtree(copy / "meta/episodes")
    assert list(Session(copy)) == []


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"task_index": [0]}),
        pa.table({"index": [0], "task": ["a"]}),
        pa.table({"task_index": [0], "a": ["b"], "c": ["d"]}),
    ],
)
def test_tasks_that_are_none(copy: Path, table: pa.Table) -> None:
    pq.write_table(table, copy / "meta/tasks.parquet")
    with pytest.raises(lr.FormatError, match=r"tasks\.parquet: columns"):
        Session(copy).tasks  # noqa: B018


def test_absurdly_many_rows(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lucky_recorder.session.untrusted.LARGEST_TABLE", 5)
    with pytest.raises(lr.FormatError, match="at most 5 are read"):
        Session(copy).episode(0).rows()
