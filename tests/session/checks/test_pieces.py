"""A check in pieces: the same is found, in the same order, however they are cut and by however many processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.session.check import check_session, inspect_session
from lucky_recorder.session.checks import measured, pieces, rows, workers
from lucky_recorder.session.checks.declared import DeclaredColumn
from lucky_recorder.session.checks.evidence import Evidence
from lucky_recorder.session.checks.quantiles import quantiles_of_runs
from tests.session.breaking import STATS
from tests.session.building import Recording, arm_schema, camera, lidar, mask

EPISODES = 9
FILE = "data/chunk-000/file-{:03d}.parquet"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    schema = arm_schema(cameras=[camera("front"), mask("front")], robots=("left", "right"), lidars=[lidar("top")])
    recording = Recording(tmp_path_factory.mktemp("pieces"), schema, metadata_every=4)
    for episode in range(EPISODES):
        recording.keep(3 + episode, tasks=(0, 1))
    return recording.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two episodes to a piece."""
    monkeypatch.setattr(pieces, "_MOST_EPISODES", 2)


def spoil(path: Path, column: str, row: int, value: Any) -> None:
    table = pq.ParquetFile(path).read()
    values = table[column].to_pylist()
    values[row] = value
    field = table.schema.field(column)
    pq.write_table(
        table.set_column(table.column_names.index(column), field, pa.array(values, field.type)),
        path,
        write_page_checksum=True,
    )


FAULTS: list[tuple[str, Any, str]] = [
    ("index", 7000, "row 3: index is 7000"),
    ("robot_id", 5, "row 3: robot_id is 5"),
    ("timestamp", 9.5, "row 3: timestamp is 9.5"),
    ("episode_index", 77, "holds rows of episode 77"),
    ("frame_index", 77, "row 3: frame_index is 77"),
    ("task_index", 9, "task_index 0..9 is out of range"),
    ("task_index", None, "column task_index: a value is missing"),
    ("frame_flags", 9, "row 3: frame_flags is 9"),
    ("action", [1.0] * 5, "action: a list is not whole"),
    ("action", [1.0, 1.0, np.nan], "action: row 3 holds NaN"),
]


@pytest.mark.parametrize(("column", "value", "message"), FAULTS, ids=[f"{c}-{v}" for c, v, _ in FAULTS])
def test_what_is_looked_at_together_is_told_of_its_episode(
    good: Path, tmp_path: Path, column: str, value: Any, message: str
) -> None:
    root = Path(shutil.copytree(good, tmp_path / "copy"))
    spoil(root / FILE.format(5), column, 3, value)
    found = [fault for fault in check_session(root, decode=False) if fault.file == FILE.format(5)]
    assert any(message in fault.message for fault in found)
    # One by one, nothing else is found.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_are_faultless", lambda *given: False)
        assert [fault for fault in check_session(root, decode=False) if fault.file == FILE.format(5)] == found


def test_tasks_that_are_listed_otherwise(good: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(good, tmp_path / "copy"))
    spoil(root / FILE.format(2), "task_index", 0, 1)
    for row in range(10):
        spoil(root / FILE.format(2), "task_index", row, 1)
    assert any("its rows have tasks [1]" in fault.message for fault in check_session(root, decode=False))


def broken(root: Path) -> None:
    """Faults of many kinds in many pieces, one of which only the session as a whole shows."""
    spoil(root / FILE.format(1), "timestamp", 2, 9.0)
    spoil(root / FILE.format(7), "action", 2, [np.inf, 0.0, 0.0])
    (root / FILE.format(3)).write_bytes(b"PAR1 is none")
    (root / "videos/observation.images.front/chunk-000/file-004.mp4").unlink()
    (root / "videos/observation.masks.front/chunk-000/file-006.json").write_text('{"0": "floor"}')
    (root / "data/chunk-000/lidar-top-008.json").write_text("[]")
    content = json.loads((root / STATS).read_text())
    content["observation.state"]["std"][1] *= 1.5
    (root / STATS).write_text(json.dumps(content))


@pytest.mark.usefixtures("small")
def test_the_same_is_found_by_processes(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(shutil.copytree(good, tmp_path / "copy"))
    broken(root)
    told: list[tuple[int, int]] = []
    by_one = inspect_session(root)
    by_two = inspect_session(root, tell=lambda done, total: told.append((done, total)), workers=2)
    assert len(by_one.faults) > 8
    assert by_two == by_one
    assert told == sorted(told)
    monkeypatch.setattr(pieces, "_MOST_EPISODES", 1000)
    whole = inspect_session(root)
    assert sorted(map(str, whole.faults)) == sorted(map(str, by_one.faults))
    outputs = [CliRunner().invoke(app, ["check", str(root), "--workers", n]).output for n in ("1", "2")]
    assert outputs[0] == outputs[1]
    assert "copy" in outputs[0]


@pytest.mark.usefixtures("small")
def test_a_good_session_in_pieces(good: Path) -> None:
    report = inspect_session(good)
    assert (report.faults, report.episodes) == ([], EPISODES)
    assert report.frames >= sum(3 + episode for episode in range(EPISODES))


def _die(session: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.usefixtures("small")
def test_a_process_that_is_ended_from_outside(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_begin", _die)
    with pytest.raises(lr.WorkerDiedError, match=r"was ended from outside.*check with fewer workers"):
        check_session(good, workers=2)


def test_a_script_without_a_main_guard_is_told(good: Path, tmp_path: Path) -> None:
    """Each process runs the script again, and would begin processes in its turn."""
    script = tmp_path / "script.py"
    script.write_text(
        "from lucky_recorder.session.checks import pieces\npieces._MOST_EPISODES = 2\n"
        "from lucky_recorder.session.check import check_session\n"
        f"check_session({str(good)!r}, decode=False, workers=2)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert "WorkerDiedError" in done.stderr
    assert "if __name__ == '__main__':" in done.stderr


def test_how_many_there_may_be(good: Path) -> None:
    with pytest.raises(lr.SettingsError, match="workers=0"):
        check_session(good, workers=0)


# What the columns come to.


def test_moments_of_parts_are_those_of_the_whole() -> None:
    random = np.random.default_rng(3)
    column = DeclaredColumn("x", "float64", (2,), is_vector=True)
    for scale, shift in ((1.0, 0.0), (1e-6, 1e6), (1e9, -1e3)):
        values = random.normal(size=(500, 2)) * scale + shift
        values[::7] = np.nan
        cuts = np.sort(random.choice(np.arange(1, 500), 12, replace=False))
        joined = measured.Moments(column)
        for part in np.split(values, cuts):
            one = measured._Column(column)
            table = pa.table({"x": pa.array(part.tolist(), pa.list_(pa.float64()))})
            lengths = np.array([len(part) // 2, len(part) - len(part) // 2])
            one.add_episodes(table, lengths[lengths > 0])
            one.second_pass(table)
            joined = joined.join(one.moments())
        whole = values[~np.isnan(values).any(axis=1)]
        assert joined.rows == len(whole)
        assert np.array_equal([joined.low, joined.high], [whole.min(axis=0), whole.max(axis=0)])
        assert np.allclose(joined.means, whole.mean(axis=0), rtol=1e-12, atol=1e-12 * scale)
        assert np.allclose(joined.std, whole.std(axis=0), rtol=1e-9)


@pytest.mark.parametrize("most", [1, 100, 10**6])
def test_quantiles_of_runs_are_numpys(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("lucky_recorder.session.checks.quantiles.HELD_VALUES", most)
    random, wanted = np.random.default_rng(4), [0.0, 0.01, 0.5, 0.9, 1.0]
    counts = np.array([5, 1, 0, 30, 2, 0])
    values = random.normal(size=(counts.sum(), 3)) * 10.0 ** random.integers(-100, 100, (counts.sum(), 3))
    found = quantiles_of_runs(values, counts, wanted)
    for run, one in zip(np.split(values, np.cumsum(counts)[:-1]), found, strict=True):
        expected = np.quantile(run, wanted, axis=0) if len(run) else np.zeros((5, 3))
        assert np.allclose(one, expected, rtol=1e-12, atol=0)


def test_little_is_known_of_an_episode_before_its_piece(good: Path) -> None:
    """Its values are in the table of all, as often as they are asked for; a piece has them at hand."""
    evidence = Evidence(good)
    whole = evidence.whole(evidence.episodes)
    assert [dict(one.values) for one in evidence.episodes] == [dict(one.values) for one in whole]
    assert not any(isinstance(one.values, dict) for one in evidence.episodes)
    assert [row for _, row in evidence.rows] == [one.values for one in whole]
    assert [len(piece) for piece in pieces.cut(evidence)] == [EPISODES]
