"""Every verb in any order, for long: machines that drive a recorder against a small model of it.

    python -m tests.soak.machine --seed 1 --examples 2000

They are run in rounds of 100 examples, and each round prints its seed: ``--seed SEED --examples 100`` repeats that one.
What goes wrong is made as small as it can be, and printed as the calls that lead there.
"""

from __future__ import annotations

import argparse
import logging
import os
import random

os.environ.setdefault("MUJOCO_GL", "egl")

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.scenarios.any_order.machine import AnyOrder
from tests.scenarios.any_order.observing import ObserverInAnyOrder
from tests.scenarios.any_order.wrapping import WrapperInAnyOrder

MACHINES: dict[str, type[AnyOrder]] = {"Observer": ObserverInAnyOrder, "RecordSession": WrapperInAnyOrder}
ROUND = 100


def drive(machine: type[AnyOrder], examples: int, seed: int, calls: int = 30) -> None:
    """Run a machine.

    Args:
        machine: The machine.
        examples: How many times.
        seed: Says what is drawn.
        calls: How many rules to a run, at most.
    """
    run_state_machine_as_test(
        hypothesis.seed(seed)(type(machine.__name__, (machine,), {})),
        settings=settings(
            max_examples=examples,
            stateful_step_count=calls,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )


def main() -> None:
    """Run every machine, round after round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--examples", type=int, default=2000)
    asked = parser.parse_args()
    logging.disable(logging.WARNING)
    for seed in range(asked.seed, asked.seed + -(-asked.examples // ROUND)):
        for name, machine in MACHINES.items():
            print(f"any order of calls: {name}, seed {seed}, {ROUND} examples", flush=True)
            drive(machine, min(ROUND, asked.examples), seed, calls=50)


if __name__ == "__main__":
    main()
