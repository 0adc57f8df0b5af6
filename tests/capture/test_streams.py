"""The streams: what each camera and lidar writes, and what info.json says of it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mujoco
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.capture.mujoco.simulation import Simulation
from lucky_recorder.capture.schedule import Clocks, clocks
from lucky_recorder.capture.streams import scans_of, streams_of
from lucky_recorder.session.features import features
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.settings.sensors import DEPTH_SENSORS, Diagnostic, depth_sensor
from tests.capture.models import arm, scene, source_of

SIZE = {"width": 64, "height": 48}


def at(rate: Any) -> Clocks:
    """The clocks of a recording whose only rate this is."""
    return clocks(RecorderSettings(data_hz=rate), None)


def looked_at() -> Simulation:
    model = scene("pick_cube")
    return Simulation(model, mujoco.MjData(model))


def info_of(data_hz: Any = 50, **camera: Any) -> dict[str, Any]:
    """What info.json says of the depth stream of a camera of the arm."""
    camera = {"name": "front", "depth_mode": "separate", **SIZE, **camera}
    source = source_of(scene("pick_cube"), cameras=[camera], data_hz=data_hz)
    described: dict[str, Any] = features(source.schema)
    return described["observation.images.front_depth"]


def test_what_a_depth_stream_says_of_itself() -> None:
    feature = info_of(depth_scale=0.0005)
    assert (feature["dtype"], feature["shape"], feature["names"]) == (
        "video",
        [48, 64, 1],
        ["height", "width", "channels"],
    )
    calibration = {key: feature["info"].pop(key) for key in ("intrinsics", "extrinsics")}
    assert all(calibration.values())
    assert feature["info"] == {
        "video.fps": 50, "video.height": 48, "video.width": 64, "video.channels": 1,
        "video.codec": "ffv1", "video.pix_fmt": "gray16le", "video.is_depth_map": True, "has_audio": False,
        "depth_scale": 0.0005, "depth_dtype": "uint16", "depth_units": "meters",
        "sensor_model": "None", "zero_means": "no surface, or a distance whose code does not fit 16 bits",
    }  # fmt: skip


def test_a_sensor_model_says_its_calibration() -> None:
    info = info_of(sensor_model="ActiveStereo", sensor_params={"noise_px": 0.2})["info"]
    assert info["sensor_model"] == "ActiveStereo"
    assert info["zero_means"].startswith("not measured")
    assert info["sensor_params"] == {
        "baseline_m": 0.05, "subpixel_px": 0.03125, "noise_px": 0.2, "min_range_m": 0.15, "max_range_m": 10.0,
        "focal_px": pytest.approx(24 / np.tan(np.radians(19)), rel=1e-5),
    }  # fmt: skip
    assert not {"debug_channel", "NOTE"} & set(info)


def test_a_diagnostic_channel_says_that_it_is_no_depth() -> None:
    info = {
        channel: info_of(sensor_model="ActiveStereo", debug_channel=channel)["info"]
        for channel in DEPTH_SENSORS["ActiveStereo"].diagnostics
    }
    for channel, said in info.items():
        assert said["debug_channel"] == channel
        assert said["NOTE"].startswith("the values are not depth: ")
    # A code of 0 means something else in each: it is no missing measurement.
    assert info["disparity"]["zero_means"] == "no surface, or a disparity below 1/128 pixel"
    assert info["shadow"]["zero_means"].startswith("not in the shadow")
    assert len({said["zero_means"] for said in (*info.values(), info_of(sensor_model="ActiveStereo")["info"])}) == 3


def test_a_channel_of_ones_own_is_never_said_to_be_depth() -> None:
    channel = Diagnostic("the values are not depth: ones", lambda view, params: np.ones(view.depth.shape, np.uint16))
    depth_sensor("Own", zero_means="nothing", diagnostics={"ones": channel})(lambda view, params: view.depth)
    try:
        info = info_of(sensor_model="Own", debug_channel="ones")["info"]
    finally:
        del DEPTH_SENSORS["Own"]
    assert info["zero_means"] == "a value of 0 of what NOTE says, and not that there is no surface"


@pytest.fixture
def foggy() -> Iterator[None]:
    @depth_sensor("Foggy", zero_means="nothing, or fog before it", sight_m=0.5)
    def fog(view: Any, params: Any) -> np.ndarray:
        return np.where(view.depth < params["sight_m"], view.depth, np.float32(0))

    yield
    del DEPTH_SENSORS["Foggy"]


def test_a_third_model_works_end_to_end(foggy: None, record: Any) -> None:
    import gymnasium as gym

    cameras = [
        {"name": "front", "depth_mode": "depth_only", "sensor_model": "Foggy", **SIZE},
        {"name": "clear", "source": "front", "depth_mode": "depth_only", **SIZE},
    ]
    env = record(gym.make("LuckyRecorder/PickCube-v0"), mode="robot_arm", cameras=cameras)
    env.reset(seed=0)
    env.step(np.zeros(env.action_space.shape, np.float32))
    env.close()
    session = lr.Session(env.session_path)
    info = session.features["observation.images.front_depth"]["info"]
    assert (info["sensor_model"], info["zero_means"]) == ("Foggy", "nothing, or fog before it")
    assert info["sensor_params"]["sight_m"] == 0.5
    fog, clear = (session.episode(0).depth(name).codes[0] for name in ("front", "clear"))
    assert (clear >= 500).any()
    assert np.array_equal(fog, np.where(clear < 500, clear, 0))


ORTHOGRAPHIC = """<mujoco><worldbody><camera name="flat" pos="0 0 3" projection="orthographic" fovy="2"/>
<body><joint name="j"/><geom size="0.1"/></body></worldbody><actuator><motor joint="j"/></actuator></mujoco>"""


def test_stereo_through_an_orthographic_camera_is_refused() -> None:
    model = mujoco.MjModel.from_xml_string(ORTHOGRAPHIC)
    camera = {"name": "flat", "depth_mode": "depth_only", **SIZE}
    assert source_of(model, cameras=[camera]).schema.streams[0].kind == "depth"
    with pytest.raises(
        lr.SettingsError, match="camera 'flat': sensor_model='ActiveStereo': an orthographic camera's rays"
    ):
        source_of(model, cameras=[{**camera, "sensor_model": "ActiveStereo"}])


def test_depth_without_mujoco_is_refused(record: Any, tmp_path: Any) -> None:
    camera = {"name": "x", "depth_mode": "rgbd", "sensor_model": "ActiveStereo", **SIZE}
    env = record(cameras=[camera])
    with pytest.raises(lr.SettingsError, match="no MuJoCo model was found"):
        env.reset()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("camera", "video", "why"),
    [
        (
            {"depth_mode": "depth_only", "frame_rate": 2000},
            "h264",
            "frame_rate='2000': ffv1 video .* at most 1000 frames",
        ),
        ({"depth_mode": "rgbd"}, "h264", "data_hz='2000': ffv1 video of the camera 'front' holds at most 1000 frames"),
        ({"frame_rate": 250}, "av1", "frame_rate='250': av1 video .* at most 240 frames a second"),
    ],
)
def test_a_rate_that_a_file_cannot_hold_is_refused(camera: dict[str, Any], video: str, why: str) -> None:
    settings = RecorderSettings(data_hz=2000, video_format=video, cameras=[{"name": "front", **SIZE, **camera}])
    with pytest.raises(lr.SettingsError, match=why):
        streams_of(settings, at(2000), looked_at())


@pytest.mark.parametrize(("hz", "codec"), [("h264", "h264"), ("hevc", "hevc"), ("av1", "av1")])
@pytest.mark.parametrize("in_hardware", [False, True])
def test_the_codec_is_the_one_that_is_used(hz: str, codec: str, in_hardware: bool) -> None:
    settings = RecorderSettings(
        video_format=hz, hardware_encoder=in_hardware, record_masks=True,
        cameras=[{"name": "front", "depth_mode": "rgbd", "masks": ["cube"], **SIZE}],
    )  # fmt: skip
    streams = {s.kind: s for s in streams_of(settings, at(50), looked_at())}
    assert list(streams) == ["color", "depth", "rgbd", "mask"]
    assert (streams["color"].codec, streams["color"].pix_fmt) == (codec, "yuv420p")
    assert (streams["depth"].codec, streams["mask"].codec, streams["rgbd"].encoder) == ("ffv1", "h264", "")
    assert [s.suffix for s in streams.values()] == [".mp4", ".mkv", ".mkv", ".mp4"]
    assert [s.is_described for s in streams.values()] == [True, True, False, False]


def test_a_stream_has_its_cameras_rate_or_the_datas() -> None:
    cameras = [{"name": "front", **SIZE}, {"name": "wrist", "frame_rate": 10, "depth_mode": "separate", **SIZE}]
    streams = streams_of(RecorderSettings(cameras=cameras), at(Fraction(200, 3)), looked_at())
    assert [(s.key.removeprefix("observation.images."), s.rate) for s in streams] == [
        ("front", Fraction(200, 3)), ("wrist", 10), ("wrist_depth", 10),
    ]  # fmt: skip


def test_what_a_scan_stream_says_of_itself() -> None:
    lidar = lr.Lidar("Top", site="grasp", azimuth=(0, 180, 4), elevation=(-5, 5, 2), rate="25/2", noise_m=0.01)
    (stream,) = scans_of(RecorderSettings(lidars=[lidar, lr.Lidar("off", enabled=False)]), at(50), None)
    assert (stream.name, stream.rate, stream.rays, stream.columns, stream.has_proxy) == (
        "Top",
        Fraction(25, 2),
        8,
        4,
        False,
    )
    assert stream.description | {"frame": "", "ray_order": ""} == {
        "name": "Top", "pattern": "spinning", "rate": 12.5, "frame": "", "ray_order": "", "mount": {"site": "grasp"},
        "azimuth_deg": [0, 45, 90, 135], "elevation_deg": [-5, 5], "rays": 8, "min_range_m": 0.0, "max_range_m": 100.0,
        "noise_m": 0.01, "range_units": "meters", "no_return": "infinity", "geom_id": "the geom a ray hit, -1 for none",
    }  # fmt: skip


def test_a_scan_stream_says_which_flexes_it_sees() -> None:
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><site name="eye" pos="0 0 2"/><body name="cloth"><site name="own"/><flexcomp name="tent"
        type="grid" count="3 3 1" spacing=".1 .1 .1" dim="2" rigid="true"/></body></worldbody></mujoco>"""
    )
    lidars = [lr.Lidar("far", site="eye"), lr.Lidar("on", site="own")]
    source = source_of(model, "custom", lidars=lidars, columns=[lr.Column("eye", "site_xpos:eye", shape=(3,))])
    far, on = (scan.description for scan in source.schema.scans)
    assert (far["flexes"], on.get("flexes")) == (["tent"], None)
    assert far["geom_id"] == "the geom a ray hit; -1 for none, and for a ray that hit a flex"
    assert on["geom_id"] == "the geom a ray hit, -1 for none"


def test_a_camera_that_is_on_and_writes_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    cameras = [{"name": "front", **SIZE}, {"name": "wrist", "masks": ["cube"], **SIZE}]
    source = source_of(scene("pick_cube"), cameras=cameras, record_color_video=False)
    assert source.schema.streams == ()
    front, wrist = (record.getMessage() for record in caplog.records)
    assert front.startswith("camera 'front' is enabled and writes nothing: record_color_video is off, and it has no")
    assert wrist.startswith("camera 'wrist' is enabled and writes nothing: record_color_video is off, and its masks")
    caplog.clear()
    source_of(scene("pick_cube"), cameras=cameras, record_color_video=False, record_cameras=False)
    source_of(scene("pick_cube"), cameras=cameras[:1])
    assert not caplog.records


MASKED = {"name": "wrist", "masks": ["cube"], **SIZE}
OFF = {"name": "off", "source": "wrist", "masks": ["cube"], "enabled": False, **SIZE}
UNMASKED = {"name": "unmasked", "source": "wrist", "masks": ["cube"], "record_masks": False, **SIZE}
POSED = {"name": "front", "record_pose": True, **SIZE}
NONE = "record_masks is on and no mask is written: "


@pytest.mark.parametrize(
    ("cameras", "gates", "told"),
    [
        ([OFF], {"record_masks": True}, [f"{NONE}camera 'off' has enabled=False; switch that on"]),
        ([UNMASKED], {"record_masks": True}, [f"{NONE}camera 'unmasked' has record_masks=False; "]),
        ([OFF, UNMASKED], {"record_masks": True}, [f"{NONE}camera 'off' has enabled=False, camera 'unmasked' has rec"]),
        ([MASKED, OFF], {"record_masks": True, "record_cameras": False}, [f"{NONE}record_cameras is off; switch that"]),
        ([MASKED, OFF, UNMASKED], {"record_masks": True}, []),
        ([MASKED], {}, ["record_masks is off, and the cameras wrist name masks: none is written; switch record_masks"]),
        (
            [MASKED, {**MASKED, "name": "b", "source": "wrist"}],
            {},
            ["record_masks is off, and the cameras wrist, b na"],
        ),
        ([MASKED], {"record_cameras": False}, []),
        ([OFF, UNMASKED], {}, []),
        ([MASKED], {"record_color_video": False}, ["camera 'wrist' is enabled and writes nothing"]),
        ([POSED], {}, []),
        ([POSED], {"record_cameras": False}, ["camera 'front': record_pose is on and no pose is written: record_cam"]),
        ([{**POSED, "enabled": False}], {}, ["camera 'front': record_pose is on and no pose is written: camera 'fron"]),
        (
            [POSED],
            {"record_color_video": False},
            ["camera 'front' is enabled and writes nothing", "camera 'front': record_pose is on and no pose is writt"],
        ),
    ],
)
def test_what_is_asked_for_and_switched_off_elsewhere_is_told_once(
    cameras: list[dict[str, Any]], gates: dict[str, bool], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    source_of(scene("pick_cube"), cameras=cameras, **gates)
    messages = caplog.messages
    assert len(messages) == len(told)
    assert all(message.startswith(said) for message, said in zip(messages, told, strict=True)), messages


@pytest.mark.parametrize("gates", [{}, {"record_color_video": False}])
def test_masks_are_looked_up_while_record_masks_is_off(gates: dict[str, bool]) -> None:
    wrong = {**MASKED, "masks": ["cube", "qube"]}
    with pytest.raises(lr.SettingsError, match="camera 'wrist': masks='qube': the model has neither"):
        source_of(scene("pick_cube"), cameras=[wrong], **gates)
    # Not where the camera's own switches, or that of all cameras, are off.
    for off in ({"enabled": False}, {"record_masks": False}):
        source_of(scene("pick_cube"), cameras=[{**wrong, **off}], **gates)
    source_of(scene("pick_cube"), cameras=[wrong], **{**gates, "record_cameras": False})


def test_another_model_need_not_have_what_no_mask_records() -> None:
    masked = {"name": "seen", "source": {}, "masks": ["cube"], **SIZE}
    inside = '<body name="cube" pos="0 0 .3"><geom size=".1"/></body>'
    source = source_of(arm('<motor joint="pan"/>', inside=inside), cameras=[masked])
    model = arm('<motor joint="pan"/>', inside=inside.replace("cube", "ball"))
    assert source.rebind(model, mujoco.MjData(model))
