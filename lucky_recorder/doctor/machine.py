"""The machine: what a recording with cameras needs of it, what is missing, and the command that repairs it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lucky_recorder.doctor import disk
from lucky_recorder.episode.keys import GL_PACKAGES, H264
from lucky_recorder.errors import StorageError, shown

Status = Literal["ok", "warning", "missing"]

BACKENDS = ("egl", "osmesa", "glfw")
LIBRARIES = ("mujoco", "gymnasium", "numpy", "pyarrow", "av")
_PATIENCE_S = 120.0
# Bytes a second, seconds, bytes, bytes.
_SLOWEST_DISK, _SLOWEST_FSYNC_S, _LITTLE_SPACE, _NO_SPACE = 20e6, 0.1, 2e9, 100e6
_MEND_GL = f"apt-get install {' '.join(GL_PACKAGES)}"
_MEND_BACKEND = {
    "egl": _MEND_GL,
    "osmesa": "apt-get install libosmesa6",
    "glfw": "apt-get install xvfb libgl1  # then: xvfb-run COMMAND",
}
# Where this package is imported from.
_PACKAGE_FOLDER = str(Path(__file__).resolve().parents[2])
_DRAW = ["-m", "lucky_recorder.capture.draw.trial"]
_IMPORT = "import importlib, sys; importlib.import_module(sys.argv[1]); print('null')"
_ENCODE = (
    "import json\n"
    "from lucky_recorder.video.available import available\n"
    "from lucky_recorder.video.codecs import CODECS\n"
    "print(json.dumps({key: [codec.encoder, available(key) is not None] for key, codec in CODECS.items()}))"
)


class Finding(NamedTuple):
    """One thing that was looked at.

    Attributes:
        name: What.
        status: ``ok``, ``warning`` (it works, but) or ``missing``.
        detail: What was seen, in words.
        remedy: The command that mends it, or what to do; empty if there is nothing to mend.
        needed: Whether recording with cameras needs it.
    """

    name: str
    status: Status
    detail: str
    remedy: str = ""
    needed: bool = True


def examine(output_dir: str | Path = ".") -> list[Finding]:
    """Look at everything that a recording with cameras needs.

    Drivers, codecs and libraries are tried in processes of their own, for they may crash.

    Args:
        output_dir: Where sessions are to be written; it need not exist.

    Returns:
        The findings, in the order a person would go through them.
    """
    with contextlib.ExitStack() as stack:
        # All are started first and run side by side; `answer` only waits.
        imports = {name: stack.enter_context(_Trial(["-c", _IMPORT, name])) for name in LIBRARIES}
        pictures = stack.enter_context(_Trial(_DRAW))
        backends = {name: stack.enter_context(_Trial([*_DRAW, name], _platform(name))) for name in BACKENDS}
        codecs = stack.enter_context(_Trial(["-c", _ENCODE]))
        findings = [_python(), *(_library(name, trial.answer(_is_none)) for name, trial in imports.items())]
        drawn = {b: trial.answer(_is_drawn) for b, trial in backends.items()}
        findings += [
            _pictures(pictures.answer(_is_drawn), drawn),
            *(_backend(b, answer) for b, answer in drawn.items()),
        ]
        findings += _codecs(codecs.answer(_are_codecs))
    # Last, when no trial runs any more: the disk is measured undisturbed.
    return [*findings, *_disk(Path(output_dir))]


def is_ready(findings: Sequence[Finding]) -> bool:
    """Tell whether a recording with cameras will work."""
    return not any(f.needed and f.status == "missing" for f in findings)


class _Answer(NamedTuple):
    """What a trial printed, or why it failed."""

    value: Any = None
    failure: str = ""


class _Trial:
    """A short program in a Python of its own; it prints JSON in its last line."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str] | None = None) -> None:
        # -P: files of the present folder must not be taken for modules. Only this package's folder is added.
        paths = os.pathsep.join(filter(None, (_PACKAGE_FOLDER, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-P", *arguments],
            env={**(os.environ if environment is None else environment), "PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    def __enter__(self) -> _Trial:
        return self

    def __exit__(self, *raised: object) -> None:
        # One that hangs, or whose answer nobody waited for, must not go on when the doctor has ended.
        self._process.kill()
        self._process.communicate()

    def answer(self, is_right: Callable[[Any], bool]) -> _Answer:
        """Wait for the answer. A trial that fails, crashes, hangs or talks nonsense is an answer too, and no error."""
        try:
            output, errors = self._process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            return _Answer(failure=f"no answer within {_PATIENCE_S:g} s")
        status = self._process.returncode
        if status == 0:
            return _read_answer(output, is_right)
        if status < 0:
            return _Answer(failure=f"crashed with signal {-status}")
        return _Answer(failure=_last_word(errors))


def _read_answer(output: str, is_right: Callable[[Any], bool]) -> _Answer:
    """Read the last line of what a trial printed: drivers print lines of their own, before and after."""
    line = next(iter(output.strip().splitlines()[::-1]), "")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return _Answer(failure=f"its answer is none: {shown(line)}")
    return _Answer(value) if is_right(value) else _Answer(failure=f"its answer is none: {shown(value)}")


def _is_none(value: Any) -> bool:
    return value is None


def _is_drawn(value: Any) -> bool:
    kinds = {"backend": str, "renderer": str, "is_software": bool}
    return isinstance(value, dict) and all(isinstance(value.get(name), kind) for name, kind in kinds.items())


def _are_codecs(value: Any) -> bool:
    entries = value.values() if isinstance(value, dict) else [None]
    return all(isinstance(e, list) and [type(part) for part in e] == [str, bool] for e in entries)


def _last_word(errors: str) -> str:
    """Return a traceback's last line; the recorder's own errors say it all without their name."""
    lines = errors.strip().splitlines() or ["no reason given"]
    return re.sub(r"^lucky_recorder\.errors\.\w+: ", "", lines[-1])


def _platform(backend: str) -> dict[str, str]:
    """Return an environment in which nothing but one backend is tried."""
    # PyOpenGL has no platform called glfw.
    others = {k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    return {**others, "MUJOCO_GL": backend, **({"PYOPENGL_PLATFORM": backend} if backend != "glfw" else {})}


def _python() -> Finding:
    return Finding("python", "ok", f"{platform.python_version()} on {platform.platform()}")


def _library(name: str, answer: _Answer) -> Finding:
    least = _least_versions().get(name, "")
    wanted = shlex.quote(f"{name}>={least}" if least else name)
    mend = f"pip install {wanted}"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "missing", "not installed", mend)
    if answer.failure:
        mend = _mend_import(name, wanted, answer.failure)
        return Finding(name, "missing", f"{version} cannot be imported: {answer.failure}", mend)
    if _numbers(version) < _numbers(least):
        return Finding(name, "missing", f"{version} is too old, {least} is needed", mend)
    return Finding(name, "ok", version)


def _mend_import(name: str, wanted: str, failure: str) -> str:
    if name == "pyarrow" and "requires NumPy 2" in failure:
        return "pip install 'numpy>=2'  # or, where something holds NumPy below 2: pip install 'pyarrow<25'"
    return f"pip install --force-reinstall {wanted}"


def _least_versions() -> dict[str, str]:
    """Return the lowest versions that this package declares; none where it runs uninstalled."""
    try:
        declared = importlib.metadata.requires("lucky-recorder") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found = (re.match(r"([\w.-]+)(?:\[.*?\])?\s*>=\s*([\d.]+)", line) for line in declared)
    return {match[1]: match[2] for match in found if match}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _pictures(answer: _Answer, drawn: dict[str, _Answer]) -> Finding:
    """Judge the picture that was drawn as a recording draws; where another backend works, say how to take that."""
    if answer.failure:
        working = [b for b in ("egl", "osmesa") if not drawn[b].failure]
        mend = f"export PYOPENGL_PLATFORM={working[0]}" if working else _MEND_GL
        return Finding("cameras", "missing", answer.failure, mend)
    return Finding("cameras", "ok", f"drawn through {answer.value['backend']} by {_renderer(answer.value)}")


def _backend(name: str, answer: _Answer) -> Finding:
    if answer.failure:
        return Finding(f"GL {name}", "missing", answer.failure, _MEND_BACKEND[name], needed=False)
    return Finding(f"GL {name}", "ok", _renderer(answer.value), needed=False)


def _renderer(drawn: dict[str, Any]) -> str:
    return f"{drawn['renderer']} ({'software' if drawn['is_software'] else 'hardware'})"


def _codecs(answer: _Answer) -> Iterator[Finding]:
    mend = "pip install --force-reinstall av"
    if answer.failure:
        yield Finding("codec h264", "missing", answer.failure, mend)
        return
    for key, (encoder, works) in answer.value.items():
        needed = key == H264
        if works:
            yield Finding(f"codec {key}", "ok", f"{encoder} encodes", needed=needed)
        elif "nvenc" in encoder:
            yield Finding(f"codec {key}", "missing", f"{encoder} needs an NVIDIA GPU and its driver", needed=False)
        else:
            yield Finding(f"codec {key}", "missing", f"{encoder} does not encode a frame here", mend, needed)


def _disk(output_dir: Path) -> Iterator[Finding]:
    try:
        measured = disk.measure(output_dir)
    except StorageError as error:
        folder = shlex.quote(str(disk.existing(output_dir)))
        mend = f"ls -ld {folder}  # then chmod u+rwx it, or give another --output-dir"
        yield Finding("output folder", "missing", str(error), mend)
        return
    yield Finding("output folder", "ok", f"{output_dir.absolute()} can be written")
    yield _speed(measured)
    yield _space(measured)
    copied = "" if measured.has_hard_links else "not supported: a video in two formats takes its space twice"
    yield Finding("hard links", "warning" if copied else "ok", copied or "supported", needed=False)


def _speed(measured: disk.Disk) -> Finding:
    detail = f"writes {measured.bytes_per_s / 1e6:.0f} MB/s, a file is safe after {measured.fsync_s * 1e3:.1f} ms"
    if measured.bytes_per_s < _SLOWEST_DISK or measured.fsync_s > _SLOWEST_FSYNC_S:
        return Finding("disk", "warning", f"slow: {detail}", "give an --output-dir on a local disk", needed=False)
    return Finding("disk", "ok", detail, needed=False)


def _space(measured: disk.Disk) -> Finding:
    detail = f"{measured.free_bytes / 1e9:.1f} GB free"
    if measured.free_bytes >= _LITTLE_SPACE:
        return Finding("space", "ok", detail)
    mend = f"du -xh {shlex.quote(str(measured.folder))} | sort -h | tail  # and make room, or give another --output-dir"
    return Finding("space", "warning" if measured.free_bytes >= _NO_SPACE else "missing", detail, mend)
