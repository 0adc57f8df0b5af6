"""The suite: what is measured, in which order, and on which machine that was."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lucky_recorder.bench import files, filming, stepping
from lucky_recorder.bench.figures import Figure
from lucky_recorder.errors import GLError, VideoError
from lucky_recorder.version import __version__

_LIBRARIES = ("mujoco", "gymnasium", "numpy", "pyarrow", "av")
_CPU_INFO = Path("/proc/cpuinfo")


class Part(NamedTuple):
    """What is measured at once.

    Attributes:
        group: What it belongs to, one of `GROUPS`.
        name: In a few words.
        measure: Measures it, with so many pairs of runs, in a folder.
    """

    group: str
    name: str
    measure: Callable[[int, Path], list[Figure]]

    def run(self, pairs: int, folder: Path) -> list[Figure]:
        """Measure it; what this machine cannot do is a figure too, which says why there is none.

        Raises:
            LuckyRecorderError: If the folder cannot be written to.
        """
        try:
            return self.measure(pairs, folder)
        except (GLError, VideoError) as error:
            return [Figure(self.name, None, note=str(error))]


PARTS = (
    *(Part("stepping", case.name, partial(stepping.figures, case)) for case in stepping.CASES),
    Part("drawing", "films of 320x240", partial(filming.film_figures, 320, 240)),
    Part("drawing", "films of 640x480", partial(filming.film_figures, 640, 480)),
    Part("waiting", "a paced simulation without cameras", partial(filming.stall_figures, 0)),
    Part("waiting", "a paced simulation with two cameras", partial(filming.stall_figures, 2)),
    Part("encoding", "frames encoded", files.encode_figures),
    Part("committing", "episodes committed", files.commit_figures),
    Part("reading", "frames read", files.read_figures),
)
GROUPS = tuple(dict.fromkeys(part.group for part in PARTS))


def machine() -> dict[str, str]:
    """Say what was measured on: the processor, its cores, Python and the libraries."""
    versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    return {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "lucky-recorder": __version__,
        **versions,
    }


def _processor() -> str:
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
