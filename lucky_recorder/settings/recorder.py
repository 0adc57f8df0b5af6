"""What to record: frozen settings, validated when they are built.

Each of these can be given as keyword arguments, as a plain mapping, or as a table of a TOML file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Unpack

import attrs

from lucky_recorder.episode import keys
from lucky_recorder.episode.schema import StreamKind
from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import choices
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.camera import Camera
from lucky_recorder.settings.code import refuse_code
from lucky_recorder.settings.column import Column
from lucky_recorder.settings.declare import build, only_known_fields, told
from lucky_recorder.settings.fields import RecorderFields
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.settings.lidar import Lidar
from lucky_recorder.settings.toml import plain, read_toml, toml


@only_known_fields()
@attrs.frozen(field_transformer=told())
class RecorderSettings:
    """Everything that decides what is recorded and where.

    It has many fields because it is flat. So a file, a mapping and keywords all look the same.

    Attributes:
        output_dir: Parent of ``DataSessions/``; with ``resume`` it follows from that. A relative path is meant from
            where the process is when the recorder is made.
        mode: ``robot_arm``, ``full_scene`` or ``custom``.
        robots: Root bodies of the robots, one row each per tick; None: the whole model is one robot.
        columns: Columns of your own, after the mode's.
        gym_columns: Add ``next.reward``, ``next.done``, ``next.success`` and the policy's ``gym.action``.
        data_hz: Rows per second; None for the control rate, which it must divide evenly.
        control_hz: Steps of the environment per second, where no simulation shows how long they last; where one does,
            that is compared.
        uneven_steps: What becomes of a step that lasts another time than the first: ``refuse`` it, which fails its
            episode, or ``allow`` it, with the time stamps of even steps and a warning that counts them.
        files_per_chunk: Files in each ``chunk-NNN`` folder, 1 to 1000.
        episodes_per_file: Episodes in each data file, 1 to 1000.
        max_episode_length_s: After this much simulated time the episode ends as failed.
        discard_and_retry_failed: Drop failed episodes and reuse their index.
        total_episodes: Close the session after so many kept episodes.
        success: Where the verdict comes from: ``auto``, ``terminated``, ``info:KEY`` or a callable.
        episode_trigger: Which episodes are recorded, a callable of the episode's number.
        record_data: Write rows and ``meta/``.
        record_cameras: Write streams of pictures.
        record_color_video: Write the colour and depth streams.
        record_masks: Write mask streams.
        policy_period: Steps between two inferences of the policy; sets ``new_policy_step``.
        video_format: Codec of colour video.
        hardware_encoder: Encode on the GPU where it really can; what was used is in ``video.codec`` and the log.
        video_preset: x264 preset: speed against size.
        render_quality: ``model`` as the model says, ``fast`` (small shadow map, no multisampling),
            ``fastest`` (no shadows).
        metadata_every: Episodes between two writes of ``meta/``.
        seed: Seed of the recorder's own randomness.
        worker_timeout_s: Longest wait for the worker thread before an error.
        cameras: The camera bindings.
        lidars: The lidar sensors.
        tasks: Task descriptions, in index order.
        task: What says the task of each row, where the environment knows it: ``info:KEY``, or a callable. Tasks that
            are found so follow those of ``tasks``.
        koyu: What koyu bundles say of themselves, and where they go.
        formats: The formats written: ``session``, ``koyu``, both, or none of them where ``sinks`` take the episodes;
            None: the session, and bundles if ``koyu`` is given.
        resume: The folder of a session that the episodes are added to; None for a new one. It becomes a whole path.
        provenance: Note in ``meta/provenance.json`` where a session comes from: environment, command, versions, model.
        save_model: Keep the model there too, as a file; without it, its sum alone.
        keep_states: Keep the simulation's full state and its commands at every tick, and its model, under ``states/``.
        render: When pictures and scans are made: ``live``, or ``deferred``: none now, and no OpenGL, but the states are
            kept, of which `lucky_recorder.render` makes them. It implies ``keep_states``.
    """

    output_dir: Path = attrs.field(default=Path(), converter=v.folder)
    mode: str = attrs.field(default="robot_arm", converter=choices.mode)
    robots: tuple[str, ...] | None = attrs.field(default=None, converter=v.optional_names)
    columns: tuple[Column, ...] = attrs.field(default=(), converter=choices.columns)
    gym_columns: bool = attrs.field(default=False, converter=v.boolean)
    data_hz: Fraction | None = attrs.field(default=None, converter=v.optional_hertz)
    control_hz: Fraction | None = attrs.field(default=None, converter=v.optional_hertz)
    uneven_steps: str = attrs.field(default="refuse", converter=choices.uneven)
    files_per_chunk: int = attrs.field(default=40, converter=choices.files)
    episodes_per_file: int = attrs.field(default=1, converter=choices.files)
    max_episode_length_s: float | None = attrs.field(default=None, converter=v.optional_positive)
    discard_and_retry_failed: bool = attrs.field(default=False, converter=v.boolean)
    total_episodes: int | None = attrs.field(default=None, converter=v.optional_count)
    success: str | Callable[..., Any] = attrs.field(default="auto", converter=choices.success)
    episode_trigger: str | Callable[[int], bool] | None = attrs.field(default=None, converter=choices.trigger)
    record_data: bool = attrs.field(default=True, converter=v.boolean)
    record_cameras: bool = attrs.field(default=True, converter=v.boolean)
    record_color_video: bool = attrs.field(default=True, converter=v.boolean)
    record_masks: bool = attrs.field(default=False, converter=v.boolean)
    policy_period: int = attrs.field(default=1, converter=v.count)
    video_format: str = attrs.field(default=keys.H264, converter=choices.video_format)
    hardware_encoder: bool = attrs.field(default=False, converter=v.boolean)
    video_preset: str = attrs.field(default="ultrafast", converter=choices.preset)
    render_quality: str = attrs.field(default="model", converter=choices.quality)
    metadata_every: int = attrs.field(default=25, converter=v.count)
    seed: int = attrs.field(default=0, converter=v.seed)
    worker_timeout_s: float = attrs.field(default=60.0, converter=choices.wait)
    cameras: tuple[Camera, ...] = attrs.field(default=(), converter=choices.cameras)
    lidars: tuple[Lidar, ...] = attrs.field(default=(), converter=choices.lidars)
    tasks: tuple[str, ...] = attrs.field(default=(), converter=v.texts)
    task: str | Callable[..., Any] | None = attrs.field(default=None, converter=choices.task)
    koyu: KoyuSettings | None = attrs.field(default=None, converter=choices.koyu)
    formats: tuple[str, ...] | None = attrs.field(default=None, converter=choices.formats)
    resume: Path | None = attrs.field(default=None, converter=v.optional_folder)
    provenance: bool = attrs.field(default=True, converter=v.boolean)
    save_model: bool = attrs.field(default=True, converter=v.boolean)
    keep_states: bool = attrs.field(default=False, converter=v.boolean)
    render: str = attrs.field(default="live", converter=choices.rendering)

    def __attrs_post_init__(self) -> None:
        _check_column_names(self)
        _check_something_is_recorded(self)
        _check_masks(self)
        _check_poses(self)
        _check_task(self)
        _check_states(self)
        _check_deferred(self)
        _check_chunk_numbers(self)
        _check_formats(self)
        # Frozen for everyone else: what is drawn later is drawn of states.
        object.__setattr__(self, "keep_states", self.keep_states or self.is_deferred)
        if self.resume is not None:
            # So bundles go where those of the first recording went.
            object.__setattr__(self, "output_dir", _place_of_resumed(self, self.resume))

    @property
    def capacity_per_chunk(self) -> int:
        """Episodes per data chunk: ``episodes_per_file * files_per_chunk``."""
        return self.episodes_per_file * self.files_per_chunk

    @property
    def written_formats(self) -> tuple[str, ...]:
        """The formats that are written: ``formats``, or what follows from ``koyu``."""
        if self.formats is not None:
            return self.formats
        return ("session",) if self.koyu is None else choices.FORMATS

    def anchored(self) -> RecorderSettings:
        """Return these settings with ``output_dir`` as a whole path: it is meant from where the process is now.

        Raises:
            SettingsError: If the process is in a folder that is gone.
        """
        place = v.anchored(self.output_dir, field="output_dir")
        return self if place == self.output_dir else attrs.evolve(self, output_dir=place)

    @property
    def calls_success(self) -> bool:
        """Whether ``success`` is a function, given or named, that may look at anything."""
        return choices.is_function(self.success)

    @property
    def calls_task(self) -> bool:
        """Whether ``task`` is a function, given or named, that may look at anything."""
        return choices.is_function(self.task)

    @property
    def recorded_cameras(self) -> tuple[Camera, ...]:
        """The cameras that write at least one stream under these settings."""
        return tuple(c for c in self.cameras if self.kinds_of(c))

    @property
    def recorded_lidars(self) -> tuple[Lidar, ...]:
        """The lidar sensors that record."""
        return tuple(one for one in self.lidars if one.enabled)

    @property
    def posed_cameras(self) -> tuple[Camera, ...]:
        """The recorded cameras whose pose stands in every row."""
        return tuple(c for c in self.recorded_cameras if c.record_pose)

    @property
    def is_deferred(self) -> bool:
        """Whether pictures and scans are made later, by `render`, and none now."""
        return self.render == "deferred"

    @property
    def idle_cameras(self) -> tuple[Camera, ...]:
        """The cameras that are on, and yet write nothing: colour is off, and they have no masks."""
        return tuple(c for c in self.cameras if self.record_cameras and c.enabled and not self.kinds_of(c))

    def kinds_of(self, camera: Camera) -> tuple[StreamKind, ...]:
        """Return the kinds of streams a camera writes under these settings (spec: Video streams)."""
        if not (self.record_cameras and camera.enabled):
            return ()
        kinds = camera.picture_kinds if self.record_color_video else ()
        has_masks = self.record_masks and camera.record_masks and camera.masks
        return (*kinds, "mask") if has_masks else kinds

    @classmethod
    def of(
        cls, settings: RecorderSettings | Mapping[str, Any] | str | Path | None = None, **fields: Unpack[RecorderFields]
    ) -> RecorderSettings:
        """Build settings from an object, a mapping or a TOML file, with ``fields`` on top.

        Raises:
            SettingsError: If a file names code (see `from_toml`), a field is unknown or a value cannot be recorded.
        """
        if isinstance(settings, str | Path):
            settings = cls.from_toml(settings)
        if isinstance(settings, RecorderSettings):
            settings = attrs.asdict(settings, recurse=False)
        if settings is not None and not isinstance(settings, Mapping):
            raise SettingsError.of("settings", settings, "give RecorderSettings, a mapping of fields, or a TOML file")
        return build(cls, {**(settings or {}), **fields}, "")

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], *, allow_code: bool = False) -> RecorderSettings:
        """Build settings from what was read out of a file, such as the JSON of `to_dict`.

        Args:
            fields: The fields.
            allow_code: Whether they may name code, as ``"module:function"``: to import it runs it. A mapping that is
                written in Python goes to `of`, or as keywords, and needs no leave.

        Raises:
            SettingsError: For a wrong field, or one that names code.
        """
        if not allow_code:
            refuse_code(fields)
        return cls.of(fields)

    @classmethod
    def from_toml(cls, path: str | Path, *, allow_code: bool = False) -> RecorderSettings:
        """Build settings from a TOML file whose top level holds the fields.

        Args:
            path: The file.
            allow_code: Whether it may name code, as ``"module:function"``: to import it runs it.

        Raises:
            SettingsError: If the file cannot be read, names code, or for a wrong field.
        """
        return cls.of(read_toml(path, allow_code=allow_code))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values; callables by their ``"module:function"`` name."""
        return plain(self)

    def to_toml(self) -> str:
        """Return the settings as TOML; fields that are None are left out."""
        return toml(self)


def _check_column_names(settings: RecorderSettings) -> None:
    names = tuple(c.name for c in settings.columns)
    of_the_mode = () if settings.mode == "custom" else keys.VECTORS
    of_the_gym = keys.GYM_COLUMNS if settings.gym_columns else ()
    of_cameras = tuple(keys.pose_key(c.name) for c in settings.posed_cameras)
    v.portable((*of_the_mode, *of_the_gym, *of_cameras, *names), field="columns")
    if settings.mode == "custom" and settings.record_data and not names and not settings.gym_columns:
        raise SettingsError.of("columns", (), "custom mode needs columns of your own, or gym_columns=True")


def _check_something_is_recorded(settings: RecorderSettings) -> None:
    if not (settings.record_data or settings.recorded_cameras or settings.recorded_lidars):
        remedy = "and no camera or lidar records: nothing would be written; switch one of them on"
        raise SettingsError.of("record_data", False, remedy)


def _check_masks(settings: RecorderSettings) -> None:
    if settings.record_masks and not any(c.masks for c in settings.cameras):
        remedy = "no camera says what to label; give one masks=[...], names of bodies, or leave record_masks off"
        raise SettingsError.of("record_masks", True, remedy)


def _check_poses(settings: RecorderSettings) -> None:
    for camera in settings.posed_cameras if not settings.record_data else ():
        remedy = "a pose stands in the rows, and record_data is off; switch that on, or leave record_pose out"
        raise SettingsError.of(f"camera {camera.name!r}: record_pose", True, remedy)


def _check_task(settings: RecorderSettings) -> None:
    if settings.task is not None and not settings.record_data:
        raise SettingsError.of("task", settings.task, "tasks stand in the rows, and record_data is off; leave it out")


def _check_states(settings: RecorderSettings) -> None:
    if settings.keep_states and not settings.record_data:
        remedy = "meta/ says where states are, and record_data is off; switch that on, or leave keep_states out"
        raise SettingsError.of("keep_states", True, remedy)


def _check_deferred(settings: RecorderSettings) -> None:
    """Refuse what no state brings back, and what is to be written while the episode is recorded."""
    if not settings.is_deferred:
        return
    if not settings.record_data:
        remedy = "pictures are drawn later of states, and these need rows: record_data is off; switch that on"
        raise SettingsError.of("render", settings.render, remedy)
    for camera in settings.recorded_cameras:
        if camera.source == "render":
            remedy = (
                "the environment draws it, and no state brings that back; name a camera of the model, or record with "
                "render='live'"
            )
            raise SettingsError.of(f"camera {camera.name!r}: source", camera.source, remedy)
    formats = settings.written_formats
    if "session" not in formats:
        remedy = "states are kept in a session; add 'session' to formats, or record with render='live'"
        raise SettingsError.of("formats", formats, remedy)
    if "koyu" in formats and settings.recorded_cameras:
        remedy = (
            "a bundle is written with its videos, and render='deferred' makes none yet; leave koyu out, and make "
            "bundles of the session once it is drawn: `lucky-recorder convert`"
        )
        raise SettingsError.of("formats", formats, remedy)


def _check_chunk_numbers(settings: RecorderSettings) -> None:
    """Refuse what would need a fourth digit in a chunk's number: readers sort paths as text.

    Videos count: they hold one episode each, whatever ``episodes_per_file`` is.
    """
    most = (keys.LARGEST_CHUNK + 1) * settings.files_per_chunk
    if settings.total_episodes is not None and settings.total_episodes > most:
        raise SettingsError.of("total_episodes", settings.total_episodes, f"at most {most}; raise files_per_chunk")


def _check_formats(settings: RecorderSettings) -> None:
    """Refuse what no bundle can be made of, as far as settings alone tell."""
    formats, koyu = settings.written_formats, settings.koyu
    if "koyu" not in formats:
        return
    if koyu is None:
        raise SettingsError.of("formats", formats, "bundles need a name: give koyu=KoyuSettings(name=...)")
    if not settings.record_data:
        raise SettingsError.of("record_data", False, "a koyu bundle is made of rows; record them, or leave koyu out")
    if settings.video_format != keys.H264:
        remedy = "a koyu bundle's videos are H.264; leave it at 'h264', or leave koyu out"
        raise SettingsError.of("video_format", settings.video_format, remedy)
    if koyu.action == "gym" and not settings.gym_columns:
        raise SettingsError.of("koyu.action", "gym", "what the policy sent is recorded with gym_columns=True; set it")
    if "session" not in formats:
        _check_bundles_alone(settings)


def _check_bundles_alone(settings: RecorderSettings) -> None:
    """Refuse streams that would be recorded for nothing."""
    remedy = "is written into a session only; add 'session' to formats, or switch it off"
    for camera in settings.recorded_cameras:
        for kind in settings.kinds_of(camera):
            if kind != "color":
                raise SettingsError(f"camera {camera.name!r}: its {kind} stream {remedy}")
    for lidar in settings.recorded_lidars:
        raise SettingsError(f"lidar {lidar.name!r} {remedy}")
    if settings.keep_states:
        raise SettingsError(f"keep_states {remedy}")


def _place_of_resumed(settings: RecorderSettings, session: Path) -> Path:
    """Return where the session lies that is gone on with; refuses what contradicts it."""
    if "session" not in settings.written_formats:
        remedy = "a session is gone on with, and formats leaves it out; add 'session', or leave resume out"
        raise SettingsError.of("formats", settings.written_formats, remedy)
    if not settings.record_data:
        remedy = "a session is gone on with by its rows and meta/; record rows too, or leave resume out"
        raise SettingsError.of("record_data", False, remedy)
    parent = Path(os.path.abspath(session)).parent
    place = parent.parent if parent.name == keys.SESSIONS else parent
    # Nobody can tell the default from a "." that was given.
    if settings.output_dir != Path() and Path(os.path.abspath(settings.output_dir)) != place:
        remedy = (
            f"resume={str(session)!r} lies in {place}; leave output_dir out, and say where bundles go with koyu.path"
        )
        raise SettingsError.of("output_dir", str(settings.output_dir), remedy)
    return place
