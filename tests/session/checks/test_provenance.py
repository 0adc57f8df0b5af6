"""Faults in ``meta/provenance.json`` and in the models beside it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from lucky_recorder.session.check import check_session

PROVENANCE = "meta/provenance.json"
SUM = hashlib.sha256(b"model").hexdigest()
MODEL = f"meta/models/{SUM}.mjb"


def entry(**other: Any) -> dict[str, Any]:
    model = {"sha256": SUM, "bytes": 5, "file": MODEL, "others": 0}
    return {"episodes": "0:7", "command": [], "model": model, "discarded_seeds": [], **other}


def faults(copy: Path, *recordings: Any, model: bytes | None = b"model") -> list[tuple[str, str]]:
    (copy / PROVENANCE).write_text(json.dumps({"recordings": list(recordings)}))
    if model is not None:
        (copy / "meta/models").mkdir()
        (copy / MODEL).write_bytes(model)
    return [(f.file, f.message) for f in check_session(copy, decode=False)]


def test_a_good_one_has_none(copy: Path) -> None:
    assert (
        faults(
            copy,
            entry(episodes="0:2,4:7", left_out_seeds=["8", None]),
            entry(episodes="2:2", model=None, discarded_seeds=["1", None]),
        )
        == []
    )


def test_a_model_that_nothing_names_is_none(copy: Path) -> None:
    (copy / "meta/models").mkdir()
    (copy / MODEL).write_bytes(b"model")
    assert check_session(copy, decode=False) == []


WRONG: list[tuple[Any, str]] = [
    (3, "recordings[0] is 3, expected an object"),
    (entry(episodes="0:8"), "recordings[0]: episodes is '0:8', expected ranges of the 7 that there are"),
    (entry(episodes=None), "recordings[0]: episodes is None"),
    (entry(discarded_seeds=[3]), "recordings[0]: discarded_seeds is [3], expected a list of texts"),
    (entry(left_out_seeds=5), "recordings[0]: left_out_seeds is 5, expected a list of texts"),
    (entry(left_out_seeds=None), "left_out_seeds is None"),
    (entry(left_out_seeds="abc"), "left_out_seeds is 'abc'"),
    (entry(left_out_seeds=["1", 2]), "left_out_seeds is ['1', 2]"),
    (entry(model={"sha256": "x"}), "expected its sha256 and its bytes"),
    (entry(model={"sha256": "0" * 64, "bytes": 5, "file": MODEL}), "expected it to be named by its sha256"),
    (entry(model={"sha256": SUM, "bytes": 5, "file": "../../etc/passwd"}), "expected it to be named by its sha256"),
]


@pytest.mark.parametrize(("recording", "message"), WRONG, ids=repr)
def test_what_is_wrong_is_a_fault_of_the_file(copy: Path, recording: Any, message: str) -> None:
    found = faults(copy, recording)
    assert any(file == PROVENANCE and message in told for file, told in found)


def test_an_episode_of_two_recordings_is_a_fault(copy: Path) -> None:
    found = faults(copy, entry(), entry(episodes="6:7"))
    assert found == [(PROVENANCE, "names 8 episodes, there are 7: one is named twice")]


@pytest.mark.parametrize(
    ("model", "message"), [(None, "is missing, and meta/provenance.json names it"), (b"", "holds")]
)
def test_a_model_that_is_missing_or_another_is_a_fault(copy: Path, model: bytes | None, message: str) -> None:
    (found,) = faults(copy, entry(), model=model)
    assert found[0] == MODEL
    assert message in found[1]


def test_other_files_beside_the_models_are_strays(copy: Path) -> None:
    (copy / "meta/models").mkdir()
    (copy / "meta/models/mine.xml").write_text("<mujoco/>")
    assert [f.message for f in check_session(copy, decode=False)] == ["no episode names this file"]


@pytest.mark.parametrize("content", ["{", "[]", '{"recordings": {}}', "{}"])
def test_what_is_no_list_of_recordings_is_a_fault(copy: Path, content: str) -> None:
    (copy / PROVENANCE).write_text(content)
    assert [f.file for f in check_session(copy, decode=False)] == [PROVENANCE]
