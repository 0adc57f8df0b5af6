"""The command line.

`commands/` says what each command takes. It is light, so that ``--help`` is quick. The file of the same name here does
the work: it imports what it needs at its top, and is itself imported when its command runs. This is the one door
between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lucky_recorder.lazy import names

if TYPE_CHECKING:
    from lucky_recorder.cli import bench as bench
    from lucky_recorder.cli import check as check
    from lucky_recorder.cli import checksum as checksum
    from lucky_recorder.cli import convert as convert
    from lucky_recorder.cli import demo as demo
    from lucky_recorder.cli import doctor as doctor
    from lucky_recorder.cli import eval as eval
    from lucky_recorder.cli import info as info
    from lucky_recorder.cli import koyu as koyu
    from lucky_recorder.cli import lerobot as lerobot
    from lucky_recorder.cli import record as record
    from lucky_recorder.cli import recover as recover
    from lucky_recorder.cli import remake as remake
    from lucky_recorder.cli import render as render
    from lucky_recorder.cli import replay as replay
    from lucky_recorder.cli import shape as shape
    from lucky_recorder.cli import view as view
else:
    _WORK = (
        *("bench", "check", "checksum", "convert", "demo", "doctor", "eval", "info", "koyu", "lerobot", "record"),
        *("recover", "remake", "render", "replay", "shape", "view"),
    )
    __getattr__ = names(__name__, {}, _WORK)
