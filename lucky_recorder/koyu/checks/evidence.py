"""What a check of a dataset looks at: one bundle, and everything it says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lucky_recorder.koyu import layout
from lucky_recorder.koyu.index import Feature
from lucky_recorder.storage.spread import Progress
from lucky_recorder.storage.untrusted import Folder


class Fault(NamedTuple):
    """One thing that is not as the format says.

    Attributes:
        file: The file, relative to the dataset's folder.
        message: What is wrong with it.
    """

    file: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.message}"


@dataclass(frozen=True)
class BundleEvidence:
    """One bundle and its sidecar.

    Attributes:
        dataset: The dataset's folder.
        name: The bundle's folder, relative to it.
        sidecar: The content of ``episode.json``.
        features: The features that the sidecar lists; empty if they cannot be read.
        decode: Whether frames are decoded, or only counted.
        progress: How far the check has come.
    """

    dataset: Folder
    name: str
    sidecar: Mapping[str, Any]
    features: Mapping[str, Feature] = field(default_factory=dict)
    decode: bool = True
    progress: Progress = field(default_factory=Progress)

    @property
    def length(self) -> int:
        """Rows that the sidecar says there are; -1 if it does not say."""
        length = self.sidecar.get("length")
        return length if type(length) is int else -1

    def file(self, name: str) -> str:
        """Return the path of one of its files, relative to the dataset."""
        return f"{self.name}/{name}"

    @property
    def id(self) -> str:
        """The id that the manifest is to list it by."""
        return layout.bundle_name(str(self.sidecar.get("capture_id")))
