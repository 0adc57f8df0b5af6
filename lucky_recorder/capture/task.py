"""The task of each row, where the environment or a function of the user's says it (`RecorderSettings.task`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lucky_recorder.capture.channels import Channel, text
from lucky_recorder.capture.moment import Moment, MomentBefore, entry_of
from lucky_recorder.episode.keys import DEFAULT_TASK, TASK
from lucky_recorder.errors import CaptureError, SettingsError, shown
from lucky_recorder.notices import tell
from lucky_recorder.settings.recorder import RecorderSettings
from lucky_recorder.settings.validators import load_callable

_INFO = "info:"
_REMEDY = "what is known is moment.info, that of the last reset or step, and what is looked at before a step"


class TaskReader:
    """Says which task the coming row is of; what was said last is in `Moment.task`.

    Args:
        setting: ``task`` of the settings.
        has_infos: Whether there is an environment, whose infos may say it.

    Raises:
        SettingsError: If infos are to say it and there are none, or a function cannot be imported.
    """

    def __init__(self, setting: str | Callable[..., Any], has_infos: bool) -> None:
        self._asked: Callable[[Any], Any] | None = None
        self._key = key_of(setting)
        if self._key is None:
            self._asked = load_callable(TASK, setting) if isinstance(setting, str) else setting
        elif not has_infos:
            remedy = "there is no Gymnasium environment here whose infos could say it; give a callable"
            raise SettingsError.of(TASK, setting, remedy)
        self._shown = f"{TASK}={shown(setting)}"
        self._before = MomentBefore(self._shown, _REMEDY, has_info=True)
        self._settled: str | None = None
        self._has_warned = False

    def read(self, moment: Moment) -> list[str | None]:
        """Return the description of the task of the coming row in a list of one; None where nothing was ever said."""
        if self._asked is not None:
            # All robots of a tick share its task.
            moment.robot = ""
            said = self._asked(self._before.of(moment))
            if said is not None and said is not moment.task:
                moment.task = described(self._source, said)
        description = self.of(moment)
        if description is None and not self._has_warned:
            self._has_warned = True
            tell(self._silence(), UserWarning)
        return [description]

    def of(self, moment: Moment) -> str | None:
        """Return what was said last, without asking anybody; None where nothing was.

        Raises:
            CaptureError: If it is no text, empty, or longer than 64 KiB.
        """
        said = moment.task
        # An environment says the same text at every step: it is looked at once.
        if said is not self._settled:
            self._settled = None if said is None else described(self._source, said)
        return self._settled

    @property
    def _source(self) -> str:
        return f"{self._shown}: {'the callable' if self._key is None else f'info[{self._key!r}]'}"

    def _silence(self) -> str:
        who = "the callable gave None" if self._key is None else f"no info has held {self._key!r} yet"
        remedy = "let it say the first" if self._key is None else "let the reset's info say it, or give a callable"
        return (
            f"{self._shown}: {who}, so nothing says what an episode's first rows are of; they are recorded as the "
            f"first of `tasks`, or else as {DEFAULT_TASK!r}: {remedy}"
        )


def described(source: str, value: Any) -> str:
    """Return the description of a task.

    Args:
        source: What has given it, for the error.
        value: What was given.

    Raises:
        CaptureError: If it is no text, empty, or longer than 64 KiB.
    """
    said = text(source, value)
    if said is None or not said.strip():
        raise CaptureError(f"{source} gave {shown(value)}, which describes no task; give a text, or None for no change")
    return said


def key_of(setting: object) -> str | None:
    """Return the key of the info that says the task; None where no info does."""
    return setting.removeprefix(_INFO) if isinstance(setting, str) and setting.startswith(_INFO) else None


def told_by(info: Mapping[Any, Any], setting: str | Callable[..., Any]) -> Any:
    """Return what an info says of the task, looked at; None where it says nothing, or nothing is asked of it.

    Raises:
        CaptureError: If it is no description of a task.
    """
    key = key_of(setting)
    said = None if key is None else entry_of(info, key)
    return None if said is None else described(f"{TASK}={shown(setting)}: info[{key!r}]", said)


def task_reader(settings: RecorderSettings, env: Any) -> TaskReader | None:
    """Return what says the tasks; None where the user does."""
    return None if settings.task is None else TaskReader(settings.task, env is not None)


def task_channel(reader: TaskReader) -> Channel:
    """Return the channel of the descriptions: each in a list of one, since numpy would not take a bare one as it is."""
    return Channel(TASK, "before", (1,), "object", given=reader.read)
