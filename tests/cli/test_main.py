from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import lucky_recorder
from lucky_recorder import cli
from lucky_recorder.cli.main import app


def test_the_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"lucky-recorder {lucky_recorder.__version__}\n")


def test_no_arguments_show_the_commands() -> None:
    result = CliRunner().invoke(app, [])
    assert {"info", "check"} <= {line.split()[0] for line in result.output.splitlines() if line.strip()}


COMMANDS = [
    "check",
    "convert",
    "demo",
    "doctor",
    "eval",
    "info",
    "koyu check",
    "koyu index",
    "lerobot",
    "record",
    "recover",
    "view",
]
WORK = sorted({command.split()[0] for command in COMMANDS})
HEAVY = ["mujoco", "gymnasium", "pyarrow", "av", "numpy", "rich"]


def fresh(program: str) -> str:
    """Run a program in an interpreter of its own and return the last word it prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from lucky_recorder.cli.main import app\n"
        f"for command in {['', *COMMANDS]}: app([*command.split(), '--help'], standalone_mode=False)\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert fresh(program) == "[]"


def test_the_work_of_a_command_is_imported_when_it_is_asked_for() -> None:
    program = (
        "import sys; from lucky_recorder import cli\n"
        f"work = {{name: 'lucky_recorder.cli.' + name for name in {WORK}}}\n"
        "assert not set(work.values()) & set(sys.modules)\n"
        "print(all(getattr(cli, name) is sys.modules[module] for name, module in work.items()))"
    )
    assert fresh(program) == "True"


def test_there_is_no_work_without_a_command() -> None:
    with pytest.raises(AttributeError, match=r"'lucky_recorder\.cli' has no attribute 'chekc'"):
        _ = cli.chekc
