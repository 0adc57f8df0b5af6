"""``meta/provenance.json``: what it says of which episode, read back, put together, and completed after a crash."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lucky_recorder as lr
from lucky_recorder.edit.checksum import checksum
from lucky_recorder.session import layout, provenance
from lucky_recorder.session.check import check_session
from lucky_recorder.session.layout import Chunking, is_own_file, is_own_folder
from lucky_recorder.session.log import Combined, Model, Recorded
from lucky_recorder.session.provenance import combined, of_episode, spans, text_of
from lucky_recorder.session.sink import SessionSink
from lucky_recorder.storage.untrusted import Folder
from tests.session.building import Recording, arm_schema

PROVENANCE = "meta/provenance.json"
NAME = "session_2026-10-08_14-30-05"


class Said:
    """The origin of a recording that says what it is told to."""

    def __init__(self, name: str = "a", model: bytes | None = b"model") -> None:
        self.name = name
        self.asked = 0
        self.seeds: list[str | None] = []
        self._model = model

    def told(self) -> dict[str, Any]:
        self.asked += 1
        return {"command": [self.name]}

    def model(self) -> Model | None:
        return None if self._model is None else Model(self._model, ".mjb", True)

    def other_models(self) -> int:
        return 2

    def discarded(self) -> Sequence[str | None]:
        return self.seeds


def recording_of(root: Path, origin: Said, per_file: int = 1) -> Recording:
    """A recording with an origin; it is open."""
    recording = Recording(root, arm_schema(), 40, per_file, metadata_every=2)
    recording.sink._lock.release()
    recording.sink = SessionSink(root, Chunking(40, per_file), 2, log=Recorded(origin))
    recording.sink.open(recording.schema, recording.tasks)
    return recording


def go_on(recording: Recording, origin: Said, per_file: int = 1) -> None:
    recording.sink = SessionSink(recording.root, Chunking(40, per_file), 2, resumes=True, log=Recorded(origin))
    recording.sink.open(recording.schema, recording.tasks)


def content(root: Path) -> Any:
    return json.loads((root / PROVENANCE).read_text())["recordings"]


@pytest.mark.parametrize("per_file", [1, 3])
def test_it_names_the_episodes_of_each_recording(tmp_path: Path, per_file: int) -> None:
    first, second = Said("a"), Said("b")
    recording = recording_of(tmp_path / NAME, first, per_file)
    for ticks in (2, 3, 4):
        recording.keep(ticks)
        first.seeds.append(str(ticks))
    root = recording.close()
    (entry,) = content(root)
    model = {"sha256": "9372c470eeadd5ecd9c3c74c2b3cb633f8e2f2fad799250a0f70d652b6b825e4", "bytes": 5, "others": 2}
    file = layout.model_file(model["sha256"], ".mjb")  # type: ignore[arg-type]
    assert entry["model"] == {**model, "file": file}
    assert (root / file).read_bytes() == b"model"
    assert (entry["episodes"], entry["command"], entry["discarded_seeds"]) == ("0:3", ["a"], ["2", "3", "4"])
    go_on(recording, second, per_file)
    recording.keep(2)
    recording.close()
    assert [(e["episodes"], e["command"]) for e in content(root)] == [("0:3", ["a"]), ("3:4", ["b"])]
    assert (first.asked, second.asked) == (1, 1)
    assert check_session(root) == []
    session = lr.Session(root)
    assert [of_episode(session.provenance, n)["command"] for n in range(4)] == [["a"], ["a"], ["a"], ["b"]]  # type: ignore[index]
    assert of_episode(session.provenance, 4) is None


@pytest.mark.parametrize("is_resumed", [False, True], ids=["new", "gone on with"])
def test_it_is_there_before_the_first_episode_has_its_name(tmp_path: Path, is_resumed: bool) -> None:
    """So that after a crash it is known of which recording the episodes are that ``meta/`` does not list."""
    recording = recording_of(tmp_path / NAME, Said("a"))
    before = 0
    if is_resumed:
        recording.keep(3)
        recording.close()
        go_on(recording, Said("b"))
        before = 1
    recording.sink.prepare(recording.record(2))
    assert content(recording.root)[-1]["episodes"] == f"{before}:{before}"
    assert not is_resumed or content(recording.root)[0]["episodes"] == "0:1"
    recording.sink._lock.release()


@pytest.mark.parametrize("per_file", [1, 3])
@pytest.mark.parametrize("is_resumed", [False, True], ids=["new", "gone on with"])
@pytest.mark.parametrize("episodes", [1, 2, 4, 5])
def test_recover_counts_what_was_not_listed_as_the_last_recordings(
    tmp_path: Path, per_file: int, is_resumed: bool, episodes: int
) -> None:
    recording = recording_of(tmp_path / NAME, Said("a"), per_file)
    before = 0
    if is_resumed:
        recording.keep(3)
        recording.close()
        go_on(recording, Said("b"), per_file)
        before = 1
    for _ in range(episodes):
        recording.keep(2)
    recording.sink._lock.release()
    (done,) = lr.recover(recording.root)
    assert done.set_aside == ()
    assert check_session(recording.root) == []
    assert content(recording.root)[-1]["episodes"] == f"{before}:{before + episodes}"
    assert len(content(recording.root)) == 1 + is_resumed
    (again,) = lr.recover(recording.root)
    assert again.verdict == "complete"


def test_sums_and_names_know_these_files(tmp_path: Path) -> None:
    recording = recording_of(tmp_path / NAME, Said())
    recording.keep(2)
    root = recording.close()
    (model,) = (root / "meta/models").iterdir()
    names = (PROVENANCE, f"meta/models/{model.name}")
    for name in names:
        assert is_own_file(name)
        assert is_own_file(f"{name}.tmp")
    assert is_own_folder("meta/models")
    assert not is_own_file("meta/models/mine.mjb")
    checksum(root)
    listed = {one["path"] for one in json.loads((root / "meta/checksums.json").read_text())["files"]}
    assert set(names) <= listed
    model.write_bytes(b"mode1")
    messages = [f.message for f in check_session(root) if f.file == names[1]]
    assert any("another model than its name says" in m for m in messages)
    assert any("holds other bytes" in m for m in messages)


def test_a_file_that_cannot_be_read_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recording = recording_of(tmp_path / NAME, Said())
    recording.keep(2)
    root = recording.close()
    (root / PROVENANCE).write_text('{"recordings": 3}')
    go_on(recording, Said())
    recording.keep(2)
    recording.close()
    assert (root / PROVENANCE).read_text() == '{"recordings": 3}'
    assert "where the session comes from is not noted" in caplog.text
    assert len(lr.Session(root)) == 2
    with pytest.raises(lr.FormatError, match=r"provenance\.json: recordings=3: expected a list"):
        lr.Session(root).provenance  # noqa: B018


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    recording = recording_of(tmp_path / NAME, Said("a", None))
    recording.keep(2)
    root = recording.close()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / "meta/models").symlink_to(elsewhere)
    with pytest.raises(lr.FormatError, match="is a link to a folder"):
        go_on(recording, Said("b"))
    recording.sink._lock.release()
    log = Recorded(Said("b"))
    log.begin(root, 1)
    log.write(2)
    assert list(elsewhere.iterdir()) == []


# Ranges.


@given(st.sets(st.integers(0, 60)))
def test_ranges_are_read_as_they_are_written(episodes: set[int]) -> None:
    found = spans(text_of(episodes))
    assert found is not None
    assert [n for span in found for n in span] == sorted(episodes)


@pytest.mark.parametrize("text", ["3", "2:1", "0:2,1:3", "a:b", "0:3,", "-1:2", 5, None, "0:" + "9" * 10])
def test_what_is_no_range_is_none(text: Any) -> None:
    assert spans(text) is None


# Put together.


def test_recordings_of_several_sessions_are_put_together_in_new_numbers() -> None:
    one = [{"episodes": "0:2", "command": ["a"]}, {"episodes": "2:5", "command": ["b"]}]
    other = [{"episodes": "0:3", "command": ["c"]}]
    kept = [(one, {0: 0, 3: 1}), (other, {0: 2, 2: 3}), (one, {4: 4, 1: 5}), ([], {0: 6})]
    assert combined(kept) == {
        "recordings": [
            {"episodes": "0:1,5:6", "command": ["a"]},
            {"episodes": "1:2,4:5", "command": ["b"]},
            {"episodes": "2:4", "command": ["c"]},
            {"episodes": "6:7"},
        ]
    }
    assert combined([(one, {4: 0})])["recordings"] == [{"episodes": "0:1", "command": ["b"]}]


def test_seeds_of_a_recording_that_goes_are_left_out() -> None:
    """Also of one that has kept nothing: all of these were tried."""
    one = [
        {"episodes": "0:2", "discarded_seeds": ["5"]},
        {"episodes": "2:3", "discarded_seeds": ["7", None], "left_out_seeds": ["6"]},
        {"episodes": "3:3", "discarded_seeds": ["9"]},
    ]
    other = [{"episodes": "0:1", "discarded_seeds": ["4"]}]
    found = combined([(one, {0: 0}), (other, {0: 1}), (one, {1: 2})])["recordings"]
    assert [(e["episodes"], e["discarded_seeds"], e.get("left_out_seeds")) for e in found] == [
        ("0:1,2:3", ["5"], None),
        ("1:2", ["4"], ["7", None, "6", "9"]),
    ]
    # What several have recorded as one is told by those who have made the attempts.
    assert "left_out_seeds" not in provenance.as_one({"recordings": [found[1]]}, 3, ["4"])["recordings"][0]


def test_a_session_of_others_has_their_models(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    roots = []
    for number, name in enumerate("ab"):
        recording = recording_of(tmp_path / name, Said(name, name.encode()))
        recording.keep(2 + number)
        roots.append(recording.close())
    entries = [provenance.read(lr.Session(root)._files) for root in roots]
    made = Recording(tmp_path / NAME, arm_schema(), metadata_every=1)
    made.sink._lock.release()
    log = Combined(combined([(entries[0], {0: 0}), (entries[1], {0: 1})]), roots)
    made.sink = SessionSink(made.root, Chunking(40), 1, log=log)
    made.sink.open(made.schema, made.tasks)
    made.keep(2)
    made.keep(3)
    made.close()
    assert check_session(made.root) == []
    assert [(e["episodes"], e["command"]) for e in content(made.root)] == [("0:1", ["a"]), ("1:2", ["b"])]
    assert sorted(p.read_bytes() for p in (made.root / "meta/models").iterdir()) == [b"a", b"b"]
    assert caplog.text == ""


# A recording that says nothing, and what an unfinished session says.


def go_on_without(recording: Recording) -> None:
    recording.sink = SessionSink(recording.root, Chunking(40), 2, resumes=True)
    recording.sink.open(recording.schema, recording.tasks)


@pytest.mark.parametrize("episodes", [1, 2, 3])
@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
def test_episodes_of_a_recording_that_says_nothing_are_nobody_elses(
    tmp_path: Path, episodes: int, is_killed: bool
) -> None:
    recording = recording_of(tmp_path / NAME, Said("a"))
    recording.keep(2)
    recording.close()
    go_on_without(recording)
    for _ in range(episodes):
        recording.keep(2)
    if is_killed:
        recording.sink._lock.release()
        lr.recover(recording.root)
    else:
        recording.close()
    assert check_session(recording.root) == []
    assert [e["episodes"] for e in content(recording.root)] == ["0:1", f"1:{1 + episodes}"]
    session = lr.Session(recording.root)
    assert of_episode(session.provenance, 1) == {"episodes": f"1:{1 + episodes}"}
    go_on(recording, Said("c"))
    recording.keep(2)
    recording.close()
    assert content(recording.root)[-1]["command"] == ["c"]
    assert check_session(recording.root) == []


def test_where_nobody_says_anything_nothing_is_written(tmp_path: Path) -> None:
    recording = Recording(tmp_path / NAME, arm_schema())
    recording.keep(2)
    recording.close()
    go_on_without(recording)
    recording.keep(2)
    assert not (recording.close() / PROVENANCE).exists()


@pytest.mark.parametrize(
    ("said", "listed", "episodes", "expected"),
    [
        (["0:3", "3:3"], 3, 5, ["0:3", "3:5"]),
        (["0:3", "3:5"], 3, 4, ["0:3", "3:4"]),
        (["0:3", "3:5", "5:6"], 2, 2, ["0:2"]),
        (["0:1,4:6", "1:4"], 2, 3, ["0:1", "1:3"]),
        (["0:2"], 3, 5, ["0:2"]),
        (["0:3", ""], 3, 5, ["0:3", ""]),
    ],
)
def test_whose_the_episodes_are_of_a_session_that_was_cut_short(
    said: list[str], listed: int, episodes: int, expected: list[str]
) -> None:
    found = provenance.settled([{"episodes": one} for one in said], listed, episodes)
    assert [entry["episodes"] for entry in found] == expected


@pytest.mark.parametrize("how", ["missing", "spoilt"])
def test_a_model_that_is_lost_loses_no_more_than_itself(tmp_path: Path, how: str) -> None:
    roots = []
    for name in "ab":
        recording = recording_of(tmp_path / name, Said(name, name.encode()))
        recording.keep(2)
        roots.append(recording.close())
    (model,) = (roots[0] / "meta/models").iterdir()
    model.unlink()
    if how == "spoilt":
        model.write_bytes(b"other")
    with pytest.warns(RuntimeWarning, match=f"{model.name}.*the new session has its sum, and not the model itself"):
        made = lr.merge(roots, tmp_path / NAME).path
    assert check_session(made) == []
    first, second = content(made)
    assert (first["command"], first["model"]["file"], first["model"]["sha256"]) == (["a"], None, model.stem)
    assert (made / second["model"]["file"]).read_bytes() == b"b"


def test_what_is_merged_of_a_session_that_was_cut_short_is_its_recordings(tmp_path: Path) -> None:
    recording = recording_of(tmp_path / "a", Said("a"))
    for _ in range(3):
        recording.keep(2)
    recording.sink._lock.release()
    other = Recording(tmp_path / "b", arm_schema())
    other.keep(2)
    other.close()
    made = lr.merge([other.root, recording.root], tmp_path / NAME).path
    assert [(e["episodes"], e.get("command")) for e in content(made)] == [("0:1", None), ("1:4", ["a"])]
    assert check_session(made) == []


@pytest.mark.parametrize("name", ["discarded_seeds", "left_out_seeds"])
@pytest.mark.parametrize("said", [5, None, "abc", ["1", 2]], ids=repr)
def test_seeds_that_are_no_list_of_texts_are_an_error_of_the_file(tmp_path: Path, name: str, said: Any) -> None:
    (tmp_path / "meta").mkdir()
    (tmp_path / PROVENANCE).write_text(json.dumps({"recordings": [{"episodes": "0:1", name: said}]}))
    with pytest.raises(lr.FormatError, match=rf"provenance\.json: recordings\[0\] {name}=.*: expected a list of texts"):
        provenance.read(Folder(tmp_path))
