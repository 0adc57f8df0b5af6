"""``lucky-recorder bench``: what recording costs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder import cli


def bench(
    groups: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...",
            help="What to measure: stepping, drawing, waiting, encoding, committing, reading; all of it by default.",
            show_default=False,
        ),
    ] = None,
    pairs: Annotated[
        int, typer.Option(min=1, help="How often what is compared takes turns; more is surer, and takes longer.")
    ] = 6,
    output_dir: Annotated[Path, typer.Option(help="A folder on the disk that is to be measured.")] = Path(),
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Measure what recording costs on this machine, and compare it with the goals. Takes a minute or two.

    Let nothing else run meanwhile. Costs are of CPU time, and compared in turns, but a busy machine makes them larger.

    Exit status: 0, also where a goal is missed.
    """
    cli.bench.bench(groups or [], pairs, output_dir, json)
