"""The keyword form: its names and types are those of the constructor."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import attrs
import mujoco

from lucky_recorder.recorder.observer import Observer
from lucky_recorder.recorder.wrapper import RecordSession
from lucky_recorder.settings.fields import RecorderFields
from lucky_recorder.settings.recorder import RecorderSettings


def _accepted(converter: attrs.Converter[Any, Any]) -> Any:
    """The type of a converter's first parameter: what attrs, and every type checker, give the constructor."""
    first, *_ = inspect.signature(converter.converter).parameters
    return typing.get_type_hints(converter.converter)[first]


def test_the_keyword_form_has_the_constructors_names_and_types() -> None:
    accepted = {field.name: _accepted(field.converter) for field in attrs.fields(RecorderSettings)}
    assert typing.get_type_hints(RecorderFields) == accepted
    assert list(RecorderFields.__annotations__) == list(accepted) == [*inspect.signature(RecorderSettings).parameters]
    assert RecorderFields.__required_keys__ == frozenset(), "every setting has a default"


def test_all_that_takes_settings_takes_the_keyword_form() -> None:
    for takes in (RecordSession.__init__, Observer.__init__, RecorderSettings.of):
        assert typing.get_type_hints(takes, localns={"mujoco": mujoco})["fields"] == typing.Unpack[RecorderFields]
