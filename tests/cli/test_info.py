from __future__ import annotations

import json
import shutil
from pathlib import Path

import av
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from lucky_recorder.cli.main import app
from lucky_recorder.episode.record import About
from lucky_recorder.episode.schema import Field
from lucky_recorder.session.reader import Session
from lucky_recorder.video.decode import decode_all
from tests.session.building import Recording, arm_schema, custom_schema, full_session, small_session
from tests.session.foreign import EVERY_STREAM, Recorder, write_session


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "200")
    return small_session(tmp_path / "DataSessions/session_2026-10-08_14-30-05").root


def info(folder: Path) -> Result:
    return CliRunner().invoke(app, ["info", str(folder)])


def lines(folder: Path) -> list[list[str]]:
    """The cells of every line of the output."""
    result = info(folder)
    assert result.exit_code == 0, result.output
    return [[cell for cell in line.split("  ") if cell] for line in map(str.strip, result.stdout.splitlines())]


def cells(folder: Path) -> dict[str, list[str]]:
    return {line[0]: [cell.strip() for cell in line[1:]] for line in lines(folder) if line}


def test_what_is_known_of_its_episodes_and_where_it_comes_from(session: Path) -> None:
    assert cells(session)["ended"] == ["7 verdict"]
    assert not {"recorded", "lanes", "annotated", "comes from"} & set(cells(session))
    recording = Recording(session.parent / "session_2026-10-08_14-30-06", arm_schema())
    for lane, reason, said in ((0, "terminated", {"a": 1}), (1, "truncated", {}), (1, "truncated", {"b": "c"})):
        about = About(lane=lane, ended_by=reason, annotations=said)
        recording.keep(3, about=about, began_ns=1_760_000_000_000_000_000 + lane * 10**12)
    recording.close()
    entries = [
        {"episodes": "0:2", "env": {"id": "Count-v0"}, "git": {"commit": "0123456789abcdef", "dirty": True}},
        {"episodes": "2:3", "env": None, "git": None, "discarded_seeds": ["1", None]},
    ]
    (recording.root / "meta/provenance.json").write_text(json.dumps({"recordings": entries}))
    shown = cells(recording.root)
    assert shown["recorded"] == ["2025-10-09 08:53:20 to 2025-10-09 09:10:00 UTC"]
    assert shown["ended"] == ["2 truncated, 1 terminated"]
    assert (shown["lanes"], shown["annotated"]) == (["2"], ["2 episodes"])
    told = "0:2: Count-v0, commit 0123456789ab (changed); 2:3: no environment, 2 attempts discarded"
    assert shown["comes from"] == [told]
    (recording.root / "meta/provenance.json").write_text("{")
    assert cells(recording.root)["comes from"][0].startswith("cannot be read: ")


def test_what_a_session_holds(session: Path) -> None:
    shown = cells(session)
    assert shown["path"] == [str(session)]
    assert shown["format"][0].startswith("v3.0, recorder ")
    assert shown["rate"] == ["50 Hz"]
    assert shown["robots"] == ["left, right"]
    assert shown["episodes"] == ["7, 6 succeeded (86%)"]
    assert shown["rows"] == ["68"]
    assert shown["duration"] == ["0.68 s"]
    assert shown["reproducible"] == ["yes"]
    assert shown["Front"] == ["64x48", "h264", "50 Hz"]
    assert shown["Wrist"] == ["64x48", "h264", "25 Hz"]
    assert shown["index"] == ["int64", "[1]"]
    assert shown["frame_flags"] == ["uint8", "[1]", "new_policy_step, post_reset"]
    assert shown["action"][:2] == ["float64", "[3]"]
    assert shown["action"][2].startswith("left.pan, left.lift")
    assert shown["0"] == ["Pick up the cube", "5"]
    assert shown["1"] == ["Put it down", "3"]
    size = sum(p.stat().st_size for p in session.rglob("*") if p.is_file())
    assert shown["on disk"] == [f"{size / 1e6:.1f} MB"]


def test_units_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    columns = Field("force", "float32", (2,), names=("x", "y"), unit="N"), Field("mass", "float64", unit="kg")
    recording = Recording(tmp_path, custom_schema(*columns))
    recording.keep(2)
    shown = cells(recording.close())
    assert shown["force"] == ["float32", "[2]", "x, y [N]"]
    assert shown["mass"] == ["float64", "[1]", "[kg]"]
    assert "camera" not in shown


def test_a_session_without_episodes(tmp_path: Path) -> None:
    shown = cells(Recording(tmp_path, arm_schema()).close())
    assert shown["episodes"] == ["0, 0 succeeded"]
    assert shown["duration"] == ["0.00 s"]


def test_a_video_only_session(session: Path) -> None:
    shutil.rmtree(session / "meta")
    shutil.rmtree(session / "data")
    shown = cells(session)
    assert shown["kind"] == ["video only"]
    assert shown["observation.images.Front"] == ["7"]
    assert shown["observation.images.Wrist"] == ["7"]


def test_what_is_no_session(session: Path, tmp_path: Path) -> None:
    result = info(tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"the latest is {session}" in result.stderr


@pytest.mark.parametrize("broken", [{"hz": 0}, {"features": {"a": 3}}, {"codebase_version": 9}, {"robots": []}])
def test_a_broken_session_is_one_line_on_stderr(session: Path, broken: dict[str, object]) -> None:
    path = session / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | broken))
    result = info(session)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {path}: {next(iter(broken))}")
    assert result.stderr.count("\n") == 1


def test_an_interrupted_session(session: Path) -> None:
    whole = cells(session)
    shutil.rmtree(session / "meta")
    found = cells(session)
    assert found.pop("state")[0].startswith("cut short: 7 of 7 episodes are not listed")
    whole.pop("state")
    whole.pop("on disk")
    found.pop("on disk")
    assert found == whole


def test_names_are_text_and_no_markup(session: Path) -> None:
    path = session / "meta/info.json"
    content = json.loads(path.read_text())
    content["features"]["action"]["names"] = ["[red]", "\x1b[31m", "[/]", "d", "e", "f"]
    path.write_text(json.dumps(content))
    assert cells(session)["action"][2] == "[red], \N{REPLACEMENT CHARACTER}[31m, [/], d, e, f"


# One frame of every stream.


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return full_session(tmp_path_factory.mktemp("full") / "session_2026-10-08_14-30-06").root


def draw(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["info", *map(str, arguments)])


def read_png(path: Path) -> np.ndarray:
    with av.open(str(path)) as picture:
        (frame,) = picture.decode(video=0)
        return frame.to_ndarray(format="rgb24")


def test_a_frame_is_drawn(full: Path, tmp_path: Path) -> None:
    result = draw(full, "--frame", "1:3", "-o", tmp_path / "out.png")
    assert result.exit_code == 0, result.output
    shown = "Front, observation.images.Front_depth, observation.images.Fast, observation.images.Slow_depth"
    said = f"out.png: observation.images.{shown}, observation.masks.Front, lidar-side, lidar-top"
    assert said in result.output.replace("\n", " ")
    page = read_png(tmp_path / "out.png")
    episode = Session(full).episode(1)
    tall, wide = page.shape[:2]
    assert tall >= 120
    assert wide <= 1280
    front, fast = (decode_all(episode.video_path(name))[frame] for name, frame in (("Front", 3), ("Fast", 6)))
    for picture in (front, fast):
        # These pictures are of one colour each.
        assert (page == picture[0, 0]).all(axis=2).any()
    height = 120
    np.testing.assert_array_equal(page[:height:3, 0], front[np.arange(0, height, 3) * 48 // height, 0])


def test_a_frame_is_drawn_beside_where_one_is(full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert draw(full, "--frame", "0:0").exit_code == 0
    assert read_png(tmp_path / "frame.png").ndim == 3
    assert [p.name for p in tmp_path.iterdir()] == ["frame.png"]


@pytest.mark.parametrize(
    ("frame", "remedy"),
    [
        ("3", "give EPISODE:FRAME, such as 0:10"),
        ("a:b", "give EPISODE:FRAME"),
        ("-1:0", "give EPISODE:FRAME"),
        ("1:2:3", "give EPISODE:FRAME"),
        ("9:0", "episode 9: "),
        ("1:5", "episode 1 has frames 0 to 4"),
    ],
)
def test_a_frame_that_is_not_there(full: Path, tmp_path: Path, frame: str, remedy: str) -> None:
    result = draw(full, f"--frame={frame}", "-o", tmp_path / "out.png")
    assert (result.exit_code, result.stdout) == (2, "")
    assert remedy in result.stderr
    assert not (tmp_path / "out.png").exists()


def test_a_frame_of_nothing(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "session", arm_schema())
    recording.keep(2)
    result = draw(recording.close(), "--frame", "0:0", "-o", tmp_path / "out.png")
    assert result.exit_code == 2
    assert "the session has no stream of pictures" in result.stderr


def test_a_frame_that_cannot_be_written(full: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = draw(full, "--frame", "0:0", "-o", tmp_path / "file" / "out.png")
    assert result.exit_code == 2
    assert "file: File exists" in result.stderr


def test_every_stream_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = cells(full_session(tmp_path / "session").root)
    assert shown["Front"] == ["64x48", "h264", "50 Hz"]
    assert shown["Front_depth"] == ["64x48", "ffv1", "50 Hz"]
    assert shown["Fast"] == ["64x48", "h264", "100 Hz"]
    assert shown["Slow_depth"] == ["64x48", "ffv1", "25 Hz"]
    assert shown["observation.images.Front_rgbd"] == ["64x48", "h264 + ffv1", "50 Hz"]
    assert shown["observation.masks.Front"] == ["64x48", "h264", "50 Hz"]
    assert shown["lidar-top"] == ["2x4 rays", "parquet", "25 Hz"]
    assert shown["lidar-side"] == ["2x4 rays", "parquet", "100 Hz"]


def test_every_stream_of_a_video_only_session_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    root = full_session(tmp_path / "session").root
    shutil.rmtree(root / "meta")
    for file in root.glob("data/*/file-*"):
        file.unlink()
    shown = cells(root)
    assert {name: files for name, files in shown.items() if "." in name or "lidar" in name} == {
        **{
            f"observation.images.{name}": ["3"] for name in ("Fast", "Front", "Front_depth", "Front_rgbd", "Slow_depth")
        },
        "observation.masks.Front": ["3"],
        "lidar-side": ["3"],
        "lidar-top": ["3"],
    }


def test_streams_of_another_recorder_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = cells(write_session(tmp_path / "session", Recorder(streams=EVERY_STREAM)))
    assert shown["robots"] == ["-7319274629384756"]
    assert shown["observation.masks.Front"] == ["64x48", "h264", "50 Hz"]
    assert shown["lidar-Top Deck"] == ["-", "parquet", "-"]
