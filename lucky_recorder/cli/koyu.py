"""Checking, indexing and describing a koyu dataset."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from lucky_recorder.cli.checksum import described, told
from lucky_recorder.cli.console import Bytes, show, table
from lucky_recorder.cli.exits import refuse_faults, refuse_shallow
from lucky_recorder.cli.lines import say
from lucky_recorder.errors import shown
from lucky_recorder.koyu.check import inspect_koyu
from lucky_recorder.koyu.manifest import rebuild
from lucky_recorder.koyu.reader import Dataset
from lucky_recorder.koyu.recovery import sweep_dead
from lucky_recorder.koyu.sums import sums_of
from lucky_recorder.storage.untrusted import Folder


def check(dataset: Path, decode: bool = True, is_deep: bool = False) -> None:
    """Verify everything in a dataset, and print each fault.

    Raises:
        FormatError: If the folder is no dataset.
        SettingsError: If it is to be deep, and not to decode.
        typer.Exit: If there are faults, with status 1.
    """
    refuse_shallow(decode, is_deep)
    with Bytes() as bar:
        report = inspect_koyu(dataset, decode, is_deep, bar.tell)
    refuse_faults(report.faults, dataset)
    verb = "checked" if decode else "counted"
    summed = told(sums_of(Folder(dataset, "dataset")))
    say(f"ok: {report.episodes} episodes, {report.rows} rows, {report.frames} frames {verb}{summed}")


def index(dataset: Path) -> None:
    """Write ``manifest.json`` anew, from the bundles alone.

    Raises:
        LuckyRecorderError: If the folder is no dataset, or cannot be written.
    """
    manifest = rebuild(dataset)
    sweep_dead(dataset)
    say(f"ok: {manifest['episode_count']} episodes in {dataset / 'manifest.json'}")


def info(dataset: Path) -> None:
    """Show what a dataset holds, as its manifest has it.

    Raises:
        FormatError: If the folder is no dataset.
    """
    opened = Dataset(dataset)
    tables = (
        table(("", "dataset"), _overview(opened).items()),
        table(("feature", "shape"), ((key, "x".join(map(str, f.shape))) for key, f in opened.features.items())),
        table(("task", "description", "episodes"), _tasks(opened)),
    )
    show(*(one for one in tables if one.row_count))


def _overview(dataset: Dataset) -> dict[str, object]:
    manifest = dataset.manifest
    rate, reward = manifest.get("success_rate"), manifest.get("mean_reward")
    return {
        "path": dataset.path,
        "name": manifest.get("name", "-"),
        "id": manifest.get("id", "-"),
        "type": manifest.get("type", "-"),
        "rate": f"{manifest.get('fps', '-')} Hz",
        "episodes": len(dataset.episodes),
        "rows": len(dataset),
        "checksums": described(sums_of(Folder(dataset.path, "dataset"))),
        "success rate": _number(rate, ".0%"),
        "mean reward": _number(reward, ".3g"),
    }


def _number(value: object, form: str) -> str:
    """Write a number of a manifest's; what is none, or none of a float, as it stands there."""
    try:
        return format(value, form) if isinstance(value, int | float) else "-"
    except OverflowError:
        return shown(value)


def _tasks(dataset: Dataset) -> list[tuple[object, ...]]:
    counts = Counter((entry.task, entry.task_description) for entry in dataset.episodes)
    return [(*task, count) for task, count in counts.items()]
