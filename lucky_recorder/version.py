"""The version of the recorder, in one place."""

__version__ = "0.1.0"
