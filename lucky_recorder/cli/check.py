"""Checking a session, and printing its faults."""

from __future__ import annotations

from pathlib import Path

import typer

from lucky_recorder.cli.exits import FAULTY, refuse_faults
from lucky_recorder.cli.lines import say
from lucky_recorder.lerobot.rules import check_lerobot
from lucky_recorder.session.check import Fault, Report, inspect_session


def check(session: Path, decode: bool = True) -> None:
    """Verify everything in a session, and print each fault.

    Raises:
        FormatError: If the folder is no session.
        typer.Exit: If there are faults, with status 1.
    """
    report = inspect_session(session, decode)
    if report.is_in_progress:
        say("it is being recorded: what is not listed or not complete yet is told, and will be")
    refuse_faults(map(_told, report.faults), session)
    say(_summary(report, "checked" if decode else "counted"))


def check_for_lerobot(session: Path) -> None:
    """Tell whether LeRobot opens a session as it is, and what to do where it does not.

    Raises:
        FormatError: If the folder is no session.
        typer.Exit: If LeRobot does not open it, with status 1.
    """
    broken = check_lerobot(session)
    files: dict[tuple[int, str, str], list[str]] = {}
    for rule, file, message, remedy in broken:
        files.setdefault((rule, message, remedy), []).append(file)
    for (rule, message, remedy), (first, *others) in files.items():
        also = f" and {len(others)} other files" if others else ""
        say(f"rule {rule}: {first}{also}: {message}; {remedy}")
    if broken:
        say(f"LeRobot does not open {session} as it is, or would read it wrong", error=True)
        raise typer.Exit(FAULTY)
    say("ok: LeRobot opens it as it is")


def _told(fault: Fault) -> str:
    return f"{fault.file}{'' if fault.episode is None else f' (episode {fault.episode})'}: {fault.message}"


def _summary(report: Report, verb: str) -> str:
    frames = f"{report.frames} frames {verb}"
    if report.is_video_only:
        return f"ok: video only, {frames}"
    return f"ok: {report.episodes} episodes, {report.rows} rows, {frames}"
