from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lucky_recorder.episode.schema import Field
from lucky_recorder.errors import FormatError
from lucky_recorder.lerobot.rules import RULES, Broken, check_lerobot
from lucky_recorder.video.encoder import VideoEncoder
from tests.session.building import HEIGHT, WIDTH, Recording, arm_schema, camera, custom_schema

FRONT = "observation.images.Front"
VIDEO = f"videos/{FRONT}/chunk-000/file-001.mp4"
DATA = "data/chunk-000/file-001.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
SECOND = "meta/episodes/chunk-000/file-001.parquet"
TASKS = "meta/tasks.parquet"

Change = Callable[[Path], None]


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One robot, two cameras at the data rate, six episodes in two chunks, three files of metadata; never changed."""
    return lone_session(tmp_path_factory.mktemp("lone") / "session_2026-10-08_14-30-05")


def lone_session(root: Path) -> Path:
    extra = [Field("touch", "bool", has_stats=True), Field("pose", "float32", (2, 3), has_stats=True)]
    recording = Recording(root, arm_schema([camera("Front"), camera("Wrist")], extra=extra), 4, metadata_every=4)
    for episode in range(6):
        recording.keep(5 + episode % 3, success=episode != 2, tasks=(0, 1) if episode == 1 else (episode % 2,))
    return recording.close()


@pytest.fixture
def session(lone: Path, tmp_path: Path) -> Path:
    """A copy, to be broken."""
    return Path(shutil.copytree(lone, tmp_path / lone.name))


def rules(path: Path) -> set[int]:
    return {broken.rule for broken in check_lerobot(path)}


# What changes a session.


def info(change: Callable[[dict[str, Any]], Any], file: str = "meta/info.json") -> Change:
    def apply(session: Path) -> None:
        content = json.loads((session / file).read_text())
        change(content)
        (session / file).write_text(json.dumps(content))

    return apply


def feature(name: str, **entries: Any) -> Change:
    return info(lambda i: i["features"][name].update(entries))


def stats(change: Callable[[dict[str, Any]], Any]) -> Change:
    return info(change, "meta/stats.json")


def table(file: str, change: Callable[[pa.Table], pa.Table]) -> Change:
    def apply(session: Path) -> None:
        pq.write_table(change(pq.ParquetFile(session / file).read()), session / file)

    return apply


def column(file: str, name: str, change: Callable[[pa.ChunkedArray], Any]) -> Change:
    def replace(old: pa.Table) -> pa.Table:
        return old.set_column(old.column_names.index(name), name, change(old[name]))

    return table(file, replace)


def move(source: str, target: str) -> Change:
    def apply(session: Path) -> None:
        (session / target).parent.mkdir(parents=True, exist_ok=True)
        (session / source).rename(session / target)

    return apply


def copy(source: str, target: str) -> Change:
    return lambda session: shutil.copy(session / source, session / target) and None


def film(fps: Fraction | int = 50, frames: int = 6) -> Change:
    def apply(session: Path) -> None:
        encoder = VideoEncoder(session / VIDEO, width=WIDTH, height=HEIGHT, fps=Fraction(fps))
        for k in range(frames):
            encoder.write(np.full((HEIGHT, WIDTH, 3), k * 9, np.uint8))
        encoder.close()

    return apply


def film_with(frames: int = 6, times: Callable[[int], float] = lambda k: k / 50, **options: str) -> Change:
    """Film with an encoder of other settings, the frames at times of their own."""

    def apply(session: Path) -> None:
        with av.open(str(session / VIDEO), "w") as container:
            stream = container.add_stream("libx264", rate=50, options=options, width=WIDTH, height=HEIGHT)
            stream.pix_fmt, stream.codec_context.time_base = "yuv420p", Fraction(1, 10_000)
            noise = np.random.default_rng(0)
            for k in range(frames):
                shade = noise.integers(0, 255, (HEIGHT, WIDTH, 3), np.uint8) // 8 + k * 9
                frame = av.VideoFrame.from_ndarray(shade.astype(np.uint8))
                frame.pts, frame.time_base = round(times(k) * 10_000), Fraction(1, 10_000)
                container.mux(stream.encode(frame))
            container.mux(stream.encode())

    return apply


def retyped(kind: pa.DataType) -> Callable[[pa.ChunkedArray], pa.ChunkedArray]:
    return lambda old: old.cast(kind)


def listed(old: pa.ChunkedArray) -> pa.Array:
    return pa.array([[value] for value in old.to_pylist()])


def renumbered(to: list[int]) -> Callable[[pa.ChunkedArray], pa.Array]:
    return lambda old: pa.array(to[: len(old)], pa.int64())


def without(*names: str) -> Callable[[pa.Table], pa.Table]:
    return lambda old: old.drop_columns(list(names))


def late(seconds: float) -> Callable[[pa.ChunkedArray], pa.Array]:
    """All rows but the first are late."""
    return lambda old: pa.array(np.array(old) + seconds * (np.arange(len(old)) > 0))


def with_nulls(old: pa.ChunkedArray) -> pa.Array:
    return pa.array([None, *old.to_pylist()[1:]], old.type)


def unnoted(old: pa.Table) -> pa.Table:
    return old.replace_schema_metadata(None)


NULLS = {f"videos/{FRONT}/{part}": None for part in ("chunk_index", "file_index", "from_timestamp", "to_timestamp")}


def lose_video(session: Path) -> None:
    """Episode 1 has no video of a camera, as after a failed stream."""

    def change(old: pa.Table) -> pa.Table:
        rows = old.to_pylist()
        rows[0] |= NULLS
        return pa.Table.from_pylist(rows, schema=old.schema)

    table(SECOND, change)(session)
    (session / VIDEO).unlink()


def one_actuator(session: Path) -> None:
    """Every file's commands are lists of one, as a robot with one actuator has them."""
    for path in session.glob("data/*/*.parquet"):
        column(str(path.relative_to(session)), "action", lambda old: pa.array([[v[0]] for v in old.to_pylist()]))(
            session
        )
    feature("action", shape=[1], names=["pan"])(session)


def null_type(session: Path) -> None:
    for path in session.glob("meta/episodes/*/*.parquet"):
        name = f"videos/{FRONT}/from_timestamp"
        column(str(path.relative_to(session)), name, lambda old: pa.nulls(len(old)))(session)


def as_depth(session: Path) -> None:
    details = {"video.codec": "ffv1", "video.pix_fmt": "gray16le", "video.fps": 50}
    info(lambda i: i["features"].update({f"{FRONT}_depth": {"dtype": "video", "shape": [48, 64, 1], "info": details}}))(
        session
    )


DEVIATIONS: list[tuple[int, str, Change]] = [
    (1, "'2.1'", info(lambda i: i.update(codebase_version="2.1"))),
    (1, "'Lucky 2026'", info(lambda i: i.update(codebase_version="Lucky 2026"))),
    (1, "None", info(lambda i: i.pop("codebase_version"))),
    (1, "JSON", lambda session: (session / "meta/info.json").write_text("{") and None),
    (2, "fps is 50.0", info(lambda i: i.update(fps=50.0))),
    (2, "fps is 0", info(lambda i: i.update(fps=0))),
    (2, "fps is None", info(lambda i: i.pop("fps"))),
    (2, "rows are 50 Hz", info(lambda i: i.update(fps=100))),
    (2, "runs at 51 frames", film(51)),
    (2, "its feature says 25", info(lambda i: i["features"][FRONT]["info"].update({"video.fps": 25}))),
    (3, "has no video of observation.images.Front", lose_video),
    (3, "missing", lambda session: (session / VIDEO).unlink()),
    (3, "", lambda session: (session / VIDEO).write_bytes(b"no video")),
    (3, "row 5 at 0.100000 s has no frame among 5", film(frames=5)),
    (3, "row 1 is at 0.020200 s", column(DATA, "timestamp", late(2e-4))),
    (3, "2 robots", info(lambda i: i.update(robots=["left", "right"]))),
    (4, "ffv1", as_depth),
    (4, "B-frames", film_with(bf="2", g="12", preset="medium")),
    (4, "begins at 0.5 s", column(EPISODES, f"videos/{FRONT}/from_timestamp", lambda old: pa.array([0.5] * len(old)))),
    (4, "0.000500 s away", film_with(times=lambda k: k / 50 + (k == 3) * 5e-4, bf="0")),
    (5, "action is a list of one value", one_actuator),
    (5, "touch is a list of one value", column(DATA, "touch", listed)),
    (6, "has no column touch", table(DATA, without("touch"))),
    (6, "has a column more", table(DATA, lambda old: old.append_column("more", old["touch"]))),
    (6, "feature of that name", info(lambda i: i["features"].pop("pose"))),
    (6, "frame_flags: stored as int64", column(DATA, "frame_flags", retyped(pa.int64()))),
    (6, "action: stored as 1 nested lists of float", column(DATA, "action", retyped(pa.list_(pa.float32())))),
    (6, "action: holds lists", column(DATA, "action", lambda old: pa.array([v[:2] for v in old.to_pylist()]))),
    (6, "touch has rows without a value", column(DATA, "touch", with_nulls)),
    (6, "is missing", lambda session: (session / DATA).unlink()),
    (6, "", lambda session: (session / DATA).write_bytes(b"PAR1")),
    (7, "other columns than the first", table(SECOND, without("success"))),
    (7, "of other types", column(EPISODES, "success", retyped(pa.int8()))),
    (7, "has no type", null_type),
    (7, "has no column tasks", lambda session: [table(f, without("tasks"))(session) for f in meta(session)] and None),
    (7, "has 2 columns tasks", table(EPISODES, lambda old: old.append_column("tasks", old["tasks"]))),
    (7, "is not its own: 0", column(EPISODES, "meta/episodes/file_index", lambda old: pa.array([[0]] * len(old)))),
    (7, "is not its own: 1", column(SECOND, "meta/episodes/file_index", renumbered([0, 0, 0]))),
    (7, "row 1 is episode 2", column(SECOND, "episode_index", renumbered([2, 1, 3]))),
    (7, "row 0 is episode 1", move(EPISODES, "meta/episodes/chunk-000/file-003.parquet")),
    (7, "does not run from 5 to 10", column(DATA, "index", renumbered(list(range(6))))),
    (8, "would not take 'task' as the index", table(TASKS, unnoted)),
    (8, "not int64 from 0", column(TASKS, "task_index", renumbered([1, 0]))),
    (8, "not int64 from 0", column(TASKS, "task_index", renumbered([0, 2]))),
    (8, "task_index 7 has no description", column(DATA, "task_index", renumbered([0, 7, 1, 1, 1, 1]))),
    (8, "is missing", lambda session: (session / TASKS).unlink()),
    (9, "observation.images.Front has no entry", stats(lambda s: s.pop(FRONT))),
    (9, "action has no entry", stats(lambda s: s.pop("action"))),
    (9, "expected finite numbers of shape [3, 1, 1]", stats(lambda s: s[FRONT].update(mean=[0.1, 0.2, 0.3]))),
    (9, "expected values from 0 to 1", stats(lambda s: s[FRONT].update(max=[[[255]], [[255]], [[255]]]))),
    (9, "count is missing", stats(lambda s: s[FRONT].pop("count"))),
    (9, "is missing", lambda session: (session / "meta/stats.json").unlink()),
    (10, "names is None", feature(FRONT, names=None)),
    (10, "['width', 'height', 'channels']", feature(FRONT, names=["width", "height", "channels"])),
    (11, "none of it", copy(DATA, "data/chunk-000/lidar-Top-000.parquet")),
    (11, "meta/episodes/, and", copy(EPISODES, "meta/episodes/chunk-000/old.parquet")),
    (11, "none of it", copy(DATA, "data/chunk-000/file-007.parquet")),
    (11, "before smaller numbers", copy(DATA, "data/chunk-001/file-1000.parquet")),
    (12, "total_episodes is 7", info(lambda i: i.update(total_episodes=7))),
    (12, "total_frames is 999", info(lambda i: i.update(total_frames=999))),
    (12, "total_episodes is None", info(lambda i: i.pop("total_episodes"))),
    (12, "is missing", lambda session: (session / "meta/info.json").unlink()),
    (12, "no episode is listed", lambda session: [(session / f).unlink() for f in meta(session)] and None),
]  # fmt: skip


def meta(session: Path) -> list[str]:
    return [str(p.relative_to(session)) for p in session.glob("meta/episodes/*/*.parquet")]


# A frame that is off its rate is off its time, too; and episodes that are read twice have a file too many.
TWICE = {"rows are 50 Hz": {3}, "runs at 51 frames": {3}, "its feature says 25": {3}, "meta/episodes/, and": {7}}


@pytest.mark.parametrize(("rule", "message", "change"), DEVIATIONS, ids=[f"{r}-{m[:40]}" for r, m, _ in DEVIATIONS])
def test_a_deviation_breaks_its_rule(session: Path, rule: int, message: str, change: Change) -> None:
    change(session)
    found = check_lerobot(session)
    assert any(broken.rule == rule and message in broken.message for broken in found), found
    assert {broken.rule for broken in found} - {rule} <= TWICE.get(message, set()), found
    assert all(broken.file and broken.message and broken.remedy for broken in found)


def test_there_is_a_deviation_for_every_rule() -> None:
    assert len(RULES) == 12
    assert {rule for rule, _, _ in DEVIATIONS} == set(range(1, 13))


HARMLESS: list[Change] = [
    info(lambda i: i.update(codebase_version="v3.1")),
    info(lambda i: i.pop("hz")),
    info(lambda i: i.update(total_episodes=5, total_frames=10)),
    copy(DATA, "data/chunk-000/file-001.parquet.1.tmp"),
    copy(DATA, "data/chunk-001/file-002.parquet"),
    copy(DATA, "data/loose.parquet"),
    film(frames=9),
    column(DATA, "timestamp", late(5e-5)),
    film_with(bf="0", g="4"),
]


@pytest.mark.parametrize("change", HARMLESS)
def test_what_lerobot_does_not_mind_breaks_no_rule(session: Path, change: Change) -> None:
    change(session)
    assert check_lerobot(session) == []


def test_a_session_of_one_robot_opens(lone: Path) -> None:
    assert check_lerobot(lone) == []


def test_nothing_is_written(lone: Path) -> None:
    def digests() -> dict[Path, str]:
        return {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in lone.rglob("*") if p.is_file()}

    before = digests()
    check_lerobot(lone)
    assert digests() == before


def test_a_rate_that_is_no_whole_number_opens(tmp_path: Path) -> None:
    hz = Fraction(200, 3)
    recording = Recording(tmp_path, arm_schema([camera("Front", hz)], hz=hz))
    for _ in range(2):
        recording.keep(7)
    assert check_lerobot(recording.close()) == []
    info(lambda i: i.update(fps=66.67))(tmp_path)
    assert rules(tmp_path) == {2, 3}


def test_an_episode_of_an_hour_opens(tmp_path: Path) -> None:
    """Times are rounded to float32 by then, and by more than the tolerance: rows and frames alike."""
    hz = Fraction(7, 1000)
    recording = Recording(tmp_path, arm_schema([camera("Front", hz)], hz=hz))
    recording.keep(40)
    assert check_lerobot(recording.close()) == []


@pytest.mark.parametrize(("rate", "broken"), [(50, set()), (100, set()), (25, {3}), (10, {3})])
def test_a_camera_runs_at_the_data_rate_or_a_multiple(tmp_path: Path, rate: int, broken: set[int]) -> None:
    recording = Recording(tmp_path, arm_schema([camera("Front", rate)]))
    recording.keep(6)
    recording.close()
    assert rules(tmp_path) == broken


def test_several_robots_and_a_slow_camera_are_told_apart(good: Recording) -> None:
    found = check_lerobot(good.root)
    assert {broken.rule for broken in found} == {3}
    assert [("robots" in b.message, "Wrist" in b.message) for b in found] == [(True, False), (False, True)]


def test_a_column_of_the_user_s_own_may_miss_values_in_no_row(tmp_path: Path) -> None:
    recording = Recording(tmp_path, custom_schema(Field("reward", "float64", nullable=True, has_stats=True)))
    recording.keep(3)
    recording.keep(3, missing={"reward": np.array([False, True, False])})
    assert check_lerobot(recording.close()) == [
        Broken(6, DATA, "reward has rows without a value", "fill one in, or drop the column, in a copy of the folder")
    ]


def test_a_session_without_cameras_opens(tmp_path: Path) -> None:
    recording = Recording(tmp_path, arm_schema())
    recording.keep(3)
    assert check_lerobot(recording.close()) == []


def test_a_folder_that_is_no_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is no session"):
        check_lerobot(tmp_path)
    with pytest.raises(FormatError, match="no such folder"):
        check_lerobot(tmp_path / "none")
