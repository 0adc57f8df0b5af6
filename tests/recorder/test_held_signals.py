"""Signals at every line of what holds them back: each is handled, and what handled them before does so afterwards."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from lucky_recorder.recorder import exits
from tests.recorder.lines import AtLine

ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FILES = (exits.__file__,)
EACH = [(one,) for one in ALL]
SETS = [*EACH, ALL[:2], (ALL[1], ALL[0]), ALL[1:], ALL, (ALL[0],) * 3]

pytestmark = pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals cannot be sent at once here")


class Struck(BaseException):
    """What a handler raises."""


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """Handle all signals by noting them down and raising something."""
    came: list[int] = []

    def handler(number: int, frame: Any) -> None:
        came.append(number)
        raise Struck

    before = {number: signal.signal(number, handler) for number in ALL}
    yield came
    for number, handler_before in before.items():
        signal.signal(number, handler_before)


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in ALL]


def send(numbers: Sequence[int]) -> None:
    """Send signals so that they come at once, as far as they are different ones."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ALL)
    for number in numbers:
        signal.pthread_kill(threading.get_ident(), number)  # to this thread: others block nothing
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ALL)


def one_after_another(numbers: Sequence[int]) -> None:
    """Send each of them, whatever the one before it has raised."""
    try:
        os.kill(os.getpid(), numbers[0])
    finally:
        if numbers[1:]:
            one_after_another(numbers[1:])


def block(held: Sequence[int], sent: list[int]) -> None:
    with exits.held_back():
        for number in held:
            sent.append(number)
            signal.raise_signal(number)


def strike(line: AtLine, held: Sequence[int], sent: list[int], most: int = 8) -> None:
    """Run a block while a line of it is struck; swallows so many: one may come while another one is caught."""
    try:
        if most:
            strike(line, held, sent, most - 1)
            handlers()  # Python looks for signals where functions begin
        else:
            with line:
                block(held, sent)
    except Struck as error:
        # A traceback keeps the frames, and so all they have.
        error.__traceback__ = error.__context__ = None


@pytest.mark.parametrize("act", [send, one_after_another])
@pytest.mark.parametrize("held", [(), *EACH, (signal.SIGTERM,) * 2, (signal.SIGINT,) * 3], ids=str)
@pytest.mark.parametrize("numbers", SETS, ids=str)
def test_signals_at_any_line_are_handled_and_change_nothing(
    handled: list[int], numbers: Sequence[int], held: Sequence[int], act: Callable[[Sequence[int]], None]
) -> None:
    before = handlers()
    for number in range(1, 1000):
        handled.clear()
        sent = list(numbers)
        line = AtLine(number, lambda: act(numbers), FILES)
        strike(line, held, sent)
        assert handlers() == before, number
        assert not exits._held.is_on, number
        if line.left > 0:
            break
        assert set(handled) >= set(numbers), number
        # Two at once are two too many where one is just taken, or raised: that one may wait, or go down with them.
        if len(numbers) > 1:
            strike(AtLine(0, exits.raise_held), (), sent)
            assert handlers() == before, number
        else:
            assert set(handled) == set(sent), number
        assert not exits._held.numbers, number
    assert number > 20
