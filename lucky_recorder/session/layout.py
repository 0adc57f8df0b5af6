"""Where everything lies inside a session folder (spec: Folder layout, Chunks and files)."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from lucky_recorder.episode.keys import DATA, LIDAR_PREFIX, SESSIONS, STATES, VIDEOS, lidar_key
from lucky_recorder.errors import StorageError
from lucky_recorder.storage.names import part
from lucky_recorder.storage.write import TEMPORARY, make_folder, storage_errors, sync_folder

DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
# The simulation's states, where they are kept, and the models that they are of (an addition of ours).
STATES_PATH = "states/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
STATES_MODEL = re.compile(rf"{STATES}models/(?P<sha256>[0-9a-f]{{64}})\.mjb")
# What the folder of the shards is called that a session will be made of, after the session's name.
SHARDS = ".shards"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
META = "meta"
EPISODES = "meta/episodes"
INFO_PATH = "meta/info.json"
STATS_PATH = "meta/stats.json"
TASKS_PATH = "meta/tasks.parquet"
# Where the session comes from, and the models that were recorded.
PROVENANCE_PATH = "meta/provenance.json"
MODELS = "meta/models"
MODEL_FILE = re.compile(rf"{MODELS}/(?P<sha256>[0-9a-f]{{64}})\.(?:mjb|xml)")
# Sums of all other files, where somebody has asked for them.
CHECKSUMS_PATH = "meta/checksums.json"
UNFINISHED_SUMS = CHECKSUMS_PATH + TEMPORARY
LIST_FILE = re.compile(rf"{EPISODES}/chunk-\d{{3}}/file-\d{{3}}\.parquet")
DATA_FILE = re.compile(rf"{DATA}chunk-\d{{3}}/file-\d{{3}}\.parquet")
# With several episodes per file each waits as a whole file of its own, its spool, until the data file is assembled.
SPOOL = re.compile(rf"(?P<file>{DATA}chunk-\d{{3}}/file-\d{{3}}\.parquet)\.(?P<episode>\d{{1,9}})\.tmp")
# A finished file of a lidar: its scans, what describes them, its video proxy.
SCAN_PART = re.compile(rf"{DATA}chunk-\d{{3}}/{LIDAR_PREFIX}[^/]+-\d{{3,}}\.(?:parquet|json|mp4)")
SCAN_FILE = re.compile(rf"{DATA}chunk-\d{{3}}/{LIDAR_PREFIX}([^/]+)-(\d{{3,}})\.parquet")
_KEY = r"observation\.(?:images|masks)\.[^/]+"
_CHUNK = r"chunk-\d{3}"
# All that a recording writes below a session's folder, under its final name and while it is written.
_OWN_FILE = re.compile(
    rf"(?:{DATA}{_CHUNK}/(?:file-\d{{3}}\.parquet(?:\.\d{{1,9}}\.tmp)?|{LIDAR_PREFIX}[^/]+-\d{{3,}}\.(?:parquet|json|mp4))"
    rf"|{VIDEOS}{_KEY}/{_CHUNK}/file-\d{{3}}\.(?:mp4|mkv|json)"
    rf"|{STATES}(?:{_CHUNK}/file-\d{{3}}\.parquet|models/[0-9a-f]{{64}}\.mjb)"
    rf"|{EPISODES}/{_CHUNK}/file-\d{{3}}\.parquet|{META}/(?:(?:info|stats|checksums|provenance)\.json|tasks\.parquet)|{MODEL_FILE.pattern})(?:\.tmp)?"
    rf"|(?:{DATA}{LIDAR_PREFIX}|{VIDEOS}(?P<key>{_KEY})/(?P=key))[^/]*-take-\d{{6,}}\.(?:mp4|mkv)\.tmp"
    rf"|{STATES}take-\d{{6,}}\.parquet\.tmp"
)
_OWN_FOLDER = re.compile(
    rf"{DATA[:-1]}(/{_CHUNK})?|{STATES[:-1]}(/{_CHUNK}|/models)?|{VIDEOS[:-1]}(/{_KEY}(/{_CHUNK})?)?|{META}(/episodes(/{_CHUNK})?|/models)?"
)
# Readers sort paths as text: chunk-1000 would come before chunk-999.
_SESSION_NAME = re.compile(r"session_\d{4}-\d{2}-\d{2}_\d{2}-\d{2}-\d{2}")


class Place(NamedTuple):
    """A file's place within its stream."""

    chunk_index: int
    file_index: int


@dataclass(frozen=True)
class Chunking:
    """The two settings that group files, and the arithmetic that follows from them.

    Attributes:
        files_per_chunk: Files in each ``chunk-NNN`` folder.
        episodes_per_file: Episodes in each data file.
    """

    files_per_chunk: int
    episodes_per_file: int = 1

    def data(self, episode: int) -> Place:
        """Return the place of the data file that holds an episode's rows."""
        return Place(*divmod(episode // self.episodes_per_file, self.files_per_chunk))

    def video(self, episode: int) -> Place:
        """Return the place of an episode's video files: always one episode per file."""
        return Place(*divmod(episode, self.files_per_chunk))

    def metadata(self, write: int) -> Place:
        """Return the place of the ``write``-th file under ``meta/episodes``."""
        return Place(*divmod(write, self.files_per_chunk))

    def begins_file(self, episode: int) -> bool:
        """Tell whether an episode is the first of its data file."""
        return episode % self.episodes_per_file == 0

    def ends_file(self, episode: int) -> bool:
        """Tell whether an episode is the last of its data file."""
        return (episode + 1) % self.episodes_per_file == 0


def data_path(root: Path, place: Place) -> Path:
    """Return a data file's path."""
    return root / DATA_PATH.format(**place._asdict())


def video_path(root: Path, key: str, place: Place, suffix: str = ".mp4") -> Path:
    """Return a video file's path."""
    return root / video_file(key, place, suffix)


def video_file(key: str, place: Place, suffix: str = ".mp4") -> str:
    """Return a video file's name within the session."""
    return VIDEO_PATH.format(video_key=part(key), **place._asdict()).removesuffix(".mp4") + suffix


def scan_file(name: str, episode: int, files_per_chunk: int, suffix: str = ".parquet") -> str:
    """Return a lidar file's name within the session: in the chunk of the episode's video, numbered by the episode."""
    return f"{DATA}chunk-{episode // files_per_chunk:03d}/{lidar_key(part(name))}-{episode:03d}{suffix}"


def states_file(place: Place) -> str:
    """Return the name of an episode's file of states within the session: at the place of its videos."""
    return STATES_PATH.format(**place._asdict())


def states_take(take: int) -> str:
    """Return the name of a file of states that is finished and has no place yet."""
    return f"{STATES}take-{take:06d}.parquet{TEMPORARY}"


def states_model_file(sha256: str) -> str:
    """Return the name of a model's file beside the states that are of it, by its sum."""
    return f"{STATES}models/{sha256}.mjb"


def episodes_path(root: Path, place: Place) -> Path:
    """Return the path of a file under ``meta/episodes``."""
    return root / EPISODES_PATH.format(**place._asdict())


def place_of(path: Path) -> Place:
    """Read the place back from a path that ends in ``chunk-NNN/file-NNN.<suffix>``."""
    # At the first dot: a temporary name has more endings than one.
    return Place(int(path.parent.name.removeprefix("chunk-")), int(path.name.split(".")[0].removeprefix("file-")))


def claim_folder(output_dir: Path, now: datetime | None = None, suffix: str = "") -> Path:
    """Claim ``<output_dir>/DataSessions/session_<date>_<time>`` with an atomic mkdir.

    Two sessions set up in the same second: the second takes the next second.

    Args:
        output_dir: The parent of ``DataSessions/``.
        now: What its name says.
        suffix: `SHARDS` for the folder of the shards that a session will be made of, which claims its name too.

    Raises:
        StorageError: If the folder cannot be made.
    """
    parent = output_dir.absolute() / SESSIONS
    make_folder(parent)
    moment = now or datetime.now()
    for later in range(3600):
        name = (moment + timedelta(seconds=later)).strftime("session_%Y-%m-%d_%H-%M-%S")
        folder, other = parent / f"{name}{suffix}", parent / f"{name}{'' if suffix else SHARDS}"
        with storage_errors(folder):
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            # Asked afterwards: of two that claim both names at once, one sees the other.
            if os.path.lexists(other):
                folder.rmdir()
                continue
            _keep_name(folder)
            return folder
    raise StorageError(f"{parent}: no free session name within an hour of {moment}")


def _keep_name(folder: Path) -> None:
    """Make the name of a new folder durable: else a power cut could take the session with all that was synced in it."""
    try:
        sync_folder(folder.parent)
    except BaseException:  # also an interrupt: a folder that nobody has claimed must not stay behind
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise


def spool_file(data_file: str, episode: int) -> str:
    """Return the name of the file in which an episode waits for its data file."""
    return f"{data_file}.{episode}.tmp"


def model_file(sha256: str, suffix: str) -> str:
    """Return the name of a model's file, by its sum."""
    return f"{MODELS}/{sha256}{suffix}"


def is_session_name(name: str) -> bool:
    """Tell whether a folder's name is a session's."""
    return bool(_SESSION_NAME.fullmatch(name))


def is_own_file(name: str) -> bool:
    """Tell whether a file below a session's folder has a name that a recording gives; all others are somebody's own."""
    return bool(_OWN_FILE.fullmatch(name))


def is_left_over(name: str) -> bool:
    """Tell whether a file is one that a recording has not finished. A list of sums is not written by a recording."""
    return name.endswith(TEMPORARY) and name != UNFINISHED_SUMS and is_own_file(name)


def is_of_rows(name: str) -> bool:
    """Tell whether a file is there for rows: a data file or a spool, finished or not."""
    return is_own_file(name) and name.startswith(DATA) and name.rsplit("/", 1)[1].startswith("file-")


def is_own_folder(name: str) -> bool:
    """Tell whether a folder below a session's has a name that a recording gives."""
    return bool(_OWN_FOLDER.fullmatch(name))
