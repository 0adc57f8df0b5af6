"""What others have simulated, in MJX, robomimic's files and Minari's datasets: the functions that the manual shows."""

from __future__ import annotations

import home

home.run_at_home("trajectories", "mujoco-mjx", "jax[cpu]", "h5py", "minari[create,hdf5]", "imageio", "pytest>=8.3")

from pathlib import Path  # noqa: E402

import pytest  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
status = pytest.main([str(ROOT / "tests/interop/test_trajectories.py"), "-q", "-rs", "-p", "no:cacheprovider"])
assert status == 0, status
print("Trajectories of others are recorded.")
