"""How settings classes behave: their names, their messages, and that nothing but a refusal escapes from them."""

from __future__ import annotations

import contextlib
import copy
import pickle
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import settings as running
from hypothesis import strategies as st

import lucky_recorder as lr
from lucky_recorder.errors import SettingsError, shown
from lucky_recorder.settings.declare import build, instance, only_known_fields, told
from lucky_recorder.settings.validators import count
from tests.settings.refusals import HUGE, JUNK, refused

NEEDED: dict[Any, dict[str, Any]] = {
    lr.RecorderSettings: {},
    lr.Camera: {"name": "Front"},
    lr.FreeCamera: {},
    lr.Lidar: {"name": "Top"},
    lr.Column: {"name": "x", "source": "sensor:x"},
    lr.KoyuSettings: {"name": "pick-cube"},
}
KINDS = pytest.mark.parametrize("kind", NEEDED, ids=lambda kind: kind.__name__)


@KINDS
@running(deadline=None)
@given(data=st.data())
def test_nothing_but_a_settings_error_escapes(kind: Any, data: st.DataObject) -> None:
    field = data.draw(st.sampled_from([f.name for f in attrs.fields(kind)]))
    value = data.draw(JUNK)
    with contextlib.suppress(SettingsError):
        settings = kind(**{**NEEDED[kind], field: value})
        assert attrs.evolve(settings) == settings, "settled values settle as themselves"


@running(deadline=None)
@given(
    fields=st.dictionaries(
        st.one_of(st.text(max_size=8), st.sampled_from([*attrs.fields_dict(lr.RecorderSettings)])), JUNK, max_size=4
    )
)
def test_nothing_but_a_settings_error_escapes_from_a_mapping(fields: dict[str, Any]) -> None:
    with contextlib.suppress(SettingsError):
        settings = lr.RecorderSettings.from_dict(fields)
        assert lr.RecorderSettings.of(settings) == settings


@KINDS
def test_settings_are_values(kind: Any) -> None:
    settings, same = kind(**NEEDED[kind]), kind(**NEEDED[kind])
    assert settings == same
    assert hash(settings) == hash(same)
    assert pickle.loads(pickle.dumps(settings)) == copy.deepcopy(settings) == copy.copy(settings) == settings
    assert repr(settings).startswith(f"{kind.__name__}({attrs.fields(kind)[0].name}=")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(settings, attrs.fields(kind)[0].name, "other")


@pytest.mark.parametrize("value", [0, -1, "x", HUGE], ids=["zero", "negative", "text", "huge"])
def test_the_message_names_field_value_and_remedy(value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        lr.RecorderSettings(files_per_chunk=value)
    assert str(caught.value) == f"files_per_chunk={shown(value)}: give a whole number from 1 to 1000"
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, lr.LuckyRecorderError)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ouput_dir": "x"}, "ouput_dir='x': unknown field; did you mean 'output_dir'?"),
        ({"zzz": 1}, "zzz=1: unknown field; known: output_dir, mode,"),
        ({5: 1}, "5=1: unknown field"),
        ({HUGE: 1}, "<int>=1: unknown field"),
        ({"cameras": [{"name": "F", "wdth": 64}]}, "cameras[0].wdth=64: unknown field; did you mean 'width'?"),
        ({"cameras": [{"name": "F"}, {"width": 64}]}, "cameras[1].name is missing: every Camera needs one"),
        ({"cameras": [{"name": "F", "source": {"distnce": 1}}]}, "camera 'F': source.distnce=1: unknown field; did"),
        ({"cameras": [{"name": "F", "source": {"distance": 0}}]}, "free camera: distance=0: give a finite number"),
        ({"cameras": [{"name": "F", "width": 65}]}, "camera 'F': width=65: video needs an even size; use 64 or 66"),
        ({"lidars": [{"site": "x"}]}, "lidars[0].name is missing: every Lidar needs one"),
        ({"columns": [{"name": "x"}]}, "columns[0].source is missing: every Column needs one"),
        ({"columns": [{"name": "x", "source": "sensor:x", "dtype": "U3"}]}, "column 'x': dtype='U3': give one of"),
        ({"koyu": {"nme": "x"}}, "koyu.nme='x': unknown field; did you mean 'name'?"),
        ({"koyu": {"name": "a/b"}}, "koyu.name='a/b': use letters, digits"),
    ],
)
def test_messages_of_tables(fields: dict[Any, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        lr.RecorderSettings.of(fields)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (lr.RecorderSettings, {"ouput_dir": "x"}, "ouput_dir='x': unknown field; did you mean 'output_dir'?"),
        (lr.Camera, {"name": "Front", "wdith": 3}, "camera 'Front': wdith=3: unknown field; did you mean 'width'?"),
        (lr.Camera, {"nme": "Front"}, "camera None: nme='Front': unknown field; did you mean 'name'?"),
        (lr.FreeCamera, {"distnce": 3}, "free camera: distnce=3: unknown field; did you mean 'distance'?"),
        (lr.Lidar, {"name": "Top", "zzz": 3}, "lidar 'Top': zzz=3: unknown field; known: name, site, pattern,"),
        (
            lr.Column,
            {"name": "x", "sorce": "ctrl:x"},
            "column 'x': sorce='ctrl:x': unknown field; did you mean 'source'?",
        ),
        (lr.KoyuSettings, {"name": "x", "pth": "x"}, "koyu.pth='x': unknown field; did you mean 'path'?"),
    ],
)
def test_a_keyword_that_is_no_field_names_its_neighbour(kind: Any, fields: dict[str, Any], message: str) -> None:
    refused(lambda: kind(**fields), message)


def test_the_name_of_an_object_is_known_however_it_is_given() -> None:
    refused(lambda: lr.Camera("Front", wdith=3), "camera 'Front': wdith=3: unknown field")  # type: ignore[call-arg]
    refused(lambda: attrs.evolve(lr.Camera("Front"), wdith=3), "camera 'Front': wdith=3: unknown field")  # type: ignore[call-arg]


def _half(value: int | None, *, field: str = "half", owner: Any = None) -> int:
    return owner.whole // 2 if value is None else count(value, field=field)


@only_known_fields("pair: ")
@attrs.frozen(field_transformer=told("pair: "))
class Pair:
    whole: int = attrs.field(converter=count)
    half: int = attrs.field(default=None, converter=_half)
    note: str = ""


def test_a_converter_is_told_the_field_and_the_owner_it_asks_for() -> None:
    assert Pair(8) == Pair(8, 4, "")
    refused(lambda: Pair(0), "pair: whole=0: give a whole number from 1")
    refused(lambda: Pair(8, 0), "pair: half=0: give a whole number from 1")


def test_an_object_or_a_table_of_its_fields() -> None:
    assert instance(Pair(8), Pair) == instance({"whole": 8}, Pair) == build(Pair, {"whole": 8}, "pairs[0].")
    refused(lambda: instance(8, Pair, field="pair"), "pair=8: give a Pair or a table of its fields")
    refused(lambda: instance({"hole": 8}, Pair, field="pair"), "pair.hole=8: unknown field; did you mean 'whole'?")
    with pytest.raises(SettingsError, match=r"^pairs\[0\]\.whole is missing: every Pair needs one$"):
        build(Pair, {}, "pairs[0].")
