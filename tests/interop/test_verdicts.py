"""What `check_lerobot` says of sessions with one deviation each is what LeRobot does with them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lucky_recorder.lerobot.rules import check_lerobot
from tests.interop.conftest import DRIVERS, LeRobot
from tests.lerobot.test_rules import DEVIATIONS, HARMLESS, lone_session

# The others make it read wrong, train wrong, or stumble in its tools.
REFUSED_RULES = {1, 2, 3, 4, 5, 6, 7, 8, 12}


@pytest.fixture(scope="module")
def deviating(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A session as it should be, and copies of it with one change each."""
    root = tmp_path_factory.mktemp("deviating")
    good = lone_session(root / "good")
    changes = [(f"rule-{rule}", change) for rule, _, change in DEVIATIONS] + [("harmless", c) for c in HARMLESS]
    sessions = {"good": good}
    for number, (kind, change) in enumerate(changes):
        sessions[f"{kind}-{number}"] = Path(shutil.copytree(good, root / f"{kind}-{number}"))
        change(sessions[f"{kind}-{number}"])
    return sessions


def test_lerobot_refuses_nothing_that_keeps_the_rules(
    lerobot: LeRobot, deviating: dict[str, Path], tmp_path: Path
) -> None:
    verdicts = {name: {broken.rule for broken in check_lerobot(path)} for name, path in deviating.items()}
    lerobot.run(DRIVERS / "open.py", tmp_path / "out.json", *deviating.values())
    trouble = json.loads((tmp_path / "out.json").read_text())
    assert set(trouble) == set(deviating)
    for name, rules in verdicts.items():
        assert rules or not trouble[name], f"{name} keeps the rules: {trouble[name]}"
    refused = {rule for name, rules in verdicts.items() if trouble[name] for rule in rules}
    assert refused >= REFUSED_RULES
    assert sum(bool(error) for error in trouble.values()) >= 30
