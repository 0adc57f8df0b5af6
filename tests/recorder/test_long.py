"""Long episodes: what the memory does not hold waits in files without a name, and becomes the very same files."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder import koyu
from lucky_recorder.episode import parts
from lucky_recorder.episode.record import EpisodeRecord
from lucky_recorder.recorder import buffer
from lucky_recorder.recorder.buffer import BLOCK_ROWS
from lucky_recorder.storage import spill
from lucky_recorder.testing import check_session
from tests.same import file_bytes, without_when

ARMS = """
<mujoco>
  <option timestep="0.02"/>
  <worldbody>
    <body name="left"><joint name="left/swing" range="-1 1" limited="true"/><geom size=".1"/></body>
    <body name="right" pos="3 0 0"><joint name="right/swing" range="-2 1" limited="true"/><geom size=".1"/></body>
    <body pos="0 3 0"><freejoint/><geom size=".1"/></body>
  </worldbody>
  <actuator>
    <position name="left/a" joint="left/swing" ctrlrange="-3 3" ctrllimited="true"/>
    <position name="right/a" joint="right/swing" ctrlrange="0 1" ctrllimited="true"/>
  </actuator>
</mujoco>
"""
LENGTH = 5 * BLOCK_ROWS + 17


class Told(gymnasium.Env[Any, Any]):
    """An environment without MuJoCo whose infos say what there is, now and then."""

    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def __init__(self) -> None:
        self.count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        said = {"level": self.count, "pair": [self.count, -1.5], "said": f"step {self.count % 7}"}
        info = {key: value for number, (key, value) in enumerate(said.items()) if self.count % (number + 3)}
        return np.zeros(1, np.float32), 0.5, False, False, info


COLUMNS = [
    lr.Column("level", "info:level", dtype="int32"),
    lr.Column("pair", "info:pair", dtype="float64", shape=(2,)),
    lr.Column("said", "info:said", dtype="string"),
    lr.Column("is_even", lambda m: bool(m.action[0] > 0), dtype="bool", when="after"),
    lr.Column(
        "grid", lambda m: np.outer(m.action, [1, 2, 3]) * [[1], [2]], dtype="float32", shape=(2, 3), when="after"
    ),
]


KINDS: dict[str, dict[str, Any]] = {
    "robot_arm": {"mode": "robot_arm"},
    "full_scene": {"mode": "full_scene"},
    "custom": {"mode": "custom", "columns": COLUMNS, "control_hz": 50, "gym_columns": True},
    "two robots": {"mode": "robot_arm", "robots": ["left", "right"]},
    "koyu": {"koyu": {"name": "k", "id_seed": 3, "time_origin_ns": 0}, "formats": ["session", "koyu"]},
    "several in a file": {"episodes_per_file": 2},
}


class Memory:
    """A sink of one's own that keeps what it was given."""

    keeps_broken = True

    def __init__(self, root: Path) -> None:
        self.root = root
        self.records: list[EpisodeRecord] = []

    def open(self, schema: Any, tasks: Any) -> None: ...

    def stream_path(self, key: str, take: int, suffix: str) -> Path:
        return self.root / f"{key}{take}{suffix}.tmp"

    def prepare(self, record: EpisodeRecord) -> Memory:
        self.records.append(record)
        return self

    def commit(self) -> None: ...

    def discard(self) -> None: ...

    def close(self) -> None: ...


def record(folder: Path, kind: str) -> tuple[Path, EpisodeRecord]:
    """Record a short and a long episode; returns the session, and the long one as a sink of one's own has got it."""
    memory = Memory(folder)
    settings = {"output_dir": folder, "tasks": ["push", "pull"], "sinks": [memory], **KINDS[kind]}
    path = (record_told if kind == "custom" else record_arms)(settings)
    assert path is not None
    return Path(path), memory.records[1]


def record_told(settings: dict[str, Any]) -> Any:
    env = lr.RecordSession(Told(), **settings)
    for count in (3, LENGTH):
        env.reset(seed=0)
        for step in range(count):
            env.step(np.array([np.sin(step)], np.float32))
        env.end_episode(success=True)
    env.close()
    return env.session_path


def record_arms(settings: dict[str, Any]) -> Any:
    model = mujoco.MjModel.from_xml_string(ARMS)
    data = mujoco.MjData(model)
    observer = lr.Observer(model=model, data=data, data_hz=50, **settings)
    for number, count in enumerate((3, LENGTH)):
        mujoco.mj_resetData(model, data)
        data.qvel[:] = 0.3
        observer.start_recording() if number == 0 else observer.begin_episode()
        for tick in range(count):
            if tick == BLOCK_ROWS + 5:
                observer.set_current_task_index(1)
                observer.mark_event("half", at=tick)
            data.ctrl[:] = np.sin(tick)
            observer.tick()
            mujoco.mj_step(model, data)
        observer.end_current_episode(success=True)
    observer.stop_recording()
    return observer.session_path


def written(folder: Path) -> dict[str, bytes]:
    """Return every file that speaks of rows, without the names of sessions, which are of the clock."""
    files = [path for path in folder.rglob("*") if path.suffix in (".parquet", ".json") and path.is_file()]
    return {
        str(path.relative_to(folder)).replace(path.parts[len(folder.parts) + 1], "", 1): file_bytes(path)
        for path in files
    }


def few_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "MOST_HELD_BYTES", 4000)
    monkeypatch.setattr(buffer, "_DERIVED_BYTES", 100_000)


@pytest.mark.parametrize("kind", KINDS)
def test_what_waited_in_a_file_becomes_the_very_same_files(tmp_path: Path, kind: str, monkeypatch: Any) -> None:
    session, held = record(tmp_path / "held", kind)
    few_in_memory(monkeypatch)
    made: list[Path] = []
    make = spill.Spill.__init__
    monkeypatch.setattr(spill.Spill, "__init__", lambda self, folder: (made.append(folder), make(self, folder))[1])
    spilled_session, spilled = record(tmp_path / "spilled", kind)
    assert made == [spilled_session] * 2, "raw values and columns"
    assert written(tmp_path / "spilled") == written(tmp_path / "held")
    for name, values in held.columns.items():
        one = spilled.columns[name]
        assert (one.dtype, one.shape, one.tolist()) == (values.dtype, values.shape, values.tolist()), name
        assert not one.flags.writeable, name
        assert one.flags.aligned, name
        assert one.flags.c_contiguous, name
    assert {n: m.tolist() for n, m in spilled.missing.items()} == {n: m.tolist() for n, m in held.missing.items()}
    assert not list(spilled_session.rglob("*.tmp"))
    assert pq.read_metadata(sorted((session / "data").rglob("file-*.parquet"))[-1]).num_row_groups == (
        2 if "several" in kind else 1
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_episode_of_several_row_groups_reads_the_same(tmp_path: Path, kind: str, monkeypatch: Any) -> None:
    whole, _ = record(tmp_path / "whole", kind)
    few_in_memory(monkeypatch)
    monkeypatch.setattr(parts, "PART_ROWS", 1000)
    cut, _ = record(tmp_path / "cut", kind)
    robots = 2 if kind == "two robots" else 1
    file = sorted((cut / "data").rglob("file-*.parquet"))[-1]
    sizes = [pq.read_metadata(file).row_group(i).num_rows for i in range(pq.read_metadata(file).num_row_groups)]
    rest = LENGTH * robots % 1000
    assert sizes == [3] * ("several" in kind) + [1000] * (LENGTH * robots // 1000) + [rest]
    for one, other in zip(lr.Session(cut), lr.Session(whole), strict=True):
        assert one.rows() == other.rows()
        assert one.rows(["task_index"]) == other.rows(["task_index"])
        assert (without_when(one.meta), one.missing()) == (without_when(other.meta), other.missing())
    assert (cut / "meta/stats.json").read_bytes() == (whole / "meta/stats.json").read_bytes()
    check_session(cut)
    if kind == "koyu":
        datasets = [koyu.Dataset(tmp_path / name / "k") for name in ("cut", "whole")]
        for number in range(2):
            pair = [dataset.columns(number) for dataset in datasets]
            assert {k: v.tolist() for k, v in pair[0].items()} == {k: v.tolist() for k, v in pair[1].items()}


@pytest.mark.parametrize("broken", ["__init__", "append", "write", "whole"])
@pytest.mark.parametrize("fails_at", [0, 1, 3])
def test_a_disk_that_refuses_costs_memory_and_no_row(
    tmp_path: Path, broken: str, fails_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "held", "custom")
    few_in_memory(monkeypatch)
    working, calls = getattr(spill.Spill, broken), iter(range(1000))

    def refuse(self: spill.Spill, *given: Any) -> Any:
        if next(calls) >= fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return working(self, *given)

    monkeypatch.setattr(spill.Spill, broken, refuse)
    record(tmp_path / "refused", "custom")
    assert written(tmp_path / "refused") == written(tmp_path / "held")


def test_a_disk_that_does_not_give_back_fails_the_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few_in_memory(monkeypatch)

    def refuse(*given: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(spill.Spill, "read", refuse)
    with pytest.raises(lr.LuckyRecorderError, match=f"Input/output error.*1 episode with {LENGTH} rows could not be"):
        record(tmp_path, "robot_arm")
    (path,) = (tmp_path / "DataSessions").iterdir()
    assert [e.length for e in check_session(path)] == [3]
