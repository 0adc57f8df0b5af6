from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.session.breaking import FRONT, STATS, Edit


def entry(name: str, **fields: Any) -> Callable[[dict], None]:
    return lambda stats: stats[name].update(fields)


def nudged(name: str, field: str, factor: float) -> Callable[[dict], None]:
    def change(stats: dict) -> None:
        stats[name][field][1] *= factor

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *[(nudged("action", field, 1 + 3e-9), f"action: {field}[1] is") for field in ("min", "max", "std")],
        (nudged("action", "mean", 1.001), "action: mean[1] is"),
        (entry("action", count=[67]), "action: count is [67], expected [68]"),
        (entry("action", count=68), "action: count is 68, expected a list"),
        (entry("action", min=[0.0]), "action: min is [0.0], expected finite numbers of shape [3]"),
        (entry("action", std=[0.1, "a", 0.2]), "action: std is"),
        (entry("action", std=[0.1, None, 0.2]), "action: std is"),
        (entry("action", std=[0.1, 10**400, 0.2]), "action: std is"),
        (entry("action", q50=[99.0, 0, 0]), "action: q50 is [99.0, 0, 0], not between min and max"),
        (entry("action", q01=[0.5, 0.5, 0.5], q10=[0.1, 0.1, 0.1]), "action: its quantiles are not in order"),
        (lambda stats: stats["action"].pop("mean"), "action: mean is missing"),
        (lambda stats: stats.pop("observation.state"), "observation.state: has no entry"),
        (lambda stats: stats.pop(FRONT), f"{FRONT}: has no entry"),
        (lambda stats: stats.update(index={}), "index: has an entry, and is no column"),
        (lambda stats: stats.update(other={}), "other: has an entry, and is no column"),
        (lambda stats: stats.update(action=[]), "action: is [], expected an object"),
        (entry(FRONT, max=[[[255]], [[255]], [[255]]]), f"{FRONT}: max is"),
        (entry(FRONT, mean=[0.1, 0.2, 0.3]), f"{FRONT}: mean is [0.1, 0.2, 0.3], expected finite"),
        (entry(FRONT, mean=[[[0.9]], [[0.9]], [[0.9]]]), f"{FRONT}: mean is [[[0.9]], [[0.9]], [[0.9]]], not between"),
        (entry(FRONT, count=[-1]), f"{FRONT}: count is [-1]"),
    ],
)
def test_every_wrong_statistic_is_a_fault(edit: Edit, change: Callable, message: str) -> None:
    faults = edit(STATS, change)
    assert any(f.file == STATS and f.message.startswith(message) for f in faults), faults


def test_quantiles_may_be_left_out(edit: Edit) -> None:
    assert edit(STATS, lambda stats: [stats["action"].pop(q) for q in ("q01", "q10", "q50", "q90", "q99")]) == []
