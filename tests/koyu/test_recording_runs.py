"""Several runs into one dataset: they append, repeat each other, or sweep what a killed one has left."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv, check_koyu
from tests.koyu.making import read_manifest, snapshot
from tests.koyu.recording import KOYU, PAIR, SMALL, bundles


def test_two_runs_append_a_third_brings_a_column_and_a_fourth_of_another_kind_is_refused(
    film: Any, run: Any, tmp_path: Path
) -> None:
    for _ in range(2):
        env = film(formats=["koyu"])
        run(env, episodes=2)
        env.close()
    assert len(bundles(env)) == 4
    third = film(formats=["koyu"], columns=[*PAIR, lr.Column("reward", "gym:reward")])
    run(third, episodes=1)
    third.close()
    check_koyu(env.koyu_path)
    with lr.koyu.Dataset(env.koyu_path) as dataset:
        assert len(dataset.episodes) == 5
        assert "reward" not in dataset.features
        assert "reward" not in dataset[len(dataset) - 1]
    with pytest.raises(lr.SettingsError, match="keys='reward': only some of its bundles have this feature"):
        lr.koyu.Dataset(env.koyu_path, keys=["reward"])
    before = snapshot(tmp_path)
    other = film(columns=[*PAIR, lr.Column("reward", lambda moment: [0.0, 1.0], shape=2)])
    with pytest.raises(lr.SettingsError, match=r"features\['reward'\] is .* in this dataset"):
        other.reset()
    assert snapshot(tmp_path) == before
    assert not other.is_recording


def test_the_same_seeded_run_gives_the_same_bytes(film: Any, run: Any, tmp_path: Path) -> None:
    koyu = {"name": "cubes", "id_seed": 5, "time_origin_ns": 10**18}
    for folder in ("one", "other"):
        env = film(output_dir=tmp_path / folder, koyu=koyu)
        run(env, episodes=3)
        env.close()
    assert snapshot(tmp_path / "one/cubes") == snapshot(tmp_path / "other/cubes")
    times = [int(read.rows["timestamp"][0]) - 10**18 for read in bundles(env)]
    assert times == [0, 60_000_000, 120_000_000]


KILLED = """
import os, signal, sys
import numpy as np
import lucky_recorder as lr
from lucky_recorder.testing import CountEnv
env = lr.RecordSession(
    CountEnv(3, mujoco=True), output_dir=sys.argv[1], formats=sys.argv[2].split(","), koyu={"name": "cubes"},
    cameras=[{"name": "wall", "width": 64, "height": 48}],
)
for _ in range(2):
    env.reset()
    for _ in range(3):
        env.step(np.zeros(1))
env.reset()
env.step(np.zeros(1))
env.observer.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("formats", ["koyu", "session,koyu"])
def test_a_killed_recorder_loses_no_bundle_and_leaves_only_what_is_swept(tmp_path: Path, formats: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), formats], check=False)
    assert done.returncode == -signal.SIGKILL
    names = sorted(p.name for p in (tmp_path / "cubes/episodes").iterdir())
    assert [name[:3] for name in names] == [".tm", "ep_", "ep_"]
    assert read_manifest(tmp_path / "cubes")["episodes"] == []
    env = lr.RecordSession(
        CountEnv(3, mujoco=True), output_dir=tmp_path, koyu=KOYU, cameras=[{"name": "wall", **SMALL}]
    )
    env.reset()
    env.step(np.zeros(1))
    env.close()
    assert [len(read.frames["observation.images.wall"]) for read in bundles(env)] == [3, 3, 1]
