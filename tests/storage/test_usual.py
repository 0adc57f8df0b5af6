"""What is matched as a whole is what a parser reads: never anything that it would refuse, nor read otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lucky_recorder.storage import footer, pages, usual
from lucky_recorder.storage.footer import refuse_unsound
from lucky_recorder.storage.usual import Chunk, Leaf

NEVER = 10**9


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Columns of every kind, with and without gaps, of one page and of several."""
    rows = 40
    lists = pa.array([[1.0, 2.0]] * rows, pa.list_(pa.float64()))
    columns = {
        "n": pa.array(range(rows)),
        "x": pa.array([None, 2.5] * (rows // 2)),
        "b": pa.array([True, False] * (rows // 2)),
        "u": pa.array([7] * rows, pa.uint8()),
        "text": pa.array(["a", None] * (rows // 2)),
        "vector": lists,
        "nothing": pa.array([None] * rows, pa.int32()),
    }
    path = tmp_path_factory.mktemp("usual") / "x.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=15, use_dictionary=["n"], write_page_checksum=True)
    return path


def parts(path: Path) -> tuple[bytes, bytes, list[Leaf]]:
    content, schema = path.read_bytes(), pq.read_metadata(path).schema
    length = int.from_bytes(content[-8:-4], "little")
    columns = map(schema.column, range(len(schema)))
    leaves = [Leaf(c.path, c.physical_type, c.length, c.max_repetition_level, c.max_definition_level) for c in columns]
    return content, content[-8 - length : -8], leaves


def test_what_the_library_writes_is_usual(stored: Path) -> None:
    content, said, leaves = parts(stored)
    metadata = pq.read_metadata(stored)
    for column, leaf in enumerate(leaves):
        found = [Chunk(leaf).end(said, at) for at in range(len(said))]
        # Texts have no pattern: how long they are, each says itself.
        assert len([end for end in found if end]) == (0 if leaf.path == "text" else metadata.num_row_groups)
        for group in range(metadata.num_row_groups):
            chunk = metadata.row_group(group).column(column)
            header = usual.page(content, chunk.dictionary_page_offset or chunk.data_page_offset)
            assert header is not None


def test_a_column_that_is_matched_is_read_to_the_same_end(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever byte of the footer is another: the patterns say yes only where the parser does."""
    _, said, leaves = parts(stored)
    random = np.random.default_rng(0)
    refused = 0
    for place in range(0, len(said), 3):
        changed = bytearray(said)
        changed[place] = int(random.integers(256))
        verdicts = []
        for is_usual in (True, False):
            footer._kind.cache_clear()
            with monkeypatch.context() as patch:
                if not is_usual:
                    patch.setattr(Chunk, "end", lambda self, content, at: None)
                try:
                    refuse_unsound(bytes(changed), leaves)
                    verdicts.append("")
                except ValueError as error:
                    verdicts.append(str(error))
        assert verdicts[0] == verdicts[1], (place, changed[place])
        refused += bool(verdicts[0])
    assert refused > 20


def test_a_footer_that_begins_as_another_did(stored: Path) -> None:
    _, said, leaves = parts(stored)
    footer._kind.cache_clear()
    refuse_unsound(said, leaves)
    known = footer._kind(tuple(leaves))
    assert said.startswith(known.beginning)
    assert len(known.beginning) > 100
    # The rest is looked at all the same.
    with pytest.raises(ValueError, match="ends too soon"):
        refuse_unsound(said[: len(known.beginning) + 40], leaves)
    wrong = said.replace(b"\x1c\x15\x04\x19", b"\x1c\x15\x0a\x19", 1)
    assert wrong != said
    with pytest.raises(ValueError, match="stored as another type"):
        refuse_unsound(wrong, leaves)


def test_a_page_that_is_matched_is_the_page_that_is_parsed(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, _, _ = parts(stored)
    random = np.random.default_rng(1)
    starts = [at for at in range(len(content)) if usual.page(content, at) is not None]
    assert len(starts) > 15
    matched = 0
    for start in starts:
        for place in range(start, start + 30):
            changed = bytearray(content)
            changed[place] = int(random.integers(256))
            verdicts = [measured(bytes(changed), start)]
            matched += usual.page(bytes(changed), start) is not None
            with monkeypatch.context() as patch:
                patch.setattr(usual, "page", lambda content, at: None)
                verdicts.append(measured(bytes(changed), start))
            assert verdicts[0] == verdicts[1], (start, place, changed[place])
    assert matched > 100


def measured(content: bytes, start: int) -> pages.Column | str:
    """What the page that begins at a place comes to, and what follows within a byte of its header."""
    try:
        return pages.measure(lambda length, at: content[at : at + length], start, start + 1)
    except ValueError as error:
        return str(error)


def test_names_that_are_matched_are_names() -> None:
    leaf = Leaf("a", "DOUBLE", 0, 0, 1)
    assert Chunk(leaf).end(b"\x26\x00\x1c", 0) is None
    assert Chunk(leaf._replace(path="x" * 200)).end(b"", 0) is None
    assert Chunk(leaf._replace(physical_type="FIXED_LEN_BYTE_ARRAY", length=NEVER)).end(b"", 0) is None
