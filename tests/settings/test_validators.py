from __future__ import annotations

import functools
import operator
import os.path
import sys
from pathlib import Path
from typing import Any

import pytest

from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import validators as v


class Scale:
    def __call__(self, value: float) -> float:
        return 2 * value

    def by_two(self, value: float) -> float:
        return 2 * value

    @staticmethod
    def by_three(value: float) -> float:
        return 3 * value

    @classmethod
    def by_four(cls, value: float) -> float:
        return 4 * value


def by_five(value: float) -> float:
    return 5 * value


LOADABLE = [by_five, Scale.by_three, Scale.by_four, Scale, operator.truth, len, os.path.join, Path.home]


@pytest.mark.parametrize("value", LOADABLE, ids=lambda value: value.__qualname__)
def test_a_callable_is_found_again_by_its_name(value: Any) -> None:
    name = v.callable_name(value)
    assert v.is_callable_name(name)
    assert v.load_callable("success", name) == value


@pytest.mark.parametrize(
    "value",
    [lambda value: value, Scale(), Scale().by_two, functools.partial(by_five, 1), [].append, "x".join],
    ids=["lambda", "object", "bound method", "partial", "method of a list", "method of a text"],
)
def test_a_callable_that_no_name_finds_is_named_so(value: Any) -> None:
    name = v.callable_name(value)
    assert name.endswith(">")
    assert not v.is_callable_name(name)


@pytest.mark.parametrize("text", ["m:f", "my.module:Class.method", "_m:_f", "m2.n:f3", "modül:funktion_ä"])
def test_names_of_callables(text: str) -> None:
    assert v.is_callable_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "m",
        ":f",
        "m:",
        "m:f:g",
        "m f:g",
        "m:f g",
        "2m:f",
        "m:2f",
        "m:f\n",
        "m:<f>",
        ".m:f",
        "m/n:f",
        5,
        None,
        b"m:f",
    ],
)
def test_what_names_no_callable(text: object) -> None:
    assert not v.is_callable_name(text)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module_here:f", "cannot be imported .*no_such_module_here"),
        ("os.path:no_such_function", "cannot be imported .*no_such_function"),
        ("os..path:join", "cannot be imported"),
        ("os:path.join.nothing", "cannot be imported .*nothing"),
        ("math:pi", "is not callable"),
    ],
)
def test_a_callable_that_is_not_there_is_refused_by_name(name: str, message: str) -> None:
    with pytest.raises(SettingsError, match=rf"^success='{name}': {message}"):
        v.load_callable("success", name)


@pytest.mark.parametrize("source", ["raise RuntimeError('broken on purpose')", "def f(:", "1 / 0"])
def test_a_module_that_fails_to_import_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    (tmp_path / "broken_verdict.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingsError, match=r"^success='broken_verdict:f': cannot be imported") as caught:
        v.load_callable("success", "broken_verdict:f")
    assert caught.value.__cause__ is not None
    assert "broken_verdict" not in sys.modules


@pytest.mark.parametrize(
    ("text", "keyed"),
    [("info:x", True), ("info:a b/c", True), ("ctrl:0", True), ("info:", False), ("info: ", False), ("info", False),
     (":x", False), ("infos:x", False), (5, False), (None, False)],
)  # fmt: skip
def test_keyed_names(text: object, keyed: bool) -> None:
    assert v.is_keyed(text, "info", "ctrl") is keyed
