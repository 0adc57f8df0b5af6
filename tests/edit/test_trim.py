"""Rows cut off at the ends of episodes: frames, depth, masks and scans go with them, and no picture changes."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.episode.record import About, Reason
from lucky_recorder.errors import SettingsError, VideoError
from lucky_recorder.session.check import check_session
from lucky_recorder.video.cut import cut
from lucky_recorder.video.probe import probe
from tests.edit.shaping import every_stream, hashes
from tests.session.building import Recording, arm_schema, camera
from tests.session.foreign import Recorder, write_session


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recording = Recording(tmp_path_factory.mktemp("session") / "one", every_stream(("left", "right")), 2)
    recording.keep(45, tasks=(0, 1))
    recording.keep(24, success=False, failed_stream="observation.images.Slow")
    return recording.close()


@pytest.mark.parametrize(("start", "end"), [(0, 3), (20, 0), (20, 1)])
def test_everything_is_cut_at_the_same_ticks(session: Path, tmp_path: Path, start: int, end: int) -> None:
    before = hashes(session)
    done = lr.trim(session, tmp_path / "made", start=start, end=end)
    source, made = lr.Session(session), lr.Session(done.path)
    # Of a camera at 100 Hz, frames after the last row may be missing in a recording too.
    assert (check_session(done.path), hashes(session)) == ([], before)
    assert done == (tmp_path / "made", 2, 2 * (45 + 24 - 2 * (start + end)), 0)
    assert made.info["bit_reproducible"] is False
    for old, new in zip(source, made, strict=True):
        first, last = start, old.data_ticks - end
        was, rows = old.rows().slice(2 * first, 2 * (last - first)), new.rows()
        for name in set(was.column_names) - {"index", "episode_index", "frame_index", "timestamp"}:
            assert rows[name].to_pylist() == was[name].to_pylist(), name
        assert rows["frame_index"].to_pylist() == np.repeat(np.arange(last - first), 2).tolist()
        assert rows["timestamp"].to_pylist() == old.rows()["timestamp"].to_pylist()[: 2 * (last - first)]
        assert (new.success, new.has_video("Slow")) == (old.success, old.has_video("Slow"))
        for name, per_tick in (("Front", 1.0), ("Fast", 2.0), ("Slow", 0.5)):
            if old.has_video(name):
                wanted = [*old.frames(name)][int(first * per_tick) : int(np.ceil(last * per_tick))]
                assert np.array_equal([*new.frames(name)], wanted)
        assert np.array_equal([*new.depth("Front").codes], [*old.depth("Front").codes][first:last])
        assert np.array_equal([*new.masks("Front").ids], [*old.masks("Front").ids][first:last])
        assert len(new.rgbd_path("Front").read_bytes()) > 0
        for lidar, per_tick in (("top", 0.5), ("side", 2.0)):
            scans, others = new.scans(lidar), old.scans(lidar)
            begin = int(first * per_tick)
            assert len(scans) == int(np.ceil(last * per_tick)) - begin
            for k in range(len(scans)):
                assert np.array_equal(scans.ranges(k), others.ranges(begin + k))


def test_post_reset_stays_with_the_row_that_had_it(session: Path, tmp_path: Path) -> None:
    made = lr.Session(lr.trim(session, tmp_path / "made", start=20, episodes=[0]).path)
    flags = [[flag & 2 for flag in e.rows()["frame_flags"].to_pylist()] for e in made]
    assert ([len(e) for e in flags], any(flags[0]), flags[1][:2]) == ([50, 48], False, [2, 2])


def test_an_episode_begins_at_keyframes_only(session: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"start=13: episode 0 .* it can at 0 or 20, and snap takes the nearest"):
        lr.trim(session, tmp_path / "made", start=13)
    assert list(tmp_path.iterdir()) == []
    made = lr.trim(session, tmp_path / "made", start=13, end=1, snap=True)
    assert [e.data_ticks for e in lr.Session(made.path)] == [45 - 20 - 1, 24 - 20 - 1]
    assert check_session(made.path) == []


def test_rows_alone_begin_anywhere(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "one", arm_schema(), episodes_per_file=2)
    for ticks in (5, 9, 4):
        recording.keep(ticks)
    recording.close()
    made = lr.Session(lr.trim(recording.root, tmp_path / "made", start=1, end=2).path)
    assert [e.data_ticks for e in made] == [2, 6, 1]
    assert check_session(made.path) == []


@pytest.mark.parametrize(("start", "end", "reason"), [(0, 1, "trimmed"), (1, 0, "terminated"), (1, 2, "trimmed")])
def test_a_trimmed_episode_claims_what_is_true_of_the_part(tmp_path: Path, start: int, end: int, reason: str) -> None:
    about = About("7", {"a": 1}, 0, 0.5, Reason.TERMINATED, {"by": "Ada"})
    recording = Recording(tmp_path / "one", arm_schema())
    for _ in range(2):
        recording.keep(5, about=about)
    recording.close()
    made = lr.Session(lr.trim(recording.root, tmp_path / "made", start=start, end=end, episodes="0").path)
    trimmed, other = made
    assert (trimmed.end_reason, trimmed.duration_s, trimmed.success) == (reason, None, True)
    assert (other.end_reason, other.duration_s) == ("terminated", 0.5)
    for episode in made:
        assert (episode.seed, episode.options, episode.annotations) == ("7", {"a": 1}, {"by": "Ada"})
    assert check_session(made.path) == []


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "say how many ticks"),
        ({"start": -1}, "0 or more"),
        ({"end": 1.5}, "0 or more"),
        ({"start": 20, "end": 4}, "episode 1 of .* has 24 ticks, and nothing would be left"),
        ({"end": 1, "episodes": "5"}, "there is no episode 5"),
    ],
)
def test_what_cannot_be_cut_off(session: Path, tmp_path: Path, how: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        lr.trim(session, tmp_path / "made", **how)


def test_videos_with_b_frames_are_refused(tmp_path: Path) -> None:
    path = write_session(tmp_path / "one", Recorder())
    with pytest.raises(VideoError, match="has B-frames"):
        lr.trim(path, tmp_path / "made", end=1)
    assert not (tmp_path / "made").exists()


def test_another_recorder_s_rows_are_trimmed(tmp_path: Path) -> None:
    for start, streams in ((1, ()), (0, ("depth",))):
        path = write_session(tmp_path / f"from {start}", Recorder(robots=(5, 6), streams=streams))
        made = lr.Session(lr.trim(path, tmp_path / f"made {start}", start=start, end=1).path)
        assert [e.data_ticks for e in made] == [3 - start, 4 - start, 5 - start]
        assert check_session(made.path) == []
        old, new = lr.Session(path).episode(0), made.episode(0)
        assert new.rows()["action"].to_pylist() == old.rows()["action"].to_pylist()[2 * start : 6]
        assert [new.rows()[name][0].as_py() for name in ("timestamp", "frame_index")] == [0.0, 0]
        if streams:
            assert np.array_equal([*new.depth("Front").codes], [*old.depth("Front").codes][:3])


def test_a_cut_that_fails_leaves_no_file(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "one", arm_schema([camera("Front")]))
    recording.keep(15)
    video = lr.Session(recording.close()).episode(0).video_path("Front")
    for first, count in ((3, 10), (10, 6), (0, 0)):
        with pytest.raises(VideoError):
            cut(video, tmp_path / "cut.mp4", first, count, ".mp4")
    assert not (tmp_path / "cut.mp4").exists()
    assert cut(video, tmp_path / "cut.mp4", 10, 5, ".mp4").frames == 5
    found = probe(tmp_path / "cut.mp4")
    assert (found.frames, found.fps, found.keyframes, found.timing_error) == (5, 50, (0,), 0.0)


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("keep_states", [False, True])
def test_a_scene_without_actuators_is_trimmed(
    keep_states: bool, is_long: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_long:
        monkeypatch.setattr("lucky_recorder.edit.columns.PART_BYTES", 100)
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    observer = lr.Observer(
        model=model, data=data, output_dir=tmp_path, data_hz=500, mode="full_scene", keep_states=keep_states
    )
    observer.start_recording()
    for _ in range(9):
        with observer.step():
            mujoco.mj_step(model, data)
    observer.end_current_episode(True)
    observer.stop_recording()
    assert observer.session_path is not None
    lr.trim(observer.session_path, tmp_path / "made", start=2, end=1)
    assert check_session(tmp_path / "made") == []
    old, new = (lr.Session(path).episode(0).rows() for path in (observer.session_path, tmp_path / "made"))
    assert new["action"].to_pylist() == [[]] * 6
    assert new["observation.state"].to_pylist() == old["observation.state"].to_pylist()[2:8]
