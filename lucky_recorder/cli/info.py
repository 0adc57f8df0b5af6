"""``lucky-recorder info``: what a session holds, at a glance."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lucky_recorder.cli.console import printable, say, stopping

if TYPE_CHECKING:
    from rich.table import Table

    from lucky_recorder.session.reader import Session


def info(
    session: Annotated[Path, typer.Argument(help="The session's folder.", show_default=False)],
    frame: Annotated[
        str | None, typer.Option(metavar="EPISODE:FRAME", help="Draw every stream of one frame.", show_default=False)
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where --frame writes its picture, a PNG file.")
    ] = Path("frame.png"),
) -> None:
    """Show what a session holds: episodes, cameras, columns, tasks."""
    if frame is not None:
        _draw(session, frame, output)
        return
    from rich.console import Console

    from lucky_recorder.session.reader import Session

    with stopping():
        opened = Session(session)
        tables = [_overview(opened), _cameras(opened)]
        if not opened.is_video_only:
            tables += [_columns(opened), _tasks(opened)]
    # What comes from the folder is text, never markup.
    console = Console(markup=False, highlight=False)
    for table in tables:
        if table.row_count:
            console.print(table)


def _draw(path: Path, frame: str, output: Path) -> None:
    """Write a contact sheet of one frame, and say from left to right what it shows."""
    from lucky_recorder.errors import SettingsError
    from lucky_recorder.session.reader import Session
    from lucky_recorder.video.still import write_png
    from lucky_recorder.viewer.sheet import panels, sheet

    with stopping():
        parts = frame.split(":")
        if len(parts) != 2 or not all(part.isdecimal() for part in parts):
            raise SettingsError.of("--frame", frame, "give EPISODE:FRAME, such as 0:10")
        session = Session(path)
        try:
            episode = session.episode(int(parts[0]))
        except IndexError as error:
            raise SettingsError.of("--frame", frame, str(error)) from error
        drawn = panels(session, episode, int(parts[1]))
        if not drawn:
            raise SettingsError.of("--frame", frame, "the session has no stream of pictures")
        write_png(output, sheet(drawn))
    say(f"{output}: {', '.join(panel.stream for panel in drawn)}")


def _overview(session: Session) -> Table:
    table = _table("", "session")
    lines = {"path": session.path, **({"kind": "video only"} if session.is_video_only else _totals(session))}
    lines["on disk"] = f"{session.bytes_on_disk() / 1e6:.1f} MB"
    for name, value in lines.items():
        table.add_row(name, printable(value))
    return table


def _totals(session: Session) -> dict[str, object]:
    episodes = list(session)
    succeeded = sum(e.success for e in episodes)
    share = f" ({succeeded / len(episodes):.0%})" if episodes else ""
    seconds = float(sum(e.ticks for e in episodes) / session.hz)
    return {
        "format": f"{session.info['codebase_version']}, recorder {session.info.get('recorder_version', 'unknown')}",
        "rate": f"{session.hz} Hz",
        "robots": ", ".join(session.robots),
        "episodes": f"{len(episodes)}, {succeeded} succeeded{share}",
        "rows": sum(e.length for e in episodes),
        "duration": f"{seconds:.2f} s",
        "reproducible": "yes" if session.info.get("bit_reproducible") is True else "no",
    }


def _cameras(session: Session) -> Table:
    if session.is_video_only:
        table = _table("stream", "files")
        for key in session.video_keys():
            table.add_row(printable(key), str(len(session.video_files(key))))
        return table
    table = _table("camera", "size", "codec", "rate")
    for name, camera in session.cameras.items():
        size = f"{camera.width}x{camera.height}"
        table.add_row(printable(name), size, printable(camera.codec), f"{camera.rate} Hz")
    return table


def _columns(session: Session) -> Table:
    table = _table("column", "dtype", "shape", "names")
    for name, feature in session.features.items():
        if feature.get("dtype") != "video":
            table.add_row(*(printable(cell) for cell in (name, feature.get("dtype"), *_shape_and_names(feature))))
    return table


def _shape_and_names(feature: dict[str, Any]) -> tuple[str, str]:
    names = feature.get("names")
    listed = ", ".join(str(name) for name in names) if isinstance(names, list) else ""
    unit = feature.get("unit")
    return str(feature.get("shape")), f"{listed} [{unit}]".lstrip() if unit else listed


def _tasks(session: Session) -> Table:
    table = _table("task", "description", "episodes")
    counts = Counter(task for episode in session for task in episode.tasks)
    for index, description in enumerate(session.tasks):
        table.add_row(str(index), printable(description), str(counts[description]))
    return table


def _table(*titles: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title_justify="left")
    for title in titles:
        table.add_column(title, overflow="fold")
    return table
