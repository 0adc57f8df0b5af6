"""Every stream of the format at once: what is on the disk, the same bytes again, and what a failing one leaves."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder import testing
from lucky_recorder.capture.draw.renderer import Renderer
from lucky_recorder.capture.mujoco.lidar import Caster
from lucky_recorder.capture.mujoco.snapshot import ScenePool
from lucky_recorder.testing import CountEnv, check_session
from lucky_recorder.video import remux
from lucky_recorder.video.decode import decode_all
from lucky_recorder.video.encoder import VideoEncoder
from tests.capture.models import contents

SIZE = {"width": 64, "height": 48}
_ARENA = ("timer", "efc_", "iefc_", "contact", "island", "map_", "iM_", "iLD", "dof_island", "tendon_efcadr")
_MEASURED = ("narena", "maxuse_arena", "maxuse_stack", "maxuse_threadstack", "threadpool", "signature")
EVERYTHING: dict[str, Any] = {
    "record_masks": True,
    "gym_columns": True,
    "cameras": [
        {"name": "front", "depth_mode": "rgbd", "masks": ["cube", "base"], **SIZE},
        {"name": "wrist", "depth_mode": "depth_only", "sensor_model": "ActiveStereo", "frame_rate": 25, **SIZE},
        {"name": "fast", "source": "front", "frame_rate": 100, "depth_mode": "separate", "width": 32, "height": 32},
    ],
    "lidars": [
        {"name": "grasp", "rate": 25, "noise_m": 0.01, "azimuth": (-180, 180, 12), "elevation": (-10, 10, 3),
         "record_video_proxy": True},
    ],
}  # fmt: skip


def record(folder: Path, episodes: int = 2, steps: int = 6, **settings: Any) -> Path:
    """Record the expert for some steps of some episodes; returns the session's folder."""
    env = lr.RecordSession(
        gym.make("LuckyRecorder/PickCube-v0"), output_dir=folder, success="terminated", **{**EVERYTHING, **settings}
    )
    expert = env.unwrapped.expert(seed=1)
    try:
        for seed in range(episodes):
            observation, _ = env.reset(seed=seed)
            for _ in range(steps):
                observation, *_ = env.step(expert(observation))
            env.end_episode(success=True)
    finally:
        env.close()
    assert env.session_path is not None
    return env.session_path


def files(path: Path) -> dict[str, bytes]:
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def test_everything_at_once_is_the_same_bytes_again(tmp_path: Path) -> None:
    first, second = (record(tmp_path / str(k)) for k in range(2))
    check_session(first)
    known, again = files(first), files(second)
    assert known.keys() == again.keys()
    assert [name for name in known if known[name] != again[name]] == []
    assert json.loads(known["meta/info.json"])["bit_reproducible"] is True
    streams = {name.rpartition("/chunk")[0] for name in known if name.startswith("videos/")}
    front = {f"videos/observation.images.front{end}" for end in ("", "_depth", "_rgbd")}
    assert streams == front | {
        "videos/observation.images.wrist_depth", "videos/observation.images.fast",
        "videos/observation.images.fast_depth",
        "videos/observation.masks.front",
    }  # fmt: skip
    assert {n for n in known if n.startswith("data/chunk-000/lidar")} == {
        f"data/chunk-000/lidar-grasp-00{e}.{end}" for e in range(2) for end in ("json", "mp4", "parquet")
    }
    episode = check_session(first).episode(1)
    counts = {"front": 6, "wrist_depth": 3, "fast": 12, "fast_depth": 12, "front_depth": 6}
    for name, count in counts.items():
        with episode.frames(name) as frames:
            assert len(frames) == count, name
        rate = {"front": 50, "wrist": 25, "fast": 100}[name.removesuffix("_depth")]
        assert episode.meta[f"videos/observation.images.{name}/to_timestamp"] == count / rate
    assert (len(episode.scans("grasp")), len(episode.masks("front"))) == (3, 6)


def test_another_seed_of_the_session_is_another_noise_and_the_same_picture(tmp_path: Path) -> None:
    first, second = (files(record(tmp_path / str(seed), episodes=1, seed=seed)) for seed in range(2))
    differ = {name for name in first if first[name] != second[name]}
    assert differ == {
        "videos/observation.images.wrist_depth/chunk-000/file-000.mkv",
        "data/chunk-000/lidar-grasp-000.parquet", "data/chunk-000/lidar-grasp-000.mp4",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("video_format", "in_hardware"), [("h264", True), ("hevc", False), ("hevc", True), ("av1", False)]
)
def test_every_video_format_holds_the_same_session(tmp_path: Path, video_format: str, in_hardware: bool) -> None:
    path = record(tmp_path, episodes=1, video_format=video_format, hardware_encoder=in_hardware)
    session = check_session(path)
    info = {key: f["info"] for key, f in session.features.items() if f["dtype"] == "video"}
    assert info["observation.images.front"]["video.codec"] == video_format
    assert info["observation.images.front_depth"]["video.codec"] == "ffv1"
    # There is no graphics card that encodes where these tests run; where there is, the bytes are not promised.
    from lucky_recorder.video.available import available

    is_card = in_hardware and available(f"{video_format}_nvenc", width=64, height=48) is not None
    assert session.info["bit_reproducible"] is not is_card
    episode = session.episode(0)
    whole = decode_all(episode.video_path("front"))
    assert len(whole) == 6
    with episode.frames("front") as frames:
        for k in (5, 0, 3):
            assert np.array_equal(frames[k], whole[k])
    known = decode_all(session.video_files("front")[0])
    assert np.abs(known.astype(int) - whole).max() == 0
    assert remux.first_difference(episode.rgbd_path("front"), remux.COLOR_TRACK, episode.video_path("front")) is None
    assert (
        remux.first_difference(episode.rgbd_path("front"), remux.DEPTH_TRACK, episode.video_path("front_depth")) is None
    )


def test_a_run_with_every_stream_is_the_run_without_a_recorder(tmp_path: Path) -> None:
    plain = gym.make("LuckyRecorder/PickCube-v0")
    env = lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0"), output_dir=tmp_path, **EVERYTHING)
    for seed in (3, None):
        starts = [e.reset(seed=seed)[0] for e in (plain, env)]
        assert np.array_equal(*starts)
        for k in range(5):
            action = np.sin(np.arange(plain.action_space.shape[0]) + k).astype(np.float32)
            known, got = plain.step(action), env.step(action)
            assert np.array_equal(known[0], got[0])
            assert known[1:4] == got[1:4]
        before, after = contents(plain.unwrapped.data), contents(env.unwrapped.data)
        # What MuJoCo measures of itself is never the same, nor what it never wrote of its arena.
        same = {k for k in before if not k.startswith(_ARENA) and k not in _MEASURED}
        assert [k for k in sorted(same) if before[k] != after[k]] == []
        assert contents(plain.unwrapped.model) == contents(env.unwrapped.model)
    env.close()
    plain.close()
    check_session(env.session_path)


class Swaps(gym.Env[Any, Any]):
    """Makes a model of its own at every reset, as some environments do: the wall is as far away as the episode says."""

    def __init__(self) -> None:
        self.action_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.observation_space = gym.spaces.Box(-1, 1, (1,), np.float64)
        self.dt = 0.02
        self.resets = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.resets += 1
        self.model = mujoco.MjModel.from_xml_string(
            f"""<mujoco><visual><quality shadowsize="0" offsamples="0"/></visual><worldbody>
            <geom name="wall" type="box" size="0.1 5 5" pos="{self.resets + 0.1} 0 0"/><site name="eye"/>
            <camera name="eye" xyaxes="0 -1 0 0 0 1"/>
            <body pos="0 0 -9"><joint name="j"/><geom size="0.1"/></body></worldbody>
            <actuator><motor joint="j"/></actuator></mujoco>"""
        )
        self.data = mujoco.MjData(self.model)
        return np.zeros(1), {}

    def step(self, action: Any) -> Any:
        mujoco.mj_step(self.model, self.data, 10)
        return np.zeros(1), 0.0, False, False, {}


def test_a_model_that_is_swapped_is_the_one_that_is_measured(tmp_path: Path) -> None:
    env = lr.RecordSession(
        Swaps(),
        output_dir=tmp_path,
        success="terminated",
        cameras=[{"name": "eye", "depth_mode": "depth_only", "masks": ["wall"], **SIZE}],
        lidars=[{"name": "eye", "azimuth": (-10, 10, 3), "elevation": (0, 0, 1), "pattern": "solid_state"}],
        record_masks=True,
    )
    for _ in range(2):
        env.reset(seed=0)
        env.step([0.0])
        env.reset(seed=0, options={"keep_episode": True})
        env.step([0.0])
    env.close()
    for number, episode in enumerate(check_session(env.session_path)):
        distances = [1.0 + 2 * number, 2.0 + 2 * number]
        depth, masks = episode.depth("eye"), episode.masks("eye")
        assert [depth.codes[k][24, 32] for k in range(2)] == [1000 * d for d in distances]
        assert [masks[k].min() for k in range(2)] == [1, 1]
        middle = [episode.scans("eye").ranges(k)[1] for k in range(2)]
        assert middle == pytest.approx(distances, abs=1e-6)
        depth.close()
        masks.close()


# Gates.

MODES = ("off", "rgbd", "separate", "depth_only")
# name -> what is not as usual of the binding
BINDINGS: dict[str, dict[str, Any]] = {
    **{mode: {"depth_mode": mode, "masks": ["wall", "counter"]} for mode in MODES},
    "disabled": {"depth_mode": "rgbd", "masks": ["wall"], "enabled": False},
    "unmasked": {"depth_mode": "separate", "masks": ["wall"], "record_masks": False},
    "nameless": {"depth_mode": "off"},
}


def expected_folders(cameras: bool, color: bool, masks: bool) -> set[str]:
    """The table of the format, word by word."""
    folders = set()
    for name, binding in BINDINGS.items():
        mode = binding["depth_mode"]
        if not cameras or not binding.get("enabled", True):
            continue
        if color and mode in ("off", "rgbd", "separate"):
            folders.add(f"observation.images.{name}")
        if color and mode in ("rgbd", "separate", "depth_only"):
            folders.add(f"observation.images.{name}_depth")
        if color and mode == "rgbd":
            folders.add(f"observation.images.{name}_rgbd")
        if masks and binding.get("record_masks", True) and "masks" in binding:
            folders.add(f"observation.masks.{name}")
    return folders


@pytest.mark.parametrize(("cameras", "color", "masks"), list(itertools.product([True, False], repeat=3)))
def test_exactly_the_folders_of_the_table_are_there(tmp_path: Path, cameras: bool, color: bool, masks: bool) -> None:
    bindings = [{"name": name, "source": "wall", **SIZE, **fields} for name, fields in BINDINGS.items()]
    env = lr.RecordSession(
        CountEnv(2, mujoco=True), output_dir=tmp_path, cameras=bindings,
        record_cameras=cameras, record_color_video=color, record_masks=masks,
    )  # fmt: skip
    env.reset(seed=0)
    for _ in range(2):
        env.step([0.0])
    env.close()
    path = env.session_path
    assert path is not None
    session = check_session(path)
    expected = expected_folders(cameras, color, masks)
    assert {p.name for p in path.glob("videos/*")} == expected
    assert (path / "videos").exists() is bool(expected)
    for folder in expected:
        ending = ".mkv" if folder.endswith(("_depth", "_rgbd")) else ".mp4"
        names = {p.name for p in (path / "videos" / folder / "chunk-000").iterdir()}
        assert names == {f"file-000{ending}"} | ({"file-000.json"} if "masks" in folder else set())
    described = {f for f in expected if f.startswith("observation.images.") and not f.endswith("_rgbd")}
    assert {key for key, f in session.features.items() if f["dtype"] == "video"} == described
    assert {c.split("/")[1] for c in session.episodes.column_names if c.startswith("videos/")} == described
    assert ("video_path" in session.info) is bool(expected)


# What fails.


def refuse(*args: Any, **named: Any) -> Any:
    raise RuntimeError("has had enough")


def at_frame_3(working: Callable[..., Any], name: str = "") -> Callable[..., Any]:
    """Raise at an encoder's fourth frame of the second attempt."""

    def broken(encoder: VideoEncoder, *args: Any, **named: Any) -> Any:
        if f"{name}-take-000001" in encoder.path.name and encoder.frames == 3:
            refuse()
        return working(encoder, *args, **named)

    return broken


def after(calls: int, working: Callable[..., Any]) -> Callable[..., Any]:
    """Raise from a certain call on."""
    count = itertools.count()
    return lambda *args, **named: refuse() if next(count) >= calls else working(*args, **named)


FRONT = "observation.images.front"
# what is broken -> how, and the streams that are gone
FAILURES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], set[str]]] = {
    "colour encoder": (
        lambda m: m.setattr(VideoEncoder, "write", at_frame_3(VideoEncoder.write, FRONT)), {FRONT, f"{FRONT}_rgbd"}),
    "depth encoder": (
        lambda m: m.setattr(VideoEncoder, "write", at_frame_3(VideoEncoder.write, f"{FRONT}_depth")),
        {f"{FRONT}_depth", f"{FRONT}_rgbd"}),
    "mask encoder": (
        lambda m: m.setattr(VideoEncoder, "write", at_frame_3(VideoEncoder.write, "observation.masks.front")),
        {"observation.masks.front"}),
    "proxy encoder": (
        lambda m: m.setattr(VideoEncoder, "write", at_frame_3(VideoEncoder.write, "lidar-grasp")), {"lidar-grasp"}),
    "colours": (lambda m: m.setattr(Renderer, "color", after(9, Renderer.color)), {FRONT, f"{FRONT}_rgbd"}),
    "surfaces": (
        lambda m: m.setattr(Renderer, "surfaces", after(15, Renderer.surfaces)),
        {f"{FRONT}_depth", f"{FRONT}_rgbd", "observation.masks.front"}),
    "caster": (lambda m: m.setattr(Caster, "cast", after(9, Caster.cast)), {"lidar-grasp"}),
    "combination": (lambda m: m.setattr(remux, "combine", after(1, remux.combine)), {f"{FRONT}_rgbd"}),
}  # fmt: skip
ALL = {FRONT, f"{FRONT}_depth", f"{FRONT}_rgbd", "observation.masks.front", "lidar-grasp"}
ONE_CAMERA = {"cameras": EVERYTHING["cameras"][:1], "lidars": [{**EVERYTHING["lidars"][0], "rate": 50}]}


def streams_of_episode(path: Path, episode: int) -> set[str]:
    """The streams that have a file of an episode."""
    videos = {p.parts[-3] for p in path.glob(f"videos/*/*/file-{episode:03d}.m*")}
    scans = {p.name.rpartition("-")[0] for p in path.glob(f"data/*/lidar-*-{episode:03d}.*")}
    return videos | scans


@pytest.mark.parametrize("discards", [False, True], ids=["keeps", "discards"])
@pytest.mark.parametrize("what", FAILURES)
def test_a_stream_that_fails_fails_its_episode_and_stops_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, discards: bool
) -> None:
    fail, gone = FAILURES[what]
    fail(monkeypatch)
    with pytest.raises(lr.StreamError, match="failed: RuntimeError: has had enough"):
        record(tmp_path, episodes=4, discard_and_retry_failed=discards, **ONE_CAMERA)
    (path,) = (tmp_path / "DataSessions").iterdir()
    assert not list(path.rglob("*.tmp"))
    session = testing.check_session(path)
    assert streams_of_episode(path, 0) == ALL
    assert [e.success for e in session] == ([True] if discards else [True, False])
    assert streams_of_episode(path, 1) == (set() if discards else ALL - gone)
    if discards:
        return
    failed = session.episode(1)
    assert 3 < failed.length <= 6
    for key in (FRONT, f"{FRONT}_depth"):
        assert (failed.meta[f"videos/{key}/chunk_index"] is None) is (key in gone)
        if key not in gone:
            with failed.frames(key) as frames:
                assert len(frames) == failed.length
    if "observation.masks.front" not in gone:
        assert len(failed.masks("front")) == failed.length
    if "lidar-grasp" not in gone:
        assert len(failed.scans("grasp")) == failed.length


def test_a_stream_that_fails_while_a_step_is_taken_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FAILURES["colour encoder"][0](monkeypatch)
    env = lr.RecordSession(gym.make("LuckyRecorder/PickCube-v0"), output_dir=tmp_path, data_hz=500, **ONE_CAMERA)
    action = np.zeros(env.action_space.shape, np.float32)

    def run() -> None:
        for episode in range(50):
            env.reset(seed=episode)
            for _ in range(6):
                env.step(action)
            env.end_episode(success=True)

    with pytest.raises(lr.StreamError, match="has had enough"):
        run()
    assert not env.is_recording
    env.reset(seed=0)
    env.step(action)
    env.close()
    session = check_session(env.session_path)
    assert [e.success for e in session] == [True, False]
    assert session.episode(0).length == 60


def test_scans_that_cannot_be_written_leave_no_file_of_their_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lucky_recorder.session import lidar

    working = lidar.table
    monkeypatch.setattr(lidar, "table", after(1, working))
    with pytest.raises(lr.StreamError, match="take 1 could not be written: RuntimeError: has had enough"):
        record(tmp_path, episodes=4, **ONE_CAMERA)
    (path,) = (tmp_path / "DataSessions").iterdir()
    assert [e.success for e in check_session(path)] == [True]
    assert streams_of_episode(path, 1) == set()
    assert not list(path.rglob("*.tmp"))


# What is in flight.


class Counted:
    """Counts the scenes that are out of a pool."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.out: set[int] = set()
        self.most = 0
        take, give_back = ScenePool.borrow, ScenePool.give_back

        def taken(pool: ScenePool) -> Any:
            scene = take(pool)
            assert id(scene) not in self.out, "a scene that is in use was given out again"
            self.out.add(id(scene))
            self.most = max(self.most, len(self.out))
            return scene

        def given_back(pool: ScenePool, scene: Any) -> None:
            self.out.remove(id(scene))
            give_back(pool, scene)

        monkeypatch.setattr(ScenePool, "borrow", taken)
        monkeypatch.setattr(ScenePool, "give_back", given_back)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def test_no_more_than_sixteen_scenes_are_in_flight_and_every_one_comes_back(
    tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    pause, working = threading.Event(), VideoEncoder.write

    def slow(encoder: VideoEncoder, *args: Any, **named: Any) -> None:
        pause.wait(0.002)
        working(encoder, *args, **named)

    monkeypatch.setattr(VideoEncoder, "write", slow)
    record(tmp_path, steps=25)
    assert 12 <= counted.most <= 16
    assert counted.out == set()


@pytest.mark.parametrize("what", ["colours", "surfaces", "depth encoder"])
def test_every_scene_comes_back_where_a_stream_fails(
    tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    FAILURES[what][0](monkeypatch)
    with pytest.raises(lr.StreamError):
        record(tmp_path, episodes=4, **ONE_CAMERA)
    assert counted.out == set()


def test_a_camera_costs_one_pass_for_colours_and_one_for_all_surfaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = itertools.count()
    working = mujoco.mjr_render
    monkeypatch.setattr(mujoco, "mjr_render", lambda *args: (next(passes), working(*args))[1])
    updates = itertools.count()
    update = mujoco.mjv_updateScene
    monkeypatch.setattr(mujoco, "mjv_updateScene", lambda *args: (next(updates), update(*args))[1])
    record(tmp_path, episodes=1, steps=6, **ONE_CAMERA)
    assert (next(passes), next(updates)) == (12, 6)
