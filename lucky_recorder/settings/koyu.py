"""What koyu bundles are to say of themselves: frozen settings, validated when they are built."""

from __future__ import annotations

# ruff: noqa: RUF009 - what `checked` returns declares a field, it is no default shared by all objects.
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.validators import checked

COLLECTION_MODES = ("teleop", "eval", "intervention", "synthetic")
ACTIONS = ("actuators", "gym")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LATEST_NS = 2**62
_MICROSECOND_NS = 1000


def dataset_name(field: str, value: Any) -> str:
    """Accept the name of a dataset or an overlay: it is a folder's name too."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise SettingsError.of(
            field, value, "use letters, digits, '.', '_' and '-' only, at most 100, a letter or digit first"
        )
    return value


def _origin(field: str, value: Any) -> int:
    moment: int = v.whole(0, _LATEST_NS)(field, value)
    if moment % _MICROSECOND_NS:
        raise SettingsError.of(field, value, "give whole microseconds: recorded_at holds no more")
    return moment


_TEXT = v.optional(v.text)


@dataclass(frozen=True)
class KoyuSettings:
    """Where koyu bundles go and what their sidecars say of where they come from.

    Attributes:
        name: The dataset's name.
        path: The dataset's folder; None for ``<output_dir>/<name>``.
        collection_mode: ``teleop``, ``eval``, ``intervention`` or ``synthetic``.
        source_run_id: The run that the episodes come from.
        source_checkpoint: The policy's checkpoint.
        policy_name: The policy.
        requested_manifest: The manifest that the recording was asked for.
        manifest_id: The id of that manifest.
        source_project_id: The project that the episodes come from.
        action: Which vector the bundle's ``action`` is: ``actuators``, the ``action`` column of the rows, or ``gym``,
            what the policy sent (needs ``gym_columns=True``; the rows' ``action`` is then ``action.actuators``).
        id_seed: Makes the bundles' ids the same in every run that has it; None: each id is new.
        time_origin_ns: The ``recorded_at`` of the first episode, nanoseconds since 1970, whole microseconds; each later
            one begins where the one before has ended. None: the wall clock.
    """

    name: str = checked(dataset_name)
    path: Path | None = checked(v.optional(v.folder), default=None)
    collection_mode: str = checked(v.one_of(*COLLECTION_MODES), default="synthetic")
    source_run_id: str | None = checked(_TEXT, default=None)
    source_checkpoint: str | None = checked(_TEXT, default=None)
    policy_name: str | None = checked(_TEXT, default=None)
    requested_manifest: str | None = checked(_TEXT, default=None)
    manifest_id: str | None = checked(_TEXT, default=None)
    source_project_id: str | None = checked(_TEXT, default=None)
    action: str = checked(v.one_of(*ACTIONS), default="actuators")
    id_seed: int | None = checked(v.optional(v.whole(0, 2**63 - 1)), default=None)
    time_origin_ns: int | None = checked(v.optional(_origin), default=None)

    def __post_init__(self) -> None:
        v.validate(self, "koyu.")

    def folder(self, output_dir: Path) -> Path:
        """Return the dataset's folder, for a recording into ``output_dir``."""
        return (output_dir / self.name if self.path is None else self.path).absolute()

    @property
    def provenance(self) -> dict[str, str | None]:
        """The sidecar's fields that say where an episode comes from."""
        return {
            "source_run_id": self.source_run_id,
            "source_checkpoint": self.source_checkpoint,
            "policy_name": self.policy_name,
            "requested_manifest": self.requested_manifest,
            "manifest_id": self.manifest_id,
            "source_project_id": self.source_project_id,
        }
