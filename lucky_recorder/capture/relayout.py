"""Another layout: what a replaced model has made of the columns and streams of a recording, said for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lucky_recorder.episode.schema import Field, Schema

# Where a camera stands, and through what it looks, may be another in every model: no row depends on it.
_MAY_CHANGE = ("intrinsics", "extrinsics")


def difference(before: Schema, now: Schema) -> str:
    """Say in what the layouts of two schemas differ; empty where they are the same."""
    return "; ".join(_differences(_layout(before), _layout(now)))


def _layout(schema: Schema) -> Schema:
    streams = (
        replace(s, info={name: value for name, value in s.info.items() if name not in _MAY_CHANGE})
        for s in schema.streams
    )
    return replace(schema, streams=tuple(streams))


def _differences(before: Schema, now: Schema) -> Iterator[str]:
    if before.robots != now.robots:
        yield f"its robots are {_listed(now.robots)}, they were {_listed(before.robots)}"
    known = {field.name: field for field in now.columns}
    for field in before.columns:
        other = known.get(field.name)
        if other is None:
            yield f"it has no {field.name}"
        elif other != field:
            yield f"{field.name} {_changed(field, other)}"
    if before.streams != now.streams or before.scans != now.scans:
        yield "what its cameras and lidars record is something else"
    if before.columns != now.columns and sorted(before.columns, key=str) == sorted(now.columns, key=str):
        yield "its columns stand in another order"
    if {field.name for field in now.columns} - {field.name for field in before.columns}:
        yield f"new columns: {_listed([f.name for f in now.columns if f not in before.columns])}"


def _changed(before: Field, now: Field) -> str:
    if before.shape != now.shape:
        return f"has {now.size} values, it had {before.size}{_news(before.lucky_names, now.lucky_names)}"
    return f"has values of other names{_news(before.lucky_names or before.names, now.lucky_names or now.names)}"


def _news(before: Sequence[str] | None, now: Sequence[str] | None) -> str:
    new, gone = (
        [name for name in mine or () if name not in (theirs or ())] for mine, theirs in ((now, before), (before, now))
    )
    parts = [f"{word}: {_listed(names)}" for word, names in (("new", new), ("gone", gone)) if names]
    return f" ({', '.join(parts)})" if parts else ""


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"
