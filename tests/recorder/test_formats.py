from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from lucky_recorder.errors import SettingsError, StorageError
from lucky_recorder.koyu.sink import KoyuSink
from lucky_recorder.recorder import formats
from lucky_recorder.session import layout
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.settings.recorder import RecorderSettings
from tests.session.building import arm_schema, custom_schema

CUBES = {"name": "cubes"}


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({}, ("session",)),
        ({"koyu": CUBES}, ("session", "koyu")),
        ({"koyu": CUBES, "formats": ["koyu"]}, ("koyu",)),
        ({"koyu": CUBES, "formats": ["session"]}, ("session",)),
    ],
)
def test_what_is_written_follows_from_the_settings(
    tmp_path: Path, fields: dict[str, Any], written: tuple[str, ...]
) -> None:
    settings = RecorderSettings(output_dir=tmp_path, **fields)
    assert settings.written_formats == written
    sinks = formats.make_sinks(settings, arm_schema(), ["Lift"])
    kinds = {"session": SessionSink, "koyu": KoyuSink}
    assert [type(sink) for sink in sinks] == [kinds[name] for name in written]
    for sink in sinks:
        sink.close()


def test_koyu_on_top_of_settings_adds_bundles() -> None:
    assert RecorderSettings.of(RecorderSettings(), koyu=CUBES).written_formats == ("session", "koyu")


def test_a_schema_is_refused_only_by_a_format_that_is_written() -> None:
    settings = RecorderSettings(koyu=CUBES, formats=("session",))
    formats.refuse(settings, custom_schema())
    with pytest.raises(SettingsError, match="a bundle needs a column"):
        formats.refuse(evolve(settings, formats=None), custom_schema())


def test_where_no_session_can_be_made_no_bundle_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(output_dir: Path) -> Path:
        raise StorageError(f"{output_dir}: No space left on device")

    monkeypatch.setattr(layout, "claim_folder", refuse)
    with pytest.raises(StorageError, match="No space left"):
        formats.make_sinks(RecorderSettings(output_dir=tmp_path, koyu=CUBES), arm_schema(), [])
    assert list((tmp_path / "cubes/episodes").iterdir()) == []
