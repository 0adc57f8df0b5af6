"""``lucky-recorder koyu``: check, index and describe a koyu dataset."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lucky_recorder.cli.console import printable, say, stopping

if TYPE_CHECKING:
    from rich.table import Table

    from lucky_recorder.koyu.reader import Dataset

koyu = typer.Typer(no_args_is_help=True, help="Check, index and describe a koyu dataset.")

Folder = Annotated[Path, typer.Argument(help="The dataset's folder.", show_default=False)]


@koyu.command()
def check(
    dataset: Folder,
    decode: Annotated[bool, typer.Option(help="Decode every video frame, or only count them.")] = True,
) -> None:
    """Verify everything in a dataset; print each fault with its file.

    Exit status: 0 for a good dataset, 1 if there are faults, 2 if the folder is no dataset.
    """
    from lucky_recorder.koyu.checks.dataset import inspect_koyu

    with stopping():
        report = inspect_koyu(dataset, decode)
    for fault in report.faults:
        say(fault)
    if report.faults:
        count = len(report.faults)
        say(f"{count} {'fault' if count == 1 else 'faults'} in {dataset}", error=True)
        raise typer.Exit(1)
    verb = "checked" if decode else "counted"
    say(f"ok: {report.episodes} episodes, {report.rows} rows, {report.frames} frames {verb}")


@koyu.command()
def index(dataset: Folder) -> None:
    """Write manifest.json anew, from the bundles alone."""
    from lucky_recorder.koyu.manifest import rebuild

    with stopping():
        manifest = rebuild(dataset)
    say(f"ok: {manifest['episode_count']} episodes in {dataset / 'manifest.json'}")


@koyu.command()
def info(dataset: Folder) -> None:
    """Show what a dataset holds, as its manifest has it: episodes, features, tasks."""
    from rich.console import Console

    from lucky_recorder.koyu.reader import Dataset

    with stopping():
        opened = Dataset(dataset)
        tables = [_overview(opened), _features(opened), _tasks(opened)]
    # What comes from the folder is text, never markup.
    console = Console(markup=False, highlight=False)
    for table in tables:
        if table.row_count:
            console.print(table)


def _overview(dataset: Dataset) -> Table:
    manifest, table = dataset.manifest, _table("", "dataset")
    rate = manifest.get("success_rate")
    lines = {
        "path": dataset.path,
        "name": manifest.get("name", "-"),
        "id": manifest.get("id", "-"),
        "type": manifest.get("type", "-"),
        "rate": f"{manifest.get('fps', '-')} Hz",
        "episodes": len(dataset.episodes),
        "rows": len(dataset),
        "success rate": f"{rate:.0%}" if isinstance(rate, int | float) else "-",
    }
    for name, value in lines.items():
        table.add_row(name, printable(value))
    return table


def _features(dataset: Dataset) -> Table:
    table = _table("feature", "shape")
    for key, feature in dataset.features.items():
        table.add_row(printable(key), "x".join(map(str, feature.shape)))
    return table


def _tasks(dataset: Dataset) -> Table:
    table = _table("task", "description", "episodes")
    counts = Counter((entry.task, entry.task_description) for entry in dataset.episodes)
    for (task, description), count in counts.items():
        table.add_row(printable(task), printable(description), str(count))
    return table


def _table(*titles: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title_justify="left")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table
