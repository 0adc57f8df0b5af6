"""Every verb in any order, with failures in between: what is on the disk is what a small model says."""

from __future__ import annotations

import pytest

from tests.scenarios.any_order.machine import AnyOrder
from tests.soak.machine import MACHINES, drive

EXAMPLES = 40


@pytest.mark.parametrize("name", MACHINES)
def test_the_files_hold_what_the_books_say(name: str) -> None:
    # The same examples every time; the long run draws others: python -m tests.soak.machine.
    machine: type[AnyOrder] = MACHINES[name]
    drive(machine, EXAMPLES, seed=0)
