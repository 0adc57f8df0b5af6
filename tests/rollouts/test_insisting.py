"""Whoever interrupts again and again, also while shards are merged, is told where everything is."""

from __future__ import annotations

import logging
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.edit import assemble
from lucky_recorder.rollouts import gather
from lucky_recorder.testing import check_koyu, check_session
from tests.koyu.making import read_dataset
from tests.rollouts.inline import Inline
from tests.rollouts.seeded import Wandering, maker

NAMES = {"obs": "gym:obs", "observation.state": "gym:obs", "action": "gym:action"}


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class Insisted(Inline):
    """Is interrupted once more while its workers are ended."""

    def kill(self) -> None:
        interrupt()
        super().kill()


@pytest.mark.parametrize("is_there", [False, True])
def test_a_third_interrupt_while_shards_merge_loses_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_there: bool
) -> None:
    columns = [lr.Column(name, source) for name, source in NAMES.items()]
    make = maker(tmp_path, columns=columns, koyu=lr.KoyuSettings("cubes"))
    if is_there:
        lr.collect(make, Wandering(), episodes=1, seed=50)
    before = sorted(path.name for path in (tmp_path / "cubes/episodes").glob("ep_*"))
    monkeypatch.setattr(gather, "Workers", Insisted)

    def insisted(*given: Any, **named: Any) -> None:
        for _ in range(3):
            interrupt()
        pytest.fail("the third was not raised at once")

    monkeypatch.setattr(assemble, "assemble", insisted)
    with caplog.at_level(logging.WARNING, "lucky_recorder"), pytest.raises(KeyboardInterrupt):
        lr.collect(make, Wandering(), episodes=3, workers=2)
    monkeypatch.undo()
    # Neither of the two has any of it.
    assert (tmp_path / "cubes").exists() is is_there
    assert not is_there or sorted(path.name for path in (tmp_path / "cubes/episodes").iterdir()) == before
    made = {}
    for what in ("session", "dataset"):
        (line,) = [line for line in caplog.messages if f"this makes a {what} of it: " in line]
        command = shlex.split(line.partition("of it: ")[2])
        assert CliRunner().invoke(app, command[1:]).exit_code == 0
        made[what] = Path(command[-1])
    assert len(check_session(made["session"])) == 3
    check_koyu(made["dataset"])
    assert len(read_dataset(made["dataset"])) == 3 + len(before)
