from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lucky_recorder.session.check import check_session
from tests.session.breaking import DATA, INFO, META, STATS, TASKS, VIDEO, rewrite, with_value
from tests.session.building import Recording


def test_faults_in_one_place_do_not_hide_others(copy: Path) -> None:
    (copy / INFO).write_text("{")
    (copy / STATS).unlink()
    (copy / VIDEO).unlink()
    rewrite(copy / META, with_value("success", 0, None))
    rewrite(copy / DATA, with_value("frame_flags", 0, 255))
    faults = check_session(copy)
    assert {f.file for f in faults} >= {INFO, STATS, META, DATA}
    assert any("frame_flags is 255" in f.message and f.episode == 3 for f in faults)


FILES = (INFO, STATS, TASKS, META, DATA, VIDEO, "data/chunk-001/file-000.parquet", META.replace("001", "000"))


@pytest.mark.parametrize("name", FILES)
def test_every_lost_or_cut_file_is_a_fault(copy: Path, name: str) -> None:
    content = (copy / name).read_bytes()
    for length in (None, 0, 1, len(content) // 2, len(content) - 3):
        (copy / name).unlink()
        if length is not None:
            (copy / name).write_bytes(content[:length])
        # What a lost list of episodes lists is unknown: others miss it.
        assert any(f.file == name or (length is None and "meta/episodes" in name) for f in check_session(copy)), length
        (copy / name).write_bytes(content)
    assert check_session(copy) == []


@pytest.mark.parametrize("name", [n for n in FILES if n.endswith(".parquet")])
def test_a_flipped_byte_of_a_table_is_a_fault_or_changes_nothing(copy: Path, name: str) -> None:
    content, random_ = (copy / name).read_bytes(), random.Random(name)
    whole = pq.ParquetFile(copy / name).read()
    for _ in range(15):
        flipped = bytearray(content)
        flipped[random_.randrange(len(flipped))] ^= 1 << random_.randrange(8)
        (copy / name).write_bytes(flipped)
        if not check_session(copy, decode=False):
            assert pq.ParquetFile(copy / name).read().equals(whole)


# Texts and numbers that nothing else in a session repeats.
FREE = {"recorder_version", "bit_reproducible", "data_files_size_in_mb", "video_files_size_in_mb", "neural_denoise"}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [path, *(leaf for k, v in value.items() for leaf in leaves(v, (*path, k)))]
    return [path]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def nobody_knows(path: tuple[Any, ...], value: Any, robots: int) -> bool:
    """Tell whether a value may be true for all that the files say: they repeat neither the pixels nor the names."""
    if path == ("robots",):
        texts = isinstance(value, list) and all(isinstance(name, str) and name for name in value)
        return texts and len(set(value)) == len(value) == robots
    if not path[0].startswith("observation.images."):
        return False
    shape = []
    while isinstance(value, list) and value:
        shape.append(len(value))
        value = value[0]
    return shape == ([1] if path[-1] == "count" else [3, 1, 1])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), file=st.sampled_from([INFO, STATS]), value=JSON)
def test_any_json_value_anywhere_is_a_fault_and_no_crash(
    good: Recording, copy: Path, data: Any, file: str, value: Any
) -> None:
    content = json.loads((good.root / file).read_text())
    path = data.draw(st.sampled_from(leaves(content)[1:]))
    parent = content
    for key in path[:-1]:
        parent = parent[key]
    unchanged = parent[path[-1]] == value and type(parent[path[-1]]) is type(value)
    parent[path[-1]] = value
    (copy / file).write_text(json.dumps(content))
    faults = check_session(copy, decode=False)
    (copy / file).write_bytes((good.root / file).read_bytes())
    is_free = path[0] in FREE or path[-1] == "unit" or nobody_knows(path, value, len(good.schema.robots))
    assert faults or unchanged or is_free


@pytest.mark.parametrize("name", ["q01", "q10", "q50", "q90", "q99"])
def test_a_quantile_of_a_column_is_that_of_its_episodes(good: Recording, copy: Path, name: str) -> None:
    content = json.loads((good.root / STATS).read_text())
    entry = content["observation.state"]
    between = [q + 0.01 * (high - low) for q, low, high in zip(entry[name], entry["min"], entry["max"], strict=True)]
    entry[name] = between
    (copy / STATS).write_text(json.dumps(content))
    assert any(f"observation.state: {name}[" in f.message for f in check_session(copy, decode=False))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), noise=st.binary(min_size=1, max_size=40), data=st.data())
def test_noise_anywhere_is_no_crash(good: Recording, copy: Path, name: str, noise: bytes, data: Any) -> None:
    content = (good.root / name).read_bytes()
    at = data.draw(st.integers(0, len(content)))
    (copy / name).write_bytes(content[:at] + noise + content[at + data.draw(st.integers(0, 60)) :])
    assert isinstance(check_session(copy), list)
    (copy / name).write_bytes(content)


def test_a_folder_in_a_file_s_place(copy: Path) -> None:
    for name in FILES:
        content = (copy / name).read_bytes()
        (copy / name).unlink()
        (copy / name).mkdir()
        assert any(f.file == name or "meta/episodes" in name for f in check_session(copy)), name
        (copy / name).rmdir()
        (copy / name).write_bytes(content)


def test_a_pipe_in_a_file_s_place(copy: Path) -> None:
    for name in (INFO, DATA, VIDEO):
        content = (copy / name).read_bytes()
        (copy / name).unlink()
        os.mkfifo(copy / name)
        assert any(f.file == name and f.message == "is no file" for f in check_session(copy)), name
        (copy / name).unlink()
        (copy / name).write_bytes(content)
