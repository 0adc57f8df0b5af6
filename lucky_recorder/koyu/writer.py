"""A dataset being written: bundles come into being whole, by one rename each, beside whoever else writes it."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from lucky_recorder.errors import LuckyRecorderError, StorageError, extended
from lucky_recorder.koyu import bundle as bundles
from lucky_recorder.koyu import layout
from lucky_recorder.koyu.bundle import Bundle, Whole
from lucky_recorder.koyu.manifest import Description, Entry, ManifestWriter, entry_of, refuse_other
from lucky_recorder.storage import checksums, reserve
from lucky_recorder.storage.home import Home
from lucky_recorder.storage.lock import Lock, hold, is_abandoned, locked
from lucky_recorder.storage.names import owned
from lucky_recorder.storage.reserve import Reserve
from lucky_recorder.storage.write import make_folder, metadata_errors, storage_errors, sync_folder

# What the first manifest takes, and the bundles since the last one; that itself is written once more, beside itself.
_SMALLEST_WRITE = 1 << 17


class DatasetWriter:
    """Writes bundles into a dataset, new or existing.

    Bundles are made in a folder of the writer's own, ``episodes/.tmp-<pid>-<hex>``, whose lock it holds while it
    lives: what the dead have left is swept when a dataset is opened, what the living have is left alone.

    Attributes:
        root: The dataset's folder.
        workshop: The writer's own folder.
        home: Tells whether that is still there.

    Args:
        root: The dataset's folder; made if it is missing.
        description: What all its bundles have in common.
        every: Bundles between two writes of the manifest.

    Raises:
        SettingsError: If the dataset is of another kind; nothing is touched.
        FormatError: If what is there is broken.
        StorageError: If the file system refuses.
    """

    def __init__(self, root: Path, description: Description, every: int = 25) -> None:
        self.root = root.absolute()
        refuse_other(self.root, description.fields())
        # The dataset may be somebody else's: a link in place of the folder would lead all bundles elsewhere.
        self._episodes = owned(self.root, layout.EPISODES)
        self.workshop = self._episodes / f"{layout.TEMPORARY}{os.getpid()}-{uuid.uuid4().hex}"
        self._manifest = ManifestWriter(self.root, description)
        self._every = every
        self._lock: Lock | None = None
        self._reserve = Reserve(self.workshop / reserve.NAME)
        make_folder(self._episodes)
        # Under the dataset's lock a writer's folder comes into being together with its own lock: a sweep, which holds
        # the dataset's lock too, never meets a folder whose living writer has not locked it yet.
        with locked(self.root / layout.LOCK):
            checksums.drop(self.root, layout.CHECKSUMS)
            sweep(self._episodes)
            self._manifest.open()
            with storage_errors(self.workshop):
                self.workshop.mkdir()
            self._lock = hold(self.workshop)
        self.home = Home(self.workshop, self._lock, self.root)
        self._hold_reserve()

    def has(self, capture_id: str) -> bool:
        """Tell whether there is a bundle of that id."""
        return (self._episodes / layout.bundle_name(capture_id)).exists()

    def prepare(self, bundle: Bundle) -> PreparedBundle:
        """Write a bundle's files where nobody looks for them.

        Raises:
            StorageError: If the file system refuses, if the dataset is not where it was, or if there is a bundle of
                that id. Nothing is left behind then.
        """
        return self._prepared(bundle, lambda folder: bundles.write(folder, bundle))

    def take_over(self, bundle: Whole) -> PreparedBundle:
        """Link the files of a bundle that is committed elsewhere; errors as for `prepare`, and of a broken file."""
        return self._prepared(bundle, lambda folder: bundles.take_over(folder, bundle))

    def _prepared(self, bundle: Bundle | Whole, write: Callable[[Path], None]) -> PreparedBundle:
        self.home.check()
        prepared = PreparedBundle(self, entry_of(bundle.sidecar), self.workshop / bundle.id)
        # Here as well as in `commit`: preparing is where an episode may still be refused for all formats together.
        self._refuse_twin(bundle.id)
        try:
            write(prepared.folder)
        except BaseException:  # no workshop must stay behind, whatever was raised
            prepared.discard()
            raise
        return prepared

    def _refuse_twin(self, name: str) -> None:
        if (self._episodes / name).exists():
            raise StorageError(
                f"{self._episodes / name}: is there already, and bundles are never replaced; give another koyu.id_seed"
            )

    def commit(self, prepared: Sequence[PreparedBundle]) -> None:
        """Give the folders of bundles their final names: from here on they exist, all of them or none.

        Raises:
            MetadataError: If they exist, and the manifest cannot be written.
            StorageError: If the file system refuses, if the dataset is not where it was, or if there is a bundle of
                such an id.
        """
        self.home.check()
        named: list[PreparedBundle] = []
        try:
            for one in prepared:
                # Again: another writer may have made it since it was prepared, and a rename would replace an empty
                # folder.
                self._refuse_twin(one.id)
                named.append(one)
                with storage_errors(self._episodes / one.id):
                    os.rename(one.folder, self._episodes / one.id)
            with storage_errors(self._episodes):
                sync_folder(self._episodes)
        except BaseException as error:  # also an interrupt: no bundle may stay that nobody counts
            left = self._taken_back(reversed(named))
            if left is not None and isinstance(error, LuckyRecorderError):
                raise extended(error, f"{left} could not be taken back: it is a bundle that is not counted") from error
            raise
        for one in prepared:
            self._manifest.add(one.entry)
        if self._manifest.pending >= self._every:
            with metadata_errors():
                self.home.check()
                self._manifest.flush()
                self._hold_reserve()

    def _taken_back(self, named: Iterable[PreparedBundle]) -> Path | None:
        """Take bundles back to where they were made; returns the first that the disk keeps."""
        for one in named:
            target = self._episodes / one.id
            # Not if the rename was what failed.
            if not one.folder.exists() and target.exists():
                try:
                    os.rename(target, one.folder)
                except OSError:
                    return target
        return None

    def _hold_reserve(self) -> None:
        with contextlib.suppress(OSError):
            self._reserve.hold(_SMALLEST_WRITE + 2 * os.stat(self.root / layout.MANIFEST).st_size)

    def close(self) -> None:
        """List what is not listed yet, and remove the writer's own folder. Calling it again does nothing.

        Raises:
            LuckyRecorderError: If the dataset is not where it was, or the manifest cannot be written; says how many
                bundles are not listed, and the remedy.
        """
        try:
            self.home.check()
            try:
                self._reserve.release()
                self._list_all()
            finally:
                shutil.rmtree(self.workshop, ignore_errors=True)
        finally:
            self.home.leave()
            if self._lock is not None:
                self._lock.release()

    def _list_all(self) -> None:
        try:
            self._manifest.flush()
        except LuckyRecorderError as error:
            count = self._manifest.pending
            unlisted = "1 finished bundle is" if count == 1 else f"{count} finished bundles are"
            remedy = f"`lucky-recorder recover {self.root}` lists them"
            raise extended(
                error, f"{unlisted} whole on the disk and not listed in {layout.MANIFEST}: {remedy}"
            ) from error


class PreparedBundle:
    """A bundle whose files are all written.

    Attributes:
        folder: Where they are.
        entry: What the manifest will say of it. The rest is on the disk: there may be thousands that wait.
    """

    def __init__(self, writer: DatasetWriter, entry: Entry, folder: Path) -> None:
        self.folder = folder
        self.entry = entry
        self._writer = writer

    @property
    def id(self) -> str:
        """The bundle's id, and its folder's name."""
        name: str = self.entry["id"]
        return name

    def commit(self) -> None:
        """Give this bundle alone its final name; errors as for `DatasetWriter.commit`."""
        self._writer.commit([self])

    def discard(self) -> None:
        """Remove every file, if it was not committed."""
        shutil.rmtree(self.folder, ignore_errors=True)


def remove_empty(root: Path) -> None:
    """Remove a new dataset in which there is no bundle, and that nobody writes."""
    with contextlib.suppress(OSError, LuckyRecorderError), locked(root / layout.LOCK):
        # Refused where there is a bundle, or another's workshop.
        (root / layout.EPISODES).rmdir()
        (root / layout.MANIFEST).unlink()
        (root / layout.LOCK).unlink()
        root.rmdir()


def sweep(episodes: Path) -> None:
    """Remove what dead writers have left; called under the dataset's lock, so that nobody is about to begin."""
    for folder in sorted(episodes.glob(f"{layout.TEMPORARY}*")):
        if folder.is_dir() and not folder.is_symlink() and is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)
