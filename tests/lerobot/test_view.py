from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lucky_recorder as lr
from lucky_recorder.episode.schema import Field
from lucky_recorder.lerobot.rules import check_lerobot
from lucky_recorder.session.check import check_session
from lucky_recorder.session.reader import Session
from tests.session.breaking import rewrite
from tests.session.building import (
    Recording,
    arm_schema,
    camera,
    custom_schema,
    depth,
    lidar,
    mask,
    rgbd,
)

FRONT = "observation.images.Front"


@pytest.fixture
def view(tmp_path: Path) -> Callable[..., Session]:
    """Make a view, which LeRobot opens, of a session; and see to it that the session stays as it was."""

    def view(source: Path, **options: object) -> Session:
        before = {p: p.read_bytes() for p in source.rglob("*") if p.is_file()}
        made = lr.lerobot_view(source, tmp_path / "view", **options)
        assert {p: p.read_bytes() for p in source.rglob("*") if p.is_file()} == before
        assert made.path == tmp_path / "view"
        assert check_lerobot(made.path) == []
        assert check_session(made.path, deep=True) == []
        assert (len(Session(made.path)), Session(made.path).state) == (made.episodes, "complete")
        return Session(made.path)

    return view


def values(session: Session, name: str) -> np.ndarray:
    return np.concatenate([np.array(e.rows([name])[name].to_pylist()) for e in session])


def test_a_session_with_everything_switched_on(full: Recording, view: Callable[..., Session], tmp_path: Path) -> None:
    assert check_lerobot(full.root) != []
    made = view(full.root)
    assert list(made.cameras) == ["Front", "Fast"]
    assert made.lidars == ()
    assert made.video_keys() == ["observation.images.Fast", FRONT]
    np.testing.assert_array_equal(values(made, "action"), full.all_rows("action"))
    for episode in made:
        source = Session(full.root).episode(episode.index)
        for name in ("Front", "Fast"):
            assert os.path.samefile(episode.video_path(name), source.video_path(name))
        assert (episode.success, episode.tasks) == (source.success, source.tasks)
    assert set(made.stats) == {"action", "observation.state", FRONT, "observation.images.Fast"}
    assert made.stats["action"] == Session(full.root).stats["action"]


def test_it_says_what_it_leaves_out(full: Recording, tmp_path: Path) -> None:
    assert lr.lerobot_view(full.root, tmp_path / "view").left_out == (
        f"{FRONT}_depth: depth",
        "observation.images.Slow_depth: runs at 25 Hz, rows at 50 Hz",
        "lidar side",
        "lidar top",
        f"{FRONT}_rgbd",
        "observation.masks.Front",
    )


def test_depth_is_kept_where_it_is_asked_for(full: Recording, view: Callable[..., Session]) -> None:
    made = view(full.root, depth=True)
    assert list(made.cameras) == ["Front", "Front_depth", "Fast"]
    info = made.features[f"{FRONT}_depth"]["info"]
    assert (info["video.depth_min"], info["video.depth_max"]) == (0, pytest.approx(65.52))
    assert (info["video.shift"], info["video.use_log"], info["is_depth_map"]) == (0, False, True)
    assert "video.codec" not in info
    linked = made.path / f"videos/{FRONT}_depth/chunk-000/file-001.mp4"
    assert os.path.samefile(linked, full.root / f"videos/{FRONT}_depth/chunk-000/file-001.mkv")


@pytest.mark.parametrize(("hz", "is_kept"), [(30, False), (100, True), (Fraction(200, 3), True)])
def test_depth_only_where_frame_times_are_whole_milliseconds(tmp_path: Path, hz: Fraction | int, is_kept: bool) -> None:
    recording = Recording(tmp_path / "session", arm_schema([camera("Front", hz), depth("Front", hz)], hz=hz))
    recording.keep(4)
    made = lr.lerobot_view(recording.close(), tmp_path / "view", depth=True)
    assert check_lerobot(made.path) == []
    assert (f"{FRONT}_depth" in Session(made.path).features) is is_kept
    assert (made.left_out == ()) is is_kept


@pytest.mark.parametrize("name", ["left", "right"])
def test_one_robot_of_two(tmp_path: Path, view: Callable[..., Session], name: str) -> None:
    extra = [Field("force", "float32", (2,), names=("l.x", "l.y", "r.x", "r.y"), has_stats=True)]
    schema = arm_schema([camera("Front")], robots=("left", "right"), extra=extra)
    recording = Recording(tmp_path / "session", schema, files_per_chunk=2, episodes_per_file=2)
    for ticks in (3, 4, 2, 5, 3):
        recording.keep(ticks, tasks=(0, 1))
    made = view(recording.close(), robot=name)
    robot = ("left", "right").index(name)
    assert made.robots == (name,)
    assert [e.length for e in made] == [3, 4, 2, 5, 3]
    for column in ("action", "observation.state", "force", "timestamp", "task_index"):
        np.testing.assert_array_equal(values(made, column), recording.all_rows(column)[robot::2])
    np.testing.assert_array_equal(values(made, "index"), np.arange(17))
    np.testing.assert_array_equal(values(made, "episode_index"), np.repeat(range(5), [3, 4, 2, 5, 3]))
    own = recording.all_rows("action")[robot::2]
    np.testing.assert_allclose(made.stats["action"]["mean"], own.mean(axis=0))
    np.testing.assert_allclose(made.stats["action"]["std"], own.std(axis=0))
    assert made.stats["action"]["count"] == [17]
    assert made.features["action"]["names"] == [f"{name}.{joint}" for joint in ("pan", "lift", "grip")]
    assert made.features["force"]["names"] == [["l.x", "l.y"], ["r.x", "r.y"]][robot]


def test_which_robot_must_be_said(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "session", arm_schema(robots=("left", "right")))
    recording.keep(2)
    path = recording.close()
    with pytest.raises(lr.SettingsError, match="robot=None: the session has several; choose one of left, right"):
        lr.lerobot_view(path, tmp_path / "view")
    with pytest.raises(lr.SettingsError, match="robot='middle': the session has left, right"):
        lr.lerobot_view(path, tmp_path / "view", robot="middle")
    assert not (tmp_path / "view").exists()
    lr.lerobot_view(path, tmp_path / "view", robot="left")


def test_vectors_of_one_value_become_plain(tmp_path: Path, view: Callable[..., Session]) -> None:
    extra = [Field("lone", "float32", (1,), has_stats=True), Field("pair", "float64", (2,), has_stats=True)]
    recording = Recording(tmp_path / "session", arm_schema(extra=extra))
    recording.keep(3)
    recording.keep(2)
    path = recording.close()
    assert {b.rule for b in check_lerobot(path)} == {5}
    made = view(path)
    assert made.episode(0).rows()["lone"].type == pa.float32()
    np.testing.assert_array_equal(values(made, "lone"), recording.all_rows("lone")[:, 0])
    np.testing.assert_array_equal(values(made, "pair"), recording.all_rows("pair"))
    assert made.stats["lone"] == Session(path).stats["lone"]


def test_an_episode_without_a_video_is_left_out(tmp_path: Path, view: Callable[..., Session]) -> None:
    streams = [camera("Front"), depth("Front"), rgbd("Front"), mask("Front")]
    recording = Recording(tmp_path / "session", arm_schema(streams, lidars=[lidar("top")]))
    for ticks, failed in ((3, None), (4, FRONT), (2, None)):
        recording.keep(ticks, success=failed is None, failed_stream=failed)
    path = recording.close()
    assert {b.rule for b in check_lerobot(path)} >= {3}
    made = view(path)
    assert [(e.index, e.length) for e in made] == [(0, 3), (1, 2)]
    kept = [recording.committed[k].columns["action"] for k in (0, 2)]
    np.testing.assert_array_equal(values(made, "action"), np.concatenate(kept))
    assert os.path.samefile(made.episode(1).video_path("Front"), Session(path).episode(2).video_path("Front"))
    assert made.stats["action"]["count"] == [5]


def test_a_session_without_videos(tmp_path: Path, view: Callable[..., Session]) -> None:
    recording = Recording(tmp_path / "session", custom_schema(Field("x", "float64", (2,), has_stats=True)))
    recording.keep(2)
    made = view(recording.close())
    assert "video_path" not in made.info
    assert os.path.samefile(*(p / "data/chunk-000/file-000.parquet" for p in (recording.root, made.path)))


def test_where_links_fail_it_copies(
    full: Recording, view: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: object, target: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    made = view(full.root)
    video = f"videos/{FRONT}/chunk-000/file-001.mp4"
    assert not os.path.samefile(made.path / video, full.root / video)
    assert (made.path / video).read_bytes() == (full.root / video).read_bytes()


def test_a_folder_that_is_taken(full: Recording, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for taken in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(lr.SettingsError, match="is there already"):
            lr.lerobot_view(full.root, taken)
    with pytest.raises(lr.SettingsError, match="lies inside the session"):
        lr.lerobot_view(full.root, full.root / "view")
    assert not (full.root / "view").exists()


def test_what_is_no_session(tmp_path: Path) -> None:
    with pytest.raises(lr.FormatError, match="no session"):
        lr.lerobot_view(tmp_path, tmp_path / "view")
    assert not (tmp_path / "view").exists()


@pytest.mark.parametrize("key", ["observation.images.../../../../out", "observation.images.a/../../../../out"])
def test_a_session_of_someone_else_cannot_write_elsewhere(full_copy: Path, tmp_path: Path, key: str) -> None:
    file = full_copy / "meta/info.json"
    file.write_text(file.read_text().replace(f'"{FRONT}"', json.dumps(key)))
    rewrite(
        full_copy / "meta/episodes/chunk-000/file-000.parquet",
        lambda t: t.rename_columns([c.replace(f"{FRONT}/", f"{key}/") for c in t.column_names]),
    )
    with pytest.raises(lr.FormatError, match="outside the"):
        lr.lerobot_view(full_copy, tmp_path / "a/b/c/d")
    assert not list(tmp_path.rglob("*out*"))


def info_with(**fields: object) -> Callable[[dict], object]:
    return lambda info: info.update(fields)


@pytest.mark.parametrize(
    "change",
    [
        lambda info: info["features"]["action"].pop("shape"),
        lambda info: info["features"]["action"].update(shape=[10**9, 10**9]),
        lambda info: info["features"].update(gone={"dtype": "float64", "shape": [1]}),
        lambda info: info["features"].pop("episode_index"),
        lambda info: info["features"].pop("index"),
        info_with(robots=[], features={}),
        info_with(data_path="../../x"),
        info_with(hz="fast"),
    ],
)
def test_a_broken_session_is_an_error(full_copy: Path, tmp_path: Path, change: Callable[[dict], object]) -> None:
    file = full_copy / "meta/info.json"
    info = json.loads(file.read_text())
    change(info)
    file.write_text(json.dumps(info))
    with pytest.raises(lr.FormatError, match=re.escape(str(full_copy))):
        lr.lerobot_view(full_copy, tmp_path / "view")
    assert not (tmp_path / "view/meta").exists()


@pytest.mark.parametrize("tasks", [pa.array([[3]]), pa.array([[None]], pa.list_(pa.string())), pa.array(["lift"])])
def test_tasks_that_are_no_texts_are_an_error(full_copy: Path, tmp_path: Path, tasks: pa.Array) -> None:
    def changed(table: pa.Table) -> pa.Table:
        number = table.column_names.index("tasks")
        return table.set_column(number, "tasks", pa.chunked_array([tasks] * table.num_rows))

    for path in full_copy.glob("meta/episodes/*/*.parquet"):
        rewrite(path, changed)
    with pytest.raises(
        lr.FormatError, match=re.escape(f"episode 0: tasks is {tasks[0].as_py()!r}, expected a list of texts")
    ):
        lr.lerobot_view(full_copy, tmp_path / "view")


def test_nothing_is_made_of_a_session_without_an_episode(tmp_path: Path) -> None:
    path = Recording(tmp_path / "session", arm_schema()).close()
    with pytest.raises(lr.FormatError, match="has no episode"):
        lr.lerobot_view(path, tmp_path / "view")
    assert not (tmp_path / "view").exists()
