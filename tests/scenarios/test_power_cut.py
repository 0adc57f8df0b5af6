"""What a power cut may take: the order in which files and folders are synced, as the system saw it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lucky_recorder as lr

TRACED = "write,pwrite64,writev,fsync,fdatasync,rename,renameat,renameat2,link,linkat,mkdir,mkdirat"
SCRIPT = """
import sys
import numpy as np
import lucky_recorder as lr
from lucky_recorder.testing import CountEnv

env = lr.RecordSession(
    CountEnv(3, mujoco=True),
    output_dir=sys.argv[1],
    cameras=[{"name": "wall", "width": 64, "height": 48, "depth_mode": "rgbd"}],
    metadata_every=2,
    episodes_per_file=int(sys.argv[2]),
    koyu=lr.KoyuSettings(name="bundles", collection_mode="synthetic"),
)
for seed in range(4):
    env.reset(seed=seed)
    for _ in range(3):
        env.step(np.zeros(1))
env.close()
"""
CALL = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+)")
OF_FILE = re.compile(r"\d+<(.*?)>")
QUOTED = re.compile(r'"([^"]*)"')


def traces() -> bool:
    """Tell whether strace is here and may do its work."""
    program = shutil.which("strace")
    return program is not None and subprocess.run([program, "true"], capture_output=True, check=False).returncode == 0


def calls(log: Path) -> Iterator[tuple[str, str]]:
    """Give each call that succeeded, in the order in which they returned, and what it was given."""
    unfinished: dict[str, str] = {}
    for line in log.read_text().splitlines():
        thread, said = line.split(maxsplit=1)
        if said.endswith("<unfinished ...>"):
            unfinished[thread] = said.removesuffix("<unfinished ...>")
            continue
        if said.startswith("<... "):
            said = unfinished.pop(thread) + said.partition("resumed>")[2]
        if (call := CALL.match(said)) and int(call[3]) >= 0:
            yield call[1], call[2]


class Disk:
    """What has reached the disk for certain, of everything below a folder.

    Attributes:
        renamed: The files that got their final names, in that order.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._unsynced: set[str] = set()
        self._unsynced_names: set[str] = set()
        self._seen: set[str] = set()
        self.renamed: list[Path] = []

    def follow(self, name: str, given: str) -> None:
        """Take a call into account, and refuse what a power cut would punish."""
        if name in ("write", "pwrite64", "writev"):
            if (path := self._of_file(given)) is not None:
                self._unsynced.add(path)
                if path not in self._seen:
                    self._unsynced_names.add(path)
                self._seen.add(path)
        elif name in ("fsync", "fdatasync"):
            if (path := self._of_file(given)) is not None:
                self._unsynced.discard(path)
                self._unsynced_names -= {p for p in self._unsynced_names if str(Path(p).parent) == path}
        else:
            self._change(name, [p for p in QUOTED.findall(given) if p.startswith(self._root)])

    def _of_file(self, given: str) -> str | None:
        found = OF_FILE.match(given)
        return found[1] if found is not None and found[1].startswith(self._root) else None

    def _change(self, name: str, paths: list[str]) -> None:
        if not paths:
            return
        target = paths[-1]
        if name.startswith("rename"):
            below = {p for p in self._unsynced | self._unsynced_names if p == paths[0] or p.startswith(f"{paths[0]}/")}
            # Its own name under which it was written need not have reached the disk, what it holds must.
            assert not (self._unsynced & below), f"{target}: renamed before {self._unsynced & below} was synced"
            assert below <= {paths[0]}, f"{target}: renamed before the names {below - {paths[0]}} were synced"
            if Path(target).suffix != ".tmp":
                self._renamed(target)
            self._unsynced_names.discard(paths[0])
        self._unsynced_names.add(target)
        self._seen.add(target)

    def _renamed(self, target: str) -> None:
        self.renamed.append(Path(target).relative_to(self._root))
        if "/meta/" in target or target.endswith("manifest.json"):
            # An index lists them: what has a final name by now must stay there.
            lost = {str(self._root) + "/" + str(p) for p in self.renamed[:-1]} & self._unsynced_names
            assert not lost, f"{target}: renamed before the names {lost} were synced"

    def at_rest(self) -> None:
        """Nothing is left that a power cut could take."""
        left = {p for p in self._unsynced | self._unsynced_names if Path(p).exists()}
        assert not left, left


@pytest.mark.skipif(not traces(), reason="strace is not installed, or may not trace")
@pytest.mark.parametrize("per_file", [1, 3])
def test_data_its_folder_then_meta_and_its_folder_reach_the_disk(tmp_path: Path, per_file: int) -> None:
    root, log = tmp_path / "out", tmp_path / "log"
    root.mkdir()
    command = ["strace", "-f", "-y", "-s", "0", "-o", str(log), "-e", f"trace={TRACED}"]
    subprocess.run([*command, sys.executable, "-c", SCRIPT, str(root), str(per_file)], check=True)
    disk = Disk(root)
    for name, given in calls(log):
        disk.follow(name, given)
    disk.at_rest()
    (session,) = (root / "DataSessions").iterdir()
    assert len(lr.Session(session)) == 4
    # Not a test of nothing: every file of the session was seen to get its name.
    files = {p.relative_to(root) for p in session.rglob("*") if p.is_file()}
    assert files <= set(disk.renamed)
    assert any("meta" in p.parts for p in files)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("write(4</r/a.tmp>, ..., 4) = 4\nrename('/r/a.tmp', '/r/a') = 0", "before"),
        ("rename('/r/d/a.tmp', '/r/d/a') = 0\nrename('/r/meta/i.tmp', '/r/meta/i') = 0", "names"),
        ("write(4</r/t/x>, ..., 4) = 4\nfsync(4</r/t/x>) = 0\nrename('/r/t', '/r/u') = 0", "names"),
        ("mkdir('/r/t/x', 0777) = 0\nrename('/r/t', '/r/u') = 0", "names"),
        ("rename('/r/d/a.tmp', '/r/d/a') = 0\nfsync(3</r/d>) = 0\nrename('/r/meta/i.tmp', '/r/meta/i') = 0", ""),
    ],
)
def test_the_order_that_would_lose_is_told(tmp_path: Path, said: str, what: str) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"7 {line}\n" for line in said.replace("'", '"').splitlines()))
    disk = Disk(Path("/r"))

    def follow() -> None:
        for call in calls(log):
            disk.follow(*call)

    if not what:
        follow()
        return
    with pytest.raises(AssertionError, match=what):
        follow()
