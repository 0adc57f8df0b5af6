"""A run with a recorder is the run without one, bit by bit, whatever is recorded."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.scenarios.undisturbed import ENVS, is_undisturbed


@pytest.fixture(autouse=True)
def no_viewer_is_left() -> None:
    """Have gymnasium's viewers freed that earlier tests dropped: see `test_reproducible`."""
    gc.collect()


# Of two episodes together: what differs at all differs in the step in which it was disturbed. Long ones, and pictures
# at every step, are the soak's: `python -m tests.soak.undisturbed`.
STEPS = 120


@pytest.mark.parametrize("env_id", ENVS)
@pytest.mark.filterwarnings("ignore:.*")
def test_every_environment_goes_on_as_if_nobody_looked(env_id: str, tmp_path: Path) -> None:
    is_undisturbed(env_id, tmp_path, 32, ["every stream, and states", "rows", "states"], STEPS)
