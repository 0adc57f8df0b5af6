"""Converting a session to a koyu dataset, and back; what was made is checked."""

from __future__ import annotations

import warnings
from pathlib import Path

from lucky_recorder.cli.check import check
from lucky_recorder.cli.koyu import check as check_dataset
from lucky_recorder.cli.lines import say
from lucky_recorder.edit.convert import koyu_to_session, session_to_koyu
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings.koyu import KoyuSettings


def convert(source: Path, dataset: Path | None, session: Path | None, collection_mode: str) -> None:
    """Convert a session to a dataset, or a dataset to a session: whichever of the two is to be made is named.

    Raises:
        SettingsError: If both are named, or none.
        LuckyRecorderError: If it cannot be converted.
        typer.Exit: If what was made has faults.
    """
    if dataset is not None and session is None:
        _to_koyu(source, dataset, collection_mode)
    elif session is not None and dataset is None:
        made = koyu_to_session(source, session)
        for key in made.left_out:
            say(f"left out: {key}: only some of the bundles have it", error=True)
        check(made.path)
    else:
        raise SettingsError("convert: give --koyu DATASET for a session, or --session FOLDER for a koyu dataset")


def _to_koyu(source: Path, dataset: Path, collection_mode: str) -> None:
    path = dataset.absolute()
    settings = KoyuSettings(name=path.name, path=path, collection_mode=collection_mode)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        done = session_to_koyu(source, settings)
    for warning in told:
        say(warning.message, error=True)
    if done.skipped:
        say(f"{done.skipped} episodes left out: one of their streams has failed and left no video", error=True)
    check_dataset(done.path)
