"""``lucky-recorder convert``: a session as a koyu dataset, and a koyu dataset as a session."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lucky_recorder.cli.check import check
from lucky_recorder.cli.console import say, stopping
from lucky_recorder.errors import SettingsError


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
    with stopping():
        if (koyu is None) == (session is None):
            raise SettingsError("convert: give --koyu DATASET for a session, or --session FOLDER for a koyu dataset")
        if koyu is not None:
            return _to_koyu(source, koyu, collection_mode)
        assert session is not None
        _to_session(source, session)


def _to_koyu(source: Path, dataset: Path, collection_mode: str) -> None:
    from lucky_recorder.cli.koyu import check as check_dataset
    from lucky_recorder.edit.convert import session_to_koyu
    from lucky_recorder.settings.koyu import KoyuSettings

    path = dataset.absolute()
    done = session_to_koyu(source, KoyuSettings(name=path.name, path=path, collection_mode=collection_mode))
    if done.skipped:
        say(f"{done.skipped} episodes left out: one of their streams has failed and left no video", error=True)
    check_dataset(done.path)


def _to_session(source: Path, session: Path) -> None:
    from lucky_recorder.edit.convert import koyu_to_session

    check(koyu_to_session(source, session).path)
