"""A model as a file, written and read back."""

from __future__ import annotations

import mujoco
import numpy as np

from lucky_recorder.errors import FormatError

# MuJoCo's own binary format. An XML holds what was compiled last, and not what has become of a model since.
SUFFIX = ".mjb"
_MODEL = f"model{SUFFIX}"


def model_bytes(model: mujoco.MjModel) -> bytes:
    """Return the bytes of an MJB file, which MuJoCo of the same version reads: the same ones for the same model."""
    content = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, content)
    return content.tobytes()


def model_of(content: bytes, version: str) -> mujoco.MjModel:
    """Return the model that an MJB file holds. MuJoCo trusts such a file.

    Args:
        content: The file's bytes.
        version: The version of MuJoCo that wrote it, for the error.

    Raises:
        FormatError: If this version does not read it; names the one that does.
    """
    try:
        return mujoco.MjModel.from_binary_path(_MODEL, {_MODEL: content})
    except (ValueError, mujoco.FatalError) as error:
        raise FormatError(
            f"the model of MuJoCo {version} cannot be read by {mujoco.__version__} ({error}); "
            f"install mujoco=={version}, which reads it"
        ) from error
