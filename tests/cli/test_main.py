from __future__ import annotations

import subprocess
import sys

from typer.testing import CliRunner

import lucky_recorder
from lucky_recorder.cli.main import app


def test_the_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"lucky-recorder {lucky_recorder.__version__}\n")


def test_no_arguments_show_the_commands() -> None:
    result = CliRunner().invoke(app, [])
    assert {"info", "check"} <= {line.split()[0] for line in result.output.splitlines() if line.strip()}


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from lucky_recorder.cli.main import app; app(['--help'], standalone_mode=False);"
        "bad = {'mujoco', 'gymnasium', 'pyarrow', 'av'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
