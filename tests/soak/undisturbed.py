"""Every environment with every stream at every step, for long: is the run with a recorder the run without one?

    python -m tests.soak.undisturbed [ENVIRONMENT ...]

300 steps of each of Gymnasium's MuJoCo environments and ours, at 64 x 64 pixels, in every way to record that there is.
Nothing in it is left to chance, so there is no seed.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

from tests.scenarios.undisturbed import ENVS, RECORDINGS, is_undisturbed


def main() -> int:
    """Compare them one after another; returns how many differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environments", nargs="*", default=ENVS)
    differing = []
    logging.disable(logging.WARNING)
    # What old models and noisy actions make others warn of.
    warnings.simplefilter("ignore")
    for env_id in parser.parse_args().environments:
        # See `test_reproducible`: a viewer that was dropped must be gone before another one draws.
        gc.collect()
        with tempfile.TemporaryDirectory() as folder:
            try:
                is_undisturbed(env_id, Path(folder), 64, list(RECORDINGS))
            except AssertionError as error:
                differing.append(env_id)
                print(f"{env_id}: {error}", flush=True)
            else:
                print(f"{env_id}: the same, bit by bit, recorded in {len(RECORDINGS)} ways", flush=True)
    print(f"{len(differing)} environments were disturbed")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
