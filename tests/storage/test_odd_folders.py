"""Folders whose names are bytes that are no text: what lies in them is read as anywhere else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lucky_recorder as lr
from lucky_recorder.storage import named
from lucky_recorder.testing import CountEnv, check_koyu, check_session

ODD = os.fsdecode(b"a\xff\xe9")


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A folder of such a name."""
    try:
        (tmp_path / ODD).mkdir()
    except OSError:
        pytest.skip("this file system holds names of UTF-8 only")
    return tmp_path / ODD


@pytest.fixture
def session(record: Any, run: Any, seen: Any, odd: Path) -> Path:
    """A session of two episodes, in such a folder since it was recorded."""
    env = record(cameras=[seen])
    run(env, episodes=2)
    env.close()
    return Path(env.session_path.rename(odd / env.session_path.name))


def test_a_session_is_sound(session: Path) -> None:
    check_session(session)
    for episode in lr.Session(session):
        assert episode.rows(["obs"]).num_rows == len(episode.frames("seen")) == 3


def test_a_session_is_completed_and_summed(session: Path) -> None:
    for path in session.glob("meta/episodes/*/*.parquet"):
        path.unlink()
    assert not lr.Session(session).is_current
    assert [one.verdict.value for one in lr.recover(session)] == ["recovered"]
    lr.checksum(session)
    check_session(session)


@pytest.mark.parametrize("turns", ["merge", "trim", "lerobot_view"])
@pytest.mark.parametrize("inwards", [False, True], ids=["out of it", "into it"])
def test_sessions_are_made_out_of_others(session: Path, odd: Path, tmp_path: Path, turns: str, inwards: bool) -> None:
    source = Path(session.rename(tmp_path / "plain")) if inwards else session
    target = (odd if inwards else tmp_path) / "made"
    if turns == "merge":
        lr.merge([source], target)
    elif turns == "trim":
        lr.trim(source, target, end=1)
    else:
        lr.lerobot_view(source, target)
    assert len(lr.Session(target)) == 2


def test_what_is_recorded_goes_elsewhere(session: Path, record: Any, odd: Path) -> None:
    for field, settings in {"resume": {"resume": session}, "output_dir": {"output_dir": odd}}.items():
        with pytest.raises(lr.SettingsError, match=rf"{field}=.*its name is no UTF-8; rename the folder"):
            record(**settings)


def test_tables_are_written_and_read(odd: Path) -> None:
    named.write_table(odd / "x.parquet", pa.table({"x": [1, 2, 3]}))
    assert named.metadata_of(odd / "x.parquet").num_rows == 3
    with pytest.raises(FileNotFoundError):
        named.metadata_of(odd / "y.parquet")


def test_a_koyu_dataset_is_sound(tmp_path: Path, run: Any, odd: Path) -> None:
    env = lr.RecordSession(
        CountEnv(3, mujoco=True),
        formats=("koyu",),
        mode="robot_arm",
        output_dir=tmp_path,
        koyu=lr.KoyuSettings(name="odd"),
    )
    run(env, episodes=2)
    env.close()
    dataset = check_koyu(Path(env.koyu_path.rename(odd / "koyu")))
    assert len(dataset) == 6
