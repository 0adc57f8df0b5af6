"""Checking sessions and datasets, and printing their faults."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from lucky_recorder.cli.checksum import told
from lucky_recorder.cli.console import Bytes
from lucky_recorder.cli.exits import FAULTY, refuse_faults, refuse_shallow
from lucky_recorder.cli.koyu import check as check_dataset
from lucky_recorder.cli.lines import say
from lucky_recorder.koyu.recovery import is_dataset
from lucky_recorder.lerobot.rules import check_lerobot
from lucky_recorder.session import rowless
from lucky_recorder.session.check import Fault, Report, inspect_session
from lucky_recorder.session.layout import CHECKSUMS_PATH, INFO_PATH
from lucky_recorder.storage.checksums import Sums
from lucky_recorder.storage.untrusted import Folder


def check_all(paths: Sequence[Path], decode: bool = True, is_deep: bool = False, workers: int = 1) -> None:
    """Verify everything in sessions and datasets, one after the other.

    Raises:
        FormatError: If a folder is neither; what came before it is told.
        SettingsError: If it is to be deep, and not to decode.
        WorkerDiedError: If one of the processes is ended from outside.
        typer.Exit: If there are faults in one of them, with status 1.
    """
    are_good = [_is_good(path, decode, is_deep, workers, len(paths) > 1) for path in paths]
    if not all(are_good):
        raise typer.Exit(FAULTY)


def _is_good(path: Path, decode: bool, is_deep: bool, workers: int, is_named: bool) -> bool:
    if is_named:
        say(f"{path}:")
    is_koyu = path.is_dir() and not (path / INFO_PATH).exists() and is_dataset(path)
    try:
        if is_koyu:
            check_dataset(path, decode, is_deep)
        else:
            check(path, decode, is_deep, workers)
    except typer.Exit:
        return False
    return True


def check(session: Path, decode: bool = True, is_deep: bool = False, workers: int = 1) -> None:
    """Verify everything in a session, and print each fault.

    Raises:
        FormatError: If the folder is no session.
        SettingsError: If it is to be deep, and not to decode.
        WorkerDiedError: If one of the processes is ended from outside.
        typer.Exit: If there are faults, with status 1.
    """
    refuse_shallow(decode, is_deep)
    with Bytes() as bar:
        report = inspect_session(session, decode, is_deep, bar.tell, workers)
    if report.is_in_progress:
        say("it is being recorded: what is not listed or not complete yet is told, and will be")
    refuse_faults(map(_told, report.faults), session)
    say(_summary(session, report, "checked" if decode else "counted") + told(Sums(Folder(session), CHECKSUMS_PATH)))


def check_for_lerobot(sessions: Sequence[Path]) -> None:
    """Tell whether LeRobot opens sessions as they are, and what to do where it does not.

    Raises:
        FormatError: If a folder is no session.
        typer.Exit: If LeRobot does not open one, with status 1.
    """
    are_good = [_opens_in_lerobot(session) for session in sessions]
    if not all(are_good):
        raise typer.Exit(FAULTY)


def _opens_in_lerobot(session: Path) -> bool:
    broken = check_lerobot(session)
    files: dict[tuple[int, str, str], list[str]] = {}
    for rule, file, message, remedy in broken:
        files.setdefault((rule, message, remedy), []).append(file)
    for (rule, message, remedy), (first, *others) in files.items():
        also = f" and {len(others)} other files" if others else ""
        say(f"rule {rule}: {first}{also}: {message}; {remedy}")
    if broken:
        say(f"LeRobot does not open {session} as it is, or would read it wrong", error=True)
        return False
    say("ok: LeRobot opens it as it is")
    return True


def _told(fault: Fault) -> str:
    return f"{fault.file}{'' if fault.episode is None else f' (episode {fault.episode})'}: {fault.message}"


def _summary(session: Path, report: Report, verb: str) -> str:
    frames = f"{report.frames} frames {verb}"
    if report.is_video_only:
        return f"ok: {rowless.kind(session)}, {frames}"
    return f"ok: {report.episodes} episodes, {report.rows} rows, {frames}"
