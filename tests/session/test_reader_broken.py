from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.session.episode import Episode
from lucky_recorder.session.folder import SessionFolder
from lucky_recorder.session.reader import Session
from tests.session.breaking import rewrite
from tests.session.building import Recording

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


@pytest.mark.parametrize("version", ["", None, 3.0, ["v3.0"]])
def test_versions_that_are_none(info: Callable[..., Path], version: object) -> None:
    with pytest.raises(lr.FormatError, match=r"info\.json: codebase_version=.*: expected the version of what wrote it"):
        Session(info(codebase_version=version))


@pytest.mark.parametrize("version", ["v3.0", "v3.1", "1.0", "2026.3", "2026.10-beta", "v9"])
def test_any_version_is_read_whose_layout_fits(info: Callable[..., Path], version: str) -> None:
    assert len(Session(info(codebase_version=version))) == 7


def test_the_earlier_layout_of_lerobot_is_named(info: Callable[..., Path]) -> None:
    folder = info(codebase_version="v2.1")
    shutil.rmtree(folder / "meta/episodes")
    (folder / "meta/episodes.jsonl").write_text("{}")
    with pytest.raises(lr.FormatError, match=r"codebase_version='v2\.1': lists its episodes in meta/episodes\.jsonl"):
        Session(folder)


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
    episode = Episode(
        SessionFolder(opened.path),
        {**opened.episodes.to_pylist()[0], f"videos/{key}/chunk_index": 0, f"videos/{key}/file_index": 0},
    )
    with pytest.raises(lr.FormatError, match="outside the folder"):
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
    with pytest.raises(lr.FormatError, match="holds more than"):
        Session(copy)


@pytest.mark.parametrize(
    "name", ["meta/episodes/chunk-000/file-000.parquet", "meta/tasks.parquet", "data/chunk-000/file-000.parquet"]
)
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "folder"])
def test_broken_parquet(copy: Path, good: Recording, name: str, damage: str) -> None:
    path = copy / name
    content = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes(b"" if damage == "empty" else content[:-20])
    session = Session(copy)
    read = {"tasks": lambda: session.tasks, "file-000": lambda: session.episode(0).rows()}[path.stem]
    if ("data/" not in name and damage == "missing") or ("episodes" in name and damage == "folder"):
        # The data files carry what is lost.
        assert ([e.index for e in session], session.tasks) == (list(range(7)), Session(good.root).tasks)
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
        (lambda t: t.drop_columns("length"), "file-001.parquet: has no int64 column 'length'"),
        (lambda t: t.set_column(5, "length", pa.array([8.0, 10.5, 12.0, 8.0])), "file-001.parquet: cannot be read"),
        (
            lambda t: t.set_column(5, "length", pa.array(["8", "10", "12", "8"])),
            "no int64 column 'length': it is string",
        ),
        (lambda t: t.set_column(6, "success", pa.array(["yes", "yes", "no", "no"])), "meta/episodes: cannot be read"),
        (lambda t: t.append_column("length", pa.array([8, 10, 12, 8])), "column .length. stands twice"),
        (lambda t: t.set_column(0, "episode_index", pa.array([3, 4, 5, 5])), "stands twice"),
        (lambda t: t.set_column(0, "episode_index", pa.array([3, 4, 5, None])), "is missing or stands twice"),
        (lambda t: t.set_column(5, "length", pa.array([8, 10, -12, 8])), "length=-12"),
        (lambda t: t.set_column(1, "chunk_index", pa.array([0, 0, None, 1])), "chunk_index=None"),
        (lambda t: t.set_column(2, "file_index", pa.array([1, 1, 10**12, 0])), "file_index=1000000000000"),
        (lambda t: t.set_column(5, "length", pa.array([8, 10, 10, 8])), "meta/episodes says 10"),
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
    shutil.rmtree(copy / "data")
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
    monkeypatch.setattr("lucky_recorder.episode.limits.MOST_ROWS", 5)
    with pytest.raises(lr.FormatError, match="at most 5 are read"):
        Session(copy).episode(0).rows()


@pytest.mark.parametrize("kind", ["lists", "texts", "nothing"])
def test_robots_whose_ids_are_no_numbers(copy: Path, kind: str) -> None:
    def changed(table: pa.Table) -> pa.Table:
        number, rows = table.column_names.index("robot_id"), table.num_rows
        values = {"lists": [[1]] * rows, "texts": ["1"] * rows, "nothing": [None] * rows}[kind]
        return table.set_column(number, "robot_id", pa.array(values))

    for path in copy.glob("data/*/*.parquet"):
        rewrite(path, changed)
    with pytest.raises(lr.FormatError, match=r"file-\d+\.parquet: robot_id: .* are no robots' ids"):
        Session(copy).entity_ids  # noqa: B018


@pytest.mark.parametrize("column", ["frame_index", "robot_id"])
def test_a_column_that_nothing_can_be_compared_with(copy: Path, column: str) -> None:
    def changed(table: pa.Table) -> pa.Table:
        return table.set_column(table.column_names.index(column), column, pa.array([[0.5]] * table.num_rows))

    for path in copy.glob("data/*/*.parquet"):
        rewrite(path, changed)
    session = Session(copy)
    with pytest.raises(lr.FormatError, match=r"file-\d+\.parquet: "):
        session.entity_ids  # noqa: B018
    if column == "robot_id":
        with pytest.raises(lr.FormatError, match=r"file-\d+\.parquet: "):
            session.episode(0).missing(1)
