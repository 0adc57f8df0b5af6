"""An environment whose infos say its task, and what the rows of a session are of, as the files have it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from lucky_recorder.testing import CountEnv

KEY = "language_instruction"
Script = Callable[[int, int], Any]


class Says(CountEnv):
    """Its infos say what a script says after ``t`` steps of an episode; nothing where that is None.

    One dict is filled again and again, as some environments do.
    """

    def __init__(self, script: Script, length: Any = 4, **fields: Any) -> None:
        super().__init__(length, **fields)
        self.script = script
        self._handed_out: dict[str, Any] = {}

    def _told(self, info: dict[str, Any]) -> dict[str, Any]:
        said = self.script(self.episode, self.t)
        self._handed_out.clear()
        self._handed_out.update(info if said is None else {**info, KEY: said, "at": {"now": {"said": said}}})
        return self._handed_out

    def reset(self, **fields: Any) -> Any:
        observation, info = super().reset(**fields)
        return observation, self._told(info)

    def step(self, action: Any) -> Any:
        *result, info = super().step(action)
        return (*result, self._told(info))


def by_count(moment: Any) -> str:
    return "Low" if moment.obs[0] % 100 < 2 else "High"


def listed(session: Path | None) -> list[str]:
    """The tasks of a session as LeRobot looks them up: by their position in the table."""
    assert session is not None
    table = pd.read_parquet(session / "meta/tasks.parquet")
    assert table["task_index"].tolist() == list(range(len(table)))
    return table.index.tolist()


def tasks_of(session: Path | None, episodes: Any) -> list[list[str]]:
    """What each row of each episode is of; each episode's metadata lists the same."""
    known = listed(session)
    for episode in episodes:
        assert episode.meta["tasks"] == [known[i] for i in sorted(set(episode.rows["task_index"].tolist()))]
    return [[known[i] for i in episode.rows["task_index"]] for episode in episodes]
