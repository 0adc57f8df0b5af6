"""What one error says of several failures: each once, whatever numbers it has."""

from __future__ import annotations

import pytest

from lucky_recorder.errors import MetadataError, StorageError, extended
from lucky_recorder.recorder.losses import Losses
from lucky_recorder.storage.space import without_space

PATH = "/disk; of (up to 3 kB) mine/data/file-005.parquet: No space left on device"
FIGURES = [
    "up to 55 kB were to be written, and 20 kB were free",
    "up to 1.5 MB were to be written, and 0 bytes were free",
    "up to 55 kB were to be written",
    "3.2 GB of it were written, and 12 bytes were left",
    "0 bytes of it were written",
]
MORE = "3 finished episodes are whole on the disk and not listed in meta/ yet"


@pytest.mark.parametrize("figures", FIGURES)
def test_the_numbers_of_a_full_disk_are_taken_off_and_nothing_else(figures: str) -> None:
    assert without_space(f"{PATH} ({figures}); {MORE}") == f"{PATH}; {MORE}"


@pytest.mark.parametrize("first", ["", *FIGURES])
@pytest.mark.parametrize("second", ["", *FIGURES])
@pytest.mark.parametrize("more", ["", MORE])
def test_the_same_failure_is_told_once(first: str, second: str, more: str) -> None:
    said, again = (f"{PATH} ({figures})" if figures else PATH for figures in (first, second))
    losses = Losses()
    losses.follow(StorageError(f"{again}; {more}" if more else again))
    assert str(losses.told(MetadataError(said))) == (f"{said}; {more}" if more else said)


def test_also_where_the_first_was_told_with_more() -> None:
    first = extended(StorageError(f"{PATH} ({FIGURES[0]})"), "its episode is whole in a and not in b")
    losses = Losses()
    losses.follow(StorageError(f"{PATH} ({FIGURES[1]}); {MORE}"))
    assert str(losses.told(first)) == f"{first}; {MORE}"


def test_another_failure_is_told_whole() -> None:
    losses = Losses()
    others = [f"{PATH}2 ({FIGURES[0]})", f"/other ({FIGURES[1]})", f"{PATH} indeed"]
    for other in others:
        losses.follow(StorageError(other))
    assert str(losses.told(StorageError(PATH))) == "; ".join([PATH, *others])
