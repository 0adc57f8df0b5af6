"""merge, select, delete, split, rename_task and trim: what is made, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.edit import sql
from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.rollouts import tried
from lucky_recorder.session.check import check_session
from lucky_recorder.session.features import ABOUT_COLUMNS
from lucky_recorder.testing import CountEnv
from tests.edit.shaping import files, hashes, in_sessions
from tests.scenarios.moves import ZERO
from tests.session.building import arm_schema, camera

PICK, PUT = "Pick up the cube", "Put it down"
# What in_sessions makes of seven episodes: their rows, whether they succeeded, and their tasks.
ROWS = [3, 4, 5, 6, 3, 4, 5]
FAILED, BOTH = {1, 4}, {1, 3, 5}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (path,) = in_sessions(
        tmp_path_factory.mktemp("session"), arm_schema([camera("Front")]), 7, files_per_chunk=3, episodes_per_file=2
    )
    return path


def origins(session: Path, made: Path) -> list[int]:
    """Which episode of a session each of a new one is: by its rows, and its video, which is the same file."""
    assert check_session(made) == []
    found = []
    known = {str(e.rows()["action"].to_pylist()): e for e in lr.Session(session)}
    for episode in lr.Session(made):
        source = known[str(episode.rows()["action"].to_pylist())]
        assert episode.video_path("Front").samefile(source.video_path("Front"))
        assert (episode.success, episode.tasks) == (source.success, source.tasks)
        found.append(source.index)
    return found


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        ({"success_only": True}, [0, 2, 3, 5, 6]),
        ({"tasks": [PICK]}, [1, 3, 5]),
        ({"tasks": PUT}, range(7)),
        ({"episodes": "0:2,5"}, [0, 1, 5]),
        ({"episodes": ":2, 4:"}, [0, 1, 4, 5, 6]),
        ({"episodes": (6, 0, 6)}, [0, 6]),
        ({"min_length": 5}, [2, 3, 6]),
        ({"success_only": True, "tasks": [PICK], "min_length": 5, "episodes": "0:7"}, [3]),
    ],
)
def test_select_keeps_what_meets_every_condition(
    session: Path, tmp_path: Path, conditions: dict[str, Any], kept: Any
) -> None:
    before = hashes(session)
    planned = lr.select(session, tmp_path / "made", **conditions, dry_run=True)
    assert (list(tmp_path.iterdir()), hashes(session)) == ([], before)
    seen: list[tuple[int, int]] = []
    done = lr.select(session, tmp_path / "made", **conditions, on_episode=lambda *at: seen.append(at))
    assert done == planned == (tmp_path / "made", len(kept), sum(ROWS[i] for i in kept), 7 - len(kept))
    assert seen == [(i + 1, len(kept)) for i in range(len(kept))]
    assert origins(session, done.path) == list(kept)
    assert (lr.Session(done.path).tasks, hashes(session)) == ([PICK, PUT], before)


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"episodes": "0:9"}, r"0:9: there are the episodes 0 to 6, as 0:7"),
        ({"episodes": "7"}, r"there is no episode 7; .* has the episodes 0 to 6"),
        ({"episodes": [0, -1]}, "there is no episode -1"),
        ({"episodes": [True]}, "give numbers of episodes"),
        ({"episodes": "3:3"}, "3:3: there are"),
        ({"episodes": "a"}, "write numbers and ranges"),
        ({"episodes": ""}, "write numbers and ranges"),
        ({"episodes": "0:4:2"}, "write numbers and ranges"),
        ({"episodes": "-1"}, "write numbers and ranges"),
        ({"tasks": ["Dance"]}, f"tasks='Dance': .* it has \\['{PICK}', '{PUT}'\\]"),
        ({"min_length": 99}, "none of the 7 episodes of .* meets every condition"),
    ],
)
def test_conditions_that_name_what_is_not_there(
    session: Path, tmp_path: Path, conditions: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        lr.select(session, tmp_path / "made", **conditions)
    assert list(tmp_path.iterdir()) == []


def test_delete_keeps_the_rest(session: Path, tmp_path: Path) -> None:
    done = lr.delete(session, tmp_path / "made", episodes="0,2:4")
    assert (done.episodes, done.left_out, origins(session, done.path)) == (4, 3, [1, 4, 5, 6])
    with pytest.raises(SettingsError, match="these are all that"):
        lr.delete(session, tmp_path / "none", episodes=range(7))


def test_what_was_taken_apart_is_merged_into_what_it_was(session: Path, tmp_path: Path) -> None:
    one = lr.select(session, tmp_path / "one", episodes="0:4").path
    two = lr.delete(session, tmp_path / "two", episodes="0:4").path
    assert files(lr.merge([one, two], tmp_path / "made").path) == files(session)


def test_merge_refuses_what_is_no_list_of_sessions(session: Path, tmp_path: Path) -> None:
    for sessions, message in (
        ([session, session], "is named twice"),
        ([], "name the sessions"),
        (session, "give a list"),
    ):
        with pytest.raises(SettingsError, match=message):
            lr.merge(sessions, tmp_path / "made")
    with pytest.raises(FormatError, match="no such folder"):
        lr.merge([tmp_path / "nowhere"], tmp_path / "made")


# Tasks.


def test_a_task_is_renamed_or_united_with_another(session: Path, tmp_path: Path) -> None:
    renamed = lr.Session(lr.rename_task(session, tmp_path / "renamed", PICK, "Grasp it").path)
    assert (renamed.tasks, renamed.episode(1).tasks) == (["Grasp it", PUT], ("Grasp it", PUT))
    united = lr.Session(lr.rename_task(session, tmp_path / "united", PUT, PICK).path)
    assert (united.tasks, united.info["total_tasks"]) == ([PICK], 1)
    for episode in united:
        assert (episode.tasks, set(episode.rows()["task_index"].to_pylist())) == ((PICK,), {0})
    assert check_session(renamed.path) == check_session(united.path) == []
    for old, new, message in (("Dance", "x", "has no such task"), (PICK, " ", "not empty"), (PICK, PICK, "another")):
        with pytest.raises(SettingsError, match=message):
            lr.rename_task(session, tmp_path / "none", old, new)


def test_tasks_are_united_by_description_in_any_order(tmp_path: Path) -> None:
    (one,) = in_sessions(tmp_path / "one", arm_schema(), 2, tasks=[PICK, PUT])
    (two,) = in_sessions(tmp_path / "two", arm_schema(), 2, tasks=[PUT, "Wave", "Never"])
    made = lr.Session(lr.merge([one, two], tmp_path / "made").path)
    assert made.tasks == [PICK, PUT, "Wave", "Never"]
    assert [e.tasks for e in made] == [(PUT,), (PICK, PUT), ("Wave",), (PUT, "Wave")]
    assert check_session(made.path) == []


# Parts.


def test_split_gives_each_episode_to_one_part(session: Path, tmp_path: Path) -> None:
    parts = {"train": 0.6, "val": 0.2, "test": 0.2}
    planned = lr.split(session, parts, output=tmp_path / "parts", dry_run=True)
    assert list(tmp_path.iterdir()) == []
    seen: list[tuple[int, int]] = []
    made = lr.split(session, parts, output=tmp_path / "parts", on_episode=lambda *at: seen.append(at))
    assert made == planned
    assert [one.episodes for one in made.values()] == [4, 2, 1]
    assert seen == [(i + 1, 7) for i in range(7)]
    found = {name: origins(session, tmp_path / "parts" / name) for name in parts}
    assert sorted(index for part in found.values() for index in part) == list(range(7))
    assert all(episodes == sorted(episodes) for episodes in found.values())
    again = lr.split(session, parts, output={name: tmp_path / f"again {name}" for name in parts})
    assert {name: origins(session, one.path) for name, one in again.items()} == found
    others = [lr.split(session, parts, output=tmp_path / str(seed), seed=seed) for seed in (1, 2)]
    assert any({n: origins(session, one.path) for n, one in other.items()} != found for other in others)


def test_split_by_task_gives_every_part_its_share_of_each(tmp_path: Path) -> None:
    paths = [in_sessions(tmp_path / t, arm_schema(), 6, tasks=[f"{t} 0", f"{t} 1"])[0] for t in ("a", "b")]
    both = lr.merge(paths, tmp_path / "both").path
    made = lr.split(both, {"train": 2 / 3, "val": 1 / 3}, output=tmp_path / "parts", by_task=True)
    tasks = [sorted(e.tasks) for e in lr.Session(made["val"].path)]
    assert sorted(tasks) == [["a 0", "a 1"], ["a 1"], ["b 0", "b 1"], ["b 1"]]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"train": 0.9, "val": 0.2}, "are 1.1 together"),
        ({}, "are 0 together"),
        ({"train": 0.99, "val": 0.01}, "of 7 episodes none would come into 'val'"),
        ({"train": 1.5, "val": -0.5}, "above 0 and up to 1"),
        ({"train": float("nan"), "val": 0.5}, "above 0 and up to 1"),
        ({"../train": 1.0}, "no name of a folder"),
    ],
)
def test_parts_that_are_none(session: Path, tmp_path: Path, parts: dict[str, float], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        lr.split(session, parts, output=tmp_path / "parts")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_stops_all_parts(session: Path, tmp_path: Path) -> None:
    (tmp_path / "val").mkdir()
    with pytest.raises(SettingsError, match="is there already"):
        lr.split(session, {"train": 0.5, "val": 0.5}, output=tmp_path)
    for output in ({"train": tmp_path / "x"}, {"train": tmp_path / "x", "val": tmp_path / "x"}):
        with pytest.raises(SettingsError, match="folder"):
            lr.split(session, {"train": 0.5, "val": 0.5}, output=output)
    assert [p.name for p in tmp_path.iterdir()] == ["val"]


# Conditions in SQL.


def test_without_duckdb_a_condition_names_the_extra(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(SettingsError, match=r'pip install "lucky-recorder\[sql\]"'):
        lr.select(session, tmp_path / "made", where="success")


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("success AND length > 4", {2, 3, 6}),
        ("length > (SELECT avg(length) FROM episodes)", {2, 3, 6}),
        (f"list_contains(tasks, '{PICK}')", BOTH),
        ("data_chunk_index = 1 -- of those", {6}),
        ("videos_observation_images_Front_to_timestamp < 0.07", {0, 4}),
        ("NULL", set()),
    ],
)
def test_where_is_an_expression_over_the_episodes(session: Path, condition: str, kept: set[int]) -> None:
    assert sql.where(lr.Session(session).episodes, condition) == kept


@pytest.mark.parametrize(
    "condition",
    [
        "1=1) UNION SELECT 1 --",
        "success; DROP VIEW episodes",
        "success, length",
        "length > 1 ORDER BY 1",
        "length > 1 LIMIT 1",
        "length > 1) LIMIT 1 --",
        "success) OR (1=1",
        "nothing > 1",
        "",
        "episode_index IN (SELECT 1 FROM read_csv('/etc/passwd'))",
        "episode_index IN (SELECT 1 FROM read_parquet('http://localhost/x'))",
        "episode_index IN (SELECT episode_index FROM table)",
    ],
)
def test_where_is_nothing_but_that(session: Path, condition: str) -> None:
    table = pa.table({"episode_index": [1]})
    assert table.num_rows
    with pytest.raises(SettingsError, match="where="):
        sql.where(lr.Session(session).episodes, condition)


def test_seeds_of_what_is_left_out_are_not_tried_again(tmp_path: Path) -> None:
    env = lr.RecordSession(CountEnv(3, mujoco=True), output_dir=tmp_path / "all")
    lr.collect(env, lambda observation: ZERO, episodes=4, seed=100)
    env.close()
    parts = lr.split(env.session_path, {"train": 0.5, "val": 0.5}, output=tmp_path / "parts")
    assert [tried.largest_seed(part.path) for part in parts.values()] == [103, 103]
    # Also through another one: what was left out of what it was made of stays known.
    once_more = lr.select(parts["train"].path, tmp_path / "one", episodes="0").path
    assert tried.largest_seed(once_more) == 103
    assert check_session(once_more) == []
    # Together they are what they were: none of it is left out.
    both = lr.Session(lr.merge([part.path for part in parts.values()], tmp_path / "both").path)
    assert sorted(str(e.seed) for e in both) == ["100", "101", "102", "103"]
    assert [one.get("left_out_seeds") for one in both.provenance] == [None, None]
    some = lr.Session(lr.merge([once_more, parts["val"].path], tmp_path / "some").path)
    (gone,) = {"100", "101", "102", "103"} - {str(e.seed) for e in some}
    assert {s for one in some.provenance for s in one.get("left_out_seeds", ())} == {gone}


def test_a_session_of_an_earlier_version_merges_with_a_new_one(tmp_path: Path) -> None:
    paths = in_sessions(tmp_path, arm_schema(), 2, 2)
    for file in paths[0].glob("meta/episodes/*/*.parquet"):
        about = [name for name, _ in ABOUT_COLUMNS]
        pq.write_table(pq.ParquetFile(file).read().drop_columns(about), file)
    made = lr.merge(paths, tmp_path / "both").path
    assert check_session(made) == []
    assert [episode.end_reason for episode in lr.Session(made)] == [None, None, "verdict", "verdict"]


def test_seeds_of_a_recording_that_has_kept_nothing_are_not_tried_again(tmp_path: Path) -> None:
    session = None
    for seed in (100, 101):
        settings = {"output_dir": tmp_path / "all", "discard_and_retry_failed": True, "resume": session}
        env = lr.RecordSession(CountEnv(3, mujoco=True), settings)
        env.reset(seed=seed)
        env.step(ZERO)
        env.end_episode(success=seed == 100)
        env.close()
        session = env.session_path
    assert session is not None
    assert tried.largest_seed(session) == 101
    assert tried.largest_seed(lr.merge([session], tmp_path / "merged").path) == 101
