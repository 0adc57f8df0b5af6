"""Fewer cases than all of them: each pair of values of two parameters is there, and not each combination of all."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def pairwise(*parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Choose combinations, the same ones every time, so that any two values of two parameters meet in one of them.

    A fault that shows with one value, or where two come together, is found by these as by all of them. What only three
    values together bring about may be missed: where that is to be feared, ask for all combinations.
    """
    every = list(itertools.product(*(range(len(values)) for values in parameters)))
    places = list(itertools.combinations(range(len(parameters)), 2))
    missing = {(i, j, one[i], one[j]) for one in every for i, j in places}
    chosen = []
    while missing:
        best = max(every, key=lambda one: len(missing & {(i, j, one[i], one[j]) for i, j in places}))
        missing -= {(i, j, best[i], best[j]) for i, j in places}
        chosen.append(best)
    return [tuple(values[k] for values, k in zip(parameters, one, strict=True)) for one in chosen]


def in_pairs(**parameters: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize a test by all of these names, with `pairwise` of their values; a mapping's keys are the ids."""
    named = [
        given.items() if isinstance(given, dict) else [(_id(value), value) for value in given]
        for given in parameters.values()
    ]
    chosen = pairwise(*map(list, named))
    values = [tuple(value for _, value in one) for one in chosen]
    return pytest.mark.parametrize(tuple(parameters), values, ids=["-".join(name for name, _ in one) for one in chosen])


def _id(value: Any) -> str:
    return str(getattr(value, "__name__", value))
