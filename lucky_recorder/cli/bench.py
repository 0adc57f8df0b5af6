"""Telling what recording costs here, to a person or to a program."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import typer

from lucky_recorder.bench import suite
from lucky_recorder.bench.figures import Figure
from lucky_recorder.cli.console import Steps, show, table
from lucky_recorder.cli.lines import say
from lucky_recorder.errors import SettingsError
from lucky_recorder.storage.write import make_folder, storage_errors


def bench(groups: Sequence[str], pairs: int, output_dir: Path, as_json: bool) -> None:
    """Measure, and show every figure against its goal.

    Raises:
        SettingsError: If there is no such group.
        StorageError: If the folder cannot be written to.
    """
    for group in groups:
        if group not in suite.GROUPS:
            raise SettingsError.of("GROUP", group, f"expected one of {', '.join(suite.GROUPS)}")
    parts = [part for part in suite.PARTS if not groups or part.group in groups]
    made = not output_dir.exists()
    make_folder(output_dir)
    figures: list[Figure] = []
    try:
        with (
            storage_errors(output_dir),
            tempfile.TemporaryDirectory(dir=output_dir, prefix=".lucky-recorder-bench-") as folder,
            Steps(len(parts)) as steps,
        ):
            for part in parts:
                steps.tell(part.name)
                figures += part.run(pairs, Path(folder))
    finally:
        if made:
            output_dir.rmdir()
    machine = suite.machine()
    if as_json:
        told = [figure._asdict() | {"verdict": figure.verdict} for figure in figures]
        typer.echo(json.dumps({"machine": machine, "pairs": pairs, "figures": told}, indent=4))
        return
    show(table(("", "here", "goal", "verdict"), map(_row, figures)))
    for figure in figures:
        if figure.note:
            say(f"{figure.name}: {figure.note}")
    say(", ".join(f"{name} {value}" for name, value in machine.items()))


def _row(figure: Figure) -> tuple[str, str, str, str]:
    goal = "" if figure.goal is None else f"{'≥' if figure.at_least else '≤'} {figure.goal:g} {figure.unit}".strip()
    here = "" if figure.value is None else f"{figure.value:.3g} {figure.unit}".strip()
    return figure.name, here, goal, figure.verdict
