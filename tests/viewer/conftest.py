"""A session with every stream, as the tests of `session` have it."""

from tests.session.fixtures import full, full_copy, no_fsync

__all__ = ["full", "full_copy", "no_fsync"]
