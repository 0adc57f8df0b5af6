"""A virtual environment for each family, built once in a cache folder: their versions of MuJoCo exclude each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CACHE = Path(os.environ.get("LUCKY_RECORDER_INTEROP", Path.home() / ".cache" / "lucky_recorder" / "interop"))


def run_at_home(family: str, *requirements: str) -> None:
    """Run the calling script again in its family's environment, and end with its status; return if this is the one."""
    home = CACHE / "envs" / family
    if Path(sys.prefix) == home:
        return
    _build(home, [*_dependencies(), *requirements])
    paths = os.environ.get("PYTHONPATH")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{paths}" if paths else str(ROOT), "MUJOCO_GL": "egl"}
    command = [str(_python(home)), *sys.argv]
    sys.exit(subprocess.run(command, env=environment, check=False).returncode)


def _python(home: Path) -> Path:
    return home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _dependencies() -> list[str]:
    """The recorder's own; the checkout itself is found through PYTHONPATH, wherever it lies."""
    declared: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return declared


def _build(home: Path, requirements: list[str]) -> None:
    made, wanted = home / "requirements.json", json.dumps([sys.version, *requirements])
    if made.exists() and made.read_text() == wanted:
        return
    print(f"building {home}: {' '.join(requirements)}", flush=True)
    venv.create(home, clear=True, with_pip=True)
    pip = [_python(home), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, *requirements], check=True)
    made.write_text(wanted)
