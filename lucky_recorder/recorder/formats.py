"""The formats of a recording: which can be written, and the sinks that write them."""

from __future__ import annotations

from collections.abc import Sequence

from lucky_recorder.episode.schema import Schema
from lucky_recorder.episode.sink import Sink
from lucky_recorder.settings.recorder import RecorderSettings


def refuse(settings: RecorderSettings, schema: Schema) -> None:
    """Refuse a recording that one of its formats cannot hold; nothing is touched.

    Raises:
        SettingsError: Says which format, and why.
    """
    if settings.koyu is not None and "koyu" in settings.written_formats:
        from lucky_recorder.koyu.features import layout_of

        layout_of(schema, settings.koyu)


def make_sinks(settings: RecorderSettings, schema: Schema, tasks: Sequence[str]) -> tuple[Sink, ...]:
    """Make a sink for each format; the session, if there is one, is the first.

    Raises:
        SettingsError: If a dataset that exists is of another kind; nothing is touched.
        StorageError: If the file system refuses.
    """
    # First: a dataset may exist and refuse, a session is always new.
    bundles = _koyu_sink(settings, schema, tasks)
    if "session" not in settings.written_formats:
        return bundles
    try:
        return (_session_sink(settings, schema, tasks), *bundles)
    except BaseException:
        for sink in bundles:
            sink.close()
        raise


def _koyu_sink(settings: RecorderSettings, schema: Schema, tasks: Sequence[str]) -> tuple[Sink, ...]:
    koyu = settings.koyu
    if koyu is None or "koyu" not in settings.written_formats:
        return ()
    from lucky_recorder.koyu.sink import KoyuSink

    root = koyu.folder(settings.output_dir)
    return (KoyuSink(root, schema, koyu, tasks, settings.video_preset, settings.metadata_every),)


def _session_sink(settings: RecorderSettings, schema: Schema, tasks: Sequence[str]) -> Sink:
    from lucky_recorder.session import layout
    from lucky_recorder.session.sink import SessionSink

    folder = layout.claim_folder(settings.output_dir)
    chunking = layout.Chunking(settings.files_per_chunk, settings.episodes_per_file)
    return SessionSink(folder, schema, chunking, tasks, settings.metadata_every)
