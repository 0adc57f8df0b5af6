"""Which exceptions come out of a function that handles a signal, whatever kind of function it is."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from lucky_recorder.capture.signalled import is_of_a_handler

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signals here")


class TimeIsUpError(Exception):
    pass


def raises(*given: Any) -> None:
    raise TimeIsUpError


class Limit:
    def over(self, *given: Any) -> None:
        deeper(*given)

    def __call__(self, *given: Any) -> None:
        raise TimeIsUpError


def deeper(*given: Any) -> None:
    raise TimeIsUpError


HANDLERS = [raises, Limit().over, Limit(), functools.partial(raises, 1), lambda *given: deeper()]


@pytest.mark.parametrize("handler", HANDLERS, ids=["function", "method", "object", "partial", "lambda"])
def test_what_a_handler_raises_is_known(handler: Callable[..., Any]) -> None:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(TimeIsUpError) as raised:
            os.kill(os.getpid(), signal.SIGUSR1)
        with pytest.raises(TimeIsUpError) as own:
            deeper()
        assert is_of_a_handler(raised.value)
        assert not is_of_a_handler(own.value)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not is_of_a_handler(raised.value)
