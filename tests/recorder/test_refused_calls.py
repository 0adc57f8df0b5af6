"""One call to the system is refused, in the midst of a recording: counts, files and the error say the same."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.koyu.check import inspect_koyu
from lucky_recorder.session.check import check_session
from lucky_recorder.testing import CountEnv
from tests.pairs import in_pairs

CODES = {"full": errno.ENOSPC, "broken": errno.EIO, "over quota": errno.EDQUOT, "read only": errno.EROFS}
CALLS: dict[str, tuple[Any, str]] = {
    "write rows": (pq.ParquetWriter, "write_table"),
    "write": (Path, "write_bytes"),
    "fsync": (os, "fsync"),
    "replace": (os, "replace"),
    "rename": (os, "rename"),
    "link": (os, "link"),
    "mkdir": (os, "mkdir"),
}
PAIR = [lr.Column("observation.state", "gym:obs"), lr.Column("action", "gym:action", dtype="float32")]
EPISODES, LENGTH, BEFORE = 7, 3, 2
# Episodes of a data file, and whether the call works again afterwards.
FILES = {"a file each": (1, False), "once, in a file of three": (3, True)}


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, code: int, spared: int, is_once: bool) -> list[str]:
    """Have a call fail, once or for good, after so many that do not; returns the list of what was refused."""
    owner, name = CALLS[call]
    working, refused, calls = getattr(owner, name), [], itertools.count()

    def around(*given: Any, **named: Any) -> Any:
        if next(calls) >= spared and not (is_once and refused):
            refused.append(call)
            raise OSError(code, os.strerror(code))
        return working(*given, **named)

    monkeypatch.setattr(owner, name, around)
    return refused


def record_on(env: Any, run: Any) -> None:
    run(env, episodes=EPISODES - BEFORE)
    env.close()


@in_pairs(call=list(CALLS), code=CODES, files=FILES)
def test_counts_files_and_error_agree(
    record: Any, run: Any, seen: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    call: str, code: int, files: tuple[int, bool],
) -> None:  # fmt: skip
    per_file, is_once = files
    env = record(
        CountEnv(LENGTH, render_mode="rgb_array"), columns=PAIR, cameras=[seen], koyu=lr.KoyuSettings(name="counted"),
        episodes_per_file=per_file, files_per_chunk=2, metadata_every=2, provenance=False,
    )  # fmt: skip
    run(env, episodes=BEFORE)
    env.reset(seed=9)
    env.observer.flush()
    with monkeypatch.context() as patch:
        # Another one each time: an episode syncs many files and folders, and links one.
        spared = list(CODES.values()).index(code) * (5 if call in ("fsync", "replace") else 1)
        refused = refuse(patch, call, code, spared, is_once)
        with pytest.raises(lr.LuckyRecorderError) as raised:
            record_on(env, run)
    assert refused
    assert not env.is_recording
    counts, told = env.observer.counts, str(raised.value)
    assert os.strerror(code) in told
    assert str(tmp_path) in told

    session = lr.Session(env.session_path)
    assert [len(episode.rows()) for episode in session] == [LENGTH] * counts.kept
    assert counts.kept >= BEFORE
    assert counts.failed == ("could not be written" in told)
    bundles = len(list((env.koyu_path / "episodes").glob("ep_*")))
    # A bundle may be missing: one that was refused after its episode of the session had its name, or of a broken one.
    lacking = sum(not episode.has_video("seen") for episode in session)
    assert bundles == counts.kept - lacking - (f"whole in {env.session_path} and not in {env.koyu_path}" in told)
    unlisted = len(session.unlisted)
    assert (f"{unlisted} finished episode" in told) == bool(unlisted)

    lr.recover(tmp_path)
    assert check_session(env.session_path) == []
    assert len(lr.Session(env.session_path)) == counts.kept
    assert (inspect_koyu(env.koyu_path).faults, inspect_koyu(env.koyu_path).episodes) == ([], bundles)
