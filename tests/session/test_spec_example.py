"""The format page's own pandas example, unchanged: only the path stands for the session at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lucky_recorder.video.decode import decode_all
from tests.session.building import Recording, arm_schema, camera

FRONT = "observation.images.Front"
EXAMPLE = """
from pathlib import Path
import pandas as pd

session = Path("DataSessions/session_2026-10-08_14-30-05")

episodes = pd.concat(
    pd.read_parquet(p) for p in sorted(session.glob("meta/episodes/chunk-*/file-*.parquet"))
)
ep = episodes[episodes["episode_index"] == 3].iloc[0]

chunk, file = int(ep["data/chunk_index"]), int(ep["data/file_index"])
data = pd.read_parquet(session / f"data/chunk-{chunk:03d}/file-{file:03d}.parquet")
rows = data[data["episode_index"] == 3]

key = "videos/observation.images.Front"   # "Front" is the binding's Output Name
video = (session / key
         / f"chunk-{int(ep[key + '/chunk_index']):03d}"
         / f"file-{int(ep[key + '/file_index']):03d}.mp4")
"""


@pytest.mark.parametrize(("files_per_chunk", "episodes_per_file"), [(40, 1), (2, 3), (1, 1)])
def test_the_example_finds_the_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files_per_chunk: int, episodes_per_file: int
) -> None:
    root = tmp_path / "DataSessions/session_2026-10-08_14-30-05"
    recording = Recording(root, arm_schema([camera("Front")]), files_per_chunk, episodes_per_file, metadata_every=2)
    for episode in range(5):
        recording.keep(3 + episode, success=episode % 2 == 1, failed_stream=None if episode else FRONT)
    recording.close()
    monkeypatch.chdir(tmp_path)
    found: dict = {}
    exec(EXAMPLE, found)
    third = recording.committed[3]
    np.testing.assert_array_equal(np.stack(found["rows"]["action"]), third.columns["action"])
    assert found["rows"]["frame_index"].tolist() == list(range(6))
    assert len(decode_all(found["video"])) == 6
    assert found["episodes"]["success"].tolist() == [False, True, False, True, False]
    assert found["ep"]["success"]
