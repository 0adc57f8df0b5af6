"""``lucky-recorder convert``: a session as a koyu dataset, and a koyu dataset as a session."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder import cli


def convert(
    source: Annotated[Path, typer.Argument(help="A session's folder, or a dataset's.", show_default=False)],
    koyu: Annotated[
        Path | None, typer.Option(metavar="DATASET", help="Write the session's episodes as bundles of this dataset.")
    ] = None,
    session: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the dataset's bundles as this session, a new folder.")
    ] = None,
    collection_mode: Annotated[
        str, typer.Option(metavar="MODE", help="With --koyu: teleop, eval, intervention or synthetic.")
    ] = "synthetic",
) -> None:
    """Convert a session to koyu bundles, or back; videos are linked, not encoded again. Check what was made.

    Exit status: 0 for a good result, 1 if it has faults, 2 if it cannot be converted.
    """
    cli.convert.convert(source, koyu, session, collection_mode)
