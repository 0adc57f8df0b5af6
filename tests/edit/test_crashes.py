"""Recordings that die at any call or instant, or whose disk refuses one: nothing that was vouched for is lost.

The long version strikes at every call: ``make soak``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edit.crashing import ANY_TIME, FULL, KILL_AFTER, KILL_BEFORE, READ_ONLY, REFUSE, REFUSE_AFTER
from tests.edit.surviving import crashed, verify


@pytest.mark.parametrize(
    ("how", "per_file", "seed"),
    [
        (KILL_BEFORE, 1, 1),
        (KILL_AFTER, 3, 2),
        (REFUSE, 3, 3),
        (REFUSE_AFTER, 1, 4),
        (FULL, 1, 6),
        (FULL, 3, 7),
        (READ_ONLY, 1, 8),
        (READ_ONLY, 3, 9),
        (ANY_TIME, 3, 5),
    ],
)
def test_nothing_that_was_vouched_for_is_lost(tmp_path: Path, how: str, per_file: int, seed: int) -> None:
    whole, *struck = crashed(tmp_path, per_file, how, seed, 4)
    assert len(struck) == 4
    for result in struck:
        verify(result, Path(whole["folder"]))


@pytest.mark.parametrize(
    ("how", "per_file", "before", "seed"),
    [
        (KILL_BEFORE, 3, 1, 1),
        (KILL_AFTER, 1, 2, 2),
        (REFUSE, 3, 2, 3),
        (REFUSE_AFTER, 3, 4, 4),
        (ANY_TIME, 3, 1, 5),
    ],
)
def test_a_session_that_is_gone_on_with_is_the_old_one_or_the_longer_one(
    tmp_path: Path, how: str, per_file: int, before: int, seed: int
) -> None:
    """Compared with a session that was recorded in one go."""
    whole, resumed, *struck = crashed(tmp_path, per_file, how, seed, 4, before)
    assert len(struck) == 4
    for result in (resumed, *struck):
        assert result["vouched"] >= before
        verify(result, Path(whole["folder"]))
