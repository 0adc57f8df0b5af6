from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_recorder.episode import limits
from lucky_recorder.errors import FormatError
from lucky_recorder.storage.untrusted import Folder, expand

DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"


def test_templates_are_filled_in() -> None:
    assert expand(DATA, chunk_index=1, file_index=45) == "data/chunk-001/file-045.parquet"
    assert expand("{video_key}/{file_index}", video_key="a.b", file_index=7) == "a.b/7"


def test_a_value_is_not_filled_in_again() -> None:
    with pytest.raises(FormatError):
        expand("{video_key}", video_key="{file_index:09d}", file_index=1)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_numbers_are_padded_as_str_format_does(chunk: int, file: int) -> None:
    assert expand(DATA, chunk_index=chunk, file_index=file) == DATA.format(chunk_index=chunk, file_index=file)


@given(st.text(alphabet="{}chunk_index:03d!.[]", max_size=40))
def test_any_template_is_filled_in_or_refused(template: str) -> None:
    try:
        filled = expand(template, chunk_index=1)
    except FormatError:
        return
    assert "{" not in filled
    assert len(filled) <= len(template) + 9


@pytest.mark.parametrize("value", ["../x", "/etc/x", "a/b", "a\\b", "..", "", "x\0", "x\n"])
def test_a_value_is_one_part_of_a_path(value: str) -> None:
    with pytest.raises(FormatError, match="is no name of a file"):
        expand("videos/{video_key}/x.mp4", video_key=value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": ' + "[" * 65 + "]" * 65 + "}", "more than 64 deep"),
        ('{"a": ' * 100 + "1" + "}" * 100, "more than 64 deep"),
        ("[" * 100_000, "RecursionError"),
        ('{"a": "\\ud800"}', "surrogates"),
        ('{"a": 1e999}', "is too large for a number"),
        ('{"a": NaN}', "NaN is no JSON"),
        ("[1]", "holds a list, not a JSON object"),
        ("7", "holds a int, not a JSON object"),
        ("9" * 5000, "Exceeds the limit"),
        ('{"a": "\xff"}', "codec can't decode"),
    ],
    ids=[
        "lists",
        "objects",
        "brackets",
        "half a character",
        "infinite",
        "NaN",
        "a list",
        "a number",
        "digits",
        "bytes",
    ],
)
def test_json_that_is_none_or_absurd(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(FormatError, match=rf"x\.json: .*{message}"):
        Folder(tmp_path).json("x.json")


def test_json_that_is_deep_but_not_too_deep(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": ' + "[" * 63 + "]" * 63 + "}")
    assert Folder(tmp_path).json("x.json").keys() == {"a"}


@pytest.mark.parametrize("unit", ["[],", "{},", '{"a":1},', "1,", '"ab",'])
def test_json_that_becomes_many_times_its_size(tmp_path: Path, unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_JSON_BYTES", limits.MEGABYTE)
    for count, is_read in ((1_000, True), (40_000, False)):
        (tmp_path / "x.json").write_text('{"a": [' + (unit * count)[:-1] + "]}")
        if is_read:
            assert len(Folder(tmp_path).json("x.json")["a"]) == count
        else:
            with pytest.raises(FormatError, match=r"bytes of JSON that become \d+ MB in memory"):
                Folder(tmp_path).json("x.json")


def test_a_file_that_is_larger_than_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LARGEST_JSON", 10)
    (tmp_path / "x.json").write_text('{"a": "long"}')
    with pytest.raises(FormatError, match="holds more than 10 bytes"):
        Folder(tmp_path).json("x.json")


@pytest.mark.parametrize("read", [Folder.json, Folder.table, Folder.file, lambda f, n: f.bytes(n, 10)])
def test_nobody_waits_for_a_pipe(tmp_path: Path, read: object) -> None:
    os.mkfifo(tmp_path / "x.json")
    with pytest.raises(FormatError, match=r"x\.json: is no file"):
        read(Folder(tmp_path), "x.json")  # type: ignore[operator]


def test_files_behind_links_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / "out/deep").mkdir(parents=True)
    (tmp_path / "out/deep/file").touch()
    (tmp_path / "in/videos").mkdir(parents=True)
    (tmp_path / "in/videos/loop").symlink_to(".")
    (tmp_path / "in/videos/x").symlink_to(tmp_path / "out")
    assert Folder(tmp_path / "in").files("videos") == ["videos/loop", "videos/x"]
    assert Folder(tmp_path / "in").files("data") == []
    (tmp_path / "in/data").symlink_to(tmp_path / "out")
    with pytest.raises(FormatError, match="lies outside the session folder"):
        Folder(tmp_path / "in").files("data")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into everything")
def test_a_folder_that_may_not_be_looked_into_is_no_empty_one(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0)
    with pytest.raises(FormatError, match="Permission denied"):
        Folder(tmp_path).files("data")


@pytest.mark.skipif(os.name == "nt", reason="Windows has fewer names")
def test_a_file_that_is_there_is_one_whatever_its_name(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "here")
    for name in ("a\\b.json", "line\nbreak", os.fsdecode(b"\xff"), "x" * 255, "in\n/tab\t"):
        with pytest.raises(FormatError, match="lies outside the session folder"):
            folder.file(name)
        (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.path / name).write_bytes(b"{}")
        assert folder.bytes(name, 2) == b"{}"
        assert name in folder.files()


def test_what_leads_out_is_no_file_of_the_folder_though_it_is_there(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "here")
    (folder.path / "a\n").mkdir(parents=True)
    (tmp_path / "secret").touch()
    (folder.path / "a\n/link").symlink_to(tmp_path / "secret")
    for name in ("../secret", "a\n/../../secret", str(tmp_path / "secret"), "a\n/link", "a\n//link", ""):
        with pytest.raises(FormatError, match=r"lies outside|is no file"):
            folder.file(name)
