from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_recorder.episode import clock
from lucky_recorder.episode.record import Event, Outcome, Reason
from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import CaptureError, SettingsError
from lucky_recorder.koyu.metadata import reward
from lucky_recorder.koyu.sink import KoyuSink
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.storage import reserve
from lucky_recorder.testing import read_count
from tests.koyu.making import BEGAN_NS, TASKS, keep, make_record, make_sink, read_dataset, read_manifest, snapshot
from tests.session.building import arm_schema, camera, custom_schema

FRONT, WRIST = camera("Front"), camera("Wrist")


def test_everything_is_read_back(tmp_path: Path) -> None:
    schema = arm_schema([FRONT, WRIST], extra=[Field("pose", "float64", (2, 2)), Field("touch", "bool")])
    settings = KoyuSettings(
        "cubes",
        collection_mode="eval",
        source_run_id="run-5",
        source_checkpoint="step-9000",
        policy_name="bc",
        requested_manifest="wanted",
        manifest_id="mf_wanted",
        source_project_id="lifting",
    )
    sink = make_sink(tmp_path / "cubes", schema, settings, preset="fast")
    records = [keep(sink, schema, ticks, attempt=ticks) for ticks in (5, 1, 12)]
    sink.close()
    for record, read in zip(records, read_dataset(tmp_path / "cubes"), strict=True):
        assert list(read.rows) == ["step", "timestamp", "observation.state", "action", "pose", "touch"]
        assert read.rows["step"].tolist() == [*range(record.data_ticks)]
        for name in ("observation.state", "action", "pose", "touch"):
            expected = record.columns[name].astype(np.float32).reshape(record.data_ticks, -1)
            assert np.array_equal(read.rows[name], expected)
            assert read.types[name].endswith(": float>")
        for key in (FRONT.key, WRIST.key):
            assert [read_count(f) for f in read.frames[key]] == [
                100 * record.take + t for t in range(record.data_ticks)
            ]
        sidecar = dict(read.sidecar)
        assert len(sidecar.pop("capture_id")) == 32
        assert sidecar.pop("names")["action"] == ["arm.pan", "arm.lift", "arm.grip"]
        assert sidecar.pop("features") == read_manifest(tmp_path / "cubes")["features"]
        assert sidecar == {
            "schema_version": 1,
            "recorded_at": "2025-10-09T08:53:20.123456+00:00",
            "seed": None,
            "end_reason": "verdict",
            "annotations": {},
            "length": record.data_ticks,
            "fps": 50.0,
            "record_hz": 50.0,
            "task": "pick-up-the-cube",
            "task_description": "Pick up the cube",
            "collection_mode": "eval",
            "encoding": {
                "codec": "h264",
                "encoder": "libx264",
                "pix_fmt": "yuv420p",
                "crf": 20,
                "gop": 10,
                "preset": "fast",
            },
            "source_run_id": "run-5",
            "source_checkpoint": "step-9000",
            "policy_name": "bc",
            "requested_manifest": "wanted",
            "manifest_id": "mf_wanted",
            "source_project_id": "lifting",
            "reward": 1.0,
            "events": [],
            "dataset": "cubes",
            "robot": "arm",
            "action_source": "actuators",
        }
    ids = [read.sidecar["capture_id"] for read in read_dataset(tmp_path / "cubes")]
    assert len(set(ids)) == 3
    assert [f"ep_{one}" for one in ids] == [e["id"] for e in read_manifest(tmp_path / "cubes")["episodes"]]


def test_time_is_counted_from_when_it_was_recorded(tmp_path: Path) -> None:
    schema = arm_schema(hz=Fraction(200, 3))
    sink = make_sink(tmp_path, schema, KoyuSettings("cubes"))
    keep(sink, schema, 9)
    sink.close()
    (read,) = read_dataset(tmp_path)
    began = BEGAN_NS // 1000 * 1000
    assert read.rows["timestamp"].tolist() == [began + clock.tick_ns(t, schema.hz) for t in range(9)]
    assert read.sidecar["recorded_at"] == clock.moment(began)
    assert read.sidecar["fps"] == read.sidecar["record_hz"] == 200 / 3


def test_a_pinned_time_goes_on_from_episode_to_episode(tmp_path: Path) -> None:
    schema = arm_schema(hz=Fraction(200, 3))
    sink = make_sink(tmp_path, schema, KoyuSettings("cubes", time_origin_ns=7_000_000_000))
    for attempt, ticks in enumerate((1, 2, 4)):
        keep(sink, schema, ticks, attempt=attempt)
    sink.close()
    firsts = [int(read.rows["timestamp"][0]) for read in read_dataset(tmp_path)]
    assert firsts == [7_000_000_000, 7_015_000_000, 7_045_000_000]


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        schema = arm_schema([FRONT], robots=("left", "right"))
        sink = make_sink(tmp_path / name, schema)
        for attempt in range(3):
            keep(sink, schema, 4 + attempt, attempt=attempt)
        sink.close()
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "other")


@pytest.mark.parametrize("first", [0, 1, 700])
def test_a_seed_that_was_used_is_refused_before_anything_is_recorded(tmp_path: Path, first: int) -> None:
    """Also where the first takes were discarded."""
    schema = arm_schema()
    sink = make_sink(tmp_path, schema)
    keep(sink, schema, 2, attempt=first)
    sink.close()
    before = snapshot(tmp_path)
    with pytest.raises(SettingsError, match=r"^koyu\.id_seed=3: .* has bundles of this seed already"):
        make_sink(tmp_path, schema)
    assert snapshot(tmp_path) == before


def test_each_robot_has_a_bundle_of_its_own(tmp_path: Path) -> None:
    schema = arm_schema([FRONT], robots=("left", "right"))
    sink = make_sink(tmp_path, schema)
    record = keep(sink, schema, 6)
    sink.close()
    both = read_dataset(tmp_path)
    for robot, read in enumerate(both):
        assert read.sidecar["robot"] == ("left", "right")[robot]
        assert np.array_equal(read.rows["action"], record.columns["action"][robot::2].astype(np.float32))
        assert read.sidecar["length"] == len(read.rows["step"]) == len(read.frames[FRONT.key]) == 6
    inodes = {path.stat().st_ino for path in tmp_path.glob("episodes/*/*.mp4")}
    assert len(inodes) == 1
    assert both[0].sidecar["capture_id"] != both[1].sidecar["capture_id"]


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome(True), 1.0),
        (Outcome(False), 0.0),
        (Outcome(True, reward=0.7), 0.7),
        (Outcome(False, reward=0.2), 0.2),
        (Outcome(False, Reason.NO_VERDICT), None),
        (Outcome(False, Reason.NO_VERDICT, 0.4), 0.4),
        (Outcome(False, Reason.TIME_LIMIT), 0.0),
        (Outcome(False, Reason.STOPPED), None),
        (Outcome(False, Reason.ERROR), None),
        (Outcome(False, Reason.STREAM_FAILED), None),
    ],
)
def test_a_verdict_becomes_a_reward(outcome: Outcome, expected: float | None) -> None:
    assert reward(outcome) == expected


def test_success_rate_is_the_share_of_good_rewards_among_those_that_are_there(tmp_path: Path) -> None:
    schema = arm_schema()
    sink = make_sink(tmp_path, schema)
    outcomes = [Outcome(True), Outcome(False), Outcome(True, reward=0.5), Outcome(False, Reason.STOPPED)]
    for attempt, outcome in enumerate(outcomes):
        keep(sink, schema, 2, attempt=attempt, outcome=outcome)
    sink.close()
    assert [read.sidecar["reward"] for read in read_dataset(tmp_path)] == [1.0, 0.0, 0.5, None]
    content = read_manifest(tmp_path)
    assert (content["success_rate"], content["mean_reward"]) == (2 / 3, 0.5)


@pytest.mark.parametrize("robots", [("arm",), ("left", "right")])
def test_what_overflows_is_named_and_leaves_nothing(tmp_path: Path, robots: tuple[str, ...]) -> None:
    schema = arm_schema([FRONT], robots=robots)
    sink = make_sink(tmp_path, schema)
    values = np.zeros((4 * len(robots), 3))
    values[-1, 1] = 1e39
    record = make_record(sink, schema, 4, attempt=5, values={"action": values})
    robot = ", robot 'right'" if len(robots) > 1 else ""
    with pytest.raises(CaptureError, match=rf"^take 5{robot}, row 3, column 'action': 1e\+39"):
        sink.prepare(record)
    left = {p.name for p in (tmp_path / "episodes").glob("*/*")}
    assert left == {record.videos[FRONT.key].file.path.name, reserve.NAME}
    sink.close()
    assert list((tmp_path / "episodes").iterdir()) == []
    assert read_manifest(tmp_path)["episodes"] == []


def test_what_is_missing_is_nan_and_the_log_tells(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    schema = arm_schema(extra=[Field(name, "float64", nullable=True) for name in ("seen", "felt", "whole")])
    sink = make_sink(tmp_path, schema)
    keep(sink, schema, 3, missing={"seen": np.array([False, True, False]), "whole": np.zeros(3, bool)})
    keep(
        sink,
        schema,
        3,
        attempt=1,
        missing={"seen": np.array([True, True, False]), "felt": np.array([False, False, True])},
    )
    dropped = make_record(sink, schema, 3, attempt=2, missing={"felt": np.ones(3, bool)})
    sink.prepare(dropped).discard()
    assert caplog.messages == []
    sink.close()
    assert caplog.messages == [
        f"{tmp_path}: koyu bundles hold NaN where a column has no value in a row: seen (3 rows), felt (1 row)"
    ]
    reads = read_dataset(tmp_path)
    assert [np.isnan(read.rows["seen"][:, 0]).sum() for read in reads] == [1, 2]


@pytest.mark.parametrize("name", ["action", "observation.state"])
def test_an_action_or_a_state_that_is_missing_is_refused(tmp_path: Path, name: str) -> None:
    schema = arm_schema(robots=("left", "right"))
    sink = make_sink(tmp_path, schema)
    record = make_record(sink, schema, 3, missing={name: np.array([False, False, False, True, False, False])})
    with pytest.raises(CaptureError, match=rf"^take 0, robot 'right', row 1, column '{name}': has no value: every row"):
        sink.prepare(record)
    sink.close()
    assert read_manifest(tmp_path)["episodes"] == []


def test_what_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    schema = arm_schema([FRONT], robots=("left", "right"))
    sink = make_sink(tmp_path, schema)
    sink.prepare(make_record(sink, schema, 3)).discard()
    assert [p.name for p in (tmp_path / "episodes").glob("*/*")] == [reserve.NAME]
    sink.close()
    assert list((tmp_path / "episodes").iterdir()) == []


def test_tasks_and_events_stand_in_the_sidecar(tmp_path: Path) -> None:
    schema = arm_schema()
    sink = make_sink(tmp_path, schema)
    keep(sink, schema, 4, tasks=(0, 1), events=(Event(1, "takeover", {"by": "Kim"}), Event(4, "release", {})))
    keep(sink, schema, 2, attempt=1, tasks=(1,))
    sink.close()
    first, second = (read.sidecar for read in read_dataset(tmp_path))
    assert first["task_description"] == TASKS[0]
    assert first["events"] == [
        {"step": 1, "type": "takeover", "by": "Kim"},
        {"step": 2, "type": "task", "task": "put-it-down", "task_description": "Put it down"},
        {"step": 4, "type": "release"},
    ]
    assert (second["task"], second["events"]) == ("put-it-down", [])


def test_without_tasks_and_cameras_there_is_still_a_bundle(tmp_path: Path) -> None:
    schema = arm_schema()
    sink = KoyuSink(tmp_path, KoyuSettings("cubes"))
    sink.open(schema, ())
    keep(sink, schema, 2, described=("Default Task",))
    sink.close()
    (read,) = read_dataset(tmp_path)
    assert read.sidecar["task_description"] == "Default Task"
    assert read.sidecar["encoding"] == {}
    assert read.frames == {}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"cameras": [dataclasses.replace(FRONT, width=32)]}, r"features\['observation.images.Front'\] is .*64"),
        ({"hz": 25, "cameras": [camera("Front", 25)]}, r"fps is 50.0 in this dataset and 25.0"),
    ],
)
def test_a_recording_of_another_kind_is_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    make_sink(tmp_path, arm_schema([FRONT])).close()
    before = snapshot(tmp_path)
    with pytest.raises(SettingsError, match=message):
        make_sink(tmp_path, arm_schema(**{"cameras": [FRONT], **changed}))
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"collection_mode": "eval"}, r"type is 'teleop' .*'eval' here"), ({"action": "gym"}, r"action_source is 'act")],
)
def test_what_needs_no_rates_is_refused_as_soon_as_the_sink_is_made(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    make_sink(tmp_path, arm_schema(), KoyuSettings("cubes", collection_mode="teleop")).close()
    before = snapshot(tmp_path)
    with pytest.raises(SettingsError, match=message):
        KoyuSink(tmp_path, KoyuSettings("cubes", **{"collection_mode": "teleop", **changed}))
    assert snapshot(tmp_path) == before


def test_a_sink_that_was_never_opened_has_touched_nothing(tmp_path: Path) -> None:
    KoyuSink(tmp_path / "cubes", KoyuSettings("cubes")).close()
    sink = KoyuSink(tmp_path / "cubes", KoyuSettings("cubes"))
    with pytest.raises(SettingsError, match="a bundle needs a column"):
        sink.open(custom_schema(), ())
    sink.close()
    assert list(tmp_path.iterdir()) == []
