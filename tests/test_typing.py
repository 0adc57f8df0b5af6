"""What a type checker makes of the calls that the manual makes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.scenarios.test_examples import PAGES, python_of

ROOT = Path(__file__).parents[1]
CALLS = ROOT / "tests" / "typed_calls.py"
TYPED_PAGES = [page for page in PAGES if python_of(page)]

# A page is a script: its functions carry no types, it uses a name again for something else, and it knows that what
# has been recorded has a path.
_SCRIPT = "# mypy: allow-untyped-defs, allow-untyped-calls, allow-redefinition, no-strict-optional"
# What other people's types do not know: pandas ships none, and to gymnasium every environment is a bare `Env`.
_NOT_OURS = re.compile(r'Library stubs not installed for "pandas"|"Env\[Any, Any\]" has no attribute "expert"')
_ERROR = re.compile(r"^(?P<file>.+?):(?P<line>\d+): error: (?P<message>.*)  \[(?P<code>[a-z-]+)\]$")

Errors = dict[str, list[re.Match[str]]]


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> Errors:
    """Everything that mypy says, by the name of the file: one run over the calls and all pages."""
    folder = tmp_path_factory.mktemp("typed")
    pages = [folder / f"{_module(page)}.py" for page in TYPED_PAGES]
    for page, script in zip(TYPED_PAGES, pages, strict=True):
        script.write_text("\n".join([_SCRIPT, *python_of(page)]))
    # The project's own settings say which packages ship no types; its cache is what `make lint` has filled.
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--no-error-summary", "--config-file"]
    done = subprocess.run(
        [*command, ROOT / "pyproject.toml", CALLS, *pages],
        cwd=ROOT,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    found: Errors = defaultdict(list)
    for line in done.stdout.splitlines():
        error = _ERROR.match(line)
        assert error or ": note: " in line, line
        if error:
            found[Path(error["file"]).stem].append(error)
    return found


def _module(page: Path) -> str:
    return f"page_{page.stem.replace('-', '_')}"


def test_the_types_accept_what_people_pass_and_refuse_the_rest(errors: Errors) -> None:
    lines = enumerate(CALLS.read_text().splitlines(), 1)
    wanted = {number: line.partition("# refused: ")[2] for number, line in lines if "# refused: " in line}
    assert {int(error["line"]): error["code"] for error in errors[CALLS.stem]} == wanted


@pytest.mark.parametrize("page", TYPED_PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_has_no_type_errors(page: Path, errors: Errors) -> None:
    assert [error[0] for error in errors[_module(page)] if not _NOT_OURS.search(error["message"])] == []
