"""No thread is hurried by an encoder: as root, one of them would make itself a real-time thread."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from lucky_recorder.video import priority
from lucky_recorder.video.encoder import VideoEncoder

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="threads are scheduled otherwise here")


def scheduled() -> set[int]:
    found = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            found.add(os.sched_getscheduler(int(thread)))
        except ProcessLookupError:  # it has ended meanwhile
            continue
    return found


@pytest.mark.parametrize("codec", ["h264", "hevc", "av1"])
def test_an_encoder_leaves_threads_as_they_were(tmp_path: Path, codec: str) -> None:
    before = scheduled()
    encoder = VideoEncoder(tmp_path / "x.mp4", width=64, height=64, fps=Fraction(30), codec=codec)
    during = scheduled()
    for _ in range(3):
        encoder.write(np.zeros((64, 64, 3), np.uint8))
    encoder.close()
    assert (during, scheduled(), os.sched_getscheduler(0)) == (before, before, os.SCHED_OTHER)


def test_what_is_changed_meanwhile_is_given_back() -> None:
    def hurried() -> None:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        raise RuntimeError

    with pytest.raises(RuntimeError), priority.kept():
        hurried()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_a_program_of_a_real_time_priority_keeps_its_own() -> None:
    lowest = os.sched_get_priority_min(os.SCHED_FIFO)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(lowest))
    except OSError:
        pytest.skip("this user may not have real-time threads")
    try:
        with priority.kept():
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(lowest + 5))
        assert (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority) == (os.SCHED_FIFO, lowest)
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
