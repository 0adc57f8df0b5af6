"""Recording what was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lucky_recorder.cli.asked import merge
from lucky_recorder.cli.recording import plan_of, record_plan


def record(config: Path | None, options: Mapping[str, Any], episodes: int) -> None:
    """Record what a settings file and the options on top of it ask for.

    Args:
        config: A TOML file: fields of `RecorderSettings`, and ``env``, ``episodes``, ``policy`` and ``fail``.
        options: The same by name; None where it was not given.
        episodes: Episodes to keep if neither says it.

    Raises:
        LuckyRecorderError: If it cannot be recorded.
        typer.Exit: If it was interrupted, or the session has faults.
    """
    asked = {"episodes": episodes, **merge(config, options)}
    record_plan(plan_of(asked, ("env", "episodes", "policy", "fail")))
