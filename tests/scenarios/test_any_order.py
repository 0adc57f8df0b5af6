"""Every verb in any order, with failures in between: what is on the disk is what a small model says."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.scenarios.any_order.observing import ObserverInAnyOrder

# The same examples every time. The long runs, `python -m tests.soak.machine`, draw others.
EXAMPLES = int(os.environ.get("LUCKY_RECORDER_EXAMPLES", "12"))
MACHINES = [ObserverInAnyOrder]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_files_hold_what_the_books_say(machine: type) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=30,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
