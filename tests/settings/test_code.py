"""Settings out of a file run no code, unless it is said that they may."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import lucky_recorder as lr

NAMED = {
    "success": "success = 'spy:run'",
    "episode_trigger": "episode_trigger = 'spy:run'",
    "columns[0].source": "[[columns]]\nname = 'x'\nsource = 'spy:run'",
}
REMEDY = "a settings file names code that would be run; if you trust the file, read it with allow_code=True"


@pytest.fixture(autouse=True)
def spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that leaves a trace when it is imported."""
    (tmp_path / "spy.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef run(*told): return 0.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("spy", None)
    return tmp_path / "ran"


@pytest.mark.parametrize("field", NAMED)
def test_a_file_that_names_code_is_refused(tmp_path: Path, spy: Path, field: str) -> None:
    (tmp_path / "settings.toml").write_text(NAMED[field])
    for read in (lr.RecorderSettings.from_toml, lr.RecorderSettings.of):
        with pytest.raises(lr.SettingsError) as caught:
            read(tmp_path / "settings.toml")
        assert str(caught.value).startswith(f"{field}='spy:run': {REMEDY}")
    assert not spy.exists()
    settings = lr.RecorderSettings.from_toml(tmp_path / "settings.toml", allow_code=True)
    with pytest.raises(lr.SettingsError, match="names code"):
        lr.RecorderSettings.from_dict(json.loads(json.dumps(settings.to_dict())))
    assert lr.RecorderSettings.from_dict(settings.to_dict(), allow_code=True) == settings


def test_what_is_written_in_python_names_what_it_likes() -> None:
    column = {"name": "x", "source": "spy:run"}
    by_name = lr.RecorderSettings(success="spy:run", columns=[column])
    assert lr.RecorderSettings.of({"success": "spy:run", "columns": [column]}) == by_name
    assert lr.RecorderSettings.of(success="spy:run", columns=[column]) == by_name


@pytest.mark.parametrize("source", ["sensor:imu", "gym:obs", "info:x", "qpos:slide"])
def test_a_place_to_read_is_no_code(tmp_path: Path, source: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(f"success = 'info:won'\nmode = 'custom'\n[[columns]]\nname = 'x'\nsource = '{source}'\n")
    assert lr.RecorderSettings.from_toml(path).columns[0].source == source


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"x = " + b"[" * 20_000, "nested too deeply"), (b"# " + b"x" * (1 << 20), "holds more than 1048576 bytes")],
)
def test_a_file_that_is_absurd(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "settings.toml").write_bytes(content)
    with pytest.raises(lr.SettingsError, match=f"settings.toml': cannot be read as TOML: .*{message}"):
        lr.RecorderSettings.from_toml(tmp_path / "settings.toml")


def test_a_pipe_in_place_of_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "settings.toml")
    with pytest.raises(lr.SettingsError, match="is no file"):
        lr.RecorderSettings.of(tmp_path / "settings.toml")
