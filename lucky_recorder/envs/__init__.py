"""The sample environments: ``LuckyRecorder/PickCube-v0`` and ``LuckyRecorder/TwinArms-v0``.

Importing this package registers them with gymnasium: at once if gymnasium is already imported, else as soon as it
is. The import itself loads neither gymnasium nor MuJoCo.
"""

from __future__ import annotations

from lucky_recorder.envs.registration import register, register_when_imported
from lucky_recorder.envs.scenes import scene_path

__all__ = ["register", "register_when_imported", "scene_path"]

register_when_imported()
