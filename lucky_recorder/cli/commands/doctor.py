"""``lucky-recorder doctor``: what this machine lacks for a recording with cameras."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder import cli


def doctor(
    output_dir: Annotated[Path, typer.Option(help="Where sessions are to be written.")] = Path(),
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look at what a recording with cameras needs here: OpenGL, codecs, libraries, the disk; say what mends it.

    Exit status: 0 if a recording with cameras will work, else 1.
    """
    cli.doctor.doctor(output_dir, json)
