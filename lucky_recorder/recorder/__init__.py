"""Events become episodes: in the caller's thread and in the worker's."""
