from __future__ import annotations

import pytest

from lucky_recorder.bench.figures import Figure, in_turns, ratio


@pytest.mark.parametrize(
    ("value", "goal", "at_least", "verdict"),
    [
        (1.0, 1.0, False, "met"),
        (1.01, 1.0, False, "missed"),
        (1.0, 1.0, True, "met"),
        (0.99, 1.0, True, "missed"),
        (5.0, None, False, ""),
        (None, 1.0, False, "not measured"),
    ],
)
def test_a_verdict_compares_with_the_goal(
    value: float | None, goal: float | None, at_least: bool, verdict: str
) -> None:
    assert Figure("what", value, "us", goal, at_least).verdict == verdict


def test_jobs_take_turns_after_a_run_of_each_that_is_not_counted() -> None:
    done: list[str] = []

    def job(name: str) -> float:
        done.append(name)
        return float(len(done))

    costs = in_turns(lambda: job("a"), lambda: job("b"), 3)
    assert "".join(done) == "ab" + "ab" + "ba" + "ab"
    assert costs == [(3, 4), (6, 5), (7, 8)]


def test_a_ratio_is_one_of_sums() -> None:
    assert ratio([(1.0, 2.0), (3.0, 3.0)]) == 5 / 4
