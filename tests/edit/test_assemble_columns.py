"""What is carried from session to session exactly: columns of every type, notes on episodes, others' sessions."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.edit import columns
from lucky_recorder.edit.assemble import Pick, assemble, plan
from lucky_recorder.episode import keys
from lucky_recorder.errors import FormatError, SettingsError
from lucky_recorder.session.check import check_session
from lucky_recorder.session.layout import Chunking
from lucky_recorder.session.sink import SessionSink
from tests.edit.shaping import every_stream, files, in_sessions, whole
from tests.session.building import Recording, arm_schema, custom_schema
from tests.session.foreign import EVERY_STREAM, Recorder, rows_of, write_session
from tests.session.resuming import forget
from tests.session.test_foreign import RECORDERS


def note(path: Path, **more: pa.Array) -> None:
    """Add columns to the list of episodes, as its user does with pandas or pyarrow."""
    done = 0
    for file in sorted(path.glob("meta/episodes/*/*.parquet")):
        table = pq.ParquetFile(file).read()
        for name, values in more.items():
            table = table.append_column(name, values.slice(done, table.num_rows))
        pq.write_table(table, file)
        done += table.num_rows


def test_what_is_noted_of_episodes_goes_along_and_is_null_where_nothing_is(tmp_path: Path) -> None:
    one, two = in_sessions(tmp_path, arm_schema(), 3, 2)
    times = pa.array([1_700_000_000_123_456_789, None, 5], pa.timestamp("ns", "UTC"))
    note(
        one,
        rating=pa.array([4, None, 5], pa.int8()),
        operator=pa.array(["Ada", "Bo", None]),
        said=pa.array(['{"x": [1]}', "{}", None]),
        looked_at=times,
        weights=pa.array([[0.5, 1.0], None, [float("nan")]], pa.list_(pa.float64())),
    )
    note(two, operator=pa.array([None, "Çelik"]), number=pa.array(["7", "8"]))
    made = assemble([*whole(one, two)][::-1], tmp_path / "made")
    table = lr.Session(made).episodes
    assert table["operator"].to_pylist() == ["Çelik", None, None, "Bo", "Ada"]
    assert table["number"].to_pylist() == ["8", "7", None, None, None]
    assert (table["rating"].type, table["rating"].to_pylist()) == (pa.int8(), [None, None, 5, None, 4])
    assert table["looked_at"].type == times.type
    assert table["looked_at"].combine_chunks().cast(pa.int64()).to_pylist() == [None, None, 5, None, times[0].value]
    assert table["said"].to_pylist()[-1] == '{"x": [1]}'
    assert str(table["weights"].to_pylist()) == "[None, None, [nan], None, [0.5, 1.0]]"
    assert check_session(made) == []
    assert [str(done.verdict) for done in lr.recover(made)] == ["complete"]
    # And once more: what was carried is carried.
    again = assemble(whole(made), tmp_path / "again")
    # NaN is equal to nothing.
    assert lr.Session(again).episodes.drop_columns("weights").equals(table.drop_columns("weights"))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("recorded_at", pa.array([True, False])),
        ("duration_s", pa.array(["1", None])),
        ("lane", pa.array([[0], [1]])),
        ("seed", pa.array([1, 2])),
        ("annotations", pa.array([{"a": 1}, None])),
        ("end_reason", pa.array([b"x", b"y"])),
    ],
)
def test_what_is_known_of_episodes_has_the_formats_types(tmp_path: Path, name: str, values: pa.Array) -> None:
    (one,) = in_sessions(tmp_path, arm_schema(), 2)
    for number, file in enumerate(sorted(one.glob("meta/episodes/*/*.parquet"))):
        table = pq.ParquetFile(file).read()
        mine = values.slice(number, table.num_rows)
        pq.write_table(table.set_column(table.column_names.index(name), name, mine), file)
    with pytest.raises(FormatError, match=f"{name} is .*, expected "):
        assemble(whole(one), tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_notes_of_several_types_are_refused(tmp_path: Path) -> None:
    one, two = in_sessions(tmp_path, arm_schema(), 1, 1)
    note(one, rating=pa.array([4]))
    note(two, rating=pa.array(["good"]))
    with pytest.raises(FormatError, match=f"'rating' in meta/episodes: {one} has int64, {two} string"):
        plan(whole(one, two), tmp_path / "made")


def test_a_note_that_is_called_like_statistics_goes_along(tmp_path: Path) -> None:
    """Those of a feature are of the rows as they were."""
    (one,) = in_sessions(tmp_path, arm_schema(), 2)
    values = pa.array([5, 4])
    note(one, **{"stats/rating": values, "stats/of/mine": values, "stats/action/mean": values})
    table = lr.Session(assemble(whole(one), tmp_path / "made")).episodes
    assert [table[name].to_pylist() for name in ("stats/rating", "stats/of/mine")] == [[5, 4], [5, 4]]
    assert "stats/action/mean" not in table.column_names


def test_what_is_noted_in_info_json_is_kept_where_all_say_it(tmp_path: Path) -> None:
    paths = in_sessions(tmp_path, arm_schema(), 1, 1)
    for number, path in enumerate(paths):
        info = json.loads((path / "meta/info.json").read_text())
        (path / "meta/info.json").write_text(json.dumps(info | {"license": "CC0", "place": number}))
    with pytest.warns(RuntimeWarning, match=r"says otherwise of place than"):
        made = assemble(whole(*paths), tmp_path / "made")
    info = lr.Session(made).info
    assert (info["license"], "place" in info, info["total_episodes"]) == ("CC0", False, 2)


@pytest.mark.parametrize("per_file", [1, 3])
def test_a_session_that_was_made_is_gone_on_with(tmp_path: Path, per_file: int) -> None:
    how = {"files_per_chunk": 2, "episodes_per_file": per_file}
    one, two = in_sessions(tmp_path, every_stream(), 2, 2, **how)
    note(one, rating=pa.array([4, 5]))
    made = assemble(whole(one, two), tmp_path / "made")
    recording = Recording(tmp_path / "other", every_stream(), **how)
    recording.root, recording.sink = made, SessionSink(made, Chunking(2, per_file), resumes=True)
    recording.sink.open(recording.schema, recording.tasks)
    recording.keep(3)
    recording.close()
    assert check_session(made) == []
    assert lr.Session(made).episodes["rating"].to_pylist() == [4, 5, None, None, None]


# Rows.


def test_a_long_episode_waits_in_a_file_and_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = in_sessions(tmp_path, every_stream(("left", "right")), 3, files_per_chunk=2)
    made = assemble(whole(one), tmp_path / "made")
    monkeypatch.setattr(columns, "PART_BYTES", 100)
    assert files(assemble(whole(one), tmp_path / "spilled")) == files(made) == files(one)


def test_an_episode_of_several_row_groups_is_cut_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lucky_recorder.episode.parts.PART_ROWS", 7)
    recording = Recording(tmp_path / "one", arm_schema(robots=("left", "right")))
    recording.keep(20)
    recording.close()
    session = lr.Session(recording.root)
    assert pq.ParquetFile(session.episode(0).data_path()).num_row_groups == 6
    made = lr.Session(assemble([Pick(session, 0, 3, 17)], tmp_path / "made"))
    (rows,), source = [e.rows() for e in made], session.episode(0).rows().slice(6, 28)
    for name in ("action", "observation.state", "robot_id", "task_index", "frame_flags"):
        assert rows[name].to_pylist() == source[name].to_pylist()
    assert rows["frame_index"].to_pylist() == np.repeat(np.arange(14), 2).tolist()
    assert rows["timestamp"].to_pylist() == session.episode(0).rows()["timestamp"].to_pylist()[:28]
    assert not any(flag & 2 for flag in rows["frame_flags"].to_pylist())


def test_memory_does_not_grow_with_the_episodes(tmp_path: Path) -> None:
    """What is kept of an episode is its place in the list of those to come, and no row, table or histogram."""
    paths = in_sessions(tmp_path, arm_schema(extra=()), 5, 35)
    kept = []
    for number, path in enumerate(paths):
        planned = plan(whole(path), tmp_path / f"made{number}")
        held: list[int] = []
        tracemalloc.start()
        planned.write(lambda done, total, held=held: held.append(tracemalloc.get_traced_memory()[0]))
        tracemalloc.stop()
        kept.append(held[-1] - held[3])
    # Of thirty more episodes; one that is kept whole takes some 20 kB.
    assert kept[1] - kept[0] < 30 * 4_000


# Sessions of earlier versions, and of other recorders.


@pytest.mark.parametrize("how", ["nothing carried", "less carried"])
def test_sessions_of_earlier_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """What their data files do not carry is looked at: colours are counted as they are stored."""
    with monkeypatch.context() as earlier:
        if how == "nothing carried":
            earlier.setattr(keys, "SESSION_FOOTER", b"somebody.else")
        one, two = in_sessions(tmp_path, every_stream(), 2, 2, files_per_chunk=2)
    if how == "less carried":
        for file in tmp_path.glob("*/data/*/file-*.parquet"):
            forget(file, "streams", "takes")
    made = assemble(whole(one, two), tmp_path / "made")
    assert check_session(made) == []
    session = lr.Session(made)
    assert [e.has_masks("Front") for e in session] == [True] * 4
    assert session.stats["observation.images.Front"]["count"] == [4]
    assert session.info["bit_reproducible"] is (how == "less carried")


@pytest.mark.parametrize("name", sorted(set(RECORDERS) - {"every stream"}))
def test_another_recorder_s_session_stays_one_of_that_recorder(tmp_path: Path, name: str) -> None:
    source = lr.Session(write_session(tmp_path / "one", RECORDERS[name]))
    made = lr.Session(assemble(whole(source.path)[::-1], tmp_path / "made"))
    assert (check_session(made.path), made.is_ours, made.entity_ids) == ([], False, source.entity_ids)
    for episode, other in zip(made, [*source][::-1], strict=True):
        left, right = episode.rows(), other.rows()
        assert left.column_names == right.column_names
        for column in set(left.column_names) - {"index", "episode_index"}:
            assert left[column].equals(right[column]), column
        for camera in source.cameras:
            assert episode.has_video(camera) == other.has_video(camera)
            if other.has_video(camera):
                assert episode.video_path(camera).read_bytes() == other.video_path(camera).read_bytes()


def test_another_recorder_s_sessions_are_merged(tmp_path: Path) -> None:
    recorder = Recorder(streams=("color", "depth", "masks", "rgbd"))
    paths = [write_session(tmp_path / name, recorder) for name in ("one", "two")]
    made = lr.Session(assemble(whole(*paths), tmp_path / "made"))
    assert check_session(made.path) == []
    assert (len(made), made.tasks) == (6, ["Lift the cube", "Put it down"])
    values = np.concatenate([np.stack(rows_of(recorder, e)["action"]) for e in range(3)] * 2)
    assert made.stats["action"]["mean"] == pytest.approx(values.mean(axis=0).tolist())
    assert len(list((made.path / "videos/observation.masks.Front").rglob("*.mp4"))) == 6


def test_what_of_another_recorder_cannot_be_numbered_anew_is_refused(tmp_path: Path) -> None:
    scans = write_session(tmp_path / "scans", Recorder(streams=EVERY_STREAM))
    with pytest.raises(FormatError, match="lidar 'Top Deck': its scans are not this recorder's"):
        plan(whole(scans), tmp_path / "made")
    strays = write_session(tmp_path / "strays", Recorder())
    (strays / "videos/notes.bin").write_bytes(b"?")
    with pytest.raises(FormatError, match=r"videos/notes\.bin: nothing says which episode it is of"):
        plan(whole(strays), tmp_path / "made")
    ours = Recording(tmp_path / "ours", custom_schema())
    ours.keep(3)
    ours.close()
    foreign = write_session(tmp_path / "foreign", Recorder(entity="entity_id", streams=()))
    with pytest.raises(FormatError, match=r"only .*/ours was written by lucky_recorder"):
        plan(whole(foreign, ours.root), tmp_path / "made")


def test_a_list_with_a_gap_is_refused(tmp_path: Path) -> None:
    path = write_session(tmp_path / "one", Recorder(streams=()))
    file = path / "data/chunk-000/file-000.parquet"
    table = pq.ParquetFile(file).read()
    broken: Any = table["action"].to_pylist()
    broken[1][2] = None
    pq.write_table(table.set_column(table.column_names.index("action"), "action", pa.array(broken)), file)
    with pytest.raises(FormatError, match=r"episode 0: column 'action': a list has a gap"):
        assemble(whole(path), tmp_path / "made")


def test_an_episode_without_rows_is_refused(tmp_path: Path) -> None:
    path = write_session(tmp_path / "one", Recorder(streams=(), lengths=(3,)))
    for file, column in (
        ("meta/episodes/chunk-000/file-000.parquet", "length"),
        ("data/chunk-000/file-000.parquet", ""),
    ):
        table = pq.ParquetFile(path / file).read()
        if column:
            table = table.set_column(table.column_names.index(column), column, pa.array([0]))
        pq.write_table(table if column else table.slice(0, 0), path / file)
    for shape in (
        lambda: assemble([Pick(lr.Session(path), 0)], tmp_path / "made"),
        lambda: lr.trim(path, tmp_path / "made", end=1),
    ):
        with pytest.raises((FormatError, SettingsError)) as raised:
            shape()
        assert str(path) in str(raised.value)


@pytest.mark.parametrize("most", [1 << 30, 1])
def test_a_model_without_actuators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(columns, "PART_BYTES", most)
    ball = '<mujoco><worldbody><body><freejoint/><geom size=".1"/></body></worldbody></mujoco>'
    model = mujoco.MjModel.from_xml_string(ball)
    data = mujoco.MjData(model)
    observer = lr.Observer(model=model, data=data, output_dir=tmp_path, mode="full_scene", data_hz=500)
    observer.start_recording()
    for _ in range(3):
        observer.tick()
        mujoco.mj_step(model, data)
    observer.end_current_episode(True)
    observer.stop_recording()
    assert observer.session_path is not None
    lr.merge([observer.session_path], tmp_path / "made")
    made, known = lr.Session(tmp_path / "made"), lr.Session(observer.session_path)
    assert known.features["action"]["shape"] == [0]
    assert made.features == known.features
    assert made.episode(0).rows().equals(known.episode(0).rows())
