"""Bundles of worker processes: the same dataset whatever their number, beside what is there already, or none of it."""

from __future__ import annotations

import functools
import json
import logging
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.koyu.writer import DatasetWriter
from lucky_recorder.rollouts import bundles, gather
from lucky_recorder.rollouts.collect import Summary
from lucky_recorder.rollouts.pieces import Attempt
from lucky_recorder.rollouts.shards import are_written
from lucky_recorder.testing import check_koyu, check_session
from tests.koyu.making import read_dataset, read_manifest, snapshot
from tests.rollouts.inline import Inline
from tests.rollouts.seeded import Seeded, Wandering

EPISODES = 5
KEPT = [0, 2, 3, 5, 6]
COLUMNS = [lr.Column("observation.state", "gym:obs"), lr.Column("action", "gym:action")]
SETTLED = {"id_seed": 7, "time_origin_ns": 10**18}


class Thirds(Seeded):
    """Its episodes are no whole number of microseconds long."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012, gymnasium declares it so

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.dt = 1 / 30


def made(folder: Path, once: Path | None, koyu: dict[str, Any], given: dict[str, Any]) -> lr.RecordSession:
    settings = {
        "mode": "custom",
        "columns": COLUMNS,
        "cameras": [lr.Camera("seen", source="render", width=64, height=48)],
        "discard_and_retry_failed": True,
        **given,
    }
    env = Thirds(trap=5, once=once, render_mode="rgb_array")
    return lr.RecordSession(env, output_dir=folder, koyu=lr.KoyuSettings("cubes", **koyu), **settings)


def maker(folder: Path, once: Path, koyu: dict[str, Any] | None = None, **given: Any) -> Callable[[], lr.RecordSession]:
    return lambda: made(folder, once, SETTLED if koyu is None else koyu, given)


def collected(make: Callable[[], lr.RecordSession], workers: int, **given: Any) -> Summary:
    return lr.collect(make, Wandering(), **{"episodes": EPISODES, "workers": workers, **given})


def seeds_of(dataset: Path) -> list[int]:
    """The seed of each bundle, as its rows say it."""
    return [int(read.rows["observation.state"][0, 0]) // 100 for read in read_dataset(dataset)]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have shards recorded in this process."""
    monkeypatch.setattr(gather, "Workers", Inline)


def test_any_number_of_workers_gives_the_same_bundles_with_a_session_or_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "once").touch()
    found = []
    cases = (("alone", 1, None), ("killed", 2, None), ("bundles", 2, ("koyu",)), ("three", 3, None))
    for name, workers, formats in cases:
        folder = tmp_path / name
        once = tmp_path / ("killed.once" if name == "killed" else "once")
        if name == "bundles":
            monkeypatch.setattr(gather, "Workers", Inline)
        with caplog.at_level(logging.WARNING, "lucky_recorder"):
            summary = collected(maker(folder, once, formats=formats), workers)
        dataset = folder / "cubes"
        assert (summary.kept, summary.discarded, summary.wanted) == (5, 2, 0)
        assert sorted(path.name for path in folder.iterdir()) == ([] if formats else ["DataSessions"]) + ["cubes"]
        (*_, path) = [dataset] if formats else (folder / "DataSessions").iterdir()
        assert summary.path == path
        assert summary.bytes == sum(file.stat().st_size for file in dataset.glob("episodes/*/*.mp4"))
        assert formats or len(check_session(path)) == 5
        check_koyu(dataset)
        assert seeds_of(dataset) == KEPT
        found.append(snapshot(dataset))
    assert "was ended by SIGKILL, while it tried seed 5" in caplog.text
    for other in found[1:]:
        assert sorted(other) == sorted(found[0])
        assert [name for name in other if other[name] != found[0][name]] == []


@pytest.mark.usefixtures("here")
def test_workers_add_to_a_dataset_and_to_the_session_that_is_gone_on_with(tmp_path: Path) -> None:
    once = tmp_path / "once"
    once.touch()
    first = collected(maker(tmp_path, once, {}), 1, episodes=2).path
    assert first is not None
    before = snapshot(tmp_path / "cubes")
    summary = collected(maker(Path(), once, {}, resume=first), 2)
    assert (summary.kept, summary.path) == (3, first)
    # Of the bundles that were there, nothing is.
    assert summary.bytes == sum(f.stat().st_size for f in (tmp_path / "cubes").glob("episodes/*/*.mp4")) - sum(
        len(content or b"") for name, content in before.items() if name.endswith(".mp4")
    )
    assert len(check_session(first)) == 5
    check_koyu(tmp_path / "cubes")
    assert seeds_of(tmp_path / "cubes") == KEPT
    after = snapshot(tmp_path / "cubes")
    assert {name: after[name] for name in before if name != "manifest.json"} == {
        name: content for name, content in before.items() if name != "manifest.json"
    }
    # Where nothing is missing.
    for workers in (1, 2):
        nothing = collected(maker(Path(), once, {}, resume=first), workers)
        assert (nothing.kept, nothing.path) == (0, first)


@pytest.mark.usefixtures("here")
def test_an_evaluation_by_workers_gives_both(tmp_path: Path) -> None:
    once = tmp_path / "once"
    once.touch()
    koyu = {"collection_mode": "eval", "policy_name": "wandering"}
    make = maker(tmp_path, once, koyu, discard_and_retry_failed=False)
    result = lr.evaluate(make, Wandering(), action="gym", seeds=[4, 2, 2], workers=2)
    assert result.koyu_path == tmp_path / "cubes"
    assert result.path is not None
    assert len(check_session(result.path)) == 3
    assert seeds_of(result.koyu_path) == [4, 2, 2]
    assert [entry["reward"] for entry in read_manifest(result.koyu_path)["episodes"]] == [0.0, 1.0, 1.0]


# What is refused, and what fails.


@pytest.mark.usefixtures("here")
def test_a_dataset_of_another_kind_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    once = tmp_path / "once"
    once.touch()
    collected(maker(tmp_path, once), 1, episodes=1)
    before = snapshot(tmp_path)
    for koyu, given, message in (
        ({"collection_mode": "teleop"}, {}, "type is 'synthetic' in this dataset and 'teleop' here"),
        (SETTLED, {}, "koyu.id_seed=7: .* has bundles of this seed already"),
        # Known only when an environment has been stepped: by the first attempt.
        ({}, {"data_hz": 15}, "fps is 30.0 in this dataset and 15.0 here"),
    ):
        with pytest.raises(lr.SettingsError, match=message):
            collected(maker(tmp_path, once, koyu, **given), 2)
        assert snapshot(tmp_path) == before


def kept_in(folder: Path, once: Path, koyu: dict[str, Any]) -> list[bundles.Kept]:
    """Record two episodes in this process; returns their bundles as a worker's."""
    collected(maker(folder, once, {**SETTLED, **koyu}, formats=["koyu"], discard_and_retry_failed=False), 1, episodes=2)
    places = [folder / "cubes/episodes" / one["id"] for one in read_manifest(folder / "cubes")["episodes"]]
    return [bundles.Kept(take, [place]) for take, place in enumerate(places)]


class Stop(Exception):
    """Raised where something is to go wrong."""


def test_bundles_come_all_or_none(tmp_path: Path) -> None:
    once = tmp_path / "once"
    once.touch()
    kept, dataset = kept_in(tmp_path / "shard", once, {}), tmp_path / "cubes"

    def stop(done: int, total: int) -> None:
        if done == total:
            raise Stop

    settings = lr.KoyuSettings("cubes", id_seed=9)
    for note in (stop, lambda done, total: None):
        with pytest.raises(Stop), bundles.ready(dataset, settings, kept, 25, note):
            raise Stop
        assert not dataset.exists()
    with bundles.ready(dataset, settings, kept, 25, lambda done, total: None) as add:
        assert read_manifest(dataset)["episodes"] == []
        add()
    check_koyu(dataset)
    with (
        pytest.raises(lr.StorageError, match="is there already, and bundles are never replaced"),
        bundles.ready(dataset, settings, kept, 25, lambda done, total: None),
    ):
        raise Stop
    # One of another kind.
    sidecar = kept[1].folders[0] / "episode.json"
    sidecar.write_text(json.dumps({**json.loads(sidecar.read_text()), "fps": 5.0}))
    with (
        pytest.raises(lr.FormatError, match=r"fps and features are .* the environment is not the same"),
        bundles.ready(dataset, lr.KoyuSettings("cubes"), kept, 25, lambda done, total: None),
    ):
        raise Stop
    assert len(read_dataset(dataset)) == 2


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("before", ["nothing", "a dataset", "a session that is gone on with"])
def test_where_bundles_fail_after_the_session_they_are_to_be_made_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, before: str
) -> None:
    """The shards hold surplus, too: merged, they are other episodes than the session's."""
    once = tmp_path / "once"
    once.touch()
    mode = {"collection_mode": "teleop"}
    given: dict[str, Any] = {}
    if before != "nothing":
        first = collected(maker(tmp_path, once, mode), 1, episodes=1, seed=50)
        given = {"resume": first.path} if before == "a session that is gone on with" else {}

    real = DatasetWriter.commit

    def full(writer: Any, prepared: Any) -> None:
        if len(prepared) > 1:
            raise lr.StorageError("the disk is full")
        real(writer, prepared)

    with monkeypatch.context() as patched:
        patched.setattr(DatasetWriter, "commit", full)
        with pytest.raises(lr.StorageError, match="the disk is full"):
            collected(maker(tmp_path, once, mode, **given), 2, episodes=3, seed=0)
    assert (tmp_path / "cubes").exists() is (before != "nothing")
    (told,) = [text for text in caplog.messages if "this makes a dataset of it: " in text]
    command = shlex.split(told.partition("this makes a dataset of it: ")[2])
    done = CliRunner().invoke(app, command[1:])
    assert done.exit_code == 0, done.output
    session, dataset = Path(command[2]), Path(command[4])
    check_koyu(dataset)
    seeds = [int(seed) for seed in check_session(session).episodes["seed"].to_pylist()]
    added = {"nothing": [], "a dataset": [50]}.get(before, [])
    assert seeds_of(dataset) == [*added, *seeds]
    assert len(seeds) == 3


def test_long_rows_are_moved_part_after_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lucky_recorder.episode.parts.PART_ROWS", 2)
    once = tmp_path / "once"
    once.touch()
    kept = kept_in(tmp_path / "shard", once, {"time_origin_ns": 10**18 + 5_000})
    with bundles.ready(tmp_path / "cubes", lr.KoyuSettings("cubes", **SETTLED), kept, 25, lambda *_: None) as add:
        add()
    kept_in(tmp_path / "alone", once, {})
    assert snapshot(tmp_path / "cubes") == snapshot(tmp_path / "alone/cubes")
    (first, *_) = (tmp_path / "cubes").glob("episodes/*/data.parquet")
    assert pq.ParquetFile(first).num_row_groups > 1


def twins(folder: Path) -> lr.RecordSession:
    return lr.RecordSession(
        gym.make("LuckyRecorder/TwinArms-v0"),
        output_dir=folder,
        robots=["left_base", "right_base"],
        max_episode_length_s=0.1,
        koyu=lr.KoyuSettings("cubes", **SETTLED),
    )


def test_every_robot_has_its_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lr.collect(functools.partial(twins, tmp_path / "alone"), episodes=3)
    monkeypatch.setattr(gather, "Workers", Inline)
    lr.collect(functools.partial(twins, tmp_path / "workers"), episodes=3, workers=2)
    assert [read.sidecar["robot"] for read in read_dataset(tmp_path / "workers/cubes")] == [
        "left_base",
        "right_base",
    ] * 3
    assert snapshot(tmp_path / "workers/cubes") == snapshot(tmp_path / "alone/cubes")


def test_of_a_dead_worker_an_attempt_counts_only_if_every_format_has_it(tmp_path: Path) -> None:
    once = tmp_path / "once"
    once.touch()
    session = collected(maker(tmp_path, once), 1, episodes=1).path
    assert session is not None
    (place,) = (tmp_path / "cubes/episodes").glob("ep_*")
    attempt = Attempt(0, 0, 3, True, "verdict", 0, None, (place,))
    discarded = attempt._replace(episode=None, bundles=())
    lost = attempt._replace(bundles=(place.with_name("ep_lost"),))
    for shard in (session, tmp_path / "cubes"):
        assert are_written(shard, [discarded, attempt])
        assert not are_written(shard, [attempt, lost])
    assert not are_written(session, [attempt, attempt._replace(episode=1)])
    assert are_written(tmp_path / "nothing", [discarded])
