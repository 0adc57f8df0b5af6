from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.koyu.check import Fault, check_koyu, inspect_koyu
from lucky_recorder.testing import CountEnv
from lucky_recorder.testing import check_koyu as assert_koyu
from lucky_recorder.video.encoder import VideoEncoder
from tests.koyu.bundles import (
    CAMERAS,
    HEIGHT,
    WIDTH,
    capture_id,
    count_of,
    edit_json,
    film,
    vectors,
    write_bundle,
    write_dataset,
    write_manifest,
)

FRONT = CAMERAS[0]
LENGTHS = (12, 3, 25)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("stored") / "by-hand", LENGTHS)


@pytest.fixture
def copy(stored: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stored, tmp_path / "by-hand"))


NAME = f"episodes/ep_{capture_id(0)}"


def test_a_good_dataset(stored: Path) -> None:
    assert inspect_koyu(stored) == ([], 3, 40, 80)
    assert inspect_koyu(stored, decode=False) == ([], 3, 40, 80)
    assert len(assert_koyu(stored)) == 40


def test_a_bundle_as_koyu_pull_makes_it_is_good(tmp_path: Path) -> None:
    lacks = {"recorded_at": "absent", "record_hz": "absent", "reward": "absent", "policy_name": "absent"}
    write_manifest(tmp_path, [write_bundle(tmp_path, 0, 4, **lacks)], id="absent")
    edit_json(tmp_path / "manifest.json", id="absent")
    assert check_koyu(tmp_path) == []


def test_more_columns_and_fields_and_files_are_good(tmp_path: Path) -> None:
    entry = write_bundle(tmp_path, 0, 4, columns={"cube": np.ones((4, 7))}, weather="fine")
    (tmp_path / NAME / "notes.txt").touch()
    write_manifest(tmp_path, [entry | {"reward": None, "score": 3}], colour="blue")
    assert check_koyu(tmp_path) == []


# The golden test.


def test_row_i_is_frame_i_of_a_dataset_painted_with_its_own_index(tmp_path: Path) -> None:
    entries = [write_bundle(tmp_path, e, n, cameras=(FRONT,)) for e, n in enumerate((12, 1, 25))]
    features = json.loads((tmp_path / NAME / "episode.json").read_text())["features"]
    write_manifest(tmp_path, entries, features=features)

    def count(row: Any) -> int:
        return count_of(int(row["observation.state"][0]), int(row["observation.state"][1]), 0)

    assert len(assert_koyu(tmp_path, count=count)) == 38
    counts = [count_of(2, k, 0) for k in range(25)]
    counts[7], counts[8] = counts[8], counts[7]
    film(tmp_path / f"episodes/ep_{capture_id(2)}/{FRONT}.mp4", counts)
    assert check_koyu(tmp_path) == []
    with pytest.raises(AssertionError, match=r"2 faults\n.*front: frame 7 shows 3008, row 7 says 3007\n"):
        assert_koyu(tmp_path, count=count)


def test_row_i_is_frame_i_of_what_the_recorder_writes(tmp_path: Path) -> None:
    """The recorder's own golden test: the env renders its count, which is also its only observation."""
    env = lr.RecordSession(
        CountEnv(length=(5, 12, 1), render_mode="rgb_array"),
        output_dir=tmp_path,
        mode="custom",
        columns=[
            lr.Column("observation.state", "gym:obs"),
            lr.Column("action", "gym:action", dtype="float32"),
        ],
        cameras=[{"name": name, "source": "render", "width": 64, "height": 48} for name in ("front", "wrist")],
        koyu=lr.KoyuSettings(name="counted"),
        formats=("koyu",),
    )
    with env:
        for _ in range(3):
            env.reset()
            done = False
            while not done:
                _, _, done, _, _ = env.step(np.array([1], np.float32))
    dataset = assert_koyu(tmp_path / "counted", count=lambda row: int(row["observation.state"][0]))
    assert [e.length for e in dataset.episodes] == [5, 12, 1]
    assert len(dataset.cameras) == 2


# Broken parts, one at a time.


def rewritten(name: str, change: Any) -> Any:
    def edit(dataset: Path) -> None:
        path = dataset / NAME / "data.parquet"
        table = pq.read_table(path)
        pq.write_table(table.set_column(table.column_names.index(name), name, change(table[name])), path)

    return edit


def sidecar(**changes: Any) -> Any:
    return lambda dataset: edit_json(dataset / NAME / "episode.json", **changes)


def manifest(**changes: Any) -> Any:
    return lambda dataset: edit_json(dataset / "manifest.json", **changes)


def entry(**changes: Any) -> Any:
    def edit(dataset: Path) -> None:
        path = dataset / "manifest.json"
        content = json.loads(path.read_text())
        content["episodes"][0] |= changes
        path.write_text(json.dumps(content))

    return edit


def added_column(dataset: Path) -> None:
    path = dataset / NAME / "data.parquet"
    pq.write_table(pq.read_table(path).append_column("cube", vectors(np.ones((12, 7)))), path)


def dropped_column(dataset: Path) -> None:
    path = dataset / NAME / "data.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["observation.state"]), path)


def fewer_rows(dataset: Path) -> None:
    path = dataset / NAME / "data.parquet"
    pq.write_table(pq.read_table(path).slice(0, 11), path)


def filmed(frames: int = 12, **encoder: Any) -> Any:
    return lambda dataset: film(dataset / NAME / f"{FRONT}.mp4", list(range(frames)), **encoder)


def larger(dataset: Path) -> None:
    path = dataset / NAME / f"{FRONT}.mp4"
    path.unlink()
    video = VideoEncoder(path, width=WIDTH * 2, height=HEIGHT, fps=Fraction(50))
    for _ in range(12):
        video.write(np.zeros((HEIGHT, WIDTH * 2, 3), np.uint8))
    video.close()


def cut_video(dataset: Path) -> None:
    path = dataset / NAME / f"{FRONT}.mp4"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def long_gop(dataset: Path) -> None:
    import av

    length, path = 40, dataset / NAME / f"{FRONT}.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=50, options={"g": "250", "bf": "0", "sc_threshold": "0"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for _ in range(length):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((HEIGHT, WIDTH, 3), np.uint8))))
        container.mux(stream.encode(None))


def stray_video(dataset: Path) -> None:
    shutil.copy(dataset / NAME / f"{FRONT}.mp4", dataset / NAME / "observation.images.left.mp4")


def leftover(dataset: Path) -> None:
    (dataset / "episodes/.tmp-1-2").mkdir()


def temporary(dataset: Path) -> None:
    (dataset / NAME / "data.parquet.tmp").touch()


def gone(name: str) -> Any:
    return lambda dataset: (dataset / NAME / name).unlink()


def no_bundle(dataset: Path) -> None:
    shutil.rmtree(dataset / NAME)


def twice(dataset: Path) -> None:
    shutil.copytree(dataset / NAME, dataset / "episodes/again")


def unlisted(dataset: Path) -> None:
    write_bundle(dataset, 7, 2)


def broken_overlay(dataset: Path) -> None:
    (dataset / "overlays/progress").mkdir(parents=True)
    (dataset / "overlays/progress/overlay.json").write_text("{}")


SIDECAR, DATA, VIDEO = f"{NAME}/episode.json", f"{NAME}/data.parquet", f"{NAME}/{FRONT}.mp4"


@pytest.mark.parametrize(
    ("change", "file", "message"),
    [
        (sidecar(schema_version=2), SIDECAR, "schema_version=2: only 1 is understood here"),
        (sidecar(capture_id="ABC"), SIDECAR, "capture_id='ABC': expected 32 hexadecimal digits"),
        (sidecar(recorded_at="yesterday"), SIDECAR, "recorded_at='yesterday': expected a moment in UTC"),
        (sidecar(recorded_at="2026-10-08T14:30:05+02:00"), SIDECAR, "expected a moment in UTC"),
        (sidecar(length=11), SIDECAR, None),
        (sidecar(fps=0), SIDECAR, "fps=0"),
        (sidecar(fps="absent"), SIDECAR, "fps is missing"),
        (sidecar(record_hz="50"), SIDECAR, "record_hz='50'"),
        (sidecar(task=""), SIDECAR, "task='': expected a text"),
        (sidecar(task_description="absent"), SIDECAR, "task_description is missing"),
        (sidecar(collection_mode="demo"), SIDECAR, "collection_mode='demo'"),
        (sidecar(encoding="absent"), SIDECAR, "encoding is missing"),
        (sidecar(reward=1.5), SIDECAR, "reward=1.5: expected a number from 0 to 1"),
        (sidecar(reward=True), SIDECAR, "reward=True"),
        (sidecar(policy_name=3), SIDECAR, "policy_name=3: expected a text, or null"),
        (sidecar(events={}), SIDECAR, "events={}: expected a list"),
        (sidecar(events=[{"step": 13}]), SIDECAR, "events[0]: {'step': 13}: expected an object with a step"),
        (sidecar(features="absent"), SIDECAR, "features is missing"),
        (sidecar(features={}), SIDECAR, "features: observation.state is missing"),
        (
            sidecar(features={"action": {"dtype": "float64", "shape": [2]}}),
            SIDECAR,
            "dtype='float64': expected 'float32'",
        ),
        (gone("episode.json"), SIDECAR, "is missing"),
        (rewritten("step", lambda c: pa.array(range(1, 13))), DATA, "row 0: step is 1, expected 0"),
        (rewritten("step", lambda c: pa.array(range(12), pa.int32())), DATA, "column step is int32, expected int64"),
        (rewritten("timestamp", lambda c: pa.array([5, *range(2, 13)])), DATA, "row 1: timestamp is 2, not after 5"),
        (rewritten("timestamp", lambda c: pa.array([None, *range(11)])), DATA, "column timestamp: a value is missing"),
        (
            rewritten("action", lambda c: c.combine_chunks().cast(pa.list_(pa.float64()))),
            DATA,
            "column action is list<",
        ),
        (rewritten("action", lambda c: vectors(np.ones((12, 3)))), DATA, "does not hold 2 values"),
        (rewritten("action", lambda c: vectors(np.full((12, 2), np.nan))), DATA, "action: row 0 holds NaN or infinity"),
        (added_column, DATA, "column cube has no feature in the sidecar"),
        (dropped_column, DATA, "column observation.state is missing"),
        (fewer_rows, DATA, "11 rows, the sidecar says 12"),
        (gone("data.parquet"), DATA, "is missing"),
        (filmed(11), VIDEO, "frames 11, expected 12"),
        (filmed(codec="hevc"), VIDEO, "codec hevc, expected h264"),
        (larger, VIDEO, "height and width (48, 128), expected (48, 64)"),
        (cut_video, VIDEO, "cannot be read"),
        (long_gop, VIDEO, "40 frames between two keyframes; more than 30 are no short GOP"),
        (gone(f"{FRONT}.mp4"), VIDEO, "is missing"),
        (stray_video, f"{NAME}/observation.images.left.mp4", "is no feature of the sidecar"),
        (leftover, "episodes/.tmp-1-2", "left behind by an interrupted recording, or being written"),
        (temporary, f"{DATA}.tmp", "left behind by an interrupted recording"),
        (no_bundle, "manifest.json", f"episodes[0]: ep_{capture_id(0)} is not in episodes/"),
        (twice, "episodes/again/episode.json", f"{NAME} has the same capture_id"),
        (unlisted, f"episodes/ep_{capture_id(7)}", "the manifest does not list it"),
        (manifest(episode_count=4), "manifest.json", "episode_count=4, it lists 3 episodes"),
        (manifest(type="demo"), "manifest.json", "type='demo'"),
        (manifest(fps=None), "manifest.json", "fps=None"),
        (manifest(name="absent"), "manifest.json", "name is missing"),
        (manifest(id=3), "manifest.json", "id=3: expected a text"),
        (manifest(success_rate=0.5), "manifest.json", "success_rate=0.5, the share of rewards from 0.5 on of the"),
        (manifest(success_rate=True), "manifest.json", "success_rate=True, the share of"),
        (manifest(mean_reward=0.5), "manifest.json", "mean_reward=0.5, the mean reward of the bundles"),
        (manifest(features={"x": {"dtype": "float32", "shape": [2]}}), SIDECAR, "features: x is missing"),
        (manifest(features={"action": {"dtype": "float32", "shape": [3]}}), SIDECAR, "features['action']: shape [2]"),
        (manifest(episodes={}), "manifest.json", "episodes={}: expected a list"),
        (entry(length=11), "manifest.json", "episodes[0]: length=11, its sidecar says 12"),
        (entry(task="other"), "manifest.json", "episodes[0]: task='other', its sidecar says 'lift'"),
        (entry(reward=1.0), "manifest.json", "episodes[0]: reward=1.0, its sidecar says None"),
        (broken_overlay, "overlays/progress/overlay.json", "schema_version=None"),
    ],
)
def test_a_fault_is_found(copy: Path, change: Any, file: str, message: str | None) -> None:
    change(copy)
    before = {p: p.stat().st_mtime_ns for p in copy.rglob("*")}
    faults = check_koyu(copy)
    assert faults
    if message is not None:
        assert any(f.file == file and message in f.message for f in faults), faults
    assert {p: p.stat().st_mtime_ns for p in copy.rglob("*")} == before
    with pytest.raises(AssertionError, match="faults"):
        assert_koyu(copy)


def test_the_success_rate_is_the_share_of_good_rewards(tmp_path: Path) -> None:
    entries = [write_bundle(tmp_path, e, 2, cameras=(), reward=r) for e, r in enumerate((1.0, None, 0.0, 0.5, 0.4))]
    features = json.loads((tmp_path / NAME / "episode.json").read_text())["features"]
    write_manifest(tmp_path, entries, features=features, success_rate=0.5, mean_reward=1.9 / 4)
    assert check_koyu(tmp_path) == []
    edit_json(tmp_path / "manifest.json", success_rate=1.9 / 4)
    said = "the share of rewards from 0.5 on of the bundles that have one is 0.5"
    assert check_koyu(tmp_path) == [Fault("manifest.json", f"success_rate=0.475, {said}")]
    # The page's own example says null, whatever the bundles say.
    edit_json(tmp_path / "manifest.json", success_rate=None, mean_reward="absent")
    assert check_koyu(tmp_path) == []


def test_bundles_may_have_features_of_their_own_but_not_two_kinds_of_one(tmp_path: Path) -> None:
    sizes = (None, 7, 7, 3)
    entries = [
        write_bundle(tmp_path, e, 2, cameras=(), columns={} if size is None else {"cube": np.ones((2, size))})
        for e, size in enumerate(sizes)
    ]
    features = json.loads((tmp_path / NAME / "episode.json").read_text())["features"]
    write_manifest(tmp_path, entries[:3], features=features)
    faults = [f for f in check_koyu(tmp_path) if "does not list it" not in f.message]
    last, second = (f"ep_{capture_id(e)}" for e in (3, 1))
    sidecar = f"episodes/{last}/episode.json"
    assert faults == [Fault(sidecar, f"features['cube'] is ['float32', [3]], {second} says ['float32', [7]]")]
    edit_json(tmp_path / "manifest.json", optional_features={"cube": {"dtype": "float32", "shape": [7]}})
    assert Fault(sidecar, "features['cube'] is ['float32', [3]], the manifest says ['float32', [7]]") in check_koyu(
        tmp_path
    )


def test_the_name_of_a_bundle_s_folder_is_cosmetic(copy: Path) -> None:
    (copy / NAME).rename(copy / "episodes/first try")
    assert check_koyu(copy) == []


def test_a_link_out_of_the_dataset_is_a_fault(copy: Path, tmp_path: Path) -> None:
    (copy / NAME).rename(tmp_path / "elsewhere")
    (copy / NAME).symlink_to(tmp_path / "elsewhere")
    assert Fault(SIDECAR, "lies outside the dataset folder") in check_koyu(copy)


def test_what_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(lr.FormatError, match="no such folder"):
        check_koyu(tmp_path / "nowhere")
    with pytest.raises(lr.FormatError, match="is no dataset"):
        check_koyu(tmp_path)


def test_without_a_manifest_the_bundles_are_checked_all_the_same(copy: Path) -> None:
    (copy / "manifest.json").unlink()
    report = inspect_koyu(copy)
    assert (report.episodes, report.rows) == (3, 40)
    assert [f.file for f in report.faults] == ["manifest.json"] or "has no manifest.json" in str(report.faults)
