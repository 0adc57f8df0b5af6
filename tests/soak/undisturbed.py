"""Every environment with every stream at every step, for long: is the run with a recorder the run without one?

    python -m tests.soak.undisturbed --first 0 --count 3

300 steps of each of Gymnasium's MuJoCo environments and ours, at 64 x 64 pixels, in every way to record that there is.
Nothing in it is left to chance, so the seed changes nothing.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

from tests.scenarios.undisturbed import ENVS, RECORDINGS, is_undisturbed
from tests.soak.figures import tell


def main() -> int:
    """Compare them one after another; returns whether any differs."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--first", type=int, default=0)
    asked.add_argument("--count", type=int, default=len(ENVS), help="how many environments")
    given = asked.parse_args()
    figures: Counter[str] = Counter()
    logging.disable(logging.WARNING)
    # What old models and noisy actions make others warn of.
    warnings.simplefilter("ignore")
    for env_id in ENVS[given.first : given.first + given.count]:
        # See `test_reproducible`: a viewer that was dropped must be gone before another one draws.
        gc.collect()
        with tempfile.TemporaryDirectory() as folder:
            try:
                is_undisturbed(env_id, Path(folder), 64, list(RECORDINGS))
            except AssertionError as error:
                figures["wrong"] += 1
                print(f"{env_id}: {error}", flush=True)
            else:
                figures["runs of 300 steps that are equal, bit by bit"] += len(RECORDINGS)
    return tell(figures)


if __name__ == "__main__":
    sys.exit(main())
