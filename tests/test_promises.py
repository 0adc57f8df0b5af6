"""The manual's page of promises names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
PROMISES = [
    line for line in PAGE.splitlines() if line.startswith("| ") and "| promise" not in line and "tests/" in line
]


def _tests_in(file: str) -> set[str]:
    return set(re.findall(r"^def (test_\w+)\(", (ROOT / file).read_text(encoding="utf-8"), re.M))


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED.findall(PAGE))))
def test_what_is_named_is_a_test(file: str, name: str) -> None:
    assert Path(file).name.startswith("test_")
    found = _tests_in(file)
    assert (name in found) if name else found


def test_each_promise_names_its_tests() -> None:
    assert len(PROMISES) > 15
    rows = [line for line in PAGE.partition("## What is not")[0].splitlines() if re.match(r"\| (?!promise)", line)]
    assert rows == PROMISES
