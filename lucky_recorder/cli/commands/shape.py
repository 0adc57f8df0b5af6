"""``lucky-recorder merge`` and its kin: new sessions out of the episodes of others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder import cli
from lucky_recorder.cli.commands.options import SessionFolder

_NUMBERS = "such as 0:40,52; an end is left out."
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", help="The new session, a new folder.", show_default=False)
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and write nothing.")]


def merge(
    sessions: Annotated[list[Path], typer.Argument(help="The sessions' folders, in order.", show_default=False)],
    output: Output,
    dry_run: DryRun = False,
) -> None:
    """Write all episodes of several sessions as one new session. Videos are linked; the result is checked.

    Exit status: 0 if it was made, 2 if not: sessions that do not fit are refused, with every difference.
    """
    cli.shape.merge(sessions, output, dry_run)


def select(
    session: SessionFolder,
    output: Output,
    success_only: Annotated[bool, typer.Option("--success-only", help="Only episodes that succeeded.")] = False,
    task: Annotated[
        list[str] | None, typer.Option(metavar="TASK", help="Only episodes in which this task occurs. Repeatable.")
    ] = None,
    episodes: Annotated[str | None, typer.Option(metavar="N", help=f"Only these episodes, {_NUMBERS}")] = None,
    min_length: Annotated[
        int | None, typer.Option(metavar="ROWS", min=1, help="Only episodes of so many rows or more.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Only episodes of which this is true; needs DuckDB.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Write those episodes as a new session that meet every condition; the session itself stays as it is.

    Exit status: 0 if it was made, 2 if not.
    """
    cli.shape.select(session, output, success_only, task, episodes, min_length, where, dry_run)


def delete(
    session: SessionFolder,
    output: Output,
    episodes: Annotated[str, typer.Option(metavar="N", help=f"The episodes left out, {_NUMBERS}", show_default=False)],
    dry_run: DryRun = False,
) -> None:
    """Write all episodes but some as a new session; the session itself stays as it is.

    Exit status: 0 if it was made, 2 if not.
    """
    cli.shape.delete(session, output, episodes, dry_run)


def split(
    session: SessionFolder,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FOLDER", help="The folder of the new sessions.", show_default=False),
    ],
    train: Annotated[float | None, typer.Option(metavar="SHARE", help="Share of the part called train.")] = None,
    val: Annotated[float | None, typer.Option(metavar="SHARE", help="Share of the part called val.")] = None,
    test: Annotated[float | None, typer.Option(metavar="SHARE", help="Share of the part called test.")] = None,
    part: Annotated[
        list[str] | None, typer.Option(metavar="NAME=SHARE", help="A part of another name. Repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Another one shares the episodes out in another way.")] = 0,
    by_task: Annotated[bool, typer.Option("--by-task", help="Give every part its share of each task.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Share the episodes out among new sessions, such as one to train on and one to test with.

    Exit status: 0 if they were made, 2 if not.
    """
    cli.shape.split(session, output, {"train": train, "val": val, "test": test}, part or [], seed, by_task, dry_run)


def rename_task(
    session: SessionFolder,
    old: Annotated[str, typer.Argument(help="The task's description.", show_default=False)],
    new: Annotated[str, typer.Argument(help="What it becomes; of a task that is there, the two unite.")],
    output: Output,
    dry_run: DryRun = False,
) -> None:
    """Write the episodes as a new session in which a task has another description.

    Exit status: 0 if it was made, 2 if not.
    """
    cli.shape.rename_task(session, output, old, new, dry_run)


def trim(
    session: SessionFolder,
    output: Output,
    start: Annotated[int, typer.Option(metavar="TICKS", min=0, help="Ticks cut off at the beginning.")] = 0,
    end: Annotated[int, typer.Option(metavar="TICKS", min=0, help="Ticks cut off at the end.")] = 0,
    episodes: Annotated[
        str | None, typer.Option(metavar="N", help=f"The episodes that are trimmed, {_NUMBERS} The others stay whole.")
    ] = None,
    snap: Annotated[bool, typer.Option("--snap", help="Begin at the nearest tick that every video allows.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Write the episodes as a new session without some rows at their ends, and without the frames of these.

    Exit status: 0 if it was made, 2 if not: videos are not encoded again, so not every beginning will do.
    """
    cli.shape.trim(session, output, start, end, episodes, snap, dry_run)
