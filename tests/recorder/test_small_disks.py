"""Disks of two megabytes that become full, for the rows, the videos and ``meta/`` in turn; they need root."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import tracemalloc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.koyu.check import inspect_koyu
from lucky_recorder.session.check import check_session
from lucky_recorder.storage import reserve
from lucky_recorder.testing import CountEnv
from tests.recorder.disks import small_disk

LENGTH = 100
NOISE = np.random.default_rng(0)
# About 80 kB of an episode, in each format.
NOISY = [
    lr.Column("observation.state", lambda moment: NOISE.random(100), shape=(100,)),
    lr.Column("action", "gym:action", dtype="float32"),
]
AMOUNT = r"[\d.]+ (kB|bytes)"
SPACE = rf"\(up to {AMOUNT} were to be written, and {AMOUNT} were free\)"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 2000) as folder:
        yield folder


def fill(env: Any, episodes: int = 60, length: int = LENGTH) -> None:
    """Record until something is refused; one episode after another, so that it is told of in time."""
    for episode in range(episodes):
        env.reset(seed=episode)
        for t in range(length):
            env.step(np.array([t], np.float32))
        env.observer.flush()
    env.close()


def until_full(env: Any) -> tuple[lr.LuckyRecorderError, list[str]]:
    """Return the error of a full disk, and the warnings before it."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(lr.LuckyRecorderError) as raised:
            fill(env)
    assert not env.is_recording
    assert {warning.filename for warning in told} <= {__file__}
    return raised.value, [str(warning.message) for warning in told]


def verify_kept(env: Any, kept: int) -> None:
    """Every episode that was counted can be read at once."""
    session = lr.Session(env.session_path)
    assert [len(episode.rows()) for episode in session] == [LENGTH] * kept
    assert not list(env.session_path.rglob(reserve.NAME))


@pytest.mark.parametrize("per_file", [1, 3])
def test_rows_fill_the_disk(record: Any, disk: Path, per_file: int) -> None:
    (disk / "ballast").write_bytes(bytes(800_000))

    def make() -> Any:
        koyu = lr.KoyuSettings(name="noise")
        return record(CountEnv(LENGTH), columns=NOISY, koyu=koyu, output_dir=disk, episodes_per_file=per_file)

    env = make()
    error, _ = until_full(env)
    counts = env.observer.counts
    assert re.search(rf"{disk}/.*: .*No space left on device {SPACE}", str(error)), error
    # With several episodes per file it may be the data file that does not fit: then none is lost.
    assert counts.failed == ("1 episode with 100 rows could not be written" in str(error))
    assert counts.failed or per_file > 1
    assert counts.kept > 3
    verify_kept(env, counts.kept)
    spooled = lr.Session(env.session_path).spooled
    if spooled:
        assert f"{len(spooled)} finished episode" in str(error)
        assert f"lucky-recorder recover {env.session_path}" in str(error)
    else:
        # The reserve was enough for the last write of meta/: nothing is to be recovered.
        assert (check_session(env.session_path), lr.Session(env.session_path).state) == ([], "complete")
    report = inspect_koyu(env.koyu_path)
    assert (report.faults, report.episodes) == ([], counts.kept)

    (disk / "ballast").unlink()
    assert {done.verdict for done in lr.recover(disk)} <= {"complete", "recovered"}
    assert check_session(env.session_path) == []
    verify_kept(env, counts.kept)
    # And once more: the next session, and the same dataset.
    again = make()
    for episode in range(2):
        again.reset(seed=episode)
        for t in range(LENGTH):
            again.step(np.array([t], np.float32))
    again.close()
    assert (check_session(again.session_path), len(lr.Session(again.session_path))) == ([], 2)
    assert inspect_koyu(again.koyu_path).episodes == counts.kept + 2


class Noise(CountEnv):
    """Its pictures are noise, which no codec makes small."""

    def render(self) -> Any:
        return NOISE.integers(0, 256, (48, 64, 3), np.uint8)


def test_videos_fill_a_disk_of_their_own(record: Any, tmp_path: Path, seen: Any) -> None:
    env = record(Noise(LENGTH, render_mode="rgb_array"), cameras=[seen])
    env.reset(seed=0)
    with small_disk(env.session_path / "videos", 2000):
        error, (warning,) = until_full(env)
        # Of the disk that is full; the rows have another one.
        assert warning.startswith(f"{env.session_path / 'videos'}/")
        assert isinstance(error, lr.StreamError)
        told = rf"videos/.*No space left on device \({AMOUNT} of it were written, and {AMOUNT} were left\)"
        assert re.search(told, str(error)), error
        session = lr.Session(env.session_path)
        *whole, failed = session
        assert len(whole) > 1
        assert all(len(e.rows()) == len(list(e.frames("seen"))) == LENGTH for e in whole)
        # A stream has failed: the episode is there, as failed and without it.
        assert (failed.success, failed.has_video("seen"), env.observer.counts.kept) == (False, False, len(session))
        assert check_session(env.session_path) == []
        assert not list(env.session_path.rglob("*.tmp"))


def test_meta_fills_a_disk_of_its_own(record: Any, run: Any) -> None:
    env = record(metadata_every=100)
    env.reset(seed=0)
    with small_disk(env.session_path / "meta", 8):
        run(env, episodes=1)
        with pytest.raises(lr.StorageError, match=r"meta/.*No space left on device") as raised:
            env.close()
        told = "1 finished episode is whole on the disk and not listed in meta/ yet: lucky_recorder.Session reads all"
        assert told in str(raised.value)
        assert f"`lucky-recorder recover {env.session_path}`" in str(raised.value)
        assert (env.observer.counts.kept, env.observer.counts.failed) == (1, 0)
        assert len(lr.Session(env.session_path)) == 1
        assert not list(env.session_path.rglob("*.tmp"))
    (done,) = lr.recover(env.session_path)
    assert (done.verdict, done.episodes) == ("recovered", 1)
    assert check_session(env.session_path) == []


@pytest.mark.parametrize("kilobytes", [8, 16, 24, 32, 48])
@pytest.mark.parametrize("part", ["meta", "data"])
def test_what_is_said_of_episodes_is_what_the_session_shows(
    record: Any, tmp_path: Path, part: str, kilobytes: int
) -> None:
    """Wherever in the order of its files a disk becomes full: listed or not, counted or not, and each said once."""
    env = record(CountEnv(5), columns=NOISY[1:], episodes_per_file=3, metadata_every=1)
    env.reset(seed=0)
    with small_disk(env.session_path / part, kilobytes), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(lr.LuckyRecorderError) as raised:
            fill(env, 200, 5)
        with contextlib.suppress(lr.LuckyRecorderError):
            env.close()
        told, kept = str(raised.value), env.observer.counts.kept
        session, info = lr.Session(env.session_path), env.session_path / "meta/info.json"
        assert len(session) == kept
        refused = re.findall(rf"{env.session_path}/[^ ]+(?=: )", told)
        assert len(refused) == len(set(refused)) > 0
        uncounted = kept - (json.loads(info.read_text())["total_episodes"] if info.exists() else 0)
        expected = {len(session.unlisted): "not listed"} if session.unlisted else {uncounted: "listed"}
        said = re.findall(r"(\d+) finished episodes? (?:is|are) whole on the disk and (not listed|listed)", told)
        assert dict(said) == ({str(n): how for n, how in expected.items()} if uncounted else {})
        assert len(said) == len(dict(said))


def test_a_user_is_warned_once_while_there_is_still_time(record: Any, disk: Path) -> None:
    (disk / "ballast").write_bytes(bytes(1_000_000))
    env = record(CountEnv(LENGTH), columns=NOISY, output_dir=disk)
    _, (warning,) = until_full(env)
    said = r"nearly full: (\d+) kB are free, an episode takes about (\d+) kB there, so there is room for about (\d)"
    message = re.search(said, warning)
    assert message is not None, warning
    free, needed, fitting = map(int, message.groups())
    assert 60 < needed < 120
    assert fitting == free // needed == 2
    # Two were there still, and one more that took less than expected at most.
    assert env.observer.counts.failed == 1


def test_attempts_on_a_full_disk_take_no_memory(disk: Path) -> None:
    (disk / "ballast").write_bytes(bytes(1_960_000))
    sizes = []
    tracemalloc.start()
    try:
        for _ in range(15):
            env = lr.RecordSession(CountEnv(LENGTH), mode="custom", columns=NOISY, output_dir=disk)
            until_full(env)
            assert (env.observer.counts.kept, env.observer.counts.failed) == (0, 1)
            del env
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # An episode's rows are 80 kB.
    assert max(sizes[-5:]) - max(sizes[:5]) < 80_000


@pytest.mark.parametrize("files", range(3, 40, 3))
def test_a_disk_that_has_no_inode_left_says_so_and_not_how_many_bytes(tmp_path: Path, wall: Any, files: int) -> None:
    """Wherever the last one is taken: by the first folder, a video, rows or meta/."""
    with small_disk(tmp_path / "few", 20_000, files) as folder:
        env = lr.RecordSession(
            CountEnv(4, mujoco=True), output_dir=folder, koyu=lr.KoyuSettings("cubes"), cameras=[wall]
        )
        with pytest.raises(
            lr.LuckyRecorderError, match=r"No space left on device.*no inode is free.*remove files"
        ) as raised:
            fill(env, length=2)
        assert not re.search(r"were (free|left|to be written)", str(raised.value))
        with contextlib.suppress(lr.LuckyRecorderError):
            env.close()
