"""A model as a file, written and read back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np

from lucky_recorder.capture.mujoco.plugins import require_plugins
from lucky_recorder.errors import FormatError, SettingsError

# MuJoCo's own binary format. An XML holds what was compiled last, and not what has become of a model since.
SUFFIX = ".mjb"
_NAME = f"model{SUFFIX}"


def model_bytes(model: mujoco.MjModel) -> bytes:
    """Return the bytes of an MJB file, which MuJoCo of the same version reads: the same ones for the same model."""
    content = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, content)
    return content.tobytes()


def model_of(content: bytes, version: str, plugins: Sequence[str | None] = ()) -> mujoco.MjModel:
    """Return the model of an MJB file's bytes. MuJoCo trusts such a file.

    Args:
        content: The bytes.
        version: The version of MuJoCo that wrote them.
        plugins: The names of its plugins, as they were when it was written; None where one is not known.

    Raises:
        FormatError: If MuJoCo does not read it, or its plugins are not registered here at the places where they were.
    """
    try:
        model = mujoco.MjModel.from_binary_path(_NAME, {_NAME: content})
    except (ValueError, mujoco.FatalError) as error:
        raise unreadable(version, error) from error
    # Before there are data: of what is registered in a plugin's place, MuJoCo would run the code.
    require_plugins(model, plugins)
    return model


def unreadable(version: str, error: Exception) -> FormatError:
    """Return the error that says why MuJoCo does not read a model, and what to do."""
    remedy = f"install mujoco=={version}, which reads it"
    if version == mujoco.__version__:
        remedy = "that is the version that wrote it, so the model is broken"
    return FormatError(f"the model of MuJoCo {version} cannot be read by {mujoco.__version__} ({error}); {remedy}")


def read_model(path: Path) -> mujoco.MjModel:
    """Read a model from an XML or MJB file.

    Raises:
        SettingsError: If there is none, or MuJoCo does not read it.
    """
    load = mujoco.MjModel.from_binary_path if path.suffix == SUFFIX else mujoco.MjModel.from_xml_path
    try:
        return load(str(path))
    except (ValueError, mujoco.FatalError) as error:
        raise SettingsError.of("model", str(path), f"MuJoCo does not read it: {error}") from error
