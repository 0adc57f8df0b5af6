from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from lucky_recorder.cli.main import app
from lucky_recorder.episode.schema import Field
from lucky_recorder.testing import check_koyu, check_session
from tests.session.building import Recording, arm_schema, camera


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    recording = Recording(tmp_path / "session", arm_schema([camera("Front")]))
    recording.keep(5)
    recording.keep(3)
    recording.close()
    return recording


def convert(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["convert", *map(str, arguments)])


def test_there_and_back(recording: Recording, tmp_path: Path) -> None:
    done = convert(recording.root, "--koyu", tmp_path / "bundles", "--collection-mode", "teleop")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "ok: 2 episodes, 8 rows, 8 frames checked\n", "")
    dataset = check_koyu(tmp_path / "bundles")
    assert (dataset.manifest["name"], dataset.manifest["type"]) == ("bundles", "teleop")
    back = convert(tmp_path / "bundles", "--session", tmp_path / "back")
    assert (back.exit_code, back.stdout, back.stderr) == (0, "ok: 2 episodes, 8 rows, 8 frames checked\n", "")
    assert len(check_session(tmp_path / "back")) == 2


def test_what_was_left_out_is_told(recording: Recording, tmp_path: Path) -> None:
    failing = Recording(tmp_path / "failing", arm_schema([camera("Front")]))
    failing.keep(2)
    failing.keep(2, success=False, failed_stream="observation.images.Front")
    failing.close()
    done = convert(failing.root, "--koyu", tmp_path / "bundles")
    assert done.exit_code == 0
    assert done.stderr == "1 episodes left out: one of their streams has failed and left no video\n"


def test_what_bundles_do_not_hold_is_told(tmp_path: Path) -> None:
    extra = [Field("said", "string", nullable=True), Field("felt", "float64", nullable=True, has_stats=True)]
    recording = Recording(tmp_path / "session", arm_schema(extra=extra))
    recording.keep(3, missing={"felt": np.array([True, False, True])})
    done = convert(recording.close(), "--koyu", tmp_path / "bundles")
    assert (done.exit_code, done.stderr.splitlines()) == (
        0,
        [
            "koyu bundles hold numbers only, and are made without the columns of texts: said",
            "koyu bundles hold NaN where a column has no value in a row: felt (2 rows)",
        ],
    )


def test_one_of_the_two_must_be_said(recording: Recording, tmp_path: Path) -> None:
    for arguments in ([], ["--koyu", tmp_path / "a", "--session", tmp_path / "b"]):
        done = convert(recording.root, *arguments)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "give --koyu DATASET for a session" in done.stderr


def test_what_cannot_be_converted(tmp_path: Path) -> None:
    done = convert(tmp_path, "--koyu", tmp_path / "bundles")
    assert (done.exit_code, done.stderr) == (
        2,
        f"error: {tmp_path}: is no session: it has neither meta/ nor data/ nor videos/\n",
    )
    done = convert(tmp_path, "--session", tmp_path / "session")
    assert (done.exit_code, done.stdout) == (2, "")
    assert not (tmp_path / "session").exists()
