from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from lucky_recorder.cli import console


def drawn(folder: Path) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=100).print(console.tree(folder))
    return [line.rstrip() for line in file.getvalue().splitlines()]


@pytest.mark.parametrize(("files", "more"), [(4, None), (7, "└── … 3 more")])
def test_the_tree_shows_the_first_few_of_many(tmp_path, files, more):
    for index in range(files):
        (tmp_path / f"file-{index:03d}.mp4").write_bytes(bytes(1500))
    lines = drawn(tmp_path)
    assert lines[0] == f"{tmp_path.name}/"
    assert lines[1] == "├── file-000.mp4  1.5 kB"
    assert sum("file-" in line for line in lines) == 4
    assert (lines[-1] == more) is bool(more)


def test_the_tree_draws_folders_first_and_names_as_text(tmp_path):
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "[bold]a\x1b[0m").touch()
    (tmp_path / "a.json").touch()
    assert drawn(tmp_path)[1:3] == ["├── zoo/", "│   └── [bold]a\N{REPLACEMENT CHARACTER}[0m  0.0 kB"]


def test_a_table_prints_what_a_folder_says_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    console.show(console.table(("task", "count"), [("[bold]lift\x1b[0m", 3)]))
    _, titles, _, row, *_ = capsys.readouterr().out.splitlines()
    assert titles.split() == ["task", "count"]
    assert row.split() == ["[bold]lift\N{REPLACEMENT CHARACTER}[0m", "3"]
