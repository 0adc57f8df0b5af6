"""The command line's entry: which commands there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from lucky_recorder.cli.commands import koyu
from lucky_recorder.cli.commands.bench import bench
from lucky_recorder.cli.commands.check import check
from lucky_recorder.cli.commands.checksum import checksum
from lucky_recorder.cli.commands.convert import convert
from lucky_recorder.cli.commands.demo import demo
from lucky_recorder.cli.commands.doctor import doctor
from lucky_recorder.cli.commands.eval import evaluate
from lucky_recorder.cli.commands.info import info
from lucky_recorder.cli.commands.lerobot import lerobot
from lucky_recorder.cli.commands.record import record
from lucky_recorder.cli.commands.recover import recover
from lucky_recorder.cli.commands.remake import remake
from lucky_recorder.cli.commands.render import render
from lucky_recorder.cli.commands.replay import replay
from lucky_recorder.cli.commands.shape import delete, merge, rename_task, select, split, trim
from lucky_recorder.cli.commands.view import view
from lucky_recorder.cli.exits import stopping
from lucky_recorder.version import __version__

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
koyu_app = typer.Typer(no_args_is_help=True, help="Check, index and describe a koyu dataset.")


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"lucky-recorder {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Records Gymnasium and MuJoCo simulations as robot-learning data, and reads it back."""


def _add(group: typer.Typer, **commands: Callable[..., None]) -> None:
    """Add commands to a group, by name, in the order that its help shows them."""
    # The decorator keeps a command's signature and docstring: typer reads the options and the help from them.
    for name, command in commands.items():
        group.command(name)(stopping()(command))


_add(app, demo=demo, record=record, info=info, check=check, checksum=checksum, recover=recover)
_add(app, merge=merge, select=select, delete=delete, split=split, **{"rename-task": rename_task}, trim=trim)
_add(app, lerobot=lerobot, convert=convert, view=view, doctor=doctor, bench=bench, eval=evaluate)
_add(app, remake=remake, replay=replay, render=render)
_add(koyu_app, check=koyu.check, index=koyu.index, info=koyu.info)
app.add_typer(koyu_app, name="koyu")
