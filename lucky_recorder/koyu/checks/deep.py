"""Looking at every file there is, whether a bundle names it or not: each page, each frame of each track, each sum."""

from __future__ import annotations

from collections.abc import Iterator

from lucky_recorder.errors import FormatError
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.checks.evidence import Fault
from lucky_recorder.koyu.sums import sums_of
from lucky_recorder.storage.aside import LOST
from lucky_recorder.storage.spread import Progress
from lucky_recorder.storage.untrusted import Folder, reason
from lucky_recorder.video import strict


def expect(dataset: Folder, decode: bool, is_deep: bool, progress: Progress) -> None:
    """Say how many bytes the long parts of a check will go through: decoding, once or twice, and the sums."""
    videos = sum(map(dataset.size, _videos(dataset)))
    progress.expect(videos * (decode + is_deep) + sums_of(dataset).expected_bytes())


def check_checksums(dataset: Folder, progress: Progress) -> Iterator[Fault]:
    """Compare every file with ``checksums.json``, where there is one."""
    sums = sums_of(dataset)
    if sums.is_there():
        yield from (Fault(*one) for one in sums.differences(progress))


def check_everything(dataset: Folder, progress: Progress) -> Iterator[Fault]:
    """Read every table and every JSON file to its end, and decode every video without forgiving anything."""
    for file in _files(dataset):
        try:
            dataset.read_through(file)
        except FormatError as error:
            yield Fault(file, reason(error, dataset.path / file))
    yield from (Fault(*one) for one in strict.look(dataset, _videos(dataset), progress))


def _files(dataset: Folder) -> list[str]:
    """List everything but what was set aside, and what is being made: that is told as a whole."""
    hidden = (f"{layout.EPISODES}/{layout.TEMPORARY}", f"{LOST}/")
    return [file for file in dataset.files() if not file.startswith(hidden)]


def _videos(dataset: Folder) -> list[str]:
    return [file for file in _files(dataset) if file.endswith(layout.VIDEO_SUFFIX)]
