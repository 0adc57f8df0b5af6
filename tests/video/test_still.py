from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.video.still import write_png


@pytest.mark.parametrize("shape", [(1, 1, 3), (7, 5, 3), (48, 64, 3)])
def test_a_picture_comes_back_as_it_was(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    write_png(tmp_path / "out.png", picture[:, ::-1])
    with av.open(str(tmp_path / "out.png")) as file:
        (frame,) = file.decode(video=0)
    np.testing.assert_array_equal(frame.to_ndarray(format="rgb24"), picture[:, ::-1])
    assert [p.name for p in tmp_path.iterdir()] == ["out.png"]


@pytest.mark.parametrize("picture", [np.zeros((2, 2), np.uint8), np.zeros((2, 2, 3)), np.zeros((0, 2, 3), np.uint8)])
def test_what_is_no_picture(tmp_path: Path, picture: np.ndarray) -> None:
    with pytest.raises(lr.VideoError, match=r"out\.png: .* is no picture"):
        write_png(tmp_path / "out.png", picture)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(lr.StorageError, match="file"):
        write_png(tmp_path / "file" / "out.png", np.zeros((2, 2, 3), np.uint8))
