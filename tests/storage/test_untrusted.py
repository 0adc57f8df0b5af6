from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_recorder.errors import FormatError
from lucky_recorder.storage.untrusted import expand

DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"


def test_templates_are_filled_in() -> None:
    assert expand(DATA, chunk_index=1, file_index=45) == "data/chunk-001/file-045.parquet"
    assert expand("{video_key}/{file_index}", video_key="a.b", file_index=7) == "a.b/7"


def test_a_value_is_not_filled_in_again() -> None:
    with pytest.raises(FormatError):
        expand("{video_key}", video_key="{file_index:09d}", file_index=1)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_numbers_are_padded_as_str_format_does(chunk: int, file: int) -> None:
    assert expand(DATA, chunk_index=chunk, file_index=file) == DATA.format(chunk_index=chunk, file_index=file)


@given(st.text(alphabet="{}chunk_index:03d!.[]", max_size=40))
def test_any_template_is_filled_in_or_refused(template: str) -> None:
    try:
        filled = expand(template, chunk_index=1)
    except FormatError:
        return
    assert "{" not in filled
    assert len(filled) <= len(template) + 9
