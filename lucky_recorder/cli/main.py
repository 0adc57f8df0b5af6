"""The command line: one small file per command, imported light; what is heavy is imported when a command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from lucky_recorder.cli.check import check
from lucky_recorder.cli.convert import convert
from lucky_recorder.cli.demo import demo
from lucky_recorder.cli.doctor import doctor
from lucky_recorder.cli.eval import evaluate
from lucky_recorder.cli.info import info
from lucky_recorder.cli.koyu import koyu
from lucky_recorder.cli.lerobot import lerobot
from lucky_recorder.cli.record import record
from lucky_recorder.cli.view import view
from lucky_recorder.version import __version__

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


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


for command in (demo, record, info, check, lerobot, convert, view, doctor):
    app.command()(command)
app.command("eval")(evaluate)
app.add_typer(koyu, name="koyu")
