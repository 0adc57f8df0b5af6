"""A LeRobot policy, in the form that `lucky_recorder.evaluate` runs. lerobot must be installed; it is no dependency."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_recorder.episode import keys
from lucky_recorder.errors import SettingsError


def lerobot_policy(checkpoint: str | Path, device: str = "cpu") -> LeRobotPolicy:
    """Load a LeRobot policy with its own normalisation.

    It speaks the vector that it was trained on, the ``action`` column: ``evaluate(..., action="actuators")``.

    Args:
        checkpoint: The folder of a pretrained model (``.../pretrained_model``), or its name on the Hugging Face hub.
        device: Where it runs, such as ``cpu`` or ``cuda``.

    Raises:
        SettingsError: If lerobot is not installed, or cannot load the checkpoint.
    """
    try:
        torch: Any = importlib.import_module("torch")
        configs: Any = importlib.import_module("lerobot.configs.policies")
        factory: Any = importlib.import_module("lerobot.policies.factory")
    except ImportError as error:
        remedy = f"lerobot 0.4 or later is needed, and cannot be imported ({error}); pip install lerobot"
        raise SettingsError.of("checkpoint", str(checkpoint), remedy) from error
    try:
        # The device is set in two places: a checkpoint names the one it was trained on with the policy, and again with
        # the steps that prepare the policy's input.
        config = configs.PreTrainedConfig.from_pretrained(str(checkpoint))
        config.device = device
        policy = factory.get_policy_class(config.type).from_pretrained(str(checkpoint), config=config)
        overrides = {"device_processor": {"device": device}}
        before, after = factory.make_pre_post_processors(
            policy.config, pretrained_path=str(checkpoint), preprocessor_overrides=overrides
        )
    except Exception as error:  # whatever a model's own code raises
        remedy = f"lerobot cannot load it ({type(error).__name__}: {error})"
        raise SettingsError.of("checkpoint", str(checkpoint), remedy) from error
    policy.to(device).eval()
    return LeRobotPolicy(torch, policy, before, after)


class LeRobotPolicy:
    """A policy that has been loaded; make it with `lerobot_policy`."""

    def __init__(self, torch: Any, policy: Any, before: Any, after: Any) -> None:
        self._torch = torch
        self._policy = policy
        self._before = before
        self._after = after

    def reset(self) -> None:
        """Forget the chunk that it is carrying out."""
        self._policy.reset()

    def __call__(self, observation: dict[str, Any]) -> NDArray[np.float32]:
        """Return the action for an observation, float32, shape ``(n,)``."""
        with self._torch.inference_mode():
            action = self._after(self._policy.select_action(self._before(self._batch(observation))))
        array: NDArray[np.float32] = np.asarray(action.detach().cpu().numpy(), np.float32)
        return array.reshape(array.shape[-1])

    def _batch(self, observation: dict[str, Any]) -> dict[str, Any]:
        """Return an observation as LeRobot's data sets give it: a batch of one, pictures channels first, 0 to 1."""
        batch: dict[str, Any] = {"task": [observation["task_description"]]}
        for key, value in observation.items():
            if key.startswith(keys.IMAGES):
                pixels = np.ascontiguousarray(value.transpose(2, 0, 1))[None]
                batch[key] = self._torch.from_numpy(pixels).float() / 255
            elif key.startswith(keys.OBSERVED) and np.asarray(value).dtype.kind in "biuf":
                batch[key] = self._torch.from_numpy(np.asarray(value, np.float32)[None])
        return batch
