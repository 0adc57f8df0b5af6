from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_recorder.errors import FormatError
from lucky_recorder.storage.names import below, owned, part

HOSTILE = [
    *(
        "",
        ".",
        "..",
        "/",
        "a/b",
        "../x",
        "../../x",
        "/home/you/x",
        "a/../../x",
        "a\\b",
        "..\\x",
        "x\0y",
        "x\ny",
        "\x1b[2J",
    ),
    *("\ud800", "\u2028", "x\x7f", "x" * 201, "ü" * 150, None, 7, ["x"], b"x"),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_part_of_a_path_is_refused(name: object) -> None:
    with pytest.raises(FormatError, match="is no name of a file; it may lead outside the folder"):
        part(name)


@pytest.mark.parametrize(
    "name", ["observation.images.Front", "Kamera vorne", "左手", "a:b", "-rf", "..x", "x..", "x" * 200]
)
def test_any_other_name_stays_as_it_is(name: str) -> None:
    assert part(name) == name


@given(st.text(max_size=12, alphabet=st.sampled_from("./\\ab\0\n~ü")))
def test_nothing_leads_out_of_the_folder(name: str) -> None:
    root = Path("/data/session")
    try:
        path = below(root, f"videos/{part(name)}/file.mp4")
    except FormatError:
        return
    assert Path(*path.parts[:3]) == root
    assert len(path.parts) == 6
    assert ".." not in path.parts


@pytest.mark.parametrize("relative", ["../x", "/etc/passwd", "a/../../x", "a/\0", "a\\b/c"])
def test_a_path_within_a_folder_stays_within_it(relative: str) -> None:
    with pytest.raises(FormatError, match="lies outside the folder"):
        below(Path("/data"), relative)


@pytest.mark.parametrize("linked", ["overlays", "overlays/x"])
def test_nothing_is_written_behind_a_link(tmp_path: Path, linked: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    root = tmp_path / "dataset"
    (root / linked).parent.mkdir(parents=True)
    (root / linked).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FormatError, match="is a link: what is written there would land elsewhere"):
        owned(root, "overlays/x")


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert owned(tmp_path / "link", "episodes") == tmp_path / "link" / "episodes"
