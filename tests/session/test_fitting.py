"""Where a session comes from is never more than can be read: specs of environments may be of megabytes each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.episode import limits
from lucky_recorder.session import fitting as room
from lucky_recorder.session.check import check_session
from lucky_recorder.session.fitting import fitting
from tests.session.test_provenance import NAME, Said, content, go_on, recording_of


@pytest.fixture(params=["bytes", "memory"])
def little(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for two specs and a half, on the disk or in memory."""
    monkeypatch.setattr(room, "_SMALL", 0)
    name, most = {"bytes": ("LARGEST_JSON", 50_000), "memory": ("MOST_JSON_BYTES", 110_000)}[request.param]
    monkeypatch.setattr(limits, name, most)


class Large(Said):
    def told(self) -> dict[str, Any]:
        return {**super().told(), "env": {"id": "Large-v0", "text": "x" * 20_000}}


def kept(root: Path) -> list[bool]:
    """Of which recordings the spec is there; where it is not, it is said why."""
    entries = content(root)
    assert all(entry["env"] or "more than is read" in entry["env_error"] for entry in entries)
    return [bool(entry["env"]) for entry in entries]


@pytest.mark.usefixtures("little")
def test_recordings_that_go_on_leave_out_what_there_is_no_room_for(tmp_path: Path) -> None:
    recording = recording_of(tmp_path / NAME, Large("0"))
    recording.keep(2)
    recording.close()
    for number in range(1, 4):
        go_on(recording, Large(str(number)))
        recording.keep(2)
        recording.close()
        assert check_session(recording.root) == []
    assert kept(recording.root) == [True, True, False, False]
    assert [entry["command"] for entry in lr.Session(recording.root).provenance] == [["0"], ["1"], ["2"], ["3"]]


@pytest.mark.usefixtures("little")
def test_so_do_sessions_that_are_made_of_others(tmp_path: Path) -> None:
    roots = []
    for name in "abcd":
        recording = recording_of(tmp_path / name, Large(name))
        recording.keep(2)
        roots.append(recording.close())
    made = lr.merge(roots, tmp_path / NAME).path
    assert kept(made) == [True, True, False, False]
    assert check_session(made) == []


def test_the_largest_go_first_and_what_is_too_much_without_them_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_SMALL", 0)
    entries = [{"episodes": "0:1", "env": {"text": "x" * size}} for size in (10, 900, 20)]
    assert fitting(entries) is entries
    monkeypatch.setattr(limits, "LARGEST_JSON", 900)
    assert [bool(entry["env"]) for entry in fitting(entries)] == [True, False, True]
    monkeypatch.setattr(limits, "LARGEST_JSON", 100)
    with pytest.raises(lr.FormatError, match="more than is read"):
        fitting(entries)


def test_what_cannot_be_written_of_it_costs_no_episode(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr(room, "_SMALL", 0)
    monkeypatch.setattr(limits, "MOST_JSON_BYTES", 100)
    recording = recording_of(tmp_path / NAME, Said("a" * 1000))
    recording.keep(2)
    root = recording.close()
    assert "where the session comes from is not noted" in caplog.text
    assert not (root / "meta/provenance.json").exists()
