"""Encoders that do something else at a frame of a take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lucky_recorder.video.encoder import VideoEncoder

LATER = 30.0


def break_encoder(
    monkeypatch: pytest.MonkeyPatch, verb: str, attempt: int, frame: int, act: Callable[[], None]
) -> None:
    """Have ``wall``'s encoder do something else at a frame of an attempt."""
    working = getattr(VideoEncoder, verb)

    def broken(encoder: VideoEncoder, *args: Any, **named: Any) -> Any:
        if (
            "images.wall" in str(encoder.path)
            and f"take-{attempt:06d}" in encoder.path.name
            and encoder.frames == frame
        ):
            act()
        return working(encoder, *args, **named)

    monkeypatch.setattr(VideoEncoder, verb, broken)


def give_up() -> None:
    raise RuntimeError("the encoder has had enough")
