"""The reader of bundles among processes and threads, and what it holds open and in memory."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import read_count
from tests.koyu.bundles import CAMERAS, capture_id, count_of, write_manifest
from tests.koyu.reading import FRONT, assert_is, bundle, places


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
