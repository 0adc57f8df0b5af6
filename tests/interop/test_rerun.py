"""Rerun's own importer reads the folder: every row and every frame of every episode is in what it writes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import av
import numpy as np
import pytest

from lucky_recorder.viewer import rerun as view
from tests.interop.conftest import Truth

rerun_chunk = pytest.importorskip("rerun.chunk", reason="pip install 'lucky-recorder[view]'")

SCALARS, TEXT, SAMPLE = "Scalars:scalars", "TextDocument:text", "VideoStream:sample"
Shown = dict[tuple[str, str], list]


@pytest.fixture(params=["cubes", "pendulum"])
def truth(request: pytest.FixtureRequest) -> Truth:
    return request.getfixturevalue(request.param)


@pytest.fixture
def shown(truth: Truth, tmp_path: Path) -> dict[int, Shown]:
    """What Rerun has of each episode: values by (entity, component), in the order of ``frame_index``."""
    before = truth.digest()
    view.save(truth.path, tmp_path / "session.rrd")
    assert truth.digest() == before
    reader = rerun_chunk.RrdReader(tmp_path / "session.rrd")
    return {
        int(store.recording_id.removeprefix("episode_")): values_of(reader.stream(store=store))
        for store in reader.recordings()
    }


def values_of(chunks: object) -> Shown:
    found: dict[tuple[str, str], list] = defaultdict(list)
    for chunk in chunks:  # type: ignore[attr-defined]
        batch = chunk.to_record_batch()
        for component in (SCALARS, TEXT, SAMPLE):
            if component in batch.schema.names:
                frames = batch.column("frame_index").to_pylist()
                found[chunk.entity_path.lstrip("/"), component] += zip(
                    frames, batch.column(component).to_pylist(), strict=True
                )
    return {key: [value for _, value in sorted(pairs, key=lambda p: p[0])] for key, pairs in found.items()}


def pictures(samples: list[list[list[int]]]) -> np.ndarray:
    """Decode a stream's samples, a frame each."""
    decoder = av.CodecContext.create("h264", "r")
    frames = [f for (sample,) in samples for f in decoder.decode(av.Packet(bytes(sample)))]
    frames += decoder.decode(None)
    return np.stack([frame.to_ndarray(format="rgb24") for frame in frames])


def test_there_is_a_recording_per_episode(truth: Truth, shown: dict[int, Shown]) -> None:
    assert sorted(shown) == list(range(len(truth.session)))


def test_every_row_is_shown(truth: Truth, shown: dict[int, Shown]) -> None:
    for episode, values in shown.items():
        mine = truth.rows_of([episode])
        for name in ("action", "observation.state"):
            np.testing.assert_array_equal(values[name, SCALARS], truth.rows[name][mine])
        assert [text for (text,) in values["task", TEXT]] == truth.tasks[mine].tolist()


def test_every_frame_is_shown(truth: Truth, shown: dict[int, Shown]) -> None:
    for episode, values in shown.items():
        mine = truth.rows_of([episode])
        for key, frames in truth.frames.items():
            found = pictures(values[key, SAMPLE])
            assert found.shape == frames[mine].shape
            assert np.abs(found.astype(int) - frames[mine]).max() <= 3
