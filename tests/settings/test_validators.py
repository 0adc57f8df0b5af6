"""The converters of settings: what each of them refuses, and what it makes of the rest."""

from __future__ import annotations

import functools
import math
import operator
import os.path
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest

from lucky_recorder.errors import SettingsError, shown
from lucky_recorder.settings import validators as v
from tests.settings.refusals import HUGE, failing, named, refused


def word(value: Any, *, field: str = "value") -> str:
    return v.one_of(value, ("h264", "hevc"), field=field)


REFUSED: list[tuple[Callable[..., Any], str, list[Any]]] = [
    (v.boolean, "give true or false", [None, 1, "true", 1.0, [], np.int64(1), np.array(True), HUGE]),
    (
        v.count,
        "give a whole number from 1 to 2147483647",
        [None, 0, -1, 1.0, "1", True, np.True_, math.nan, [1], 2**31, HUGE, np.int64(-3), np.float64(2),
         Fraction(1, 2), 1j, np.array([1, 2]), np.timedelta64(3, "s")],
    ),
    (v.seed, "give a whole number from 0 to 9223372036854775807", [None, -1, 1.0, True, 2**63, HUGE]),
    (
        v.positive,
        "give a finite number above 0",
        [None, 0, -0.5, math.nan, math.inf, "1", True, [1.0], 1j, HUGE, 10**400, Fraction(1, 10**400),
         np.float32(-1), np.array([1.0, 2.0]), np.timedelta64(3, "s")],
    ),
    (v.number, "give a finite number", [None, "90", True, math.nan, -math.inf, [90], HUGE, np.array([1.0, 2.0])]),
    (v.optional_hertz, "give a rate in Hz", ["50 Hz", "", "200/0", math.nan, True, [50], {}, np.array([50])]),
    (v.optional_hertz, "a rate must be above 0 Hz", [0, -50, "0"]),
    (v.optional_hertz, "give a rate from 0.000001 to 1000000000 Hz", [HUGE, 1e-9]),
    (word, "choose one of h264, hevc", ["", "H264", None, 5, ["h264"], b"h264", np.array(["h264", "x"]), HUGE]),
    (v.text, "give a text that is not empty", ["", "  ", "\n", 5, None, b"x", ["x"], np.array(["x"]), HUGE]),
    (v.text, "holds half a character (a surrogate); give proper Unicode", ["\ud800", "a\udcff"]),
    (v.text, "holds half a character (a surrogate), as Python reads names as utf-8 in this locale", ["Gr\udcc3\udcb6"]),
    (
        v.texts,
        "give a list",
        [None, "Front", b"Front", 5, True, {"name": "Front"}, {"a", "b"}, frozenset("ab"), HUGE],
    ),
    (v.folder, "give a folder", [None, "", 5, b"/tmp", ["a"], "a\0b", np.array(["a"]), HUGE]),
    (
        v.folder,
        "holds half a character (a surrogate): its name is no UTF-8; rename the folder, or give another",
        ["\ud800", "/data/\udcff", "~/\udc80/x"],
    ),
    (v.optional_folder, "holds half a character (a surrogate): its name is no UTF-8", ["a\udfff"]),
    (v.optional_folder, "holds half a character (a surrogate), as Python reads names as", ["Gr\udcc3\udcb6\u00e4"]),
    (
        v.output_name,
        "use letters, digits, '_' and '-' only, at most 100",
        ["", None, 5, "a b", "a/b", "..", "Kamera-Ö", "Front\n", "x" * 101],
    ),
    (v.output_name, "_depth and _rgbd end the names of depth streams", ["Front_depth", "x_rgbd"]),
]  # fmt: skip
CASES = [(converter, remedy, value) for converter, remedy, values in REFUSED for value in values]


@pytest.mark.parametrize(
    ("converter", "remedy", "value"), CASES, ids=[f"{c.__name__}-{i}-{named(x)}" for i, (c, _, x) in enumerate(CASES)]
)
def test_a_converter_refuses(converter: Callable[..., Any], remedy: str, value: Any) -> None:
    refused(lambda: converter(value, field="the field"), f"the field={shown(value)}: {remedy}")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", ""], "field[1]='': give a text that is not empty"),
        (["a", 5], "field[1]=5: give a text that is not empty"),
        (["a", "b", "a"], "field='a': stands twice; each must be unique"),
    ],
)
def test_a_list_names_the_item_that_it_refuses(values: list[Any], message: str) -> None:
    refused(lambda: v.texts(values, field="field"), message)


def test_a_list_that_fails_while_it_is_read_says_why() -> None:
    with pytest.raises(
        SettingsError, match=r"^field=.*: cannot be read as a list \(no second\); give a list$"
    ) as caught:
        v.texts(failing(), field="field")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_home_that_is_not_there_is_refused() -> None:
    refused(
        lambda: v.folder("~nobody-of-this-name/data", field="field"), "field='~nobody-of-this-name/data': Could not"
    )


@pytest.mark.parametrize(
    ("converter", "value", "settled"),
    [
        (v.boolean, np.True_, True),
        (v.count, np.uint8(7), 7),
        (v.count, 2**31 - 1, 2**31 - 1),
        (v.seed, np.uint64(2**63 - 1), 2**63 - 1),
        (v.positive, np.float32(2.5), 2.5),
        (v.positive, Fraction(5, 2), 2.5),
        (v.positive, 3, 3.0),
        (v.number, -45, -45.0),
        (v.optional_hertz, np.float32(200 / 3), Fraction(200, 3)),
        (v.optional_hertz, "200/3", Fraction(200, 3)),
        (word, np.str_("h264"), "h264"),
        (v.texts, np.array(["left", "right"]), ("left", "right")),
        (v.texts, (t for t in ["Pick up the cube", "立方体を取る"]), ("Pick up the cube", "立方体を取る")),
        (v.folder, "data", Path("data")),
        (v.folder, PurePosixPath("data"), Path("data")),
        (v.folder, "~/data", Path.home() / "data"),
        (v.folder, "Aufnahmen/Würfel 立方体", Path("Aufnahmen/Würfel 立方体")),
        *((converter, None, None) for converter in (v.optional_count, v.optional_positive, v.optional_hertz,
                                                    v.optional_text, v.optional_texts, v.optional_folder)),
    ],
)  # fmt: skip
def test_plausible_values_settle(converter: Callable[..., Any], value: Any, settled: Any) -> None:
    got = converter(value)
    assert got == settled
    assert isinstance(got, type(settled))
    assert converter(got) == settled, "settled values settle as themselves"


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
