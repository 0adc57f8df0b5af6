"""Many environments, one session: vector environments, and environments that share a recorder."""

from lucky_recorder.recorder.vec import VecRecordSession
from lucky_recorder.recorder.vector import VectorRecordSession, shared

__all__ = ["VecRecordSession", "VectorRecordSession", "shared"]
