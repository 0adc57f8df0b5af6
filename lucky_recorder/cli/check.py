"""``lucky-recorder check``: verify a session against the format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lucky_recorder.cli.console import say, stopping

if TYPE_CHECKING:
    from lucky_recorder.session.check import Report


def check(
    session: Annotated[Path, typer.Argument(help="The session's folder.", show_default=False)],
    decode: Annotated[bool, typer.Option(help="Decode every video frame, or only count them.")] = True,
) -> None:
    """Verify everything in a session; print each fault with its file and episode.

    Exit status: 0 for a good session, 1 if there are faults, 2 if the folder is no session.
    """
    from lucky_recorder.session.check import inspect_session

    with stopping():
        report = inspect_session(session, decode)
    for file, episode, message in report.faults:
        say(f"{file}{'' if episode is None else f' (episode {episode})'}: {message}")
    if report.faults:
        say(f"{len(report.faults)} faults in {session}", error=True)
        raise typer.Exit(1)
    say(_summary(report, "checked" if decode else "counted"))


def _summary(report: Report, verb: str) -> str:
    frames = f"{report.frames} frames {verb}"
    if report.is_video_only:
        return f"ok: video only, {frames}"
    return f"ok: {report.episodes} episodes, {report.rows} rows, {frames}"
