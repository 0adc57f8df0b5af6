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
    made: list[Sink] = []
    try:
        # Bundles first: a dataset may exist and refuse, a session is always new.
        for written, make in (("koyu", _koyu_sink), ("session", _session_sink)):
            if written in settings.written_formats:
                sink = make(settings)
                made.insert(0, sink)
                sink.open(schema, tasks)
    except BaseException:
        for sink in made:
            sink.close()
        raise
    return tuple(made)


def _koyu_sink(settings: RecorderSettings) -> Sink:
    from lucky_recorder.koyu.sink import KoyuSink

    assert settings.koyu is not None
    root = settings.koyu.folder(settings.output_dir)
    return KoyuSink(root, settings.koyu, settings.video_preset, settings.metadata_every)


def _session_sink(settings: RecorderSettings) -> Sink:
    from lucky_recorder.session import layout
    from lucky_recorder.session.sink import SessionSink

    folder = layout.claim_folder(settings.output_dir)
    chunking = layout.Chunking(settings.files_per_chunk, settings.episodes_per_file)
    return SessionSink(folder, chunking, settings.metadata_every)
