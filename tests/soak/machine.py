"""Every verb in any order, for long: machines that drive a recorder against a small model of it.

    python -m tests.soak.machine --seed 1 --first 0 --count 20

Each number is a round of 100 examples of each machine. What goes wrong is made smaller for a minute at most,
and printed as the calls that lead there.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
from collections import Counter
from unittest import mock

os.environ.setdefault("MUJOCO_GL", "egl")

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.scenarios.any_order.machine import AnyOrder
from tests.scenarios.any_order.observing import ObserverInAnyOrder
from tests.scenarios.any_order.vectoring import VectorInAnyOrder
from tests.scenarios.any_order.wrapping import WrapperInAnyOrder
from tests.soak.figures import tell

MACHINES: dict[str, type[AnyOrder]] = {
    "Observer": ObserverInAnyOrder,
    "RecordSession": WrapperInAnyOrder,
    "VectorRecordSession": VectorInAnyOrder,
}
ROUND = 100
# What goes wrong is made smaller for no longer than this, seconds: it is readable long before it is as small as it can
# be. Hypothesis has no setting for it; where it has another name, it takes its own time.
SHRINKS = 60
_LONGEST = "hypothesis.internal.conjecture.engine.MAX_SHRINKING_SECONDS"


def drive(machine: type[AnyOrder], examples: int, seed: int, calls: int = 30) -> None:
    """Run a machine.

    Args:
        machine: The machine.
        examples: How many times.
        seed: Says what is drawn.
        calls: How many rules to a run, at most.
    """
    with mock.patch(_LONGEST, SHRINKS, create=True):
        run_state_machine_as_test(
            hypothesis.seed(seed)(type(machine.__name__, (machine,), {})),
            settings=settings(
                max_examples=examples,
                stateful_step_count=calls,
                deadline=None,
                database=None,
                phases=[Phase.generate, Phase.shrink],
                # Each is made smaller in its turn; the first that is told of is mended first.
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )


def main() -> int:
    """Run every machine, round after round."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--first", type=int, default=0)
    asked.add_argument("--count", type=int, default=20, help="how many rounds")
    given = asked.parse_args()
    logging.disable(logging.WARNING)
    figures: Counter[str] = Counter()
    for number in range(given.first, given.first + given.count):
        for name, machine in MACHINES.items():
            try:
                drive(machine, ROUND, 1000 * given.seed + number, calls=50)
            except (Exception, pytest.fail.Exception):
                figures["wrong"] += 1
                print(f"round {number} of seed {given.seed}, {name}:\n{traceback.format_exc()}", flush=True)
            else:
                figures[f"runs of {name}, up to 50 calls each"] += ROUND
    return tell(figures)


if __name__ == "__main__":
    sys.exit(main())
