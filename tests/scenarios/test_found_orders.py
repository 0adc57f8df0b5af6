"""Orders of calls that the machines have found, each as short as it could be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.scenarios.any_order.books import Plan
from tests.scenarios.any_order.machine import OURS, AnyOrder
from tests.scenarios.any_order.observing import ObserverInAnyOrder
from tests.scenarios.any_order.wrapping import WrapperInAnyOrder


@pytest.fixture
def driven() -> Iterator[Callable[..., Any]]:
    """Return a function that begins a machine; what it has written is compared at the end."""
    made: list[AnyOrder] = []

    def begin(machine: type[Any], **plan: Any) -> Any:
        made.append(machine())
        made[-1].first(plan=Plan(**plan), begins=True)
        return made[-1]

    yield begin
    for machine in made:
        machine.teardown()


@pytest.mark.parametrize("kind", ["disk", "prepare"])
@pytest.mark.parametrize("most_ticks", [None, 1])
@pytest.mark.filterwarnings("ignore:.*")
def test_the_last_episode_fails_in_a_call_that_raises_something_else(
    driven: Any, kind: str, most_ticks: int | None
) -> None:
    """It is not the last one then: what has failed is told of at the next call."""
    machine = driven(WrapperInAnyOrder, total=1, most_ticks=most_ticks)
    machine.arm(kind)
    machine.step(steps=1, command=0)
    if most_ticks is None:
        machine.reset(seed=None, keeps=False, wrong="reset raises")
    else:
        machine.step(steps=1, command=0)
    machine.stands_where_the_books_say()
    with pytest.raises(OURS):
        machine.env.observer.flush()
    machine.surface()


@pytest.mark.parametrize("ends", [True, False])
def test_a_simulation_becomes_unstable_again(driven: Any, ends: bool) -> None:
    """MuJoCo counts from 0 again where it resets itself: the second time its count is what it was."""
    machine = driven(ObserverInAnyOrder, data_every=2)
    machine.move_the_simulation("explode")
    machine.step(command=0, inside=None, raises=False)
    machine.step(command=0, inside=None, raises=False)
    machine.move_the_simulation("explode")
    assert machine.shows_explosion()
    if ends:
        machine.end_current_episode(success=True, reward=None, then=True)
    else:
        machine.tick(command=0, is_new=True)
    machine.stands_where_the_books_say()


def test_one_that_stands_where_it_stood_is_none(driven: Any) -> None:
    """Nothing tells it from a simulation that has not moved yet."""
    machine = driven(ObserverInAnyOrder)
    machine.move_the_simulation("explode")
    machine.observer.tick()
    before = machine.world.seen
    machine.world.explode()
    assert machine.world.seen == before
    machine.observer.tick()
    machine.observer.end_current_episode(success=True)
    machine.observer.flush()
    assert machine.observer.counts.kept == 1
    machine.past.clear()
    machine.observer.stop_recording()
