from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import lucky_recorder

HEAVY = ["mujoco", "av", "pyarrow", "gymnasium", "pandas", "OpenGL", "rich", "typer", "numpy"]


def _fresh(program: str) -> str:
    """Run a program in an interpreter of its own and return what it prints."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_public_names_are_sorted_and_unique() -> None:
    assert lucky_recorder.__all__ == sorted(set(lucky_recorder.__all__))


def test_every_public_name_has_a_home_and_no_home_is_hidden() -> None:
    assert {*lucky_recorder._HOMES, "__version__"} == set(lucky_recorder.__all__)


@pytest.mark.parametrize("name", lucky_recorder.__all__)
def test_a_public_name_can_be_imported_and_is_the_one_of_its_home(name: str) -> None:
    value = getattr(lucky_recorder, name)
    if name != "__version__":
        home = importlib.import_module(f"lucky_recorder.{lucky_recorder._HOMES[name]}")
        assert value is getattr(home, name)
        assert value.__module__ == home.__name__
        assert value.__doc__


def test_a_star_imports_exactly_the_public_names() -> None:
    program = "from lucky_recorder import *; print(*sorted(n for n in globals() if n == '__version__' or n[0] != '_'))"
    assert _fresh(program).split() == sorted(lucky_recorder.__all__)


def test_a_star_loads_no_simulator() -> None:
    program = (
        "import sys; from lucky_recorder import *; print(*(m for m in ('mujoco', 'av', 'OpenGL') if m in sys.modules))"
    )
    assert _fresh(program) == ""


def test_the_command_that_tells_what_a_session_holds_needs_no_decoder() -> None:
    assert (
        _fresh("import sys, lucky_recorder.cli.info; print(*(m for m in ('mujoco', 'av') if m in sys.modules))") == ""
    )


def test_type_checkers_see_every_public_name() -> None:
    source = Path(lucky_recorder.__file__).read_text(encoding="utf-8")
    declared = source.partition("if TYPE_CHECKING:")[2].partition("_HOMES")[0]
    for name in lucky_recorder._HOMES:
        assert f" {name}" in declared


def test_names_are_listed_before_they_are_used() -> None:
    assert _fresh("import lucky_recorder as lr; print(*(set(lr.__all__) - set(dir(lr))))") == ""
    assert sorted(dir(lucky_recorder)) == dir(lucky_recorder)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'lucky_recorder' has no attribute 'RecordSesion'"):
        _ = lucky_recorder.RecordSesion
    with pytest.raises(ImportError, match="RecordSesion"):
        exec("from lucky_recorder import RecordSesion")
    assert not hasattr(lucky_recorder, "_no_such_name")


@pytest.mark.parametrize(
    "statement",
    ["import lucky_recorder", "import lucky_recorder; dir(lucky_recorder)", "from lucky_recorder import __version__"],
)
def test_the_import_imports_nothing_heavy(statement: str) -> None:
    program = f"import sys; {statement}; print(*(m for m in {HEAVY} if m in sys.modules))"
    assert _fresh(program) == ""


@pytest.mark.parametrize("name", ["Camera", "RecorderSettings", "SettingsError", "StorageError"])
def test_settings_and_errors_need_no_simulator(name: str) -> None:
    program = f"import sys; from lucky_recorder import {name}; print(*(m for m in {HEAVY[:-1]} if m in sys.modules))"
    assert _fresh(program) == ""


@pytest.mark.parametrize(
    "room",
    [
        "episode.clock",
        "video.encoder",
        "video.decode",
        "session.sink",
        "session.reader",
        "koyu.reader",
        "koyu.check",
    ],
)
def test_data_is_written_and_read_without_a_simulator(room: str) -> None:
    program = (
        f"import sys, lucky_recorder.{room}; print(*(m for m in ('mujoco', 'gymnasium', 'pandas') if m in sys.modules))"
    )
    assert _fresh(program) == ""


def test_the_version_is_the_packages() -> None:
    from importlib.metadata import version

    assert lucky_recorder.__version__ == version("lucky-recorder")
