"""Sessions and koyu datasets are shaped by the same functions: which of the two is meant, the folder says."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from lucky_recorder.edit.given import settled
from lucky_recorder.errors import SettingsError
from lucky_recorder.lazy import lazy
from lucky_recorder.session.layout import INFO_PATH
from lucky_recorder.storage.untrusted import format_errors

if TYPE_CHECKING:
    from lucky_recorder.koyu import recovery
else:
    # It imports av, and `import *` is to be quick.
    recovery = lazy("lucky_recorder.koyu.recovery")

P = ParamSpec("P")
T = TypeVar("T")


def or_datasets(of_datasets: Callable[..., T]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Have a function that is of sessions do the same with koyu datasets.

    Args:
        of_datasets: Does it; it takes the same arguments.
    """

    def decorate(of_sessions: Callable[P, T]) -> Callable[P, T]:
        known = inspect.signature(of_sessions)
        first = next(iter(known.parameters))

        @functools.wraps(of_sessions)
        def either(*args: P.args, **kwargs: P.kwargs) -> T:
            bound = known.bind(*args, **kwargs)
            bound.arguments |= settled(bound.arguments)
            given = bound.arguments[first]
            if not _are_datasets(given):
                return of_sessions(*bound.args, **bound.kwargs)
            # Their first parameter has another name there.
            rest = {name: value for name, value in bound.arguments.items() if name != first}
            return of_datasets(given, **rest)

        return either

    return decorate


def _are_datasets(given: Path | list[Path]) -> bool:
    """Tell whether paths are those of koyu datasets.

    Raises:
        SettingsError: If only some of them are.
    """
    paths = given if isinstance(given, list) else [given]
    datasets = [path for path in paths if _is_dataset(path)]
    if datasets and len(datasets) < len(paths):
        other = next(path for path in paths if path not in datasets)
        remedy = f"is a koyu dataset, and {other} is none; merge sessions with sessions, and datasets with datasets"
        raise SettingsError.of("sessions", str(datasets[0]), remedy)
    return bool(datasets)


def _is_dataset(path: Path) -> bool:
    with format_errors(path):
        return path.is_dir() and not (path / INFO_PATH).exists() and recovery.is_dataset(path)
