from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lucky_recorder.cli.main import app
from lucky_recorder.doctor import machine as doctor
from lucky_recorder.doctor.machine import Finding

GOOD = Finding("codec h264", "ok", "libx264 encodes")
SPARE = Finding("GL osmesa", "missing", "libOSMesa is not installed", "apt-get install libosmesa6", needed=False)
SLOW = Finding("disk", "warning", "slow: writes 5 MB/s", "give an --output-dir on a local disk", needed=False)
BLIND = Finding("cameras", "missing", "no context \x1b[31m", "apt-get install libegl1")


@pytest.fixture
def asked() -> list[Path]:
    return []


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, asked: list[Path]) -> Callable[..., Result]:
    def run(findings: list[Finding], *options: str) -> Result:
        monkeypatch.setattr(doctor, "examine", lambda folder: asked.append(folder) or findings)
        return CliRunner().invoke(app, ["doctor", *options])

    return run


def test_a_machine_that_is_ready_exits_with_0(run: Callable[..., Result]) -> None:
    result = run([GOOD, SPARE, SLOW])
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0][:3] == ["ok", "codec", "h264"]
    assert lines[1][:3] == ["optional", "GL", "osmesa"]
    assert lines[2] == ["->", "apt-get", "install", "libosmesa6"]
    assert lines[3][:2] == ["warning", "disk"]
    assert result.stdout.splitlines()[-1] == "ok: a recording with cameras will work here"


def test_a_machine_that_is_not_exits_with_1_and_says_what_mends_it(run: Callable[..., Result]) -> None:
    result = run([GOOD, BLIND])
    assert result.exit_code == 1
    assert "missing   cameras" in result.stdout
    assert "-> apt-get install libegl1" in result.stdout
    assert "\x1b" not in result.stdout
    assert "will not work here" in result.stderr


@pytest.mark.parametrize(("findings", "ready"), [([GOOD, SPARE], True), ([GOOD, BLIND], False)])
def test_json_holds_every_finding(run: Callable[..., Result], findings: list[Finding], ready: bool) -> None:
    result = run(findings, "--json")
    assert result.exit_code == (0 if ready else 1)
    assert json.loads(result.stdout) == {"ready": ready, "findings": [f._asdict() for f in findings]}


def test_the_folder_asked_for_is_the_one_examined(run: Callable[..., Result], asked: list[Path]) -> None:
    run([GOOD])
    run([GOOD], "--output-dir", "/data/out")
    assert asked == [Path(), Path("/data/out")]
