"""The origin of a recording: what it notes in ``meta/provenance.json``, besides its episodes.

The caller's thread takes along what may change, when the session is opened; the worker's thread looks up the rest, when
it is first written. Nothing of it may fail a recording.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import importlib.metadata
import json
import logging
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from lucky_recorder.capture.door import simulator
from lucky_recorder.capture.source import Source
from lucky_recorder.errors import shown, text_of
from lucky_recorder.lazy import lazy
from lucky_recorder.recorder import secrets
from lucky_recorder.recorder.circumstances import read_back
from lucky_recorder.storage.untrusted import json_cost
from lucky_recorder.version import __version__

if TYPE_CHECKING:
    import mujoco

    from lucky_recorder.session import log as session_log
else:
    session_log = lazy("lucky_recorder.session.log")

_PACKAGES = ("mujoco", "gymnasium", "numpy", "pyarrow", "av")
# The longest wait for each of git's two answers.
_GIT_S = 1.0
# What an environment's spec may take in memory where it is read: a file holds those of many recordings.
_LARGEST_SPEC = 4 << 20
_logger = logging.getLogger("lucky_recorder")


class Origin:
    """What a recording knows of itself: see `lucky_recorder.session.log.Origin`.

    Args:
        source: What is recorded, as the session is opened.
    """

    def __init__(self, source: Source) -> None:
        self._is_kept = source.settings.save_model
        self._patience = min(_GIT_S, source.settings.worker_timeout_s / 4)
        self._env = _described(source.env)
        self._package = type(source.moment.env).__module__.partition(".")[0] if source.moment.env is not None else None
        self._command = list(sys.argv)
        self._folder = _folder()
        # A copy: the environment goes on changing its own.
        self._model = _copied(source.moment.model)
        self._sum = b""
        self._others = 0
        self._discarded: list[str | None] = []

    @classmethod
    def of(cls, source: Source) -> Origin | None:
        """Return the origin of a recording; None where nothing of it is written."""
        settings = source.settings
        is_noted = settings.provenance and settings.record_data and "session" in settings.written_formats
        return cls(source) if is_noted else None

    def counting(self, model: mujoco.MjModel) -> Callable[[], None]:
        """Return the worker's job of noting a model that has taken the place of another."""
        taken = _copied(model)
        return lambda: self._count(taken)

    # In the worker's thread.

    def told(self) -> dict[str, Any]:
        """Return what holds for the whole recording."""
        packages = (*_PACKAGES, *([self._package] if self._package not in (None, "lucky_recorder") else []))
        parts: dict[str, Callable[[], Any]] = {
            "command": lambda: list(map(_writable, secrets.in_command(self._command))),
            "python": lambda: platform.python_version(),
            "packages": lambda: {"lucky_recorder": __version__, **dict(_versions(packages))},
            "platform": lambda: f"{platform.system()} {platform.release()} {platform.machine()}",
            "git": lambda: _git(self._folder, self._patience),
        }
        return {**self._env, **{name: _part(name, say) for name, say in parts.items()}}

    def model(self) -> session_log.Model | None:
        """Return the model that it began with, and let go of it."""
        model, self._model = self._model, None
        if model is None:
            return None
        content = _part("model", lambda: simulator.model_bytes(model), lambda found: found)
        if content is None:
            return None
        self._sum = hashlib.sha256(content).digest()
        return session_log.Model(content, simulator.MODEL_SUFFIX, self._is_kept)

    def other_models(self) -> int:
        """Return how many models of other content have taken its place by now."""
        return self._others

    def discarded(self) -> Sequence[str | None]:
        """Return the seeds of the attempts that were discarded by now, in order."""
        return self._discarded

    def discard(self, seed: str | None) -> None:
        """Note that an attempt is discarded."""
        self._discarded.append(seed)

    def _count(self, model: mujoco.MjModel | None) -> None:
        """Note a model that has taken the place of another, if it is not the first one made anew."""
        with contextlib.suppress(Exception):  # as everything here: it may fail no recording
            if not self._sum and self._model is not None:
                self._sum = hashlib.sha256(simulator.model_bytes(self._model)).digest()
            self._others += model is None or hashlib.sha256(simulator.model_bytes(model)).digest() != self._sum


def _described(env: Any) -> dict[str, Any]:
    """Return how an environment can be made again, or why that cannot be said."""
    if env is None:
        return {"env": None}
    try:
        spec = env.spec
        if spec is None:
            why = "it has no spec: it was not made with gymnasium.make"
            return {"env": None, "env_error": why}
        written = json.loads(spec.to_json())
        name, raised = _unwritable(written, "")
        if raised is not None:
            return {"env": None, "env_error": _told(f"{name}: {type(raised).__name__}: {shown(text_of(raised))}")}
        if json_cost(json.dumps(written).encode()) > _LARGEST_SPEC:
            return {"env": None, "env_error": f"it takes more than {_LARGEST_SPEC} bytes of memory"}
        altered = list(islice(_altered(_arguments(spec), _arguments_of(written), ""), 5))
        told = {"env_error": _told("; ".join(altered))} if altered else {}
        return {"env": secrets.in_values(written), **told}
    except Exception as error:  # whatever an environment raises when it is asked
        return {"env": None, "env_error": _told(f"{type(error).__name__}: {shown(text_of(error))}")}


def _told(text: str) -> str:
    return _writable(secrets.in_text(text))


def _writable(text: str) -> str:
    """Return a text that can be written: a file's name may have bytes that are none."""
    return text.encode("utf-8", "backslashreplace").decode()


def _unwritable(value: Any, name: str) -> tuple[str, Exception | None]:
    """Return where within a value something stands that cannot be written and read, and what is raised of it."""
    try:
        read_back(value)
    except Exception as error:
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        found = (_unwritable(one, f"{name}.{key}".lstrip(".")) for key, one in inside)
        return next((place for place in found if place[1] is not None), (name, error))
    return name, None


def _arguments(spec: Any) -> dict[str, Any]:
    return {"kwargs": spec.kwargs, "additional_wrappers": [wrapper.kwargs for wrapper in spec.additional_wrappers]}


def _arguments_of(written: Mapping[str, Any]) -> dict[str, Any]:
    wrappers = [wrapper["kwargs"] for wrapper in written["additional_wrappers"]]
    return {"kwargs": written["kwargs"], "additional_wrappers": wrappers}


def _altered(given: Any, read: Any, name: str) -> Iterator[str]:
    """Say which arguments an environment would be given as something else, since JSON has no such thing."""
    if isinstance(given, Mapping) and isinstance(read, Mapping):
        for key, value in given.items():
            if isinstance(key, str):
                yield from _altered(value, read[key], f"{name}.{key}".lstrip("."))
            else:
                yield f"{name} has a name of type {type(key).__name__}, and it is read back as a text"
    elif isinstance(given, list | tuple) and isinstance(read, list) and len(given) == len(read):
        if isinstance(given, tuple):
            yield f"{name} is a tuple, and is read back as a list"
        for number, (one, other) in enumerate(zip(given, read, strict=True)):
            yield from _altered(one, other, f"{name}.{number}")
    elif given != read:
        yield f"{name} is of type {type(given).__name__}, and is read back as another value"


def _part(name: str, say: Callable[[], Any], read: Callable[[Any], Any] = read_back) -> Any:
    """Return what is said of one thing, as it is read; None, and a line in the log, where it cannot be said."""
    try:
        return read(say())
    except Exception as error:  # one thing that cannot be written costs none of the others
        # A text: whoever keeps records would keep an error, and all that its traceback leads to.
        _logger.warning("where the session comes from: %s is not noted: %s", name, _told(text_of(error)))
        return None


def _copied(model: mujoco.MjModel | None) -> mujoco.MjModel | None:
    with contextlib.suppress(Exception):  # there may be no memory for a second one
        return copy.copy(model)
    return None


def _folder() -> str | None:
    with contextlib.suppress(OSError):
        return os.getcwd()
    return None


def _versions(packages: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Look up the versions of packages; of what was not imported there is nothing to say."""
    for name in packages:
        if name not in sys.modules:
            continue
        try:
            yield name, importlib.metadata.version(name)
        except Exception:  # a package may have another name than its module, or no metadata
            said = getattr(sys.modules[name], "__version__", None)
            yield name, said if isinstance(said, str) else None


def _git(folder: str | None, patience: float) -> dict[str, Any] | None:
    """Return the commit that a folder's repository is at, and whether files of it were changed since."""
    commit = _asked(folder, patience, "rev-parse", "--verify", "HEAD")
    if not commit:
        return None
    changed = _asked(folder, patience, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit.strip(), "dirty": None if changed is None else bool(changed)}


def _asked(folder: str | None, patience: float, *words: str) -> str | None:
    """Ask git something that changes nothing; None where it does not answer in time, or there is none."""
    # The repository's own settings may name a program to be run.
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", *words]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=patience, text=True, check=True
        )
    except Exception:  # no git, no repository, no time, no more processes
        return None
    return done.stdout
