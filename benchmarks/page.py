"""Writes what was measured into docs/performance.md, between its marks.

    lucky-recorder bench --json > docs/figures/bench.json
    python benchmarks/writers.py --json > docs/figures/writers.json
    python benchmarks/page.py

The figures are those of the two files, which name the machine; nothing on the page is written by hand but the words.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"


def table(titles: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (titles, ["---"] * len(titles), *rows))


def bench(said: dict[str, Any]) -> str:
    rows = []
    for figure in said["figures"]:
        value, unit = figure["value"], figure["unit"]
        here = figure["verdict"] if value is None else f"{value:.3g} {unit}".strip()
        goal = (
            "" if figure["goal"] is None else f"{'≥' if figure['at_least'] else '≤'} {figure['goal']:g} {unit}".strip()
        )
        rows.append([figure["name"], here, goal, "" if value is None else figure["verdict"]])
    return f"{table(['', 'here', 'goal', ''], rows)}\n\nMeasured on: {machine(said['machine'])}."


def writers(said: dict[str, Any]) -> str:
    rows = [
        [one["name"], f"{one['cpu_ms']:.2f}", f"{one['times']:.1f}", f"{one['worst_ms']:.0f}", f"{one['grew_mb']:.0f}"]
        for one in said["writers"]
    ]
    titles = ["", "ms of CPU a frame", "times ours", "longest that a step waited, ms", "memory more, MB"]
    return f"{table(titles, rows)}\n\n{said['what']}. Measured on: {machine(said['machine'])}."


def machine(said: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in said.items())


def filled(page: str) -> str:
    """Return the page with what the files say between its marks."""
    for name, made in (("bench", bench), ("writers", writers)):
        text = made(json.loads((DOCS / f"figures/{name}.json").read_text(encoding="utf-8")))
        marks = rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)"
        page, count = re.subn(marks, lambda found, text=text: f"{found[1]}\n{text}\n{found[2]}", page, flags=re.DOTALL)  # type: ignore[misc]
        assert count == 1, name
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
