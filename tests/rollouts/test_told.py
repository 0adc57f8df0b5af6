"""What a maker has said to the recorder before its first reset holds in every worker, as it does in one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.rollouts import gather
from lucky_recorder.testing import check_session
from tests.rollouts.inline import Inline
from tests.rollouts.seeded import Seeded, Wandering, maker

Make = Callable[[], lr.RecordSession]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "Workers", Inline)


class Signed(lr.RecordSession):
    """A recorder of somebody's own: it chooses the task at every reset, and says who has stepped."""

    def reset(self, **given: Any) -> Any:
        self.set_task(given["seed"] % 2)
        return super().reset(**given)

    def step(self, action: Any) -> Any:
        result = super().step(action)
        self.annotate(by="a class of one's own")
        return result


def choosing(folder: Path) -> lr.RecordSession:
    env = maker(folder, tasks=["push", "lift"])()
    env.set_task(1)
    return env


def registering(folder: Path) -> lr.RecordSession:
    env = maker(folder)()
    for task in ("push", "lift", "throw"):
        env.observer.register_task(task)
    env.set_task(1)
    return env


def of_a_class(folder: Path) -> lr.RecordSession:
    columns = [lr.Column("obs", "gym:obs")]
    return Signed(Seeded(), output_dir=folder, mode="custom", gym_columns=True, columns=columns, tasks=["push", "lift"])


def replacing(folder: Path) -> lr.RecordSession:
    """What is replaced in the object itself."""
    env = maker(folder, tasks=["push", "lift"])()
    step = env.step

    def annotated(action: Any) -> Any:
        result = step(action)
        env.annotate(by="a function")
        return result

    env.step = annotated  # type: ignore[method-assign]
    return env


def found_in(path: Path | None) -> dict[str, Any]:
    assert path is not None
    session = check_session(path)
    columns = ("seed", "tasks", "annotations")
    rows = [episode.rows()["task_index"].to_pylist() for episode in session]
    return {"listed": session.tasks, "rows": rows, **{name: session.episodes[name].to_pylist() for name in columns}}


SAID = [
    (choosing, ["push", "lift"], [["lift"]] * 3),
    (registering, ["push", "lift", "throw"], [["lift"]] * 3),
    (of_a_class, ["push", "lift"], [["push"], ["lift"], ["push"]]),
    (replacing, ["push", "lift"], [["push"]] * 3),
]


@pytest.mark.parametrize(("made", "listed", "tasks"), SAID, ids=[made.__name__ for made, *_ in SAID])
def test_what_a_maker_has_said_holds_in_workers(
    tmp_path: Path, made: Callable[[Path], lr.RecordSession], listed: list[str], tasks: list[list[str]]
) -> None:
    found = []
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        summary = lr.collect(lambda folder=folder: made(folder), Wandering(), episodes=3, workers=workers)  # type: ignore[misc]
        found.append(found_in(summary.path))
    assert found[0] == found[1]
    assert (list(found[1]["listed"]), found[1]["tasks"]) == (listed, tasks)
    assert all(found[1]["annotations"]) == (made in (of_a_class, replacing))


def test_a_policy_is_told_the_task_that_its_maker_has_chosen(tmp_path: Path) -> None:
    def policy(seen: dict[str, Any]) -> Any:
        return np.array([seen["task_description"] == "lift"], np.float32)

    result = lr.evaluate(lambda: choosing(tmp_path), policy, action="gym", episodes=2, workers=2)
    assert result.path is not None
    rows = [row for episode in check_session(result.path) for row in episode.rows()["gym.action"].to_pylist()]
    assert np.ravel(rows).tolist() == [1.0] * 7


def test_a_lane_of_several_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    wrap = lr.vector.shared(output_dir=tmp_path, mode="custom", gym_columns=True)
    with pytest.raises(lr.SettingsError, match=r"^env=.*is a lane of several environments"):
        lr.collect(lambda: wrap(Seeded()), Wandering(), episodes=1, workers=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_of_no_task_are_not_added_to_those_of_one(tmp_path: Path, workers: int) -> None:
    first = lr.collect(maker(tmp_path, tasks=["push"]), Wandering(), episodes=1).path
    with pytest.raises(lr.SettingsError, match=r"^tasks=.*the session's rows are of 'push'"):
        lr.collect(maker(Path(), resume=first), Wandering(), episodes=2, workers=workers)
    assert first is not None
    assert len(check_session(first)) == 1
