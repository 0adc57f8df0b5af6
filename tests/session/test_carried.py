"""Footers of data files that anyone may have written: what they carry is bounded, and believed as far as it goes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.episode import keys, limits
from lucky_recorder.session import carried
from lucky_recorder.storage.untrusted import Folder
from tests.session.building import Recording, arm_schema, camera

NAME = "session_2026-10-08_14-30-05"
LAST = "data/chunk-000/file-002.parquet"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Path]:
    """A session that was cut short: of three episodes the first is listed."""
    recording = Recording(tmp_path / "in" / NAME, arm_schema([camera("Front")]))
    for _ in range(3):
        recording.keep(2)
    recording.sink._lock.release()
    yield recording.root
    recording.close()


def reword(path: Path, key: bytes, change: Callable[[Any], object]) -> None:
    """Change what a data file's footer says; bytes stand for what is no JSON."""
    table = pq.ParquetFile(path).read()
    said = change(json.loads(table.schema.metadata[key]))
    content = said if isinstance(said, bytes) else json.dumps(said).encode()
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, key: content}), path)


def with_pixels(session: dict[str, Any], counts: object) -> dict[str, Any]:
    return session | {"pixels": {"observation.images.Front": {"frames": 1, "counts": counts}}}


UNREADABLE: dict[str, tuple[bytes, Callable[[Any], object]]] = {
    "nested deep": (keys.FOOTER, lambda rows: b"[" * 100_000 + b"]" * 100_000),
    "nested too deep": (keys.FOOTER, lambda rows: b"[" * 100 + b"]" * 100),
    "small, and large in memory": (keys.FOOTER, lambda rows: b"[" + b"[]," * 3_000_000 + b"[]]"),
    "an infinity": (keys.FOOTER, lambda rows: b'[{"episode_index": Infinity}]'),
    "a number without end": (keys.FOOTER, lambda rows: b"[1e999]"),
    "half a character": (keys.FOOTER, lambda rows: [rows[0] | {"tasks": ["\ud800"]}]),
    "no text": (keys.FOOTER, lambda rows: b"\xff\xfe"),
    "an absurd index": (keys.FOOTER, lambda rows: [rows[0] | {"episode_index": 10**400}]),
    "another file's": (keys.FOOTER, lambda rows: [rows[0] | {"file_index": 7}]),
    "no session": (keys.SESSION_FOOTER, lambda session: b"{" * 10),
    "no channels": (keys.SESSION_FOOTER, lambda session: with_pixels(session, [])),
    "a thousand channels": (keys.SESSION_FOOTER, lambda session: with_pixels(session, [[0] * 256] * 1000)),
    "absurd counts": (keys.SESSION_FOOTER, lambda session: with_pixels(session, [[1 << 62] * 256] * 3)),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_footer_that_cannot_be_believed_is_no_episode(session: Path, kind: str) -> None:
    reword(session / LAST, *UNREADABLE[kind])
    opened = lr.Session(session)
    assert (opened.unlisted, len(opened.info), opened.stats["action"]["count"]) == ((1,), len(opened.info), [4])
    with pytest.raises(lr.FormatError, match=r"file-002\.parquet"):
        carried.read(Folder(session), LAST)
    (done,) = lr.recover(session)
    assert (done.verdict, done.episodes) == ("recovered", 2)
    assert LAST in [one.file for one in done.set_aside]


def test_two_channels_do_not_go_with_three(session: Path) -> None:
    reword(session / LAST, keys.SESSION_FOOTER, lambda said: with_pixels(said, [[0] * 256] * 2))
    with pytest.raises(lr.FormatError, match=r"file-002\.parquet"):
        lr.Session(session).stats  # noqa: B018


def test_an_entry_of_another_type_is_refused_before_anything_is_touched(session: Path) -> None:
    reword(
        session / LAST, keys.FOOTER, lambda rows: [rows[0] | {"videos/observation.images.Front/from_timestamp": "x"}]
    )
    before = sorted(session.rglob("*"))
    with pytest.raises(lr.FormatError, match="data"):
        lr.Session(session).episodes  # noqa: B018
    (done,) = lr.recover(session)
    assert (done.verdict, sorted(session.rglob("*"))) == ("refused", before)


def test_many_footers_are_bounded_together(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_LISTED", 1)
    with pytest.raises(lr.FormatError, match="footers of 2 episodes"):
        len(lr.Session(session))
    monkeypatch.undo()
    monkeypatch.setattr(limits, "MOST_JSON_BYTES", 10_000)
    with pytest.raises(lr.FormatError, match=r"in memory|JSON"):
        len(lr.Session(session))


def test_a_linked_session_in_a_folder_is_left_alone(session: Path) -> None:
    (session.parents[1] / "others").mkdir()
    link = session.parents[1] / "others" / NAME
    link.symlink_to(session)
    before = {p: p.stat().st_mtime_ns for p in session.rglob("*")}
    (done,) = lr.recover(link.parent)
    assert (done.verdict, "is a link" in done.why) == ("refused", True)
    assert {p: p.stat().st_mtime_ns for p in session.rglob("*")} == before
    # Named itself it is what was asked for.
    (done,) = lr.recover(link)
    assert done.verdict == "recovered"


def test_a_name_that_is_no_text_is_set_aside_as_it_is(session: Path) -> None:
    name = b"lidar-\xff-take-000003.mp4.tmp"
    (session / "data" / os.fsdecode(name)).write_bytes(b"")
    lr.recover(session)
    assert name in os.listdir(os.fsencode(session / "lost+found/data"))
