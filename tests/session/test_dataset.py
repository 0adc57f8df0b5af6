"""A session as a dataset: every row with its own pictures, windows that end where the episode does."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import types
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.episode.schema import Field, Stream
from lucky_recorder.session.windows import Window
from lucky_recorder.testing import paint_count, read_count
from tests.session import building
from tests.session.building import Recording, arm_schema, camera, depth

HZ = 50
RATES = {
    "same": Fraction(50),
    "half": Fraction(25),
    "twice": Fraction(100),
    "odd": Fraction(20),
    "third": Fraction(50, 3),
}
LENGTHS = [12, 1, 30, 7]
STATE, ACTION = "observation.state", "action"


def paint(stream: Stream, frame: int, attempt: int) -> np.ndarray:
    """A picture that says its episode and its frame."""
    if stream.kind == "depth":
        return np.full((stream.height, stream.width), 1000 + frame + 100 * attempt, np.uint16)
    return paint_count(attempt * 1000 + frame, stream.height, stream.width)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Two robots, cameras of several rates, a text, and a column with gaps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "picture_of", paint)
        extra = [Field("note", "string", ()), Field("mass", "float64", (), nullable=True), Field("n", "int32", (2,))]
        streams = [*(camera(name, rate) for name, rate in RATES.items()), depth("same")]
        schema = arm_schema(cameras=streams, robots=("left", "right"), hz=HZ, extra=extra)
        recording = Recording(tmp_path_factory.mktemp("dataset"), schema, episodes_per_file=2)
        for ticks in LENGTHS:
            gaps = np.arange(2 * ticks) % 5 == 3
            recording.keep(ticks, tasks=(0, 1), missing={"mass": gaps})
        recording.close()
    return recording


def key(name: str) -> str:
    return f"observation.images.{name}"


def count_of(picture: Any) -> int:
    """What a picture says, of shape ``(3, height, width)``."""
    return read_count(np.asarray(picture).transpose(1, 2, 0) * 255)


def places() -> list[tuple[int, int, int]]:
    """Episode, tick and robot of every row."""
    return [(e, tick, robot) for e, ticks in enumerate(LENGTHS) for tick in range(ticks) for robot in range(2)]


def test_every_row_has_its_values_and_its_pictures(stored: Recording) -> None:
    dataset = lr.SessionDataset(stored.root)
    assert len(dataset) == 2 * sum(LENGTHS)
    order = np.random.default_rng(0).permutation(len(dataset)).tolist()
    for index, item in zip(order, dataset.__getitems__(order), strict=True):
        episode, tick, robot = places()[index]
        columns = stored.committed[episode].columns
        row = 2 * tick + robot
        assert (item["index"], item["episode_index"], item["frame_index"]) == (index, episode, tick)
        assert item["timestamp"] == columns["timestamp"][row]
        assert item["timestamp"].dtype == np.float64
        assert item[STATE].tolist() == columns[STATE][row].astype(np.float32).tolist()
        assert item["n"].tolist() == columns["n"][row].tolist()
        assert item["note"] == columns["note"][row]
        assert np.isnan(item["mass"]) == (row % 5 == 3)
        assert item["task"] == stored.tasks[columns["task_index"][row]]
        for name, rate in RATES.items():
            picture = item[key(name)]
            assert (picture.shape, picture.dtype) == ((3, 48, 64), np.float32)
            assert count_of(picture) == 1000 * episode + int(tick * rate / HZ)
            assert 0 <= picture.min() <= picture.max() <= 1
    dataset.close()


def test_windows_are_of_one_episode_and_one_robot(stored: Recording) -> None:
    deltas = {
        STATE: [-0.04, 0.0, 0.02],
        "note": None,
        "third": [-0.06, 0.0],
        "twice": [-0.01, 0.0, 0.005],
        ACTION: [1.0],
    }
    deltas.pop("note")
    with pytest.raises(lr.SettingsError, match="multiples of 1/50 or 1/100 s"):
        lr.SessionDataset(stored.root, delta_seconds={**deltas, "twice": [-0.01, 0.0, 0.005]})
    deltas["twice"] = [-0.01, 0.0, 0.01, 5.0]
    dataset = lr.SessionDataset(stored.root, delta_seconds=deltas, cameras=["twice", key("third")])
    assert dataset.cameras == (key("twice"), key("third"))
    for index, (episode, tick, robot) in enumerate(places()):
        item, columns, ticks = dataset[index], stored.committed[episode].columns, LENGTHS[episode]
        wanted = [tick - 2, tick, tick + 1]
        rows = [2 * min(max(t, 0), ticks - 1) + robot for t in wanted]
        assert item[STATE].tolist() == columns[STATE][rows].astype(np.float32).tolist()
        assert item[STATE + "_is_pad"].tolist() == [not 0 <= t < ticks for t in wanted]
        assert item[ACTION].shape == (1, 3)
        assert item[ACTION + "_is_pad"].tolist() == [True]
        assert [count_of(p) for p in item[key("third")]] == [1000 * episode + max(t, 0) // 3 for t in (tick - 3, tick)]
        assert item[key("third") + "_is_pad"].tolist() == [tick < 3, False]
        frames = [min(max(2 * tick + n, 0), 2 * (ticks - 1)) for n in (-1, 0, 1, 500)]
        assert [count_of(p) for p in item[key("twice")]] == [1000 * episode + frame for frame in frames]
        assert item[key("twice") + "_is_pad"].tolist() == [tick == 0, False, tick == ticks - 1, True]


def test_depth_is_in_metres_and_colours_may_be_bytes(stored: Recording) -> None:
    dataset = lr.SessionDataset(stored.root, cameras=["same_depth", "same"], pictures="uint8", columns=["action"])
    item = dataset[2 * LENGTHS[0] + 2 * LENGTHS[1] + 2 * 9]
    metres = item["observation.images.same_depth"]
    assert (metres.dtype, metres.shape) == (np.float32, (1, 48, 64))
    assert np.allclose(metres, (1000 + 9 + 200) / 1000)
    assert item[key("same")].dtype == np.uint8
    assert read_count(item[key("same")].transpose(1, 2, 0)) == 2009
    assert set(item) == {*dataset.columns, *dataset.cameras, "task"}
    assert dataset.columns == ("index", "timestamp", "episode_index", "frame_index", "task_index", "action")


def test_some_episodes(stored: Recording) -> None:
    dataset = lr.SessionDataset(stored.root, episodes=[3, 1], cameras=[])
    assert [int(item["episode_index"]) for item in dataset] == [3] * 14 + [1] * 2
    assert dataset.rows_of(1) == range(14, 16)
    assert dataset[-1]["index"] == 2 * LENGTHS[0] + 1
    with pytest.raises(IndexError, match="row 16 of 16"):
        dataset[16]
    with pytest.raises(IndexError, match="episode 0"):
        dataset.rows_of(0)


def test_what_is_given_is_the_callers_own(stored: Recording) -> None:
    dataset = lr.SessionDataset(stored.root, cameras=[])
    dataset[0][STATE][:] = 99
    assert dataset[0][STATE].max() < 99


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"columns": ["nothing"]}, "columns='nothing'"),
        ({"cameras": ["nothing"]}, "cameras='nothing'"),
        ({"episodes": [9]}, "episodes=9"),
        ({"episodes": [1, 1]}, "named twice"),
        ({"pictures": "float64"}, "choose one of float32, uint8"),
        ({"delta_seconds": {"nothing": [0]}}, "no such column or camera"),
        ({"delta_seconds": {"note": [0]}}, "texts have no window"),
        ({"delta_seconds": {STATE: [0.03]}}, "multiples of 1/50 s"),
        ({"delta_seconds": {STATE: []}}, "numbers of seconds"),
        ({"delta_seconds": {STATE: [float("nan")]}}, "multiples of 1/50 s"),
        ({"delta_seconds": {STATE: 0.1}}, "numbers of seconds"),
        ({"delta_seconds": {"same": [0]}, "cameras": ["half"]}, "no such column or camera"),
        ({"open_videos": 0}, "open_videos=0"),
    ],
    ids=lambda value: None if isinstance(value, str) else next(iter(value)),
)
def test_what_makes_no_sense_is_refused(stored: Recording, given: dict[str, Any], fault: str) -> None:
    with pytest.raises(lr.SettingsError, match=fault):
        lr.SessionDataset(stored.root, **given)


def test_a_video_that_has_not_every_row_is_refused(stored: Recording, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "picture_of", paint)
        recording = Recording(tmp_path / "short", arm_schema(cameras=[camera("same")]))
        record = recording.record(10)
        fewer = recording.record(9).videos[key("same")]
        recording.sink.prepare(replace(record, videos={key("same"): fewer})).commit()
        recording.keep(4, success=False, failed_stream=key("same"))
        recording.close()
    dataset = lr.SessionDataset(recording.root)
    with pytest.raises(lr.FormatError, match=r"file-000\.mp4: 9 frames of 64x48, expected 10 or more"):
        dataset[0]
    with pytest.raises(lr.FormatError, match="episode 1 has no video of same"):
        dataset[12]
    assert lr.SessionDataset(recording.root, cameras=[])[12]["frame_index"] == 2


# Seconds.


@pytest.mark.parametrize("hz", ["50", "200/3", "30", "1000", "1/7", "29.97"])
@pytest.mark.parametrize("rate", ["1", "1/2", "2", "1/3", "3/2", "2/5"])
def test_places_are_exact(hz: str, rate: str) -> None:
    exact = Fraction(hz)
    camera_rate = exact * Fraction(rate)
    steps = [-7, -3, -1, 0, 1, 2, 40]
    window = Window("x", [float(n / exact) for n in steps], exact, camera_rate)
    for tick in (0, 1, 5, 999_983):
        ticks = tick + 3
        found = window.at(tick, ticks)
        inside = [min(max(tick + n, 0), ticks - 1) for n in steps]
        assert found.indices.tolist() == [n * camera_rate // exact for n in inside]
        assert found.is_pad.tolist() == [not 0 <= tick + n < ticks for n in steps]
        assert max(found.indices) < window.most(ticks)


# Processes, threads, and torch.


def read(dataset: lr.SessionDataset, indices: Sequence[int]) -> list[int]:
    return [count_of(dataset[index][key("half")]) for index in indices]


def expected(indices: Sequence[int]) -> list[int]:
    return [1000 * episode + tick // 2 for episode, tick, _ in (places()[index] for index in indices)]


_held: list[lr.SessionDataset] = []


def hold(dataset: lr.SessionDataset) -> None:
    _held.append(dataset)


def read_held(indices: list[int]) -> list[int]:
    return read(_held[-1], indices)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_read_on_their_own(stored: Recording, method: str) -> None:
    dataset = lr.SessionDataset(stored.root, cameras=["half"], as_torch=False)
    orders = [np.random.default_rng(seed).permutation(len(dataset)).tolist() for seed in range(2)]
    read(dataset, orders[0])  # decoders are open when the children begin
    with multiprocessing.get_context(method).Pool(1, initializer=hold, initargs=(dataset,)) as pool:
        result = pool.map_async(read_held, orders)
        assert read(dataset, orders[0]) == expected(orders[0])
        assert result.get(120) == [expected(order) for order in orders]


def test_threads_share_it_and_decoders_are_bounded(stored: Recording) -> None:
    dataset = lr.SessionDataset(stored.root, cameras=["half"], open_videos=2)
    orders = [np.random.default_rng(seed).permutation(len(dataset)).tolist() for seed in range(3)]
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(lambda order: read(dataset, order), orders)) == [expected(order) for order in orders]
    assert dataset._film._videos.open_videos == 2
    # By what they take in memory, too: a picture of 64x48 is 36 kB to a decoder.
    dataset._film._videos._most_bytes = 40_000
    read(dataset, orders[0])
    assert dataset._film._videos.open_videos == 1
    before = len(os.listdir("/proc/self/fd"))
    dataset.close()
    assert len(os.listdir("/proc/self/fd")) < before


def test_a_pickled_one_is_the_same(stored: Recording) -> None:
    dataset = lr.SessionDataset(stored.root, delta_seconds={"half": [0.0, 0.02]}, transforms=_marked)
    dataset[3]
    again = pickle.loads(pickle.dumps(dataset))
    one, two = again[30], dataset[30]
    assert one["mark"] == 1
    assert list(one) == list(two)
    assert all(np.array_equal(one[name], two[name], equal_nan=name == "mass") for name in two)


def _marked(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "mark": 1}


def test_items_are_tensors_where_torch_is(stored: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def tensor(value: Any) -> Any:
        made.append(value)
        return ("tensor", value)

    torch = types.ModuleType("torch")
    torch.__spec__ = types.SimpleNamespace()  # type: ignore[assignment]
    torch.from_numpy = torch.as_tensor = tensor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    item = lr.SessionDataset(stored.root, cameras=["half"], delta_seconds={ACTION: [0.0]})[0]
    assert [name for name, value in item.items() if not isinstance(value, tuple)] == ["note", "task"]
    # torch shares the memory of an array: it must be one that nobody else has, and that may be written to.
    assert all(value.flags.writeable for value in made if isinstance(value, np.ndarray))
    assert isinstance(lr.SessionDataset(stored.root, cameras=[], as_torch=False)[0]["index"], np.int64)


def test_tensors_without_torch_are_refused(stored: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(lr.SettingsError, match="torch is not installed"):
        lr.SessionDataset(stored.root, as_torch=True)
