"""Success: where an episode's verdict comes from, by the ``success`` setting."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from lucky_recorder.errors import SettingsError
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.settings.validators import is_callable_name, load_callable

_KEYS = ("is_success", "success")
_REMEDY = "set success='info:KEY', 'terminated' or a callable, or say it with env.end_episode(success=...)"


class SuccessSignal:
    """Reads whether an episode has succeeded from its last step.

    Attributes:
        is_callable: Whether a callable of the user's decides: it may look at anything.

    Args:
        settings: Their ``success`` says where to look; with ``discard_and_retry_failed`` a missing signal is an error.
        env: The environment, asked for ``_check_success()`` when its info says nothing.
    """

    def __init__(self, settings: RecorderSettings, env: Any) -> None:
        self._env = env
        self._discards = settings.discard_and_retry_failed
        self._has_warned = False
        self._setting = settings.success
        self.is_callable = settings.calls_success
        self._read = self._reader(settings.success)

    def _reader(self, setting: str | Callable[..., Any]) -> Callable[[Any], bool | None]:
        if callable(setting):
            return lambda moment: bool(setting(moment))
        if setting == "auto":
            return self._auto
        if setting == "terminated":
            return lambda moment: bool(moment.terminated)
        if setting.startswith("info:"):
            key = setting.removeprefix("info:")
            return lambda moment: _truth(moment.info, (key,))
        if is_callable_name(setting):
            called = load_callable("success", setting)
            return lambda moment: bool(called(moment))
        raise SettingsError.of("success", setting, _REMEDY)

    def _auto(self, moment: Any) -> bool | None:
        info = moment.info
        said = _truth(info, _KEYS)
        # Where an environment resets itself inside the step, this is the info of the episode that has ended.
        if said is None and isinstance(info.get("final_info"), Mapping):
            said = _truth(info["final_info"], _KEYS)
        if said is None:
            check = getattr(getattr(self._env, "unwrapped", self._env), "_check_success", None)
            said = bool(check()) if callable(check) else None
        return said

    def of_step(self, moment: Any) -> bool:
        """Return whether a step says success; no signal is no success."""
        return bool(self._read(moment))

    def peek(self, moment: Any) -> bool | None:
        """Return what a step says of success, None if nothing."""
        return self._read(moment)

    def verdict(self, moment: Any) -> bool | None:
        """Return an episode's verdict from its last step; None if there is no signal, which counts as failure.

        Raises:
            SettingsError: If there is no signal and failed episodes are discarded: nothing would ever be kept.
        """
        said = self._read(moment)
        if said is None:
            self._complain()
        return said

    def _complain(self) -> None:
        message = f"success={self._setting!r}: the environment says nothing about success"
        if self._discards:
            raise SettingsError(f"{message}, and failed episodes are discarded: nothing would ever be kept; {_REMEDY}")
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(f"{message}; episodes are recorded with success false. {_REMEDY}", UserWarning, stacklevel=5)


def _truth(info: Mapping[str, Any], keys: tuple[str, ...]) -> bool | None:
    return next((bool(info[key]) for key in keys if info.get(key) is not None), None)
