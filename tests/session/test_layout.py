from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lucky_recorder.errors import StorageError
from lucky_recorder.session import layout
from lucky_recorder.session.layout import Chunking, Place
from tests.session.building import full_session

NOW = datetime(2026, 10, 8, 14, 30, 5)


@pytest.mark.parametrize(
    ("files_per_chunk", "episodes_per_file", "episode", "data", "video"),
    [
        (40, 1, 45, (1, 5), (1, 5)),
        (40, 1, 39, (0, 39), (0, 39)),
        (4, 3, 0, (0, 0), (0, 0)),
        (4, 3, 11, (0, 3), (2, 3)),
        (4, 3, 12, (1, 0), (3, 0)),
        (1, 1, 7, (7, 0), (7, 0)),
        (1000, 1000, 999_999, (0, 999), (999, 999)),
    ],
)
def test_data_and_video_places(files_per_chunk, episodes_per_file, episode, data, video) -> None:
    chunking = Chunking(files_per_chunk, episodes_per_file)
    assert chunking.data(episode) == data
    assert chunking.video(episode) == video


def test_a_file_ends_with_its_last_episode() -> None:
    assert [e for e in range(9) if Chunking(4, 3).ends_file(e)] == [2, 5, 8]


def test_paths_are_the_spec_s(tmp_path: Path) -> None:
    place = Place(1, 5)
    assert layout.data_path(tmp_path, place) == tmp_path / "data/chunk-001/file-005.parquet"
    video = "videos/observation.images.Front/chunk-001/file-005"
    assert layout.video_path(tmp_path, "observation.images.Front", place) == tmp_path / f"{video}.mp4"
    assert layout.video_path(tmp_path, "observation.images.Front", place, ".mkv") == tmp_path / f"{video}.mkv"
    assert layout.episodes_path(tmp_path, place) == tmp_path / "meta/episodes/chunk-001/file-005.parquet"


@pytest.mark.parametrize("name", ["file-005.parquet", "file-005.mp4", "file-005.parquet.12.tmp"])
def test_a_place_is_read_back_from_its_path(tmp_path: Path, name: str) -> None:
    assert layout.place_of(tmp_path / "chunk-012" / name) == Place(12, 5)


def test_claiming_makes_the_folder(tmp_path: Path) -> None:
    folder = layout.claim_folder(tmp_path / "new", NOW)
    assert folder == tmp_path / "new/DataSessions/session_2026-10-08_14-30-05"
    assert folder.is_dir()
    assert layout.is_session_name(folder.name)


def test_two_sessions_in_one_second_take_two_seconds(tmp_path: Path) -> None:
    assert layout.claim_folder(tmp_path, NOW).name == "session_2026-10-08_14-30-05"
    assert layout.claim_folder(tmp_path, NOW).name == "session_2026-10-08_14-30-06"


def test_claiming_takes_the_time_of_now(tmp_path: Path) -> None:
    before = datetime.now().replace(microsecond=0)
    name = layout.claim_folder(tmp_path).name
    assert before <= datetime.strptime(name, "session_%Y-%m-%d_%H-%M-%S") <= datetime.now()


def test_a_full_hour_of_sessions_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout.claim_folder(tmp_path, NOW)

    def taken(self: Path) -> None:
        raise FileExistsError

    monkeypatch.setattr(Path, "mkdir", taken)
    with pytest.raises(StorageError, match="no free session name"):
        layout.claim_folder(tmp_path, NOW)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "DataSessions").write_text("in the way")
    with pytest.raises(StorageError, match="DataSessions"):
        layout.claim_folder(tmp_path, NOW)


@pytest.mark.parametrize("name", ["session_2026-10-08", "Session_2026-10-08_14-30-05", "session_2026-10-08_14-30-05.x"])
def test_other_names_are_no_session_s(name: str) -> None:
    assert not layout.is_session_name(name)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone of a process cannot be set here")
@pytest.mark.parametrize("hours_east", [5.75, -9.5, 0])
def test_a_session_is_named_after_the_local_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours_east: float
) -> None:
    """Of a time zone that no machine of ours is in, so that UTC cannot pass for it."""
    sign, minutes = ("-" if hours_east >= 0 else "+"), round(abs(hours_east) * 60)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", f"XST{sign}{minutes // 60}:{minutes % 60:02d}")
        time.tzset()
        before = datetime.now(UTC)
        named = layout.claim_folder(tmp_path).name
    time.tzset()
    told = datetime.strptime(named, "session_%Y-%m-%d_%H-%M-%S").replace(tzinfo=UTC) - timedelta(hours=hours_east)
    assert -1 <= (told - before).total_seconds() < 60


def test_all_that_a_recording_writes_is_known_as_its_own(tmp_path: Path) -> None:
    """What is not known so is left where it is when a session is recovered, and must be somebody else's."""
    recording = full_session(tmp_path)
    # Of a take that is still being written there are files, too.
    made = recording.record(3)
    below = [path.relative_to(recording.root) for path in recording.root.rglob("*")]
    files = [path.as_posix() for path in below if (recording.root / path).is_file() and len(path.parts) > 1]
    folders = [path.as_posix() for path in below if (recording.root / path).is_dir()]
    assert any(name.endswith(".tmp") for name in files), made
    assert [name for name in files if not layout.is_own_file(name)] == []
    assert [name for name in folders if not layout.is_own_folder(name)] == []


def test_the_folder_of_shards_claims_the_name_of_the_session_too(tmp_path: Path) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5)
    claimed = [layout.claim_folder(tmp_path, now, suffix).name for suffix in ("", layout.SHARDS, "", layout.SHARDS)]
    name = "session_2026-01-02_03-04-0"
    assert claimed == [f"{name}5", f"{name}6.shards", f"{name}7", f"{name}8.shards"]
    assert sorted(path.name for path in (tmp_path / "DataSessions").iterdir()) == claimed
