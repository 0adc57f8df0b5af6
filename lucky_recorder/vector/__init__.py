"""Many environments, one session: vector environments, and environments that share a recorder."""

from lucky_recorder.recorder.vec import VecRecordSession
from lucky_recorder.recorder.vector import VectorRecordSession
from lucky_recorder.vector.face import AsyncRecordSession
from lucky_recorder.vector.shared import Shared, shared

__all__ = ["AsyncRecordSession", "Shared", "VecRecordSession", "VectorRecordSession", "shared"]
