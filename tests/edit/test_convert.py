from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.edit.convert import koyu_to_session, session_to_koyu
from lucky_recorder.episode.schema import Field
from lucky_recorder.koyu.manifest import rebuild
from lucky_recorder.testing import check_koyu, check_session
from tests.koyu.bundles import (
    CAMERAS,
    capture_id,
    edit_json,
    features,
    film,
    write_bundle,
    write_dataset,
    write_manifest,
)
from tests.session.building import Recording, arm_schema, camera, small_session

FRONT = CAMERAS[0]

# Said of the session below by every test; two of them look at it.
pytestmark = pytest.mark.filterwarnings("ignore:koyu bundles hold:UserWarning")


def koyu(path: Path, **fields: Any) -> lr.KoyuSettings:
    return lr.KoyuSettings(name="converted", path=path, **fields)


@pytest.fixture
def session(tmp_path: Path) -> Recording:
    """One robot, two cameras, three episodes of which one has failed, two tasks, columns of one's own."""
    extra = [
        Field("next.reward", "float64", has_stats=True),
        Field("lifted", "bool", has_stats=True, nullable=True),
        Field("pose", "float32", (7,), has_stats=True),
        # A bundle has no place for a text.
        Field("said", "string", nullable=True),
    ]
    recording = Recording(
        tmp_path / "session", arm_schema([camera("Front"), camera("Wrist")], extra=extra), episodes_per_file=2
    )
    recording.keep(5)
    missing = {"lifted": np.array([True, False, False, False])}
    recording.keep(4, success=False, tasks=(0, 1), missing=missing)
    recording.keep(12, tasks=(1,))
    recording.close()
    check_session(recording.root)
    return recording


def test_a_session_s_episodes_become_bundles(session: Recording, tmp_path: Path) -> None:
    done = session_to_koyu(session.root, koyu(tmp_path / "bundles", collection_mode="teleop", policy_name="me"))
    assert done[:4] == (tmp_path / "bundles", 3, 21, 0)
    dataset = check_koyu(done.path)
    assert "said" not in dataset.features
    assert [e.length for e in dataset.episodes] == [5, 4, 12]
    assert [e.task_description for e in dataset.episodes] == ["Pick up the cube", "Pick up the cube", "Put it down"]
    assert [dataset.sidecar(n)["reward"] for n in range(3)] == [1.0, 0.0, 1.0]
    assert dataset.manifest["success_rate"] == pytest.approx(2 / 3)
    assert (dataset.manifest["type"], dataset.sidecar(0)["policy_name"]) == ("teleop", "me")
    assert dataset.sidecar(1)["events"] == [
        {"step": 2, "type": "task", "task": "put-it-down", "task_description": "Put it down"}
    ]
    for number, record in enumerate(session.committed):
        columns = dataset.columns(number)
        for name in ("action", "observation.state", "pose"):
            assert np.array_equal(columns[name], record.columns[name].astype(np.float32))
        assert np.array_equal(columns["next.reward"][:, 0], record.columns["next.reward"].astype(np.float32))
    lifted = dataset.columns(1)["lifted"][:, 0]
    assert np.isnan(lifted).tolist() == [True, False, False, False]
    assert lifted[1:].tolist() == session.committed[1].columns["lifted"][1:].tolist()


def test_what_bundles_do_not_hold_is_told(session: Recording, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.warns(UserWarning, match="koyu bundles hold") as told:
        session_to_koyu(session.root, koyu(tmp_path / "bundles"))
    assert [str(one.message) for one in told] == [
        "koyu bundles hold numbers only, and are made without the columns of texts: said",
        "koyu bundles hold NaN where a column has no value in a row: lifted (1 row)",
    ]
    assert {one.filename for one in told} == {__file__}
    # Once: the log says it of a recording only.
    assert caplog.messages == []


def test_videos_are_linked(session: Recording, tmp_path: Path) -> None:
    done = session_to_koyu(session.root, koyu(tmp_path / "bundles"))
    dataset = lr.koyu.Dataset(done.path)
    for number, episode in enumerate(lr.Session(session.root)):
        for key in dataset.cameras:
            bundle = done.path / "episodes" / dataset.episodes[number].id / f"{key}.mp4"
            assert bundle.samefile(episode.video_path(key))


def test_the_session_is_left_as_it_was(session: Recording, tmp_path: Path) -> None:
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in session.root.rglob("*")}
    session_to_koyu(session.root, koyu(tmp_path / "bundles"))
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in session.root.rglob("*")} == before


def test_a_session_is_not_converted_twice_into_one_dataset(session: Recording, tmp_path: Path) -> None:
    settings = koyu(tmp_path / "bundles")
    session_to_koyu(session.root, settings)
    with pytest.raises(lr.SettingsError, match="has bundles of this seed already"):
        session_to_koyu(session.root, settings)
    assert len(check_koyu(tmp_path / "bundles").episodes) == 3


def test_several_robots_are_a_bundle_each(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "session", arm_schema([camera("Front")], robots=("left", "right")))
    record = recording.keep(6)
    recording.close()
    dataset = check_koyu(session_to_koyu(recording.root, koyu(tmp_path / "bundles")).path)
    by_robot = {dataset.sidecar(n)["robot"]: dataset.columns(n) for n in range(2)}
    for number, robot in enumerate(("left", "right")):
        expected = record.columns["action"][number::2].astype(np.float32)
        assert np.array_equal(by_robot[robot]["action"], expected)


def test_an_episode_without_one_of_its_videos_is_left_out(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "session", arm_schema([camera("Front")]))
    recording.keep(3)
    recording.keep(4, success=False, failed_stream=FRONT.replace("front", "Front"))
    recording.close()
    done = session_to_koyu(recording.root, koyu(tmp_path / "bundles"))
    assert (done.episodes, done.skipped) == (1, 1)
    assert [e.length for e in check_koyu(done.path).episodes] == [3]


def test_what_cannot_be_a_bundle_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    session = small_session(tmp_path / "session").root
    with pytest.raises(lr.SettingsError, match="camera 'Wrist': frame_rate='25'"):
        session_to_koyu(session, koyu(tmp_path / "bundles"))
    recording = Recording(tmp_path / "counts", arm_schema(extra=[Field("count", "int64", has_stats=True)]))
    recording.keep(3)
    with pytest.raises(lr.SettingsError, match="column 'count': dtype='int64'"):
        session_to_koyu(recording.close(), koyu(tmp_path / "bundles"))
    huge = Recording(tmp_path / "huge", arm_schema())
    huge.keep(3, values={"action": np.full((3, 3), 1e300)})
    with pytest.raises(lr.CaptureError, match=r"take 0, row 0, column 'action': 1e\+300 does not fit float32"):
        session_to_koyu(huge.close(), koyu(tmp_path / "huge-bundles"))
    assert not (tmp_path / "bundles").exists()
    assert not list((tmp_path / "huge-bundles/episodes").iterdir())


def test_a_broken_session(session: Recording, tmp_path: Path) -> None:
    with pytest.raises(lr.FormatError, match="is no session"):
        session_to_koyu(tmp_path, koyu(tmp_path / "bundles"))
    video = next(session.root.glob("videos/*/chunk-000/file-001.mp4"))
    film(video, [0, 1])
    with pytest.raises(lr.FormatError, match="2 frames for 4 ticks"):
        session_to_koyu(session.root, koyu(tmp_path / "bundles"))
    check_koyu(tmp_path / "bundles")


# And back.


def test_bundles_become_a_session_s_episodes(tmp_path: Path) -> None:
    write_dataset(tmp_path / "bundles", (12, 3, 25))
    for episode, reward in enumerate((1.0, 0.25, None)):
        edit_json(tmp_path / f"bundles/episodes/ep_{capture_id(episode)}/episode.json", reward=reward)
    edit_json(tmp_path / "bundles/manifest.json", success_rate=0.5, mean_reward=0.625)
    check_koyu(tmp_path / "bundles")
    done = koyu_to_session(tmp_path / "bundles", tmp_path / "session")
    assert done == (tmp_path / "session", 3, 40, 0, ())
    session = check_session(done.path)
    assert (session.hz, session.tasks) == (Fraction(50), ["Lift the cube"])
    assert [e.success for e in session] == [True, False, False]
    dataset = lr.koyu.Dataset(tmp_path / "bundles")
    for number, episode in enumerate(session):
        rows, columns = episode.rows(), dataset.columns(number)
        for name in ("action", "observation.state"):
            assert np.array_equal(np.array(rows[name].to_pylist()), columns[name].astype(np.float64))
        assert rows["frame_flags"].to_pylist() == [3] + [1] * (episode.length - 1)
        for key in CAMERAS:
            assert episode.video_path(key).samefile(tmp_path / f"bundles/episodes/ep_{capture_id(number)}/{key}.mp4")


def test_features_that_some_bundles_lack_are_left_out_and_named(tmp_path: Path) -> None:
    for episode in range(2):
        write_bundle(tmp_path, episode, 4, cameras=(), columns={"cube": np.ones((4, 7))} if episode else {})
    rebuild(tmp_path)
    done = koyu_to_session(tmp_path, tmp_path.with_name(f"{tmp_path.name}-session"))
    assert done.left_out == ("cube",)
    assert "cube" not in check_session(done.path).features


def test_the_round_trip_keeps_every_value(session: Recording, tmp_path: Path) -> None:
    first = session_to_koyu(session.root, koyu(tmp_path / "first")).path
    back = koyu_to_session(first, tmp_path / "back").path
    again = session_to_koyu(back, koyu(tmp_path / "again", id_seed=9)).path
    check_session(back)
    one, two = check_koyu(first), check_koyu(again)
    assert one.features == two.features
    assert len(one) == len(two) == 21
    for a, b in zip(one, two, strict=True):
        for key in one.features:
            assert np.array_equal(a[key], b[key], equal_nan=a[key].dtype == np.float32)
        assert (a["step"], a["task"], a["task_description"]) == (b["step"], b["task"], b["task_description"])
    assert [two.sidecar(n)["reward"] for n in range(3)] == [1.0, 0.0, 1.0]
    assert two.sidecar(1)["events"] == one.sidecar(1)["events"]
    assert two.sidecar(0)["names"] == one.sidecar(0)["names"]


def test_a_folder_that_is_there_is_not_touched(tmp_path: Path) -> None:
    write_dataset(tmp_path / "bundles", (2,))
    (tmp_path / "there").mkdir()
    with pytest.raises(lr.SettingsError, match="is there already"):
        koyu_to_session(tmp_path / "bundles", tmp_path / "there")
    assert not list((tmp_path / "there").iterdir())


@pytest.mark.parametrize(
    ("manifest", "message"),
    [({"fps": 40}, "timed at 50 fps and the dataset is at 40"), ({"fps": "fast"}, "fps='fast'")],
)
def test_a_dataset_that_is_timed_otherwise(tmp_path: Path, manifest: dict[str, Any], message: str) -> None:
    write_dataset(tmp_path / "bundles", (2,), **manifest)
    with pytest.raises(lr.FormatError, match=message):
        koyu_to_session(tmp_path / "bundles", tmp_path / "session")


def test_a_dataset_of_another_codec(tmp_path: Path) -> None:
    write_dataset(tmp_path / "bundles", (2,))
    film(tmp_path / f"bundles/episodes/ep_{capture_id(0)}/{FRONT}.mp4", [1, 2], codec="hevc")
    with pytest.raises(lr.FormatError, match="hevc, yuv420p; only h264"):
        koyu_to_session(tmp_path / "bundles", tmp_path / "session")


def test_without_cameras_and_with_a_column_of_one_value(tmp_path: Path) -> None:
    own = {"height": np.arange(4.0).reshape(4, 1)}
    entry = write_bundle(tmp_path / "bundles", 0, 4, cameras=(), columns=own)
    write_manifest(tmp_path / "bundles", [entry], features=features((), height=[1]))
    done = koyu_to_session(tmp_path / "bundles", tmp_path / "session")
    rows = check_session(done.path).episode(0).rows()
    assert rows["height"].to_pylist() == [0, 1, 2, 3]
