"""New columns of kept states: those that a recording with these columns has, and all else is as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import check_session
from tests.recorder.physics import Cart
from tests.recorder.trajectories import RICH, XML, live

SPEED = lr.Column("speed", lambda moment: moment.data.sensor("speed").data.copy(), shape=(3,), names=("x", "y", "z"))
REWARD = lr.Column("next.reward", lambda moment: -float(moment.data.body("cart").xpos[0] ** 2), when="after")
CLOCK = lr.Column("clock", lambda moment: moment.data.time, dtype="float32", unit="s")
FAR = lr.Column("is_far", lambda moment: moment.data.qpos[0] > 0.15, dtype="bool")
WORD = lr.Column("said", lambda moment: f"{moment.data.ctrl[0]:.2f} {moment.robot}", dtype="str")
PUSH = lr.Column("push", "ctrl:push")
PLACE = lr.Column("place", "xpos:cart", shape=(3,))
NEW = [SPEED, REWARD, CLOCK, FAR, WORD, PUSH, PLACE]
SETTINGS: dict[str, dict[str, Any]] = {
    "as fast as its ticks": {},
    "slower rows": {"data_hz": 10},
    "with pictures": {
        "cameras": [lr.Camera("side", width=64, height=48)],
        "lidars": [lr.Lidar("eye", rate=25)],
        "render_quality": "fastest",
    },
}


@pytest.mark.parametrize("name", SETTINGS)
def test_they_are_those_of_a_recording_with_these_columns(name: str, tmp_path: Path) -> None:
    fields = {"xml": RICH, "keep_states": True, "episodes_per_file": 2, "lengths": (12, 7, 4), **SETTINGS[name]}
    old = live(tmp_path / "old", **fields)
    made = lr.relabel(old, tmp_path / "new", columns=NEW)
    assert (made.episodes, made.left_out) == (3, 0)
    session = check_session(made.path)
    wanted = lr.Session(live(tmp_path / "live", columns=NEW, **fields))
    assert session.features == wanted.features
    for episode in session:
        rows = episode.rows()
        assert rows.equals(wanted.episode(episode.index).rows())
        assert rows.drop_columns([c.name for c in NEW]).equals(lr.Session(old).episode(episode.index).rows())
        assert lr.replay(session, episode.index).is_same
    assert (made.path / "meta/stats.json").read_text() == (wanted.path / "meta/stats.json").read_text()
    for file in [*old.glob("videos/**/*.mp4"), *old.glob("states/**/*.parquet")]:
        assert (made.path / file.relative_to(old)).samefile(file)


def test_a_column_takes_the_place_of_one_of_its_name(tmp_path: Path) -> None:
    old = live(tmp_path, xml=RICH, keep_states=True, columns=[lr.Column("clock", "qpos:x", names=["x"]), PUSH])
    session = check_session(lr.relabel(old, tmp_path / "new", columns=[CLOCK, FAR]).path)
    before, after = lr.Session(old).episode(0).rows(), session.episode(0).rows()
    assert after.column_names == [*before.column_names, "is_far"]
    assert session.features["clock"] == {"dtype": "float32", "shape": [1], "names": None, "unit": "s"}
    assert np.allclose(after["clock"].to_numpy(), before["timestamp"].to_numpy(), atol=1e-6)
    assert after["push"].equals(before["push"])


def test_several_robots_are_asked_for_each(tmp_path: Path) -> None:
    two = XML.replace(
        '<body name="hand"',
        '<body name="other" pos="0 1 0"><joint name="y" type="slide" axis="1 0 0"/><geom size=".1"/></body>'
        '<body name="hand"',
    ).replace("</actuator>", '<motor name="pull" joint="y" ctrlrange="-5 5"/></actuator>')
    where = lr.Column("where", lambda moment: moment.data.body(moment.robot).xpos.copy(), shape=(3,))
    fields = {"xml": two, "keep_states": True, "robots": ["cart", "other"]}
    old = live(tmp_path / "old", **fields)
    new = check_session(lr.relabel(old, tmp_path / "new", columns=[where]).path)
    wanted = lr.Session(live(tmp_path / "live", columns=[where], **fields))
    assert new.episode(0).rows().equals(wanted.episode(0).rows())
    assert new.robots == ("cart", "other")


def test_each_episode_has_its_own_model(tmp_path: Path) -> None:
    env = Cart()
    wrapped: Any = lr.RecordSession(env, output_dir=tmp_path, keep_states=True)
    for gravity in (-9.81, -1.6):
        env.model.opt.gravity[2] = gravity
        wrapped.reset(seed=1)
        for _ in range(3):
            wrapped.step(np.zeros(1))
        wrapped.end_episode(success=True)
    wrapped.close()
    weight = lr.Column("weight", lambda moment: moment.model.opt.gravity[2])
    session = check_session(lr.relabel(wrapped.session_path, tmp_path / "new", columns=[weight]).path)
    assert [set(episode.rows()["weight"].to_pylist()) for episode in session] == [{-9.81}, {-1.6}]


def with_reset(path: Path) -> Path:
    wrapped: Any = lr.RecordSession(Cart(), output_dir=path, keep_states=True)
    wrapped.reset(seed=1)
    for k in range(6):
        wrapped.step(np.full(1, float(k)))
        if k == 3:
            wrapped.reset(options={"keep_episode": True})
    wrapped.end_episode(success=True)
    wrapped.close()
    return Path(wrapped.session_path)


def test_a_reset_within_an_episode_is_gone_through(tmp_path: Path) -> None:
    path = with_reset(tmp_path)
    session = check_session(lr.relabel(path, tmp_path / "new", columns=[CLOCK]).path)
    clock = session.episode(0).rows()["clock"].to_pylist()
    assert np.allclose(clock, [0, 0.02, 0.04, 0.06, 0, 0.02])


def test_a_long_episode_is_gone_through_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lucky_recorder.session.states._PART_BYTES", 40_000)
    monkeypatch.setattr("lucky_recorder.recorder.buffer.MOST_HELD_BYTES", 9000)
    fields = {"lengths": (2500,), "keep_states": True}
    columns = [lr.Column("x", "qpos:x"), lr.Column("v", "qvel:x"), PUSH]
    old = live(tmp_path / "old", **fields)
    for more in ([], [CLOCK]):
        new = check_session(lr.relabel(old, tmp_path / f"new{len(more)}", columns=columns + more).path)
        rows = new.episode(0).rows()
        kept = lr.Session(old).episode(0).states()
        assert np.array_equal(rows["x"].to_numpy(), kept.states[:-1, 1])
        assert np.array_equal(rows["push"].to_numpy(), kept.commands[:, 0])
        assert not more or np.array_equal(rows["clock"].to_numpy(), kept.states[:-1, 0].astype(np.float32))


def without_states(path: Path) -> tuple[Path, list[Any]]:
    return live(path), [CLOCK]


def no_columns(path: Path) -> tuple[Path, list[Any]]:
    return live(path, keep_states=True), []


def of_the_environment(path: Path) -> tuple[Path, list[Any]]:
    return live(path, keep_states=True), [lr.Column("reward", "gym:reward")]


def unknown_sensor(path: Path) -> tuple[Path, list[Any]]:
    return live(path, keep_states=True), [lr.Column("imu", "sensor:imu")]


def that_exists(path: Path) -> tuple[Path, list[Any]]:
    (path / "new").mkdir()
    return live(path, keep_states=True), [CLOCK]


def after_a_reset(path: Path) -> tuple[Path, list[Any]]:
    return with_reset(path), [REWARD]


def not_finite(path: Path) -> tuple[Path, list[Any]]:
    return live(path, keep_states=True), [lr.Column("gap", lambda moment: np.nan if moment.data.time > 0.1 else 0.0)]


def broken_rate(path: Path) -> tuple[Path, list[Any]]:
    session = live(path, keep_states=True)
    file = session / "states/chunk-000/file-000.parquet"
    table = pq.ParquetFile(file).read()
    said = {k: v.replace(b'"hz": "50"', b'"hz": "75"') for k, v in table.schema.metadata.items()}
    pq.write_table(table.replace_schema_metadata(said), file)
    return session, [CLOCK]


REFUSED = {
    without_states: (lr.FormatError, r"has no states to compute columns from: record with keep_states=True"),
    no_columns: (lr.SettingsError, r"columns=\(\): give the columns that are to be computed"),
    of_the_environment: (lr.SettingsError, r"column 'reward': source='gym:reward': no state holds what an environment"),
    unknown_sensor: (lr.SettingsError, "column 'imu': source='imu': the model has no sensor of that name"),
    that_exists: (lr.SettingsError, "output=.*: is there already"),
    after_a_reset: (lr.FormatError, r"episode 0 of .*: column 'next.reward' is asked after each tick, and the state"),
    not_finite: (lr.CaptureError, r"column 'gap': nan is not finite; .*; episode 0 of .*parquet"),
    broken_rate: (lr.FormatError, r"file-000.parquet: its 12 ticks are not those of 12 rows"),
}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.__name__)
def test_it_is_refused_and_nothing_is_left(case: Any, tmp_path: Path) -> None:
    kind, told = REFUSED[case]
    session, columns = case(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(kind, match=told):
        lr.relabel(session, tmp_path / "new", columns=columns)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    session = live(tmp_path, keep_states=True)
    made = lr.relabel(session, tmp_path / "new", columns=[CLOCK], dry_run=True)
    assert (made.episodes, made.rows) == (2, 19)
    assert not made.path.exists()
