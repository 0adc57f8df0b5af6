"""Nothing that stands in a folder reaches a terminal as it is."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from lucky_recorder.cli.console import show, table
from lucky_recorder.cli.lines import printable, say

HOSTILE = "\x1b]0;title\x07\x1b[2J\r\nroot# \x9b31m\u202e\x00"


def is_harmless(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("error", [False, True])
def test_a_line_is_one_line(capsys: pytest.CaptureFixture[str], error: bool) -> None:
    say(HOSTILE, error)
    told = capsys.readouterr()
    line = told.err if error else told.out
    assert is_harmless(line)
    assert line.count("\n") == 1


def test_cells_and_long_tables(capsys: pytest.CaptureFixture[str]) -> None:
    show(table((HOSTILE[:0], "x"), ((HOSTILE, k) for k in range(1005))))
    told = capsys.readouterr().out
    assert is_harmless(told)
    assert "… 5 more" in told


def test_a_text_is_not_longer_than_a_person_reads() -> None:
    assert len(printable("x" * 10**6)) == 2001


def test_warnings_and_the_log_become_lines() -> None:
    program = (
        "import logging, warnings\n"
        "from lucky_recorder.cli.exits import stopping\n"
        f"with stopping():\n    warnings.warn({HOSTILE!r})\n"
        f"    logging.getLogger('lucky_recorder').warning('%s', {HOSTILE!r})\n"
        f"    logging.getLogger('lucky_recorder').info({HOSTILE!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert is_harmless(done.stderr)
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["warning", "warning"]
    assert not logging.getLogger("lucky_recorder").handlers
