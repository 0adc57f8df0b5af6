"""``lucky-recorder doctor``: what this machine lacks for a recording with cameras."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lucky_recorder.cli.console import say

if TYPE_CHECKING:
    from lucky_recorder.doctor.machine import Finding


def doctor(
    output_dir: Annotated[Path, typer.Option(help="Where sessions are to be written.")] = Path(),
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look at what a recording with cameras needs here: OpenGL, codecs, libraries, the disk; say what mends it.

    Exit status: 0 if a recording with cameras will work, else 1.
    """
    from lucky_recorder.doctor import machine as examination

    findings = examination.examine(output_dir)
    is_ready = examination.is_ready(findings)
    if json:
        _show_json(findings, is_ready)
    else:
        _show(findings, is_ready)
    raise typer.Exit(0 if is_ready else 1)


def _show_json(findings: list[Finding], is_ready: bool) -> None:
    from json import dumps

    typer.echo(dumps({"ready": is_ready, "findings": [f._asdict() for f in findings]}, indent=4))


def _show(findings: list[Finding], is_ready: bool) -> None:
    for finding in findings:
        say(f"{_verdict(finding):9} {finding.name:17} {finding.detail}")
        if finding.remedy:
            say(f"{'':27} -> {finding.remedy}")
    if is_ready:
        say("ok: a recording with cameras will work here")
    else:
        say("a recording with cameras will not work here; mend what is missing", error=True)


def _verdict(finding: Finding) -> str:
    """What is missing but not needed must not look like a fault."""
    return "optional" if finding.status == "missing" and not finding.needed else finding.status
