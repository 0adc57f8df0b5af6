"""Recording what was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lucky_recorder.cli.recording import merge, plan_of, record_plan


def record(config: Path | None, options: Mapping[str, Any], episodes: int, allow_code: bool = False) -> None:
    """Record what a settings file and the options on top of it ask for.

    Args:
        config: A TOML file: fields of `RecorderSettings`, and ``env``, ``episodes``, ``policy``, ``fail`` and
            ``workers``.
        options: The same by name; None where it was not given.
        episodes: Episodes to keep if neither says it.
        allow_code: Whether the file may name code.

    Raises:
        LuckyRecorderError: If it cannot be recorded.
        typer.Exit: If it was interrupted, or the session has faults.
    """
    asked = {"episodes": episodes, **merge(config, options, allow_code)}
    record_plan(plan_of(asked, ("env", "episodes", "policy", "fail", "workers")))
