from __future__ import annotations

import functools
import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lucky_recorder.episode.statistics import QUANTILES, ColumnStatistics, PixelHistogram

EXACT = ("min", "max", "mean", "std")


def _expected(rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
    flat = rows.reshape(len(rows), -1).astype(np.float64)
    # Shifting first keeps numpy's own rounding out of what is compared.
    shifted = (flat - flat[0]).astype(np.longdouble)
    return {
        "min": flat.min(axis=0),
        "max": flat.max(axis=0),
        "mean": (flat[0] + shifted.mean(axis=0)).astype(np.float64),
        "std": shifted.std(axis=0).astype(np.float64),
    }


def _merged(parts: list[NDArray[Any]]) -> dict[str, Any]:
    return functools.reduce(ColumnStatistics.merge, [ColumnStatistics.of(part) for part in parts]).to_json()


def _assert_same(entry: dict[str, Any], rows: NDArray[Any]) -> None:
    for name, expected in _expected(rows).items():
        np.testing.assert_allclose(entry[name], expected, rtol=1e-9, atol=1e-12, err_msg=name)
    assert entry["count"] == [len(rows)]


@st.composite
def columns(draw: st.DrawFn) -> NDArray[np.float64]:
    rows, size = draw(st.integers(1, 60)), draw(st.integers(1, 3))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    offset = draw(st.sampled_from([0.0, 1.0, -1e3, 1e9, -1e9]))
    spread = draw(st.sampled_from([1.0, 1e-3, 1e6]))
    return offset + spread * random.standard_normal((rows, size))


@settings(deadline=None)
@given(rows=columns(), data=st.data())
def test_any_split_in_any_order_is_numpy_over_all_rows(rows: NDArray[Any], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    parts = data.draw(st.permutations(np.split(rows, cuts)))
    _assert_same(_merged(parts), rows)


@settings(deadline=None)
@given(rows=columns())
def test_merging_in_a_tree_is_merging_in_a_row(rows: NDArray[Any]) -> None:
    parts = [ColumnStatistics.of(part) for part in np.array_split(rows, 4)]
    tree = parts[0].merge(parts[1]).merge(parts[2].merge(parts[3])).to_json()
    row = functools.reduce(ColumnStatistics.merge, parts).to_json()
    for name in (*EXACT, *QUANTILES, "count"):
        np.testing.assert_allclose(tree[name], row[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e9, -1e9])
def test_a_thousand_episodes_stay_exact(offset: float) -> None:
    rows = offset + np.random.default_rng(7).standard_normal((20_000, 2))
    _assert_same(_merged(np.array_split(rows, 1000)), rows)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 + 0.1, -3.7, 1e-300])
def test_a_column_that_never_changes_has_no_spread(value: float) -> None:
    entry = _merged([np.full((n, 1), value) for n in (1, 7, 1000)])
    assert entry["min"] == entry["max"] == [value]
    assert entry["mean"] == pytest.approx([value], rel=1e-15)
    assert entry["std"] == pytest.approx([0.0], abs=abs(value) * 1e-15)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int64", "uint64", "float32", "float64"])
def test_every_dtype_of_a_column(dtype: str) -> None:
    rows = (np.random.default_rng(3).uniform(0, 100, (50, 2)) > 50 if dtype == "bool" else
            np.random.default_rng(3).uniform(0, 100, (50, 2)).astype(dtype))  # fmt: skip
    _assert_same(ColumnStatistics.of(rows).to_json(), rows)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3)])
def test_one_value_per_element(shape: tuple[int, ...]) -> None:
    rows = np.random.default_rng(1).standard_normal((20, *shape))
    entry = ColumnStatistics.of(rows).to_json()
    assert {len(entry[name]) for name in (*EXACT, *QUANTILES)} == {math.prod(shape)}
    _assert_same(entry, rows)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (0, 2, 3)])
def test_no_rows_are_no_error(shape: tuple[int, ...]) -> None:
    nothing = ColumnStatistics.of(np.zeros(shape))
    some = ColumnStatistics.of(np.ones((2, *shape[1:])))
    size = math.prod(shape[1:])
    assert nothing.to_json() == {name: [0.0] * size for name in (*EXACT, *QUANTILES)} | {"count": [0]}
    assert nothing.merge(some) is some
    assert some.merge(nothing) is some
    assert nothing.merge(nothing).count == 0


@pytest.mark.parametrize("absent", [math.nan, math.inf, -math.inf, np.finfo(np.float64).max, -1e200])
def test_rows_that_hold_no_value_do_not_count(absent: float) -> None:
    rows = np.random.default_rng(5).standard_normal((10, 2))
    holed = np.insert(rows, 4, [absent, 1.0], axis=0)
    entry = ColumnStatistics.of(holed).to_json()
    _assert_same(entry, rows)
    json.dumps(entry, allow_nan=False)
    assert ColumnStatistics.of(np.full((3, 1), absent)).to_json()["count"] == [0]


def test_the_quantiles_of_one_episode_are_numpys() -> None:
    rows = np.random.default_rng(2).standard_normal((101, 3))
    entry = ColumnStatistics.of(rows).to_json()
    for name, q in QUANTILES.items():
        np.testing.assert_allclose(entry[name], np.quantile(rows, q, axis=0), rtol=1e-12)


def test_quantiles_merge_as_means_weighted_by_rows() -> None:
    short, long = np.zeros((10, 1)), np.ones((30, 1))
    assert _merged([short, long])["q50"] == [0.75]
    assert _merged([long, short])["q50"] == [0.75]


def test_measuring_leaves_the_rows_alone() -> None:
    rows = np.random.default_rng(4).standard_normal((10, 2))
    before = rows.copy()
    measured = ColumnStatistics.of(rows)
    measured.merge(ColumnStatistics.of(rows + 1))
    np.testing.assert_array_equal(rows, before)
    _assert_same(measured.to_json(), rows)


def _frames(count: int, shape: tuple[int, ...]) -> list[NDArray[np.uint8]]:
    random = np.random.default_rng(11)
    return [random.integers(0, 256, shape, dtype=np.uint8) for _ in range(count)]


def _histogram(frames: list[NDArray[np.uint8]]) -> PixelHistogram:
    histogram = PixelHistogram(frames[0].shape[2])
    for index, frame in enumerate(frames):
        histogram.add(index, frame)
    return histogram


def test_pixels_of_small_frames_are_counted_exactly() -> None:
    frames = _frames(21, (24, 32, 3))
    entry = _histogram(frames).to_json()
    pixels = np.concatenate([f.reshape(-1, 3) for f in frames[::10]]) / 255
    expected = {"min": pixels.min(0), "max": pixels.max(0), "mean": pixels.mean(0), "std": pixels.std(0)}
    expected |= {name: np.quantile(pixels, q, axis=0, method="inverted_cdf") for name, q in QUANTILES.items()}
    for name, values in expected.items():
        assert np.shape(entry[name]) == (3, 1, 1)
        np.testing.assert_allclose(np.ravel(entry[name]), values, rtol=1e-9, err_msg=name)
    assert entry["count"] == [3]


@pytest.mark.parametrize("shape", [(480, 640), (16, 16), (300, 200), (151, 40), (1080, 1920), (8192, 16)])
def test_of_a_large_frame_a_grid_counts(shape: tuple[int, int]) -> None:
    histogram = PixelHistogram()
    histogram.add(0, np.zeros((*shape, 3), np.uint8))
    counted = histogram.counts.sum(axis=1)
    assert (counted == counted[0]).all()
    step = math.ceil(max(shape) / 150)
    assert counted[0] == math.ceil(shape[0] / step) * math.ceil(shape[1] / step) <= 150 * 150


@pytest.mark.parametrize("channels", [1, 3])
def test_histograms_merge_by_addition_in_any_order(channels: int) -> None:
    episodes = [_histogram(_frames(count, (16, 20, channels))) for count in (1, 11, 25)]
    entries = [functools.reduce(PixelHistogram.merge, order).to_json() for order in itertools.permutations(episodes)]
    assert all(entry == entries[0] for entry in entries)
    assert entries[0]["count"] == [1 + 2 + 3]
    assert [e.frames for e in episodes] == [1, 2, 3]


def test_upside_down_and_foreign_memory_is_counted_the_same() -> None:
    frame = _frames(1, (20, 20, 3))[0]
    entries = [_histogram([f]).to_json() for f in (frame, frame[::-1], np.asfortranarray(frame))]
    assert entries[0] == entries[1] == entries[2]


@pytest.mark.parametrize("level", [0, 7, 255])
def test_a_plain_picture(level: int) -> None:
    entry = _histogram([np.full((16, 16, 3), level, np.uint8)]).to_json()
    for name in ("min", "max", "mean", *QUANTILES):
        assert entry[name] == [[[level / 255]]] * 3
    assert entry["std"] == [[[0.0]]] * 3


def test_a_stream_without_frames_is_written_as_such() -> None:
    entry = PixelHistogram().to_json()
    assert entry.pop("count") == [0]
    assert set(entry) == {*EXACT, *QUANTILES}
    assert all(values == [[[0.0]]] * 3 for values in entry.values())
