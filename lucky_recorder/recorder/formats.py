"""The formats of a recording: which can be written, and the sinks that write them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lucky_recorder.episode import keys
from lucky_recorder.episode.schema import Schema
from lucky_recorder.episode.sink import Sink
from lucky_recorder.errors import SettingsError
from lucky_recorder.lazy import lazy
from lucky_recorder.recorder.origin import Origin
from lucky_recorder.settings import validators
from lucky_recorder.settings.choices import FORMATS
from lucky_recorder.settings.recorder import RecorderSettings

if TYPE_CHECKING:
    from lucky_recorder.koyu import features as koyu_features
    from lucky_recorder.koyu import sink as koyu_sink
    from lucky_recorder.session import layout as session_layout
    from lucky_recorder.session import log as session_log
    from lucky_recorder.session import resumed as session_resumed
    from lucky_recorder.session import sink as session_sink
else:
    # Each format is imported by the recordings that write it.
    koyu_features, koyu_sink = lazy("lucky_recorder.koyu.features"), lazy("lucky_recorder.koyu.sink")
    session_layout, session_sink = lazy("lucky_recorder.session.layout"), lazy("lucky_recorder.session.sink")
    session_log = lazy("lucky_recorder.session.log")
    session_resumed = lazy("lucky_recorder.session.resumed")


# What `Sink` asks for.
_OF_A_SINK = ("root", "keeps_broken", "open", "stream_path", "prepare", "close")


def refuse(settings: RecorderSettings, schema: Schema, tasks: Sequence[str], *, are_made: bool = False) -> None:
    """Refuse a recording that one of its formats cannot hold; nothing is touched.

    Args:
        settings: What is recorded.
        schema: What its rows and frames are.
        tasks: The tasks that are registered.
        are_made: Whether this recording has its sinks already.

    Raises:
        SettingsError: Says which format, and why.
        FormatError: If the session that is to be gone on with is none, or cannot be.
        StorageError: If another process is writing it.
    """
    if settings.resume is not None:
        session_resumed.refuse(settings.resume, schema, _chunking(settings), is_ours=are_made)
        _refuse_no_task(settings, settings.resume, tasks)
    if settings.koyu is not None and "koyu" in settings.written_formats:
        koyu_features.layout_of(schema, settings.koyu)


def _refuse_no_task(settings: RecorderSettings, session: Path, tasks: Sequence[str]) -> None:
    """Refuse a recording that does not say which of the session's tasks its rows are of."""
    known = session_resumed.tasks(session)
    if not tasks and settings.task is None and any(task != keys.DEFAULT_TASK for task in known):
        remedy = f"the session's rows are of {', '.join(map(repr, known))}; say what these are of: tasks=[...]"
        raise SettingsError.of("tasks", (), remedy)


def first_take(settings: RecorderSettings) -> int:
    """Return the number of a recording's first take: the one after the last of the session that is gone on with.

    What is drawn by chance, such as the noise of a depth sensor, goes by the take. It must not be drawn again.
    """
    return 0 if settings.resume is None else session_resumed.takes(settings.resume)


def own_sinks(settings: RecorderSettings, sinks: Iterable[Sink]) -> tuple[Sink, ...]:
    """Settle the user's own sinks.

    Raises:
        SettingsError: If one is no sink, or stands twice, or if there is neither a format nor a sink.
    """
    own: tuple[Sink, ...] = validators.several(sinks, _sink, field="sinks", unique=False)
    if len({id(sink) for sink in own}) < len(own):
        raise SettingsError.of("sinks", own, "one of them stands twice: it would take each episode twice")
    if own and settings.is_deferred and (settings.recorded_cameras or settings.recorded_lidars):
        remedy = (
            "they are given each episode as it ends, and render='deferred' has no pictures and scans then; record live"
        )
        raise SettingsError.of("sinks", own, remedy)
    if not settings.written_formats and not own:
        remedy = f"name at least one of {', '.join(FORMATS)}, or leave it out, or give sinks of your own"
        raise SettingsError.of("formats", (), remedy)
    return own


def _sink(value: Sink, *, field: str) -> Sink:
    missing = [name for name in _OF_A_SINK if not hasattr(value, name)]
    if missing or isinstance(value, type):
        parts = ", ".join(_OF_A_SINK)
        raise SettingsError.of(field, value, f"give the sink itself, an object with {parts}; see lucky_recorder.Sink")
    return value


def make_sinks(
    settings: RecorderSettings, own: Sequence[Sink], ready: Callable[[Sink], None], origin: Origin | None = None
) -> tuple[Sink, ...]:
    """Make the sinks of a recording: a session first, if one is written, then bundles, then the user's own.

    Args:
        settings: Which formats, and where.
        own: The user's own sinks; they are taken as they are.
        ready: Told of each sink before the next is made; what it raises is raised.
        origin: What the recording knows of itself; None where that is not noted.

    Raises:
        SettingsError: If a dataset that exists is of another kind; nothing is touched.
        StorageError: If the file system refuses.
    """
    # The session comes last: what else there is may refuse, and then no folder of it must be on the disk.
    makers = [make for name, make in _MAKERS.items() if name in settings.written_formats]
    made = list(own)
    try:
        for sink in own:
            ready(sink)
        for make in makers:
            made.insert(0, make(settings, origin))
            ready(made[0])
    except BaseException:  # also an interrupt: a folder was claimed, or a dataset locked
        for sink in made:
            with contextlib.suppress(Exception):  # what a sink says while it is given up hides no reason for it
                sink.close()
        raise
    return tuple(made)


def _koyu_sink(settings: RecorderSettings, origin: Origin | None) -> Sink:
    assert settings.koyu is not None
    root = settings.koyu.folder(settings.output_dir)
    return koyu_sink.KoyuSink(root, settings.koyu, settings.video_preset, settings.metadata_every)


def _session_sink(settings: RecorderSettings, origin: Origin | None) -> Sink:
    chunking, every = _chunking(settings), settings.metadata_every
    log = None if origin is None else session_log.Recorded(origin)
    if settings.resume is not None:
        return session_sink.SessionSink(settings.resume, chunking, every, resumes=True, log=log)
    return session_sink.SessionSink.in_new_folder(settings.output_dir, chunking, every, log)


def _chunking(settings: RecorderSettings) -> session_layout.Chunking:
    return session_layout.Chunking(settings.files_per_chunk, settings.episodes_per_file)


# By the format's name, the one that may refuse first.
_MAKERS = {"koyu": _koyu_sink, "session": _session_sink}
