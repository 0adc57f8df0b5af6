"""Lists of sums: what they say, what they find, and what a stranger's list cannot do."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lucky_recorder.episode import limits
from lucky_recorder.errors import FormatError, StateError, StorageError
from lucky_recorder.storage import checksums
from lucky_recorder.storage.checksums import Sums, drop
from lucky_recorder.storage.spread import Progress
from lucky_recorder.storage.untrusted import Folder

LIST = "meta/checksums.json"
FILES = {"b.bin": b"bytes", "a/deep/one.txt": b"", "meta/info.json": b"{}", "B.bin": b"\0" * 100_000}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / "here" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "here" / name).write_bytes(content)
    return tmp_path / "here"


def sums(folder: Path) -> Sums:
    return Sums(Folder(folder), LIST)


def differences(folder: Path) -> dict[str, str]:
    return dict(sums(folder).differences())


def test_the_list_is_that_of_any_other_tool_in_the_order_of_the_names(folder: Path) -> None:
    written = sums(folder).write()
    assert list(written) == sorted(FILES)
    said = json.loads((folder / LIST).read_text())
    assert {key: said[key] for key in ("version", "algorithm")} == {"version": 1, "algorithm": "sha256"}
    assert said["files"] == [
        {"path": name, "bytes": len(FILES[name]), "sha256": hashlib.sha256(FILES[name]).hexdigest()}
        for name in sorted(FILES)
    ]
    assert sums(folder).read() == written
    assert differences(folder) == {}


def test_written_twice_it_is_the_same_to_the_byte(folder: Path) -> None:
    sums(folder).write()
    first = (folder / LIST).read_bytes()
    sums(folder).write()
    assert (folder / LIST).read_bytes() == first
    assert [p.name for p in (folder / "meta").iterdir() if "tmp" in p.name] == []


def test_each_kind_of_difference_names_its_file_and_a_remedy(folder: Path) -> None:
    sums(folder).write()
    (folder / "b.bin").write_bytes(b"bytez")
    (folder / "B.bin").write_bytes(b"")
    (folder / "meta/info.json").unlink()
    (folder / "more").touch()
    found = differences(folder)
    assert sorted(found) == ["B.bin", "b.bin", "meta/info.json", "more"]
    assert found["b.bin"].startswith(f"holds other bytes than {LIST} says (its sha256 differs): bring it back")
    assert found["B.bin"].startswith(f"holds 0 bytes, {LIST} says 100000: bring it back from a copy")
    assert found["meta/info.json"] == f"is missing, and {LIST} lists it; bring it back from a copy"
    assert found["more"].startswith(f"{LIST} does not list it: it came after the sums were taken; remove it, or")
    assert all("checksum" in message for message in found.values())


@pytest.mark.parametrize("name", [name for name, content in FILES.items() if content])
def test_any_flipped_bit_is_found(folder: Path, name: str) -> None:
    sums(folder).write()
    content, draw = FILES[name], random.Random(name)
    for at in {0, len(content) // 2, len(content) - 1, draw.randrange(len(content))}:
        spoiled = bytearray(content)
        spoiled[at] ^= 1 << draw.randrange(8)
        (folder / name).write_bytes(spoiled)
        assert list(differences(folder)) == [name]


def test_what_is_left_out_is_neither_summed_nor_missed(folder: Path) -> None:
    left_out = Sums(Folder(folder), LIST, ("b.bin",))
    assert "b.bin" not in left_out.write()
    (folder / "b.bin").unlink()
    assert list(left_out.differences()) == []


def test_a_file_that_changes_meanwhile_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = checksums.digest

    def change(where: Folder, name: str) -> Any:
        with (folder / "b.bin").open("ab") as file:
            file.write(b"!")
        return original(where, name)

    monkeypatch.setattr(checksums, "digest", change)
    with pytest.raises(StateError, match="was changed while its sums were taken"):
        sums(folder).write()
    assert not (folder / LIST).exists()


def test_more_files_than_can_be_read_again_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LARGEST_JSON", 100)
    with pytest.raises(StorageError, match="4 files are more than one list"):
        sums(folder).write()
    assert not (folder / LIST).exists()


def test_progress_ends_at_all_bytes(folder: Path) -> None:
    told: list[tuple[int, int]] = []
    size = sum(map(len, FILES.values()))
    sums(folder).write(Progress(lambda *at: told.append(at)))
    assert told[-1] == (size, size)
    assert sums(folder).expected_bytes() == size
    told.clear()
    assert list(sums(folder).differences(Progress(lambda *at: told.append(at)))) == []
    assert told[-1][0] == size


# Links, pipes, devices.


def test_links_that_stay_inside_are_summed_and_others_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "inside").symlink_to("b.bin")
    assert sums(folder).write()["inside"] == sums(folder).read()["b.bin"]
    (tmp_path / "secret").write_bytes(b"bytes")
    (folder / "inside").unlink()
    (folder / "inside").symlink_to(tmp_path / "secret")
    assert differences(folder) == {"inside": "lies outside the session folder"}
    with pytest.raises(FormatError, match="inside: lies outside the session folder"):
        sums(folder).write()


def test_pipes_and_linked_folders_are_no_files(folder: Path) -> None:
    sums(folder).write()
    (folder / "b.bin").unlink()
    os.mkfifo(folder / "b.bin")
    assert differences(folder) == {"b.bin": "is no file"}
    with pytest.raises(FormatError, match=r"b\.bin: is no file"):
        sums(folder).write()
    (folder / "b.bin").unlink()
    (folder / "b.bin").symlink_to("a")
    assert differences(folder) == {"b.bin": "is no file"}


def test_a_list_is_never_written_through_a_link(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim.json"
    victim.write_text("mine")
    for link in (folder / LIST, folder / (LIST + ".tmp")):
        link.symlink_to(victim)
        if link == folder / LIST:
            assert differences(folder) == {LIST: "lies outside the session folder; remove the link"}
        try:
            sums(folder).write()
        except FormatError as error:
            assert "is a link" in str(error)  # noqa: PT017
            assert str(error).endswith("; remove the link")  # noqa: PT017
        assert victim.read_text() == "mine"
        link.unlink(missing_ok=True)


def test_nothing_is_written_or_read_behind_a_linked_folder(folder: Path, tmp_path: Path) -> None:
    sums(folder).write()
    (folder / "meta").rename(tmp_path / "elsewhere")
    (folder / "meta").symlink_to(tmp_path / "elsewhere")
    before = {p: p.read_bytes() for p in (tmp_path / "elsewhere").iterdir()}
    with pytest.raises(FormatError, match="meta: lies outside"):
        sums(folder).write()
    assert differences(folder) == {LIST: "lies outside the session folder"}
    assert {p: p.read_bytes() for p in (tmp_path / "elsewhere").iterdir()} == before


# Names of people's own files.

NAMES = [
    *(
        b"a b.txt",
        b"x:y",
        "größe.txt".encode(),
        b"a\\b.txt",
        b"name.",
        b"con.txt",
        b".hidden",
        b" lead",
        b"..x",
        b"-rf",
    ),
    *(b"tab\t", b"line\nbreak", b"\x1b[31mred", b"\x7f", "\u2028\u202e".encode(), b"\xff.bin", b"half \xed\xa0\x80"),
    *(b"x" * 255, "ü".encode() * 127, b"\xfe/\xff", b"deep\n/b\\c/d.txt", b"path_hex", b"6161"),
]


@pytest.mark.skipif(os.name == "nt", reason="Windows has fewer names")
def test_a_file_is_summed_whatever_its_name(folder: Path) -> None:
    for name in NAMES:
        path = os.path.join(os.fsencode(folder), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(os.fsdecode(path)).write_bytes(name)
    written = sums(folder).write()
    assert {os.fsencode(name) for name in written} == {*NAMES, *(name.encode() for name in FILES)}
    assert sums(folder).read() == written
    for name in NAMES:
        assert written[os.fsdecode(name)] == (len(name), hashlib.sha256(name).hexdigest())
    assert differences(folder) == {}
    said = json.loads((folder / LIST).read_text(encoding="utf-8"))["files"]
    assert {bytes.fromhex(one["path_hex"]) for one in said if "path_hex" in one} == {
        name for name in NAMES if b"\xff" in name or b"\xed" in name
    }


@pytest.mark.skipif(os.name == "nt", reason="Windows has fewer names")
@pytest.mark.parametrize("name", NAMES)
def test_each_kind_of_difference_of_a_file_whatever_its_name(folder: Path, name: bytes) -> None:
    sums(folder).write()
    path = Path(os.fsdecode(os.path.join(os.fsencode(folder), name)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"one")
    called = os.fsdecode(name)
    assert differences(folder)[called].startswith(f"{LIST} does not list it")
    # As it tells: that is what helps.
    sums(folder).write()
    assert differences(folder) == {}
    path.write_bytes(b"two")
    assert "holds other bytes" in differences(folder)[called]
    path.unlink()
    assert "is missing" in differences(folder)[called]


def test_what_is_no_file_and_came_later_is_to_be_removed(folder: Path) -> None:
    sums(folder).write()
    os.mkfifo(folder / "line\nbreak")
    (folder / "link").symlink_to("/etc/hostname")
    assert differences(folder) == {
        "line\nbreak": f"is no file, and {LIST} does not list it; remove it",
        "link": f"lies outside the session folder, and {LIST} does not list it; remove it",
    }
    with pytest.raises(FormatError, match=r"is no file; take it away first"):
        sums(folder).write()


# Lists of strangers.

GOOD = {"path": "b.bin", "bytes": 5, "sha256": hashlib.sha256(b"bytes").hexdigest()}
HOSTILE: dict[str, Any] = {
    "a path that climbs": [GOOD | {"path": "../../etc/passwd"}],
    "an absolute path": [GOOD | {"path": "/etc/passwd"}],
    "a path that climbs in the midst": [GOOD | {"path": "a/../../b"}],
    "a path with a null": [GOOD | {"path": "a\0b"}],
    "another spelling with a slash": [GOOD | {"path": "a/"}],
    "bytes that climb": [{k: v for k, v in GOOD.items() if k != "path"} | {"path_hex": b"../../\xff".hex()}],
    "bytes from the root": [{k: v for k, v in GOOD.items() if k != "path"} | {"path_hex": b"/\xff".hex()}],
    "bytes with a null": [{k: v for k, v in GOOD.items() if k != "path"} | {"path_hex": b"\xff\0".hex()}],
    "bytes that are text": [{k: v for k, v in GOOD.items() if k != "path"} | {"path_hex": b"b.bin".hex()}],
    "bytes that are no digits": [{k: v for k, v in GOOD.items() if k != "path"} | {"path_hex": "xy"}],
    "bytes in another spelling": [{k: v for k, v in GOOD.items() if k != "path"} | {"path_hex": "FF"}],
    "bytes that are a number": [{k: v for k, v in GOOD.items() if k != "path"} | {"path_hex": 3}],
    "bytes and text": [GOOD | {"path_hex": "ff"}],
    "the folder itself": [GOOD | {"path": "."}],
    "no path": [GOOD | {"path": ""}],
    "another spelling": [GOOD | {"path": "a//deep/one.txt"}],
    "another spelling with a dot": [GOOD | {"path": "./b.bin"}],
    "itself": [GOOD | {"path": LIST}],
    "twice": [GOOD, GOOD],
    "half a character": [GOOD | {"path": "\ud800"}],
    "a path that is a number": [GOOD | {"path": 3}],
    "a size below nothing": [GOOD | {"bytes": -1}],
    "a size without end": [GOOD | {"bytes": 10**400}],
    "a size that is true": [GOOD | {"bytes": True}],
    "a size with a fraction": [GOOD | {"bytes": 5.0}],
    "a short sum": [GOOD | {"sha256": "ab"}],
    "a sum that is none": [GOOD | {"sha256": None}],
    "no sum": [{"path": "b.bin", "bytes": 5}],
    "no object": ["b.bin"],
    "an object of files": {"b.bin": GOOD},
    "nothing": None,
}


@pytest.mark.parametrize("files", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_strangers_list_is_one_difference(folder: Path, files: Any) -> None:
    content = {"version": 1, "algorithm": "sha256", "files": files}
    (folder / LIST).write_text(json.dumps(content))
    assert list(differences(folder)) == [LIST]
    assert sums(folder).expected_bytes() == 0
    with pytest.raises(FormatError, match=LIST):
        sums(folder).read()


def replaced_by_pipe(path: Path) -> None:
    os.mkfifo(path)


def replaced_by_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def replaced_by_folder(path: Path) -> None:
    path.mkdir()


def of_size(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(limits.LARGEST_JSON + 1)


SPOILED: dict[str, Callable[[Path], None]] = {
    "a pipe": replaced_by_pipe,
    "a device": replaced_by_link,
    "a folder": replaced_by_folder,
    "a huge file": of_size,
    "a list of lists": lambda path: path.write_text("[" * 100_000),  # type: ignore[dict-item]
    "another version": lambda path: path.write_text('{"version": 2, "algorithm": "sha256", "files": []}'),  # type: ignore[dict-item]
    "a version that is true": lambda path: path.write_text('{"version": true, "algorithm": "sha256", "files": []}'),  # type: ignore[dict-item]
    "another algorithm": lambda path: path.write_text('{"version": 1, "algorithm": "md5", "files": []}'),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED.keys())
def test_what_is_no_list_is_one_difference(folder: Path, spoil: Callable[[Path], None]) -> None:
    spoil(folder / LIST)
    assert sums(folder).is_there()
    assert LIST in differences(folder)
    with pytest.raises(FormatError, match=LIST):
        sums(folder).read()


def test_a_listed_size_is_not_believed_and_a_file_of_another_is_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums(folder).write()
    for name in FILES:
        with (folder / name).open("ab") as file:
            file.truncate(1 << 40)  # a terabyte that is not there
    monkeypatch.setattr(checksums, "digest", lambda *_: pytest.fail("read a file of another size"))
    assert set(differences(folder)) == set(FILES)


# Dropping.


def test_a_list_is_dropped_with_a_word(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    drop(folder, LIST)
    assert caplog.records == []
    sums(folder).write()
    with caplog.at_level(logging.WARNING, "lucky_recorder"):
        drop(folder, LIST)
    assert not (folder / LIST).exists()
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{folder / LIST}: removed: the files it lists are about to change")


def test_a_list_behind_a_link_is_not_dropped(folder: Path, tmp_path: Path) -> None:
    sums(folder).write()
    (folder / "meta").rename(tmp_path / "elsewhere")
    (folder / "meta").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FormatError, match=r"meta: is a link.*; put the folder itself in its place"):
        drop(folder, LIST)
    assert (tmp_path / "elsewhere/checksums.json").exists()
