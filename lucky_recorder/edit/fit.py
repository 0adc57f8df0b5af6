"""Whether the episodes of several sessions can stand in one: every way in which they do not is listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lucky_recorder.edit.source import Source
from lucky_recorder.errors import FormatError, shown
from lucky_recorder.notices import tell
from lucky_recorder.session import later, layout, likeness, metadata, noted
from lucky_recorder.session.features import arrow_type
from lucky_recorder.session.metadata import MadeOf

# What is counted, how files are grouped, and what says which version wrote it: the new session has its own.
_OWN = (
    *("recorder_version", "bit_reproducible", "total_tasks", "total_episodes", "total_frames", "splits", "features"),
    *("chunks_size", "episodes_per_file", "data_files_size_in_mb", "video_files_size_in_mb", "data_path", "video_path"),
    later.CALIBRATION,
)


def refuse_unlike(sources: Sequence[Source]) -> None:
    """Refuse sessions whose episodes cannot stand in one; the first is compared with each of the others.

    Raises:
        FormatError: If they hold other columns, streams, rates, robots or lidars, or are of different recorders; lists
            every difference, and names the two sessions that differ.
    """
    for other in sources[1:]:
        if found := [*_differences(sources[0], other)]:
            raise FormatError(f"{sources[0].path} and {other.path} do not fit into one session. {'; '.join(found)}")


def _differences(one: Source, other: Source) -> Iterator[str]:
    if one.is_ours != other.is_ours:
        ours = one if one.is_ours else other
        yield f"only {ours.path} was written by lucky_recorder"
        return
    known = [*metadata.info(one.schema, layout.Chunking(1)), *metadata.info(other.schema, layout.Chunking(1))]
    yield from likeness.compared(one.side, other.side, [f for f in dict.fromkeys(known) if f not in _OWN])
    kinds, others = ({f.name: arrow_type(f) for f in s.schema.columns} for s in (one, other))
    for name in dict.fromkeys((*kinds, *others)):
        # One that has a feature is told of by it.
        if (
            name not in one.folder.features
            and name not in other.folder.features
            and (name in kinds) != (name in others)
        ):
            yield f"{name!r}: only {(one if name in kinds else other).path} has it"
        elif name in kinds and name in others and kinds[name] != others[name]:
            yield f"{name!r}: {one.path} stores {kinds[name]}, {other.path} {others[name]}"
    if [*kinds] != [*others] and set(kinds) == set(others) and [*one.folder.features] == [*other.folder.features]:
        yield f"the order of columns: {one.path} stores {shown([*kinds])}, {other.path} {shown([*others])}"
    own = {f.name: f.type for f in one.noted}
    for field in other.noted:
        kind = own.get(field.name, field.type)
        if noted.unified(kind, field.type) is None:
            yield f"{field.name!r} in meta/episodes: {one.path} has {kind}, {other.path} {field.type}"


def made_of(sources: Sequence[Source]) -> MadeOf:
    """Say what a session takes over that is made of sessions which fit; what they do not agree on, a warning names.

    Raises:
        FormatError: If a column that somebody has added to ``meta/episodes`` is of several types.
    """
    first = sources[0].folder
    info = dict(first.info)
    for other in sources[1:]:
        notes = [f for f in dict.fromkeys((*info, *other.folder.info)) if f not in _OWN]
        differ = [f for f in notes if info.get(f) != other.folder.info.get(f)]
        if differ:
            tell(f"{other.path}: info.json says otherwise of {', '.join(differ)} than {first.path}; it is left out")
            info = {field: value for field, value in info.items() if field not in differ}
        if moved := likeness.moved(first.features, other.folder.features):
            tell(
                f"{other.path}: {', '.join(moved)}: the camera is calibrated otherwise than in {first.path}; "
                "info.json says how it was there"
            )
    return MadeOf(info, _columns(sources))


def _columns(sources: Sequence[Source]) -> pa.Schema:
    """Return the columns beside the format's own that any of them has."""
    kinds: dict[str, pa.DataType] = {}
    for source in sources:
        if lost := noted.lost(source.folder.episodes.column_names, source.folder.features):
            tell(
                f"{source.path}: {', '.join(lost)} in meta/episodes: no column of the format, and called as such ones "
                "are; it is left out: give it another name"
            )
        for field in source.noted:
            kind = noted.unified(kinds.get(field.name, field.type), field.type)
            if kind is None:
                raise FormatError(
                    f"meta/episodes: column {field.name!r} is {kinds[field.name]}, and {field.type} in {source.path}"
                )
            kinds[field.name] = kind
    return pa.schema(list(kinds.items()))
