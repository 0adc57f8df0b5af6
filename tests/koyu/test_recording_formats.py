"""The recorder writes bundles and a session in one run, of the same rows and files, or either alone."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.rollouts.collect import collect
from lucky_recorder.testing import check_session
from tests.koyu.making import read_manifest
from tests.koyu.recording import KOYU, PAIR, SMALL, bundles, counted, seen_counts


def test_one_run_writes_both_formats_from_the_same_rows_and_files(tmp_path: Path) -> None:
    env = lr.RecordSession(
        gym.make("LuckyRecorder/PickCube-v0"),
        output_dir=tmp_path,
        cameras=[{"name": "front", **SMALL}, {"name": "wrist", **SMALL}],
        tasks=["Pick up the cube"],
        gym_columns=True,
        koyu=lr.KoyuSettings(name="pick-cube", collection_mode="synthetic"),
    )
    collect(env, env.unwrapped.expert(fail=0.5, seed=1), episodes=3)
    env.close()
    assert env.koyu_path == tmp_path / "pick-cube"
    session = check_session(env.session_path)
    both = list(zip(session, bundles(env), strict=True))
    assert len(both) == 3
    for episode, bundle in both:
        rows = episode.rows()
        for name in ("observation.state", "action", "gym.action", "next.reward"):
            values = np.array(rows[name].to_pylist()).astype(np.float32).reshape(len(bundle.rows["step"]), -1)
            assert np.array_equal(bundle.rows[name], values)
        times = np.array(rows["timestamp"].to_pylist())
        assert np.array_equal(bundle.rows["timestamp"] - bundle.rows["timestamp"][0], np.round(times * 1e9))
        assert bundle.sidecar["reward"] == float(episode.success)
        assert bundle.sidecar["task_description"] == "Pick up the cube"
        for camera in ("front", "wrist"):
            key = f"observation.images.{camera}"
            mine = env.koyu_path / "episodes" / f"ep_{bundle.sidecar['capture_id']}" / f"{key}.mp4"
            assert mine.stat().st_ino == episode.video_path(key).stat().st_ino
            assert np.array_equal(bundle.frames[key], [*episode.frames(key)])
    rewards = [bundle.sidecar["reward"] for _, bundle in both]
    assert set(rewards) == {0.0, 1.0}
    manifest = read_manifest(env.koyu_path)
    assert manifest["success_rate"] == manifest["mean_reward"] == sum(rewards) / 3
    assert (manifest["type"], manifest["fps"]) == ("synthetic", 50.0)


def test_texts_are_in_the_session_only(record: Any, run: Any) -> None:
    said = lr.Column("said", lambda moment: f"step {int(moment.obs[0])}", dtype="str")
    env = record(columns=[*PAIR, said], koyu=KOYU)
    with pytest.warns(UserWarning, match="made without the columns of texts: said$"):
        env.reset()
    for _ in range(3):
        env.step(np.zeros(1, np.float32))
    env.close()
    assert check_session(env.session_path).episode(0).rows()["said"].to_pylist() == ["step 0", "step 1", "step 2"]
    [bundle] = bundles(env)
    assert "said" not in bundle.rows
    assert "said" not in bundle.sidecar["features"]


def test_where_links_fail_the_videos_are_copied(film: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    env = film()
    run(env, episodes=2)
    env.close()
    assert [seen_counts(read) for read in bundles(env)] == [[0, 1, 2], [100, 101, 102]]
    check_session(env.session_path)


@pytest.mark.parametrize("formats", [None, ["session", "koyu"], ["koyu", "session"]])
def test_the_session_comes_first(film: Any, run: Any, tmp_path: Path, formats: Any) -> None:
    env = film(formats=formats, output_dir=tmp_path)
    assert env.session_path is None
    assert env.koyu_path is None
    run(env)
    env.close()
    assert check_session(env.session_path).episode(0).success
    assert env.session_path.parent == tmp_path / "DataSessions"
    assert [counted(read) for read in bundles(env)] == [[0, 1, 2]]


def test_bundles_alone_make_no_session(film: Any, run: Any, tmp_path: Path) -> None:
    env = film(formats=["koyu"])
    run(env, episodes=3)
    env.close()
    assert env.session_path == env.koyu_path == tmp_path / "cubes"
    assert [p.name for p in tmp_path.iterdir()] == ["cubes"]
    assert [seen_counts(read) for read in bundles(env)] == [[100 * e + t for t in range(3)] for e in range(3)]
    assert env.observer.counts.kept == 3


def test_koyu_may_be_left_out_of_the_formats(film: Any, run: Any, tmp_path: Path) -> None:
    env = film(formats=["session"])
    run(env)
    env.close()
    assert env.koyu_path is None
    assert not (tmp_path / "cubes").exists()
    check_session(env.session_path)


def test_the_folder_may_be_said(film: Any, run: Any, tmp_path: Path) -> None:
    env = film(koyu={"name": "cubes", "path": tmp_path / "elsewhere/mine"}, formats=["koyu"])
    run(env)
    env.close()
    assert env.koyu_path == tmp_path / "elsewhere/mine"
    assert len(bundles(env)) == 1
