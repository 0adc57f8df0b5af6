from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import read_count
from tests.koyu.bundles import (
    CAMERAS,
    HEIGHT,
    WIDTH,
    capture_id,
    count_of,
    edit_json,
    features,
    film,
    state_of,
    write_bundle,
    write_dataset,
    write_manifest,
)

FRONT, WRIST = CAMERAS
LENGTHS = (12, 1, 25)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that no test changes."""
    return write_dataset(tmp_path_factory.mktemp("stored") / "by-hand", LENGTHS)


@pytest.fixture
def copy(stored: Path, tmp_path: Path) -> Path:
    """A dataset to be broken."""
    return Path(shutil.copytree(stored, tmp_path / "by-hand"))


def bundle(dataset: Path, episode: int) -> Path:
    return dataset / "episodes" / f"ep_{capture_id(episode)}"


def places(lengths: tuple[int, ...] = LENGTHS) -> list[tuple[int, int]]:
    return [(episode, step) for episode, length in enumerate(lengths) for step in range(length)]


def assert_is(row: dict[str, Any], episode: int, step: int) -> None:
    """Every part of a row says which row it is."""
    assert row["observation.state"].tolist() == state_of(episode, step)
    assert row["action"].tolist() == [100 * episode + step, -step]
    assert [read_count(row[c]) for c in CAMERAS] == [count_of(episode, step, n) for n in range(2)]
    assert (row["episode_index"], row["episode_id"], row["step"]) == (episode, f"ep_{capture_id(episode)}", step)
    assert row["timestamp"] == 10**18 + step * 20_000_000
    assert (row["task"], row["task_description"]) == ("lift", "Lift the cube")


def test_row_i_is_frame_i_for_every_row_of_every_camera(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored)
    assert len(dataset) == sum(LENGTHS)
    for i, (episode, step) in enumerate(places()):
        assert_is(dataset[i], episode, step)


def test_rows_in_any_order(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored, open_videos=2)
    for i in np.random.default_rng(0).permutation(len(dataset)):
        assert_is(dataset[i], *places()[i])


def test_dtypes_and_shapes(stored: Path) -> None:
    row = lr.koyu.Dataset(stored)[0]
    assert (row["observation.state"].dtype, row["observation.state"].shape) == (np.float32, (3,))
    assert (row["action"].dtype, row["action"].shape) == (np.float32, (2,))
    assert (row[FRONT].dtype, row[FRONT].shape) == (np.uint8, (HEIGHT, WIDTH, 3))
    assert all(array.flags.writeable and array.flags.owndata for array in (row["action"], row["observation.state"]))


def test_an_index_like_a_lists(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored)
    assert_is(dataset[-1], 2, 24)
    assert_is(dataset[np.int64(12)], 1, 0)
    for beyond in (len(dataset), -len(dataset) - 1):
        with pytest.raises(IndexError, match=f"row {beyond} of 38"):
            dataset[beyond]
    assert [row["step"] for row in dataset] == [step for _, step in places()]


def test_no_bundle_is_touched_before_a_row_is_asked_for(copy: Path) -> None:
    shutil.rmtree(copy / "episodes")
    dataset = lr.koyu.Dataset(copy)
    assert (len(dataset), dataset.rows_of(2)) == (38, range(13, 38))
    assert [e.length for e in dataset.episodes] == list(LENGTHS)
    with pytest.raises(lr.FormatError, match=r"episode\.json: is missing"):
        dataset[0]


def test_a_chunk_of_actions_is_padded_past_the_end(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored, horizon=4)
    for i, (episode, step) in enumerate(places()):
        row, length = dataset[i], LENGTHS[episode]
        steps = [min(k, length - 1) for k in range(step, step + 4)]
        assert row["action"].tolist() == [[100 * episode + k, -k] for k in steps]
        assert row["action_is_pad"].tolist() == [k >= length for k in range(step, step + 4)]
        assert row["observation.state"].shape == (3,)


def test_a_history_is_padded_before_the_beginning(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored, history=3)
    for i, (episode, step) in enumerate(places()):
        row = dataset[i]
        steps = [max(k, 0) for k in range(step - 2, step + 1)]
        assert row["observation.state"].tolist() == [state_of(episode, k) for k in steps]
        assert row["observation_is_pad"].tolist() == [k < 0 for k in range(step - 2, step + 1)]
        assert [read_count(f) for f in row[WRIST]] == [count_of(episode, k, 1) for k in steps]
        assert row["action"].shape == (2,)


def test_a_window_of_one_has_its_axis(stored: Path) -> None:
    row = lr.koyu.Dataset(stored, horizon=1, history=1)[0]
    assert (row["action"].shape, row["observation.state"].shape, row[FRONT].shape) == ((1, 2), (1, 3), (1, 48, 64, 3))
    assert (row["action_is_pad"].tolist(), row["observation_is_pad"].tolist()) == ([False], [False])


@pytest.mark.parametrize("wrong", [{"horizon": 0}, {"history": -1}, {"horizon": 1.5}, {"open_videos": 0}])
def test_a_window_that_makes_no_sense(stored: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(lr.SettingsError, match=next(iter(wrong))):
        lr.koyu.Dataset(stored, **wrong)


def test_only_the_keys_asked_for(copy: Path) -> None:
    for video in copy.rglob("*.mp4"):
        video.unlink()
    row = lr.koyu.Dataset(copy, keys=["action"])[3]
    assert row["action"].tolist() == [3, -3]
    assert {"observation.state", *CAMERAS}.isdisjoint(row)
    with pytest.raises(lr.SettingsError, match=r"keys='actions': no such feature; the dataset has observation\.state"):
        lr.koyu.Dataset(copy, keys=["actions"])


def test_an_episode_as_a_whole(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored)
    columns = dataset.columns(2)
    assert columns["observation.state"].tolist() == [state_of(2, k) for k in range(25)]
    assert dataset.sidecar(2)["capture_id"] == capture_id(2)
    with dataset.frames(2, FRONT) as frames:
        assert [read_count(f) for f in frames] == [count_of(2, k, 0) for k in range(25)]
    with pytest.raises(KeyError, match="the dataset has observation"):
        dataset.frames(2, "front")
    with pytest.raises(IndexError, match="episode 3 of 3"):
        dataset.columns(3)


# Processes and threads.


def read_counts(dataset: lr.koyu.Dataset, rows: list[int]) -> list[int]:
    return [read_count(dataset[i][FRONT]) for i in rows]


def expected_counts(rows: list[int]) -> list[int]:
    return [count_of(*places()[i], 0) for i in rows]


def test_threads_share_a_dataset(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored, open_videos=2)
    orders = [np.random.default_rng(seed).permutation(len(dataset)).tolist() for seed in range(4)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda order: read_counts(dataset, order), orders))
    assert found == [expected_counts(order) for order in orders]
    assert dataset._bundles.videos.open_videos <= 2


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_read_on_their_own(stored: Path, method: str) -> None:
    dataset = lr.koyu.Dataset(stored)
    read_counts(dataset, list(range(len(dataset))))  # decoders are open when the children begin
    orders = [np.random.default_rng(seed).permutation(len(dataset)).tolist() for seed in range(2)]
    with multiprocessing.get_context(method).Pool(2, initializer=hold, initargs=(dataset,)) as pool:
        result = pool.map_async(read_held, orders)
        assert read_counts(dataset, orders[0]) == expected_counts(orders[0])  # the parent reads at the same time
        assert result.get(120) == [expected_counts(order) for order in orders]


_held: list[lr.koyu.Dataset] = []


def hold(dataset: lr.koyu.Dataset) -> None:
    _held.append(dataset)


def read_held(rows: list[int]) -> list[int]:
    return read_counts(_held[-1], rows)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_another_thread_holds_the_caches(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored)
    dataset[0]
    with dataset._bundles.videos._lock, dataset._bundles.cache._lock:
        child = os.fork()
        if not child:
            os._exit(0 if read_counts(dataset, [0, 20]) == expected_counts([0, 20]) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_pickled_dataset_has_the_same_rows_whatever_was_recorded_meanwhile(copy: Path) -> None:
    dataset = lr.koyu.Dataset(copy, horizon=2)
    dataset[0]
    write_manifest(copy, [])
    again = pickle.loads(pickle.dumps(dataset))
    assert len(again) == 38
    assert again[20]["action"].tolist() == dataset[20]["action"].tolist()
    assert len(lr.koyu.Dataset(copy)) == 0


def test_decoders_are_bounded(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored, open_videos=1)
    before = len(os.listdir("/proc/self/fd"))
    read_counts(dataset, list(range(len(dataset))))
    assert dataset._bundles.videos.open_videos == 1
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    dataset.close()
    assert dataset._bundles.videos.open_videos == 0
    assert_is(dataset[0], 0, 0)


def test_what_a_file_holds_is_read_through_once(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lucky_recorder.video import decode

    read: list[Path] = []
    original = decode.index_frames
    monkeypatch.setattr(decode, "index_frames", lambda path, *rest: (read.append(path), original(path, *rest))[1])
    dataset = lr.koyu.Dataset(stored, open_videos=1)
    for _ in range(2):
        read_counts(dataset, [0, 20, 1, 21])
    assert sorted(read) == sorted(bundle(stored, e) / f"{c}.mp4" for e in (0, 2) for c in CAMERAS)


def test_rows_are_held_up_to_so_many_bytes(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored, row_cache_mb=0)
    assert_is(dataset[0], 0, 0)
    assert_is(dataset[20], 2, 7)
    assert list(dataset._bundles.cache._held) == [f"ep_{capture_id(2)}"]


def test_two_threads_may_load_one_episode(stored: Path) -> None:
    dataset = lr.koyu.Dataset(stored)
    barrier = threading.Barrier(2)
    load = dataset._bundles._load

    def slowly(entry: Any) -> Any:
        barrier.wait(10)
        return load(entry)

    dataset._bundles._load = slowly  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as threads:
        rows = list(threads.map(dataset.__getitem__, [0, 1]))
    assert [row["step"] for row in rows] == [0, 1]
    assert dataset._bundles.cache._bytes == sum(
        a.nbytes for a in dataset._bundles.cache._held[f"ep_{capture_id(0)}"].values()
    )


# What others write.


def test_an_unknown_schema_version_is_refused_when_its_bundle_is_touched(copy: Path) -> None:
    edit_json(bundle(copy, 1) / "episode.json", schema_version=2)
    dataset = lr.koyu.Dataset(copy)
    assert_is(dataset[0], 0, 0)
    with pytest.raises(lr.FormatError, match=r"episode\.json: schema_version=2: only 1 is understood"):
        dataset[12]


@pytest.mark.parametrize("version", ["1", None, 1.5, True, "absent"])
def test_a_schema_version_that_is_none(copy: Path, version: Any) -> None:
    edit_json(bundle(copy, 0) / "episode.json", schema_version=version)
    with pytest.raises(lr.FormatError, match="schema_version="):
        lr.koyu.Dataset(copy)[0]


def test_a_manifest_of_an_unknown_version_is_refused_at_once(copy: Path) -> None:
    edit_json(copy / "manifest.json", schema_version=2)
    with pytest.raises(lr.FormatError, match=r"manifest\.json: schema_version=2"):
        lr.koyu.Dataset(copy)


def test_what_is_unknown_is_ignored(tmp_path: Path) -> None:
    more = {"future": np.ones((4, 2))}
    entry = write_bundle(tmp_path, 0, 4, columns=more, weather="fine") | {"score": 3}
    (bundle(tmp_path, 0) / "notes.txt").write_text("hm")
    (tmp_path / "README.md").touch()
    known = features() | {"language": {"dtype": "string", "shape": [1]}, "step": {"dtype": "int64", "shape": [1]}}
    write_manifest(tmp_path, [entry], features=known, colour="blue")
    row = lr.koyu.Dataset(tmp_path)[2]
    assert_is(row, 0, 2)
    assert {"future", "language", "weather"}.isdisjoint(row)


def test_a_bundle_as_koyu_pull_makes_it(tmp_path: Path) -> None:
    entry = write_bundle(tmp_path, 0, 4, recorded_at="absent", record_hz="absent")
    write_manifest(tmp_path, [entry], id="absent", success_rate="absent")
    assert_is(lr.koyu.Dataset(tmp_path)[2], 0, 2)


def test_the_name_of_a_bundle_s_folder_is_cosmetic(copy: Path) -> None:
    bundle(copy, 0).rename(copy / "episodes/first try")
    bundle(copy, 2).rename(copy / "episodes/Z")
    (copy / "episodes/.tmp-1-2").mkdir()
    (copy / "episodes/broken").mkdir()
    (copy / "episodes/broken/episode.json").write_text("[")
    dataset = lr.koyu.Dataset(copy)
    for i, (episode, step) in enumerate(places()):
        assert_is(dataset[i], episode, step)
    with dataset.frames(2, FRONT) as frames:
        assert len(frames) == 25


def test_columns_of_ones_own_and_of_two_axes(tmp_path: Path) -> None:
    own = {"cube": np.arange(28).reshape(4, 7), "grid": np.arange(24).reshape(4, 6)}
    entry = write_bundle(tmp_path, 0, 4, columns=own)
    shapes = features(cube=[7], grid=[2, 3])
    write_manifest(tmp_path, [entry], features=shapes)
    row = lr.koyu.Dataset(tmp_path)[2]
    assert row["cube"].tolist() == list(range(14, 21))
    assert row["grid"].tolist() == [[12, 13, 14], [15, 16, 17]]


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2)])
def test_lists_of_another_kind(copy: Path, kind: pa.DataType) -> None:
    rewrite(copy, 0, "action", lambda column: column.combine_chunks().cast(kind))
    assert_is(lr.koyu.Dataset(copy)[3], 0, 3)


def rewrite(dataset: Path, episode: int, name: str, change: Any) -> None:
    path = bundle(dataset, episode) / "data.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index(name), name, change(table[name])), path)


def break_rows(dataset: Path) -> None:
    path = bundle(dataset, 0) / "data.parquet"
    pq.write_table(pq.read_table(path).slice(0, 11), path)


def break_list(dataset: Path) -> None:
    rewrite(dataset, 0, "action", lambda column: pa.array([[1.0]] * 12, pa.list_(pa.float32())))


def break_null(dataset: Path) -> None:
    rewrite(dataset, 0, "action", lambda column: pa.array([None] + [[1.0, 2.0]] * 11, pa.list_(pa.float32())))


def break_value(dataset: Path) -> None:
    rewrite(dataset, 0, "action", lambda column: pa.array([[None, 1.0]] * 12, pa.list_(pa.float32())))


def break_text(dataset: Path) -> None:
    rewrite(dataset, 0, "action", lambda column: pa.array([["a", "b"]] * 12))


def break_struct(dataset: Path) -> None:
    rewrite(dataset, 0, "action", lambda column: pa.array([{"x": 1.0}] * 12))


def break_time(dataset: Path) -> None:
    rewrite(dataset, 0, "timestamp", lambda column: pa.array([0.5] * 12))


def drop_column(dataset: Path) -> None:
    path = bundle(dataset, 0) / "data.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["action"]), path)


def truncate(name: str) -> Any:
    def change(dataset: Path) -> None:
        path = bundle(dataset, 0) / name
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return change


def short_video(dataset: Path) -> None:
    film(bundle(dataset, 0) / f"{FRONT}.mp4", list(range(11)))


def link_video(dataset: Path) -> None:
    path = bundle(dataset, 0) / f"{FRONT}.mp4"
    path.rename(dataset.parent / "elsewhere.mp4")
    path.symlink_to(dataset.parent / "elsewhere.mp4")


def other_length(dataset: Path) -> None:
    edit_json(bundle(dataset, 0) / "episode.json", length=11)


def no_json(dataset: Path) -> None:
    (bundle(dataset, 0) / "episode.json").write_text("[1, 2")


def a_list(dataset: Path) -> None:
    (bundle(dataset, 0) / "episode.json").write_text("[1, 2]")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (break_rows, r"data\.parquet: 11 rows, the manifest says 12"),
        (break_list, r"data\.parquet: action: a list is missing or does not hold 2 values"),
        (break_null, r"data\.parquet: action: a list is missing"),
        (break_value, r"data\.parquet: action: a value is missing"),
        (break_text, r"data\.parquet: action: holds list<.*string>, expected list<float>"),
        (break_struct, r"data\.parquet: action: holds struct<x: double>"),
        (break_time, r"data\.parquet: timestamp is double"),
        (drop_column, r"data\.parquet: has no column 'action'"),
        (truncate("data.parquet"), r"data\.parquet: cannot be read"),
        (truncate("episode.json"), r"episode\.json: cannot be read"),
        (truncate(f"{FRONT}.mp4"), r"front\.mp4: "),
        (short_video, r"front\.mp4: frames 11, the manifest says 12"),
        (link_video, r"front\.mp4: lies outside the dataset folder"),
        (other_length, r"episode\.json: length=11, the manifest says 12"),
        (no_json, r"episode\.json: cannot be read"),
        (a_list, r"episode\.json: holds a list"),
    ],
)
def test_a_broken_bundle(copy: Path, change: Any, message: str) -> None:
    change(copy)
    dataset = lr.koyu.Dataset(copy)
    with pytest.raises(lr.FormatError, match=message):
        dataset[3]
    assert_is(dataset[12], 1, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"episodes": None}, "episodes=None: expected a list"),
        ({"episodes": [3]}, r"episodes\[0\]: 3: expected an object"),
        ({"episodes": [{"id": "../../etc", "length": 1}]}, r"id='\.\./\.\./etc': is no episode's name"),
        ({"episodes": [{"id": "a..b", "length": 1}]}, "is no episode's name"),
        ({"episodes": [{"id": ".tmp-1", "length": 1}]}, "is no episode's name"),
        ({"episodes": [{"id": "ep_1", "length": -1}]}, "length=-1"),
        ({"episodes": [{"id": "ep_1", "length": True}]}, "length=True"),
        ({"episodes": [{"id": "ep_1", "length": 10**12}]}, "length=1000000000000"),
        ({"episodes": [{"id": "ep_1", "length": 1}] * 2}, "listed twice"),
        ({"episodes": [{"id": "ep_1", "length": 1, "task": 3}]}, "task=3: expected a text"),
        ({"features": []}, "features="),
        ({"features": {"action": 3}}, "expected an object with dtype and shape"),
        ({"features": {"action": {"dtype": "float32", "shape": [-1]}}}, r"shape=\[-1\]"),
        ({"features": {"action": {"dtype": "float32", "shape": [1 << 20, 1 << 20]}}}, "is no row's value"),
        ({"features": {"observation.images.a/../../b": {"dtype": "video", "shape": [2, 2, 3]}}}, "no camera's name"),
        ({"features": {"observation.images.a": {"dtype": "video", "shape": [2, 2]}}}, "is no row's value"),
    ],
)
def test_a_hostile_manifest(copy: Path, changes: dict[str, Any], message: str) -> None:
    edit_json(copy / "manifest.json", **changes)
    with pytest.raises(lr.FormatError, match=message):
        lr.koyu.Dataset(copy)


def test_what_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(lr.FormatError, match="no such folder"):
        lr.koyu.Dataset(tmp_path / "nowhere")
    with pytest.raises(lr.FormatError, match=r"has no manifest\.json; `lucky-recorder koyu index`"):
        lr.koyu.Dataset(tmp_path)


def test_reading_writes_nothing(stored: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in stored.rglob("*")}
    list(lr.koyu.Dataset(stored, horizon=3, history=2))
    assert {p: p.stat().st_mtime_ns for p in stored.rglob("*")} == before


def test_an_empty_dataset(tmp_path: Path) -> None:
    write_manifest(tmp_path, [])
    dataset = lr.koyu.Dataset(tmp_path)
    assert (len(dataset), list(dataset)) == (0, [])
    assert json.loads((tmp_path / "manifest.json").read_text())["episodes"] == []
    with pytest.raises(IndexError):
        dataset[0]
