"""A flipped bit in any file: with sums every one is found; without, what each kind of file says of itself."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import av
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.session.check import check_session, inspect_session
from lucky_recorder.storage.checksums import Sums
from lucky_recorder.storage.untrusted import Folder
from tests.session.building import Recording, full_session

SUMS = "meta/checksums.json"


def files_of(root: Path) -> list[str]:
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file() and p.name != "checksums.json")


def flip(path: Path, at: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def kind_of(name: str) -> str:
    """What a file is, whichever episode it belongs to."""
    return name.split("/chunk-")[0] + ("-lidar" if "/lidar-" in name else "") + Path(name).suffix


@pytest.fixture(scope="module")
def summed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = full_session(tmp_path_factory.mktemp("summed") / "session_2026-10-08_14-30-07").root
    lr.checksum(root)
    return root


def test_the_session_has_every_kind_of_file(summed: Path) -> None:
    assert {kind_of(name) for name in files_of(summed)} == {
        "data.parquet",
        "data-lidar.json",
        "data-lidar.mp4",
        "data-lidar.parquet",
        "meta/episodes.parquet",
        "meta/info.json.json",
        "meta/stats.json.json",
        "meta/tasks.parquet.parquet",
        "videos/observation.images.Fast.mp4",
        "videos/observation.images.Front.mp4",
        "videos/observation.images.Front_depth.mkv",
        "videos/observation.images.Front_rgbd.mkv",
        "videos/observation.images.Slow_depth.mkv",
        "videos/observation.masks.Front.json",
        "videos/observation.masks.Front.mp4",
    }


def test_a_flipped_bit_is_found_wherever_it_is(summed: Path, tmp_path: Path) -> None:
    """The first, the middle, the last byte of every file, and one at random: every one, by the file's own name."""
    copy = Path(shutil.copytree(summed, tmp_path / summed.name))
    assert check_session(copy) == []
    sums, draw, tried, missed = Sums(Folder(copy), SUMS), random.Random(12), 0, []
    for name in files_of(copy):
        whole = (copy / name).read_bytes()
        for at in sorted({0, len(whole) // 2, len(whole) - 1, draw.randrange(len(whole))}):
            bit = draw.randrange(8)
            flip(copy / name, at, bit)
            told = [(name, message) for name, message in sums.differences() if "sha256 differs" in message]
            if [file for file, _ in told] != [name]:
                missed.append((name, at, bit))
            tried += 1
            (copy / name).write_bytes(whole)
    assert missed == []
    assert tried >= 4 * len(files_of(copy)) - 2


def test_each_kind_of_file_is_told_by_a_plain_check(summed: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(summed, tmp_path / summed.name))
    for name in {kind_of(name): name for name in files_of(copy)}.values():
        whole = (copy / name).read_bytes()
        flip(copy / name, len(whole) // 2, 5)
        told = [f.file for f in check_session(copy, decode=False) if "sha256 differs" in f.message]
        assert told == [name]
        (copy / name).write_bytes(whole)


def test_a_flipped_bit_in_the_list_itself_is_found(summed: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(summed, tmp_path / summed.name))
    whole, draw = (copy / SUMS).read_bytes(), random.Random(3)
    # What is between the values says nothing: a space that becomes a tab is no fault.
    places = [at for at, byte in enumerate(whole) if not chr(byte).isspace()]
    for at in (places[0], places[len(places) // 2], places[-1], *draw.sample(places, 12)):
        flip(copy / SUMS, at, draw.randrange(8))
        assert check_session(copy, decode=False), f"byte {at}"
        (copy / SUMS).write_bytes(whole)


@pytest.mark.parametrize("is_deep", [False, True])
def test_files_that_are_missing_or_too_many_are_told(summed: Path, tmp_path: Path, is_deep: bool) -> None:
    copy = Path(shutil.copytree(summed, tmp_path / summed.name))
    (copy / "notes.txt").write_text("the user's own")
    (copy / "videos/observation.images.Front/chunk-000/file-001.mp4").unlink()
    found = [(f.file, f.message) for f in check_session(copy, deep=is_deep) if SUMS in f.message]
    assert [file for file, _ in found] == ["notes.txt", "videos/observation.images.Front/chunk-000/file-001.mp4"]
    assert "does not list it" in found[0][1]
    assert "is missing" in found[1][1]


# Without sums.


@pytest.fixture
def copy(full: Recording, tmp_path: Path) -> Path:
    return Path(shutil.copytree(full.root, tmp_path / full.root.name))


def every_table(root: Path) -> list[str]:
    return [name for name in files_of(root) if name.endswith(".parquet")]


def test_every_page_of_every_table_carries_a_checksum(copy: Path) -> None:
    for name in every_table(copy):
        whole, metadata = (copy / name).read_bytes(), pq.read_metadata(copy / name)
        group = metadata.row_group(metadata.num_row_groups - 1)
        for column in (group.column(0), group.column(group.num_columns - 1)):
            start = column.dictionary_page_offset or column.data_page_offset
            # The last byte of a column is one of its last page.
            flip(copy / name, start + column.total_compressed_size - 1, 2)
            assert any(f.file == name for f in check_session(copy, decode=False)), (name, column.path_in_schema)
            (copy / name).write_bytes(whole)


@pytest.mark.parametrize("key", ["Front_depth", "Front_rgbd", "Slow_depth"])
def test_every_slice_of_depth_carries_a_checksum(copy: Path, key: str) -> None:
    name = f"videos/observation.images.{key}/chunk-000/file-001.mkv"
    whole = (copy / name).read_bytes()
    with av.open(str(copy / name)) as container:
        track = container.streams.video[-1]
        packets = [bytes(packet) for packet in container.demux(track) if packet.size]
    for number, packet in enumerate(packets):
        flip(copy / name, whole.index(packet) + len(packet) // 2, number % 8)
        assert any(f.file == name for f in check_session(copy, deep=True)), number
        (copy / name).write_bytes(whole)


def test_only_a_deep_check_reads_what_no_episode_names(copy: Path) -> None:
    """A combined file without its two sources, in a session without rows: nothing else looks at its depth."""
    for part in ("data", "meta"):
        shutil.rmtree(copy / part)
    for key in ("Front", "Front_depth"):
        shutil.rmtree(copy / f"videos/observation.images.{key}")
    assert check_session(copy, deep=True) == []
    name = "videos/observation.images.Front_rgbd/chunk-000/file-001.mkv"
    with av.open(str(copy / name)) as container:
        packet = [bytes(p) for p in container.demux(container.streams.video[1]) if p.size][2]
    flip(copy / name, (copy / name).read_bytes().index(packet) + len(packet) // 2, 4)
    assert check_session(copy) == []
    found = check_session(copy, deep=True)
    assert {(f.file, f.episode) for f in found} == {(name, None)}
    assert any("the decoder says: slice CRC mismatch" in f.message for f in found)


def test_a_deep_check_reads_spare_tables_and_json_too(copy: Path) -> None:
    (copy / "meta/spare.json").write_text('{"a": 1')
    (copy / "data/spare.parquet").write_bytes(b"PAR1")
    plain = {(f.file, f.message) for f in check_session(copy)}
    assert {file for file, _ in plain} == {"meta/spare.json", "data/spare.parquet"}
    more = {f.file for f in check_session(copy, deep=True) if (f.file, f.message) not in plain}
    assert more == {"meta/spare.json", "data/spare.parquet"}


def test_a_deep_check_tells_how_far_it_is(copy: Path) -> None:
    lr.checksum(copy)
    told: list[tuple[int, int]] = []
    assert inspect_session(copy, is_deep=True, tell=lambda *at: told.append(at)).faults == []
    done, total = told[-1]
    assert total > 0
    # Combined files are compared by their packets, and decoded only once.
    assert 0.8 * total < done <= total
