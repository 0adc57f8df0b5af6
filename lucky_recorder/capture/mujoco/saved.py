"""A model as a file."""

from __future__ import annotations

import mujoco
import numpy as np

# MuJoCo's own binary format. An XML holds what was compiled last, and not what has become of a model since.
SUFFIX = ".mjb"


def model_bytes(model: mujoco.MjModel) -> bytes:
    """Return the bytes of an MJB file, which MuJoCo of the same version reads: the same ones for the same model."""
    content = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, content)
    return content.tobytes()
