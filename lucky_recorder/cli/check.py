"""``lucky-recorder check``: verify a session against the format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lucky_recorder.cli.console import say, stopping

if TYPE_CHECKING:
    from lucky_recorder.session.checks.session import Report


def check(
    session: Annotated[Path, typer.Argument(help="The session's folder.", show_default=False)],
    decode: Annotated[bool, typer.Option(help="Decode every video frame, or only count them.")] = True,
    lerobot: Annotated[bool, typer.Option("--lerobot", help="Tell instead whether LeRobot opens it as it is.")] = False,
) -> None:
    """Verify everything in a session; print each fault with its file and episode.

    Exit status: 0 for a good session, 1 if there are faults, 2 if the folder is no session.
    """
    if lerobot:
        return _check_lerobot(session)
    from lucky_recorder.session.checks.session import inspect_session

    with stopping():
        report = inspect_session(session, decode)
    for file, episode, message in report.faults:
        say(f"{file}{'' if episode is None else f' (episode {episode})'}: {message}")
    if report.faults:
        count = len(report.faults)
        say(f"{count} {'fault' if count == 1 else 'faults'} in {session}", error=True)
        raise typer.Exit(1)
    say(_summary(report, "checked" if decode else "counted"))


def _check_lerobot(session: Path) -> None:
    from lucky_recorder.lerobot.rules import check_lerobot

    with stopping():
        broken = check_lerobot(session)
    files: dict[tuple[int, str, str], list[str]] = {}
    for rule, file, message, remedy in broken:
        files.setdefault((rule, message, remedy), []).append(file)
    for (rule, message, remedy), (first, *others) in files.items():
        also = f" and {len(others)} other files" if others else ""
        say(f"rule {rule}: {first}{also}: {message}; {remedy}")
    if broken:
        say(f"LeRobot does not open {session} as it is, or would read it wrong", error=True)
        raise typer.Exit(1)
    say("ok: LeRobot opens it as it is")


def _summary(report: Report, verb: str) -> str:
    frames = f"{report.frames} frames {verb}"
    if report.is_video_only:
        return f"ok: video only, {frames}"
    return f"ok: {report.episodes} episodes, {report.rows} rows, {frames}"
