from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lucky_recorder.cli.main import app
from lucky_recorder.testing import check_koyu
from tests.koyu.bundles import write_dataset


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "by-hand", (4, 3))


def run(command: str, *arguments: object) -> Result:
    return CliRunner().invoke(app, ["koyu", command, *map(str, arguments)])


def test_a_good_dataset(dataset: Path) -> None:
    result = run("check", dataset)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "ok: 2 episodes, 7 rows, 14 frames checked\n", "")
    assert run("check", dataset, "--no-decode").stdout == "ok: 2 episodes, 7 rows, 14 frames counted\n"


def test_each_fault_is_a_line_with_its_file(dataset: Path) -> None:
    (dataset / "episodes/.tmp-\x1b[2J").mkdir()
    result = run("check", dataset)
    left = "left behind by an interrupted recording, or being written"
    shown = "episodes/.tmp-\N{REPLACEMENT CHARACTER}[2J"
    assert (result.exit_code, result.stdout) == (1, f"{shown}: {left}\n")
    assert result.stderr == f"1 fault in {dataset}\n"


@pytest.mark.parametrize("command", ["check", "info", "index"])
def test_what_is_no_dataset(tmp_path: Path, command: str) -> None:
    result = run(command, tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {tmp_path}: ")
    assert list(tmp_path.iterdir()) == []


def test_an_index_is_made_of_the_bundles_alone(dataset: Path) -> None:
    before = json.loads((dataset / "manifest.json").read_text())["episodes"]
    (dataset / "manifest.json").unlink()
    assert run("check", dataset).exit_code == 1
    result = run("index", dataset)
    assert (result.exit_code, result.stdout) == (0, f"ok: 2 episodes in {dataset / 'manifest.json'}\n")
    listed = check_koyu(dataset).manifest["episodes"]
    assert [e["id"] for e in listed] == [e["id"] for e in before]


def test_info_shows_what_the_manifest_says(dataset: Path) -> None:
    result = run("info", dataset)
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for line in ("name by-hand", "episodes 2", "rows 7", "success rate -", "action 2", "lift Lift the cube 2"):
        assert line in lines
    assert "observation.images.front 48x64x3" in lines


def test_info_shows_a_number_that_no_float_holds(dataset: Path) -> None:
    manifest = json.loads((dataset / "manifest.json").read_text())
    (dataset / "manifest.json").write_text(json.dumps(manifest | {"success_rate": 10**400, "mean_reward": 10**39}))
    result = run("info", dataset)
    assert result.exit_code == 0, result.output
    assert "1e+39" in result.stdout
    assert "1000000000" in result.stdout
