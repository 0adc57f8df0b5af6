"""Telling what the doctor found, to a person or to a program."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from lucky_recorder.cli.lines import say
from lucky_recorder.doctor import machine
from lucky_recorder.doctor.machine import Finding


def doctor(output_dir: Path, as_json: bool) -> None:
    """Look at this machine and tell what was found.

    Raises:
        typer.Exit: Always: with status 0 if a recording with cameras will work, else 1.
    """
    findings = machine.examine(output_dir)
    is_ready = machine.is_ready(findings)
    if as_json:
        typer.echo(json.dumps({"ready": is_ready, "findings": [f._asdict() for f in findings]}, indent=4))
    else:
        _tell(findings, is_ready)
    raise typer.Exit(0 if is_ready else 1)


def _tell(findings: list[Finding], is_ready: bool) -> None:
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
