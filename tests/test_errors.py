from __future__ import annotations

import inspect
import pickle

import pytest

from lucky_recorder import errors
from lucky_recorder.errors import LuckyRecorderError, SettingsError, StorageError, shown, told

TREE = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_every_error_is_in_the_tree_and_in_its_drawing(kind: type[Exception]) -> None:
    assert issubclass(kind, LuckyRecorderError)
    assert kind.__name__ in (errors.__doc__ or "")
    assert str(pickle.loads(pickle.dumps(kind("a message")))) == "a message"


@pytest.mark.parametrize("line", [line for line in (errors.__doc__ or "").splitlines() if "── " in line])
def test_the_drawing_names_the_builtin_an_error_also_is(line: str) -> None:
    name, _, rest = line.partition("── ")[2].partition(" ")
    also = rest[1 : rest.index(")")] if rest.startswith("(") else "Exception"
    builtin = {"ValueError": ValueError, "RuntimeError": RuntimeError, "OSError": OSError, "Exception": Exception}[also]
    assert issubclass(getattr(errors, name), builtin)


def test_settings_errors_name_field_value_and_remedy() -> None:
    assert str(SettingsError.of("width", 65, "use 64 or 66")) == "width=65: use 64 or 66"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (65, "65"),
        ("a", "'a'"),
        (10**5000, "<int>"),
        (Unprintable(), "<Unprintable>"),
        ("x" * 1000, "'" + "x" * 299 + "…"),
    ],
    ids=["int", "text", "huge int", "unprintable", "long text"],
)
def test_any_value_can_be_shown(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_storage_error_may_carry_the_number_of_the_system() -> None:
    error = StorageError("/data/x: No space left on device")
    error.errno = 28
    assert str(error) == "/data/x: No space left on device"


def test_what_an_exception_says_is_asked_with_care() -> None:
    class BadError(Exception):
        def __str__(self) -> str:
            raise AttributeError("nothing")

    assert told(ValueError("x")) == "ValueError: x"
    assert told(BadError()) == "BadError: (what it says cannot be told)"
