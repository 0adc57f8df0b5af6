from __future__ import annotations

from benchmarks.page import PAGE, filled


def test_the_page_says_what_the_files_say() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page, "run: python benchmarks/page.py"
    assert " | met |" in page
    assert "| lucky_recorder | " in page
