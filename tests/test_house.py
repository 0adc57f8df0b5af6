"""What import-linter cannot see: lazy doors, imports inside functions, private names of other files, and sizes."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import lucky_recorder

OPTIONAL = ["mujoco", "OpenGL", "rerun", "torch", "duckdb"]
SIMULATOR_ROOMS = (
    *("lucky_recorder.capture.mujoco", "lucky_recorder.capture.draw", "lucky_recorder.envs."),
    *("lucky_recorder.bench.slides", "lucky_recorder.bench.floor"),
)
HOUSE = Path(lucky_recorder.__file__).parent
FILES = sorted(HOUSE.rglob("*.py"))
# What looks private and is not: named tuples, and what Python documents for others to use.
PUBLIC = {"_asdict", "_current_frames", "_exit", "_fields", "_make", "_replace"}
MOST_LINES = 400


def test_every_other_room_can_be_entered_without_a_simulator() -> None:
    names = [module.name for module in pkgutil.walk_packages(lucky_recorder.__path__, "lucky_recorder.")]
    rooms = [name for name in names if not name.startswith(SIMULATOR_ROOMS)]
    assert len(rooms) > 100
    program = (
        "import importlib, sys\n"
        f"for room in {rooms}: importlib.import_module(room)\n"
        f"print([name for name in {OPTIONAL} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


@cache
def parsed(file: Path) -> list[ast.AST]:
    """All that is in a file, the module itself first."""
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


def nodes(file: Path, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    return (node for node in parsed(file) if isinstance(node, kinds))


def test_imports_stand_at_the_top() -> None:
    late = [
        f"{file.relative_to(HOUSE)}:{statement.lineno}"
        for file in FILES
        for function in nodes(file, ast.FunctionDef, ast.AsyncFunctionDef)
        for statement in ast.walk(function)
        if isinstance(statement, ast.Import | ast.ImportFrom)
    ]
    assert late == []


# Who may import what is heavy when it runs, at its top or through a lazy door. Import-linter counts imports for type
# checkers as well, so it has to let the types of MuJoCo pass in more places than these.
HEAVY = {
    "mujoco": ("capture/mujoco/", "capture/draw/", "envs/", "testing.py", "bench/slides.py", "bench/floor.py"),
    "OpenGL": ("capture/draw/",),
    "gymnasium": (
        "recorder/wrapper.py",
        "recorder/vector.py",
        "recorder/batched.py",
        "recorder/lanes.py",
        "rollouts/remake.py",
        "vector/",
        "envs/",
        "testing.py",
        "bench/slides.py",
        "bench/paced.py",
        "cli/recording.py",
    ),
    "av": ("video/", "bench/bare.py"),
    "rerun": ("viewer/rerun.py",),
    "rich": ("cli/console.py", "rollouts/results.py"),
    "typer": ("cli/",),
    "torch": ("lerobot/policy.py", "session/tensors.py"),
    "duckdb": ("edit/sql.py",),
}


def runs_in(tree: ast.AST) -> Iterator[str]:
    """The modules outside of the package that a file imports when it runs: by a statement, or through `lazy`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from (name for branch in node.orelse for name in runs_in(ast.Module([branch], [])))
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield str(node.module)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("lazy", "importlib.import_module"):
            yield from (a.value for a in node.args if isinstance(a, ast.Constant))
        yield from runs_in(node)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(HOUSE)))
def test_what_is_heavy_is_imported_in_its_own_rooms(file: Path) -> None:
    place = str(file.relative_to(HOUSE))
    imported = {name.partition(".")[0] for name in runs_in(parsed(file)[0])}
    assert [name for name in sorted(imported & set(HEAVY)) if not place.startswith(HEAVY[name])] == []


def names_of(file: Path) -> set[str]:
    """The names that a file gives to anything."""
    named = {node.name for node in nodes(file, ast.FunctionDef, ast.ClassDef)}  # type: ignore[attr-defined]
    stored = {node.attr for node in nodes(file, ast.Attribute) if isinstance(node.ctx, ast.Store)}  # type: ignore[attr-defined]
    return named | stored | {node.id for node in nodes(file, ast.Name)}  # type: ignore[attr-defined]


def private_of_others(file: Path) -> Iterator[str]:
    own = names_of(file) | PUBLIC
    for node in nodes(file, ast.Attribute, ast.ImportFrom):
        asked = [node.attr] if isinstance(node, ast.Attribute) else [alias.name for alias in node.names]  # type: ignore[attr-defined]
        yield from (n for n in asked if n.startswith("_") and not n.startswith("__") and n not in own)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(HOUSE)))
def test_a_file_uses_nothing_private_of_another(file: Path) -> None:
    assert list(private_of_others(file)) == []


def test_a_file_has_one_subject_and_an_end() -> None:
    files = [*FILES, *Path(__file__).parent.rglob("*.py")]
    lines = {str(file): len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    assert {file: count for file, count in lines.items() if count > MOST_LINES} == {}
