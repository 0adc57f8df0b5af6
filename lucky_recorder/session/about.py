"""What is known of an episode besides its rows and frames, as ``meta/episodes`` has it, written and read back.

A session that an earlier version has begun, or another recorder, says nothing of it: then everything here is None.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from lucky_recorder.episode import clock
from lucky_recorder.episode.record import About, EpisodeRecord
from lucky_recorder.errors import FormatError, shown
from lucky_recorder.session import features
from lucky_recorder.storage.untrusted import parsed

Row = Mapping[str, Any]
T = TypeVar("T")


def row_of(record: EpisodeRecord) -> dict[str, Any]:
    """Return an episode's values of `features.ABOUT_COLUMNS`."""
    about = record.about
    return {
        features.SEED: about.seed,
        features.OPTIONS: None if about.options is None else text(about.options),
        features.LANE: about.lane,
        features.RECORDED_AT: clock.moment(record.began_ns) if record.began_ns else None,
        features.DURATION: about.duration_s,
        features.END_REASON: record.end_reason,
        features.ANNOTATIONS: text(about.annotations) if about.annotations else None,
    }


def noted(row: Row) -> dict[str, Any]:
    """Return of what a session notes of an episode the values of `features.ABOUT_COLUMNS`, in their order."""
    return {name: row[name] for name, _ in features.ABOUT_COLUMNS if name in row}


def carried(row: Row) -> dict[str, Any]:
    """Return of a row of ``meta/episodes`` what a data file carries: not what says when, nor what has no value."""
    return {name: value for name, value in row.items() if value is not None and name not in features.WHEN}


def text(values: Mapping[str, Any]) -> str:
    """Write plain JSON values as the text of a column."""
    return json.dumps(dict(values), ensure_ascii=False, allow_nan=False)


class Told:
    """What an episode's row of ``meta/episodes`` says besides its numbers; None where it says nothing.

    Attributes:
        meta: The row.
    """

    meta: Row

    @property
    def seed(self) -> str | None:
        """The seed of the reset that it began with, in decimal digits."""
        return self._of(features.SEED, str)

    @property
    def options(self) -> dict[str, Any] | None:
        """The options of that reset.

        Raises:
            FormatError: If they are no JSON object.
        """
        return self._object(features.OPTIONS)

    @property
    def lane(self) -> int | None:
        """Which of the environments that were recorded together it is of, from 0."""
        return self._of(features.LANE, int)

    @property
    def recorded_at(self) -> datetime | None:
        """When it began, in UTC; not known of an episode that was recovered."""
        moment = self._of(features.RECORDED_AT, str)
        return None if clock.moment_ns(moment) is None else datetime.fromisoformat(str(moment))

    @property
    def duration_s(self) -> float | None:
        """How long it lasted on the wall's clock, in seconds; not known of an episode that was recovered."""
        return self._of(features.DURATION, float)

    @property
    def end_reason(self) -> str | None:
        """Why it ended: one of `lucky_recorder.episode.record.Reason`."""
        return self._of(features.END_REASON, str)

    @property
    def annotations(self) -> dict[str, Any] | None:
        """What the user said of it; see `RecordSession.annotate`.

        Raises:
            FormatError: If that is no JSON object.
        """
        return self._object(features.ANNOTATIONS)

    @property
    def about(self) -> About:
        """All of it but when, as a recording hands it on.

        Raises:
            FormatError: As for `options` and `annotations`.
        """
        said = self.annotations or {}
        return About(self.seed, self.options, self.lane or 0, self.duration_s, self.end_reason, said)

    def _of(self, column: str, kind: type[T]) -> T | None:
        value = self.meta.get(column)
        return value if type(value) is kind else None

    def _object(self, column: str) -> dict[str, Any] | None:
        said = self._of(column, str)
        return None if said is None else as_object(said, f"episode {self.meta.get('episode_index')}: {column}")


def as_object(said: str, where: str) -> dict[str, Any]:
    """Return the JSON object that a text of a column is.

    Raises:
        FormatError: If it is none.
    """
    try:
        value = parsed(said.encode())
    except (ValueError, RecursionError, MemoryError) as error:
        raise FormatError(f"{where}={shown(said)}: is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise FormatError(f"{where}={shown(said)}: expected a JSON object")
    return value


def refuse_other_types(listed: pa.Table, path: Path) -> None:
    """Refuse to write anew what is known of episodes where it is of other types than the format's.

    Args:
        listed: What ``meta/episodes`` lists.
        path: Where that is, for the error.

    Raises:
        FormatError: If it is.
    """
    wanted = dict(features.ABOUT_COLUMNS) if features.has_about(listed) else {}
    for field in listed.schema:
        if field.name in wanted and not _may_hold(field.type, wanted[field.name]):
            raise FormatError(f"{path}: {field.name} is {field.type}, expected {wanted[field.name]}")


def _may_hold(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether a column may hold what one of the format's types does, as others' libraries write it."""
    if pa.types.is_string(wanted) or pa.types.is_null(kind):
        return bool(kind == wanted or pa.types.is_null(kind))
    return bool(pa.types.is_integer(kind) or (pa.types.is_floating(kind) and pa.types.is_floating(wanted)))
