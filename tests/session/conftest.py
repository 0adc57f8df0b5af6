"""The sessions of `tests.session.fixtures`, for every test of this folder."""

from tests.session.fixtures import copy, edit, full, full_copy, good, no_fsync

__all__ = ["copy", "edit", "full", "full_copy", "good", "no_fsync"]
