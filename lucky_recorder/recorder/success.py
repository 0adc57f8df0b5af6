"""Success: where an episode's verdict comes from, by the ``success`` setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from lucky_recorder.capture.moment import Moment, entry_of
from lucky_recorder.errors import CaptureError, SettingsError
from lucky_recorder.notices import tell
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.settings.validators import is_callable_name, load_callable


class Gone:
    """What stands for a state that nobody knows any more; whoever looks at it is told so."""

    def __getattr__(self, name: str) -> NoReturn:
        raise CaptureError(
            "the environment reset itself inside the step that ended its episode: the state and the observation it led "
            "to are gone. Let success look at the moment's info, reward or terminated, or have the environment give "
            "its last observation as info['final_obs']"
        )

    def _refuse(self, *args: Any) -> NoReturn:
        self.__getattr__("")

    __getitem__ = __array__ = __float__ = __len__ = __iter__ = _refuse


GONE = Gone()
_KEYS = ("is_success", "success")
_REMEDY = "set success='info:KEY', 'terminated' or a callable, or say it with env.end_episode(success=...)"


class SuccessSignal:
    """Reads whether an episode has succeeded from its last step.

    Attributes:
        is_callable: Whether a callable of the user's decides: it may look at anything.
        is_heard: Whether nothing else is asked where the info of a step says it.
        keys: The two entries of a step's info that may say it, the first one first; None for none.

    Args:
        settings: Their ``success`` says where to look; with ``discard_and_retry_failed`` a missing signal is an error.
        env: The environment, asked for ``_check_success()`` when its info says nothing.
    """

    def __init__(self, settings: RecorderSettings, env: Any) -> None:
        self._env = env
        self._discards = settings.discard_and_retry_failed
        self._has_warned = False
        self._setting = setting = settings.success
        self._called = setting if callable(setting) else None
        self.keys: tuple[str | None, str | None] = _KEYS if setting == "auto" else (None, None)
        if isinstance(setting, str) and setting.startswith("info:"):
            self.keys = setting.removeprefix("info:"), None
        elif isinstance(setting, str) and is_callable_name(setting):
            self._called = load_callable("success", setting)
        self.is_callable = self._called is not None
        self.is_heard = not self.is_callable and setting != "terminated"

    def hear(self, info: Mapping[Any, Any]) -> Any:
        """Return what a step's info says of success as it is now, to be made a verdict of later; None if nothing.

        An environment may give the same dictionary, or the same array in it, at every step.
        """
        first, second = self.keys
        value = info.get(first)
        if value is None:
            value = info.get(second) if second is not None else entry_of(info, first or "")
        return value.copy() if value.__class__ is np.ndarray else value

    def of_step(self, moment: Moment) -> bool:
        """Return whether a step says success; no signal is no success."""
        return bool(self.peek(moment))

    def peek(self, moment: Moment, may_ask: bool = True) -> bool | None:
        """Return what a step says of success, None if nothing.

        Args:
            moment: The step's.
            may_ask: Whether the environment may be asked: not where it has reset itself in the step.

        Raises:
            SettingsError: If it is said by a value that is no truth value.
        """
        if self._called is not None:
            return truth(self._call(self._called, moment, may_ask), "the success callable's answer")
        if self._setting == "terminated":
            return truth(moment.terminated, "terminated")
        said = moment.said
        if said is not None:
            return said if isinstance(said, bool) else truth(said, f"info[{self._key_of(moment)!r}]")
        return self._ask() if may_ask and self._setting == "auto" else None

    def _key_of(self, moment: Moment) -> str | None:
        """Return the entry of a step's info that says it."""
        first, second = self.keys
        return first if second is None or first in moment.info else second

    @staticmethod
    def _call(called: Callable[[Moment], Any], moment: Moment, is_there: bool) -> Any:
        """Call the callable; where the environment has reset itself, the next episode's state is not shown to it."""
        if is_there:
            return called(moment)
        present = moment.data, moment.env
        moment.data = moment.env = GONE
        try:
            return called(moment)
        finally:
            moment.data, moment.env = present

    def _ask(self) -> bool | None:
        check = getattr(getattr(self._env, "unwrapped", self._env), "_check_success", None)
        said = check() if callable(check) else None
        return None if said is None else truth(said, "_check_success()")

    def complain(self) -> None:
        """Say that nothing tells whether an episode has succeeded, which counts as failure.

        Raises:
            SettingsError: If failed episodes are discarded: nothing would ever be kept.
        """
        message = f"success={self._setting!r}: the environment says nothing about success"
        if self._discards:
            raise SettingsError(f"{message}, and failed episodes are discarded: nothing would ever be kept; {_REMEDY}")
        if not self._has_warned:
            self._has_warned = True
            tell(f"{message}; episodes are recorded with success false. {_REMEDY}", UserWarning)


def truth(value: object, field: str) -> bool:
    """Return a truth value as a bool: a bool, numpy's, 0 or 1, or an array of one of these.

    Raises:
        SettingsError: If it is anything else: a text ``"False"`` or a NaN would count as true.
    """
    if isinstance(value, bool):
        return value
    plain = value
    if hasattr(value, "__array__"):
        given = np.asarray(value)
        # What a mask covers is no value.
        plain = given.item() if given.size == 1 and not np.ma.is_masked(value) else None
    if not isinstance(plain, int | float) or plain not in (0, 1):
        raise SettingsError.of(field, value, "give True or False")
    return bool(plain)
