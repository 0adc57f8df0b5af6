"""The streams of a recording: what each camera and lidar writes, and how metadata describes it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.schedule import Clocks
from lucky_recorder.episode import clock
from lucky_recorder.episode.keys import DEPTH_CODEC
from lucky_recorder.episode.schema import ScanStream, Stream, StreamKind, ToDraw
from lucky_recorder.errors import SettingsError
from lucky_recorder.lazy import lazy
from lucky_recorder.settings.camera import Camera
from lucky_recorder.settings.deferred import drawn_by
from lucky_recorder.settings.lidar import Lidar
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.settings.sensors import DEPTH_SENSORS
from lucky_recorder.video.codecs import Codec, known

logger = logging.getLogger("lucky_recorder")

if TYPE_CHECKING:
    from lucky_recorder.video import available
else:
    available = lazy("lucky_recorder.video.available")


def streams_of(
    settings: RecorderSettings, clocks: Clocks, simulation: simulator.Simulation | None
) -> tuple[Stream, ...]:
    """Return the streams of every recorded camera.

    Raises:
        SettingsError: If a camera's rate or sensor model cannot be recorded.
        VideoError: If no encoder of the video format works here.
    """
    return tuple(_stream(settings, camera, kind, clocks, simulation) for camera, kind in _filmed(settings))


def _filmed(settings: RecorderSettings) -> Iterator[tuple[Camera, StreamKind]]:
    return ((camera, kind) for camera in settings.recorded_cameras for kind in settings.kinds_of(camera))


def warn_of_idle(settings: RecorderSettings) -> None:
    """Say what is asked for and not written: people look for it when the recording is over."""
    for camera in settings.idle_cameras:
        logger.warning(
            "camera %r is enabled and writes nothing: record_color_video is off, and %s; switch one on, or the camera "
            "off with enabled=False",
            camera.name,
            "its masks are too" if camera.masks else "it has no masks",
        )
    _warn_of_masks(settings)
    _warn_of_poses(settings)


def _warn_of_masks(settings: RecorderSettings) -> None:
    """Say where masks are asked for in one place and switched off in another."""
    masked = [c for c in settings.cameras if c.masks]
    if settings.record_masks and not any("mask" in settings.kinds_of(c) for c in masked):
        off = dict.fromkeys(_switched_off(settings, c) or f"camera {c.name!r} has record_masks=False" for c in masked)
        logger.warning(
            "record_masks is on and no mask is written: %s; switch that on, or record_masks off", ", ".join(off)
        )
    named = [c.name for c in masked if c.record_masks and c in settings.recorded_cameras]
    if named and not settings.record_masks:
        logger.warning(
            "record_masks is off, and the cameras %s name masks: none is written; switch record_masks on, or leave "
            "their masks out",
            ", ".join(named),
        )


def _warn_of_poses(settings: RecorderSettings) -> None:
    """Say which poses are asked for and stand in no row."""
    for camera in settings.cameras:
        if camera.record_pose and camera not in settings.posed_cameras:
            why = _switched_off(settings, camera) or "the camera writes no stream"
            logger.warning("camera %r: record_pose is on and no pose is written: %s", camera.name, why)


def _switched_off(settings: RecorderSettings, camera: Camera) -> str:
    """Return which switch keeps a camera from recording at all; empty where none does."""
    if not settings.record_cameras:
        return "record_cameras is off"
    return "" if camera.enabled else f"camera {camera.name!r} has enabled=False"


def at_rates(settings: RecorderSettings, clocks: Clocks, streams: Sequence[Stream]) -> tuple[Stream, ...]:
    """Return streams that were made before the rates were known with the rates as they are known now.

    Raises:
        SettingsError: If a camera's rate cannot be recorded.
    """
    rates = [_rate(camera, clocks, stream) for (camera, _), stream in zip(_filmed(settings), streams, strict=True)]
    return tuple(replace(stream, rate=rate) for stream, rate in zip(streams, rates, strict=True))


def _stream(
    settings: RecorderSettings,
    camera: Camera,
    kind: StreamKind,
    clocks: Clocks,
    simulation: simulator.Simulation | None,
) -> Stream:
    rate = clocks.rate_of(camera.frame_rate)
    base = Stream(camera.key_of(kind), camera.name, kind, camera.width, camera.height, rate)
    if kind == "rgbd":
        # It is made of the colour and the depth file; their own streams check what it will hold.
        return replace(base, encoder="", codec="", pix_fmt="yuv420p", suffix=".mkv")
    codec = _codec(settings, camera, kind)
    stream = replace(base, encoder=codec.key, codec=codec.name, pix_fmt=codec.pix_fmt, suffix=codec.suffix)
    # Only to refuse. Where the rates are learned later, `at_rates` asks again.
    _rate(camera, clocks, stream)
    info = _depth_info(camera, simulation) if kind == "depth" else _labels_info(camera) if kind == "mask" else {}
    # The environment draws its own pictures as it likes.
    is_drawn = camera.source != "render" and stream.is_described
    calibration = simulator.calibration_of(simulation, camera) if is_drawn and simulation is not None else {}
    return replace(stream, info=info, calibration=calibration)


def to_draw(settings: RecorderSettings, streams: Sequence[Stream]) -> ToDraw | None:
    """Return what is to be drawn later, as a session keeps it; None where nothing is.

    Args:
        settings: What is recorded.
        streams: What the streams of its cameras will be.
    """
    if not settings.is_deferred or not (streams or settings.recorded_lidars):
        return None
    return ToDraw(drawn_by(settings), {s.key: {**s.info, **s.calibration} for s in streams if s.is_described})


def _rate(camera: Camera, clocks: Clocks, stream: Stream) -> Fraction:
    """Return a stream's rate, if its codec holds that many frames a second."""
    rate = clocks.rate_of(camera.frame_rate)
    fastest = known(stream.encoder).fastest if stream.encoder else None
    if fastest is not None and rate > fastest:
        field = "data_hz" if camera.frame_rate is None else f"camera {camera.name!r}: frame_rate"
        remedy = f"{stream.codec} video of the camera {camera.name!r} holds at most {fastest} frames a second"
        raise SettingsError.of(field, clock.show(rate), remedy)
    return rate


def _codec(settings: RecorderSettings, camera: Camera, kind: StreamKind) -> Codec:
    if kind == "color" and settings.is_deferred:
        # Whoever draws it looks for the one that works there.
        return known(settings.video_format)
    if kind == "color":
        return available.resolve(
            settings.video_format, settings.hardware_encoder, width=camera.width, height=camera.height
        )
    return known(DEPTH_CODEC if kind == "depth" else "mask")


def _labels_info(camera: Camera) -> dict[str, Any]:
    """Return what the ids of a mask stream stand for."""
    named = {str(label): name for label, name in enumerate(camera.masks or (), 1)}
    return {"labels": {"0": "background"} | named}


def _depth_info(camera: Camera, simulation: simulator.Simulation | None) -> dict[str, Any]:
    """Return what ``info`` says of a depth stream besides its video (spec: info.json)."""
    sensor = DEPTH_SENSORS[camera.sensor_model]
    info: dict[str, Any] = {
        "depth_scale": camera.depth_scale,
        "depth_dtype": "uint16",
        "depth_units": "meters",
        "sensor_model": str(camera.sensor_model),
        "zero_means": sensor.zero_means,
    }
    if camera.sensor_model is not None:
        # `bind` has refused a depth camera without a model.
        assert simulation is not None
        focal = simulator.focal_of(simulation, camera)
        if sensor.needs_perspective and not focal:
            remedy = "an orthographic camera's rays are parallel: it sees no disparity; leave the sensor_model out"
            raise SettingsError.of(f"camera {camera.name!r}: sensor_model", camera.sensor_model, remedy)
        info["sensor_params"] = camera.calibration | {"focal_px": focal}
    if camera.debug_channel is not None:
        info["debug_channel"] = camera.debug_channel
        info["NOTE"] = sensor.diagnostics[camera.debug_channel].note
        info["zero_means"] = sensor.diagnostics[camera.debug_channel].zero_means
    return info


def scans_of(
    settings: RecorderSettings, clocks: Clocks, simulation: simulator.Simulation | None
) -> tuple[ScanStream, ...]:
    """Return the scan streams of every recorded lidar."""
    return tuple(_scan(lidar, clocks.rate_of(lidar.rate), simulation) for lidar in settings.recorded_lidars)


def _scan(lidar: Lidar, rate: Fraction, simulation: simulator.Simulation | None) -> ScanStream:
    description = {
        "name": lidar.name,
        "pattern": lidar.pattern,
        "rate": clock.number(rate),
        "frame": "sensor: x forward, y left, z up; sensor_position and sensor_orientation (w x y z) place it in "
        "the world",
        "mount": {"site": lidar.site},
        "azimuth_deg": lidar.azimuths.tolist(),
        "elevation_deg": lidar.elevations.tolist(),
        "ray_order": "elevation by elevation, each with every azimuth",
        "rays": lidar.rays,
        "min_range_m": lidar.min_range_m,
        "max_range_m": lidar.max_range_m,
        "noise_m": lidar.noise_m,
        "range_units": "meters",
        "no_return": "infinity",
        "geom_id": "the geom a ray hit, -1 for none",
    }
    flexes = simulator.flexes_of(simulation.model, lidar) if simulation is not None else []
    if flexes:
        # Checks let a ray that came back have no geom only where this stands.
        description |= {"flexes": flexes, "geom_id": "the geom a ray hit; -1 for none, and for a ray that hit a flex"}
    return ScanStream(lidar.name, rate, lidar.rays, len(lidar.azimuths), description, lidar.record_video_proxy)
