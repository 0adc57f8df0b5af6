"""What must be true of whatever a crash has left: by `Session` at once, after `recover`, and of its bundles."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import lucky_recorder as lr
from lucky_recorder.koyu.check import inspect_koyu
from lucky_recorder.session.check import check_session
from tests.edit.crashing import READ_ONLY, REFUSALS, session_of

PROGRAM = "tests.edit.crashing"


def crashed(folder: Path, per_file: int, how: str, seed: int, count: int, before: int = 0) -> list[dict[str, Any]]:
    """Record in children that are struck; the first one is not, and is what the others are compared with.

    With ``before`` above 0 they go on with a session that has so many episodes; so does the second child, unstruck.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", PROGRAM, folder, per_file, how, seed, count, before]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    """All that readers get of each episode: its row of meta/episodes, its rows, its frames, its scans."""
    session = lr.Session(path)
    return [_episode(session, index) for index in range(len(session))]


def _episode(session: lr.Session, index: int) -> tuple[Any, ...]:
    episode = session.episode(index)
    said = {k: v for k, v in episode.meta.items() if not k.startswith("meta/")}
    with episode.frames("Front") as color, episode.frames("Front_depth") as depth:
        frames = (len(color), len(depth))
    scans = episode.scans("top").table.to_pylist()
    return said, episode.rows().to_pylist(), frames, len(episode.masks("Front")), scans


@lru_cache(maxsize=4)
def _expected(whole: Path) -> tuple[list[tuple[Any, ...]], dict[str, Any], dict[str, Any]]:
    session = lr.Session(session_of(whole))
    assert (session.state, check_session(session.path)) == ("complete", [])
    return rows_of(session.path), session.info, session.stats


def verify(result: dict[str, Any], whole: Path) -> str:
    """Verify what one child has left; returns the state that its session was in."""
    path, vouched = session_of(Path(result["folder"])), result["vouched"]
    expected, info, stats = _expected(whole)
    state = _at_once(path, result, expected)
    _recovered(path, vouched, expected)
    if len(expected) == (kept := _kept(path)):
        # Nothing was lost: then it is the session of a recording that nothing has struck, to the last bit.
        session = lr.Session(path)
        assert json.dumps([session.info, session.stats]) == json.dumps([info, stats])
    _bundles(Path(result["folder"]) / "bundles", result, kept)
    return state


def _kept(path: Path) -> int:
    return len(lr.Session(path)) if (path / "meta/info.json").exists() else 0


def _at_once(path: Path, result: dict[str, Any], expected: list[tuple[Any, ...]]) -> str:
    try:
        session = lr.Session(path)
    except lr.FormatError:
        # Not even one episode was finished.
        assert result["vouched"] == 0
        return "nothing"
    found = rows_of(path)
    assert found == expected[: len(found)]
    # One more may be whole than was vouched for: it was killed before it could say so. What was refused is not there,
    # but where a disk has become read only at that very moment: then the error says it.
    more = len(found) - result["vouched"]
    if result["how"] in REFUSALS:
        assert more == (1 if result["is_said"] and result["how"] == READ_ONLY else 0), result
    assert more in (0, 1), result
    _lists_nothing_unreadable(path)
    whole = lr.Session(path)
    assert (whole.info["total_episodes"], whole.info["total_frames"]) == (len(found), sum(len(f[1]) for f in found))
    assert whole.stats.get("action", {}).get("count", [0]) == [whole.info["total_frames"]]
    return str(session.state)


def _lists_nothing_unreadable(path: Path) -> None:
    """What other people's readers take from ``meta/`` is there: they know nothing of footers and spools."""
    for file in sorted(path.glob("meta/episodes/*/*.parquet")):
        for row in _listed(file):
            data = path / f"data/chunk-{row['data/chunk_index']:03d}/file-{row['data/file_index']:03d}.parquet"
            assert data.is_file(), (file, row["episode_index"])
    if (path / "meta/info.json").exists():
        counted = json.loads((path / "meta/info.json").read_text())["total_episodes"]
        assert counted <= sum(len(_listed(file)) for file in path.glob("meta/episodes/*/*.parquet"))


def _listed(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.ParquetFile(file).read().to_pylist()
    return rows


def _recovered(path: Path, vouched: int, expected: list[tuple[Any, ...]]) -> None:
    if not path.exists():
        assert vouched == 0
        return
    if not any((path / part).is_dir() for part in ("meta", "data", "videos")):
        assert vouched == 0
        return
    before = sorted(p.relative_to(path) for p in path.rglob("*"))
    planned = lr.recover(path, dry_run=True)
    assert sorted(p.relative_to(path) for p in path.rglob("*")) == before
    (done,) = lr.recover(path)
    assert done.verdict in ("complete", "recovered", "no episode"), done
    assert [one._replace(why="") for one in planned] == [done._replace(why="")]
    assert done.episodes >= vouched
    if done.verdict != "no episode":
        assert check_session(path) == []
        assert lr.Session(path).state == "complete"
        assert rows_of(path) == expected[: done.episodes]
    # Once more: there is nothing to do, and nothing is done.
    again = {p: p.stat().st_mtime_ns for p in path.rglob("*")}
    (repeated,) = lr.recover(path)
    assert (repeated.verdict in ("complete", "no episode"), repeated.brought_back) == (True, 0)
    assert {p: p.stat().st_mtime_ns for p in path.rglob("*")} == again


def _bundles(dataset: Path, result: dict[str, Any], kept: int) -> None:
    if not (dataset / "episodes").is_dir():
        assert result["vouched"] == 0
        return
    whole = len(list(dataset.glob("episodes/ep_*/episode.json")))
    # The session is renamed first: an episode of it may lack its bundle, where the process died in between, or the
    # disk refused it.
    killed = result["how"] not in REFUSALS
    assert whole in ((kept, kept - 1) if killed else (result["bundled"],)), (whole, kept, result)
    if not whole:
        return
    (done,) = lr.recover(dataset)
    assert done.verdict in ("complete", "recovered"), done
    assert not list(dataset.glob("episodes/.tmp-*"))
    report = inspect_koyu(dataset)
    assert (report.faults, report.episodes) == ([], whole)
    assert lr.recover(dataset)[0].verdict == "complete"
