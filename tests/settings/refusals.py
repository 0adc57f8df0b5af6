"""Values that no setting takes, and what every refusal has in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from lucky_recorder.errors import SettingsError, shown
from lucky_recorder.settings.camera import Camera

HUGE = 10**5000  # has no repr: Python refuses to print it


def named(value: Any) -> str:
    """Name a case by what is the same in every process: no addresses, no order of a set."""
    return shown(value)[:20] if isinstance(value, str | bytes | int | float | list | tuple) else type(value).__name__


def each_of(table: list[tuple[str, Any, str]]) -> pytest.MarkDecorator:
    """Run a test for each row of a table: a field, a value that it refuses, and how the message goes."""
    ids = [f"{field}-{i}-{named(value)}" for i, (field, value, _) in enumerate(table)]
    return pytest.mark.parametrize(("field", "value", "message"), table, ids=ids)


def refused(build: Callable[[], Any], start: str) -> None:
    """The call must be refused, with a message that begins so and ends with a remedy."""
    with pytest.raises(SettingsError) as caught:
        build()
    message = str(caught.value)
    assert message.startswith(start)
    assert len(message.rpartition(": ")[2]) > 8, "the message ends with a remedy"
    assert len(message) < 1000


def failing() -> Iterator[str]:
    yield "first"
    raise ZeroDivisionError("no second")


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.fractions(), st.complex_numbers(), st.text(max_size=8),
    st.binary(max_size=4), st.dates(), st.builds(object),
    st.sampled_from([np.int8(3), np.float32(0.1), np.True_, np.str_("x"), np.zeros(2), np.array(1), np.arange(0)]),
    st.sampled_from([np.timedelta64(3, "s"), np.datetime64("2026-01-01"), int, len, Path("x"), Camera("x")]),
)  # fmt: skip
KEYS = st.one_of(st.text(max_size=6), st.integers(), st.sampled_from(["name", "source"]))
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(iter),
        st.dictionaries(KEYS, inner, max_size=3),
    ),
    max_leaves=4,
)
