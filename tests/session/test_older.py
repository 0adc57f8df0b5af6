"""Sessions of versions that said nothing of an episode but its numbers: sound, read, recovered and gone on with."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.episode import keys
from lucky_recorder.episode.record import About
from lucky_recorder.lerobot.rules import check_lerobot
from lucky_recorder.session.check import check_session
from lucky_recorder.session.features import ABOUT_COLUMNS
from tests.session.building import Recording, arm_schema, camera

NAMES = [name for name, _ in ABOUT_COLUMNS]
NAME = "session_2026-10-08_14-30-05"


def older(root: Path, per_file: int, is_cut: bool = False) -> Recording:
    """Three episodes, written as versions before wrote them; of a recording that was cut short, one is listed."""
    recording = Recording(root, arm_schema([camera("Front")]), 40, per_file, metadata_every=25)
    for ticks in (3, 4, 5):
        recording.keep(ticks, success=ticks != 4)
    recording.sink._lock.release() if is_cut else recording.close()
    for path in (*root.glob("data/*/*.parquet*"), *root.glob("meta/episodes/*/*.parquet")):
        table = pq.ParquetFile(path).read()
        notes = dict(table.schema.metadata or {})
        if keys.FOOTER in notes:
            rows = [{k: v for k, v in row.items() if k not in NAMES} for row in json.loads(notes[keys.FOOTER])]
            notes[keys.FOOTER] = json.dumps(rows).encode()
        kept = [name for name in table.column_names if name not in NAMES]
        pq.write_table(table.select(kept).replace_schema_metadata(notes or None), path)
    return recording


def columns(root: Path) -> list[list[str]]:
    return [pq.read_schema(path).names for path in sorted(root.glob("meta/episodes/*/*.parquet"))]


@pytest.mark.parametrize("per_file", [1, 2])
def test_it_is_sound_and_says_nothing(tmp_path: Path, per_file: int) -> None:
    root = older(tmp_path / NAME, per_file).root
    assert check_session(root) == []
    assert check_lerobot(root) == []
    for episode in lr.Session(root):
        assert [getattr(episode, name) for name in NAMES] == [None] * len(NAMES)
    assert lr.Session(root).provenance == ()


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("per_file", [1, 2])
def test_it_goes_on_with_the_columns_that_it_has(tmp_path: Path, per_file: int, is_cut: bool) -> None:
    recording = older(tmp_path / NAME, per_file, is_cut)
    with pytest.warns(
        RuntimeWarning, match="an earlier version has begun it, and its meta/episodes has no seed, options"
    ):
        recording.resume()
    recording.keep(2, about=About(seed="3", annotations={"a": 1}), began_ns=10**18)
    recording.keep(2)
    root = recording.close()
    assert check_session(root) == []
    assert check_lerobot(root) == []
    assert len(lr.Session(root)) == 5
    assert not any(set(found) & set(NAMES) for found in columns(root))
    assert [e.seed for e in lr.Session(root)] == [None] * 5


@pytest.mark.parametrize("per_file", [1, 2])
def test_it_is_recovered_as_it_would_have_become(tmp_path: Path, per_file: int) -> None:
    root = older(tmp_path / NAME, per_file, is_cut=True).root
    assert [e.end_reason for e in lr.Session(root)] == [None] * 3
    (done,) = lr.recover(root)
    assert (done.episodes, done.set_aside) == (3, ())
    assert check_session(root) == []
    assert not any(set(found) & set(NAMES) for found in columns(root))


@pytest.mark.parametrize("per_file", [1, 3])
@pytest.mark.parametrize("is_listed", [False, True])
def test_what_is_recovered_lacks_only_when_it_was(tmp_path: Path, per_file: int, is_listed: bool) -> None:
    """The footers of data files do not say when: that is null, and everything else is as it was."""
    about = About("5", {"a": [1]}, 0, 2.5, "truncated", {"operator": "Ada"})
    recording = Recording(tmp_path / NAME, arm_schema(), 40, per_file, metadata_every=25)
    for _ in range(2):
        recording.keep(3, about=about, began_ns=1_760_000_000_123_456_789)
    if is_listed:
        recording.close()
        known = lr.Session(recording.root).episode(0)
        assert known.recorded_at.isoformat() == "2025-10-09T08:53:20.123456+00:00"  # type: ignore[union-attr]
        assert known.duration_s == 2.5
        for path in recording.root.glob("meta/episodes/*/*.parquet"):
            path.unlink()
        (recording.root / "meta/info.json").unlink()
    else:
        recording.sink._lock.release()
    lr.recover(recording.root)
    assert check_session(recording.root) == []
    unknown = [e for e in lr.Session(recording.root) if e.recorded_at is None and e.duration_s is None]
    # The first one of a file each was listed at once, and has kept what it said.
    assert len(unknown) == (2 if is_listed or per_file == 3 else 1)
    for episode in lr.Session(recording.root):
        said = (episode.seed, episode.options, episode.lane, episode.end_reason, episode.annotations)
        assert said == ("5", {"a": [1]}, 0, "truncated", {"operator": "Ada"})
