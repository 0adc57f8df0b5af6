"""Everything that reads folders of others: each is given a spoilt folder, and a folder that it may write into."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from typer.main import get_command

import lucky_recorder as lr
from lucky_recorder.cli.main import app
from lucky_recorder.errors import LuckyRecorderError
from lucky_recorder.koyu.bundle import Bundle
from lucky_recorder.koyu.manifest import Description
from lucky_recorder.koyu.overlays import names, read_overlay, write_overlay
from lucky_recorder.koyu.writer import DatasetWriter

Reader = Callable[[Path, Path], object]

# Made once: to make it takes longer than most commands do.
_COMMANDS = get_command(app)


def _run(*arguments: object) -> None:
    """Run a command: it ends with a status, and prints nothing that a terminal would obey."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told), contextlib.suppress(SystemExit):
        _COMMANDS.main(list(map(str, arguments)), "lucky-recorder")
    odd = [c for c in told.getvalue() if not (c.isprintable() or c == "\n")]
    if odd:
        raise AssertionError(f"{odd[0]!r} reaches the terminal")


def read_session(folder: Path, target: Path) -> None:
    session = lr.Session(folder)
    parts = (
        lambda: (repr(session), len(session), session.hz, session.files_per_chunk, session.tasks, session.stats),
        lambda: (session.robots, session.entity_ids, session.cameras, session.lidars, session.bytes_on_disk()),
        lambda: [session.video_files(key) for key in session.video_keys()],
        lambda: session.provenance,
        lambda: [_read_episode(session, episode) for episode in session],
    )
    for part in parts:
        with contextlib.suppress(LuckyRecorderError):
            part()


def _read_episode(session: lr.Session, episode: lr.session.reader.Episode) -> None:  # type: ignore[name-defined]
    parts: list[Callable[[], object]] = [
        lambda: (repr(episode), episode.tasks, episode.missing(), episode.data_ticks),
        lambda: (episode.recorded_at, episode.about),
        episode.rows,
        episode.rows_by_tick,
    ]
    for name in session.cameras:
        if name.endswith("_depth"):
            parts.append(lambda name=name: list(episode.depth(name)))  # type: ignore[misc]
        elif episode.has_video(name):
            parts.append(lambda name=name: list(episode.frames(name)))  # type: ignore[misc]
        if episode.has_masks(name):
            parts.append(lambda name=name: episode.masks(name)[0])  # type: ignore[misc]
    parts += [lambda name=name: episode.scans(name).to_points(0) for name in session.lidars]  # type: ignore[misc]
    for part in parts:
        with contextlib.suppress(LuckyRecorderError, IndexError):
            part()


def read_dataset(folder: Path, target: Path) -> None:
    dataset = lr.koyu.Dataset(folder, horizon=3, history=2)
    try:
        for episode in range(min(len(dataset.episodes), 3)):
            with contextlib.suppress(LuckyRecorderError):
                dataset.sidecar(episode)
            with contextlib.suppress(LuckyRecorderError):
                dataset.columns(episode)
            for number in list(dataset.rows_of(episode))[:2]:
                with contextlib.suppress(LuckyRecorderError):
                    dataset[number]
        for name in names(folder):
            overlay = read_overlay(folder, name)
            for episode_id in overlay.episodes:
                with contextlib.suppress(LuckyRecorderError):
                    overlay.at(episode_id, 0)
    finally:
        dataset.close()


def record_into(folder: Path, target: Path) -> None:
    """Add a bundle to a dataset of others; here the folder itself may be written."""
    vectors = {"observation.state": np.zeros((2, 3), np.float32), "action": np.zeros((2, 2), np.float32)}
    features = {key: {"dtype": "float32", "shape": [values.shape[1]]} for key, values in vectors.items()}
    writer = DatasetWriter(folder, Description("by-hand", "teleop", 50.0, features))
    try:
        sidecar = {
            "schema_version": 1,
            "capture_id": "f" * 32,
            "length": 2,
            "features": features,
            "task": "lift",
            "task_description": "Lift",
        }
        writer.prepare(Bundle("f" * 32, np.arange(2, dtype=np.int64), vectors, sidecar)).commit()
    finally:
        writer.close()


def annotate(folder: Path, target: Path) -> None:
    for entry in lr.koyu.Dataset(folder).episodes[:2]:
        write_overlay(folder, "progress", "dense", {entry.id: np.zeros(entry.length)})


SESSION: dict[str, Reader] = {
    "Session": read_session,
    "info": lambda folder, target: _run("info", folder),
    "sheet": lambda folder, target: _run("info", folder, "--frame", "0:1", "--output", target / "frame.png"),
    "check --deep": lambda folder, target: _run("check", "--deep", folder),
    "check --lerobot": lambda folder, target: _run("check", folder, "--lerobot"),
    "lerobot": lambda folder, target: _run("lerobot", folder, target / "view", "--depth"),
    "merge": lambda folder, target: _run("merge", folder, "-o", target / "merged"),
    "trim": lambda folder, target: _run("trim", folder, "-o", target / "cut", "--end", "1"),
    "convert --koyu": lambda folder, target: _run("convert", folder, "--koyu", target / "dataset"),
    "remake": lambda folder, target: _run("remake", folder, "0"),
}
DATASET: dict[str, Reader] = {
    "Dataset": read_dataset,
    "koyu check --deep": lambda folder, target: _run("koyu", "check", "--deep", folder),
    "koyu info": lambda folder, target: _run("koyu", "info", folder),
    "merge datasets": lambda folder, target: _run("merge", folder, "-o", target / "merged"),
    "convert --session": lambda folder, target: _run("convert", folder, "--session", target / "session"),
}
# These change the session, or the dataset: it is what they write into.
MENDERS: dict[str, Reader] = {
    "recover --dry-run": lambda folder, target: _run("recover", folder, "--dry-run"),
    "recover": lambda folder, target: _run("recover", folder),
    "checksum": lambda folder, target: _run("checksum", folder),
    "recover again": lambda folder, target: _run("recover", folder.parent),
    "Session, recovered": read_session,
}
WRITERS: dict[str, Reader] = {
    "recover dataset": lambda folder, target: _run("recover", folder),
    "checksum dataset": lambda folder, target: _run("checksum", folder),
    "koyu index": lambda folder, target: _run("koyu", "index", folder),
    "record": record_into,
    "write_overlay": annotate,
}
