"""The sample environments: ``LuckyRecorder/PickCube-v0`` and ``LuckyRecorder/TwinArms-v0``.

Importing this package makes gymnasium know them, at once if gymnasium is already imported, else the moment it
is. It imports neither gymnasium nor MuJoCo by itself.
"""

from __future__ import annotations

from lucky_recorder.envs.registration import register, register_when_imported
from lucky_recorder.envs.scenes import scene_path

__all__ = ["register", "register_when_imported", "scene_path"]

register_when_imported()
