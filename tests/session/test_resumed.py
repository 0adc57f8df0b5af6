"""Going on with a session: recorded in parts, it is the session of one recording."""

from __future__ import annotations

from pathlib import Path

import pytest

import lucky_recorder as lr
from lucky_recorder.session.check import check_session
from tests.session.resuming import contents, in_parts, listed, read


@pytest.mark.parametrize("parts", [(3, 4), (1, 6), (2, 2, 3), (7, 0), (6, 1, 0)])
@pytest.mark.parametrize("per_file", [1, 3])
def test_a_session_in_parts_is_that_of_one_recording(tmp_path: Path, per_file: int, parts: tuple[int, ...]) -> None:
    """Every file is the same to the last byte: rows, videos, scans, statistics, tasks, totals."""
    whole = in_parts(tmp_path / "whole", 7, episodes_per_file=per_file)
    resumed = in_parts(tmp_path / "resumed", *parts, episodes_per_file=per_file)
    assert contents(resumed) == contents(whole)
    assert listed(resumed) == listed(whole)
    assert [row["episode_index"] for row in listed(whole)] == list(range(7))
    assert check_session(resumed) == []
    assert (lr.Session(resumed).state, read(resumed)) == ("complete", read(whole))
