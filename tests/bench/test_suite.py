"""Every part measures, in small; what it leaves is nothing."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from lucky_recorder.bench import files, filming, stepping, suite
from lucky_recorder.bench.suite import Part
from lucky_recorder.errors import GLError


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for room, name, value in (
        *((filming, "_FRAMES", 3), (filming, "_WARM_UP", 2), (filming, "_HZ", 50)),
        *((files, "_FILMED", 3), (files, "_STEPS", 4), (files, "_OPENED", 3), (files, "_RANDOM", 3)),
        *((files, "_WIDTH", 64), (files, "_HEIGHT", 48)),
    ):
        assert hasattr(room, name)
        monkeypatch.setattr(room, name, value)
    monkeypatch.setattr(stepping.compare, "__defaults__", (20,))


@pytest.mark.parametrize("part", suite.PARTS, ids=lambda part: part.name)
def test_every_part_measures_and_leaves_nothing(part: Part, tmp_path: Path) -> None:
    if part.name == "a paced simulation with two cameras":
        pytest.skip("takes as long as the other one, and the films have cameras")
    figures = part.run(1, tmp_path)
    assert figures
    assert all(figure.value is not None and math.isfinite(figure.value) for figure in figures)
    assert list(tmp_path.iterdir()) == []


def test_what_a_machine_cannot_do_is_said(tmp_path: Path) -> None:
    def fail(pairs: int, folder: Path) -> None:
        raise GLError("no OpenGL here")

    (figure,) = Part("drawing", "films", fail).run(1, tmp_path)  # type: ignore[arg-type]
    assert (figure.name, figure.value, figure.verdict, figure.note) == ("films", None, "not measured", "no OpenGL here")


def test_the_machine_is_named() -> None:
    said = suite.machine()
    assert all(said.values())
    assert {"processor", "cores", "python", "mujoco", "lucky-recorder"} <= set(said)
