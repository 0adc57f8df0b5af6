"""Lazy doors: nothing is imported before it is used, and what is replaced in the module is replaced in the door."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lucky_recorder.lazy import lazy


def test_a_door_imports_its_module_when_something_of_it_is_used() -> None:
    code = """
import sys
from lucky_recorder.lazy import lazy
colours = lazy("colorsys")
assert "colorsys" not in sys.modules
assert colours.rgb_to_hsv(0, 0, 0) == (0, 0, 0)
assert "colorsys" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_door_shows_what_its_module_holds_now(monkeypatch: pytest.MonkeyPatch) -> None:
    door = lazy("colorsys")
    import colorsys

    assert door.rgb_to_hsv is colorsys.rgb_to_hsv
    monkeypatch.setattr(colorsys, "rgb_to_hsv", "replaced")
    assert door.rgb_to_hsv == "replaced"


def test_a_module_that_is_missing_is_missed_when_it_is_used() -> None:
    door = lazy("lucky_recorder.no_such_module")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _ = door.anything


def test_a_name_that_a_module_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = lazy("colorsys").no_such_name
