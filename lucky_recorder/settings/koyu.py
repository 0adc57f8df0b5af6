"""What koyu bundles are to say of themselves: frozen settings, validated when they are built."""

from __future__ import annotations

import re
from pathlib import Path
from typing import SupportsIndex

import attrs

from lucky_recorder.errors import SettingsError
from lucky_recorder.settings import validators as v
from lucky_recorder.settings.declare import only_known_fields, told

COLLECTION_MODES = ("teleop", "eval", "intervention", "synthetic")
ACTIONS = ("actuators", "gym")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LATEST_NS = 2**62
_MICROSECOND_NS = 1000
_PLACE = "koyu."


def dataset_name(value: str, *, field: str = "name") -> str:
    """Accept the name of a dataset or an overlay: it is a folder's name too."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise SettingsError.of(
            field, value, "use letters, digits, '.', '_' and '-' only, at most 100, a letter or digit first"
        )
    v.portable((value,), field=field)
    return value


def _collection_mode(value: str, *, field: str = "collection_mode") -> str:
    return v.one_of(value, COLLECTION_MODES, field=field)


def _action(value: str, *, field: str = "action") -> str:
    return v.one_of(value, ACTIONS, field=field)


def _id_seed(value: SupportsIndex | None, *, field: str = "id_seed") -> int | None:
    return None if value is None else v.seed(value, field=field)


def _origin(value: SupportsIndex | None, *, field: str = "time_origin_ns") -> int | None:
    if value is None:
        return None
    moment = v.whole(value, 0, _LATEST_NS, field=field)
    if moment % _MICROSECOND_NS:
        raise SettingsError.of(field, value, "give whole microseconds: recorded_at holds no more")
    return moment


@only_known_fields(_PLACE)
@attrs.frozen(field_transformer=told(_PLACE))
class KoyuSettings:
    """Where koyu bundles go and what their sidecars say of where they come from.

    Attributes:
        name: The dataset's name.
        path: The dataset's folder, which becomes a whole path; None for ``<output_dir>/<name>``.
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

    name: str = attrs.field(converter=dataset_name)
    path: Path | None = attrs.field(default=None, converter=v.optional_folder)
    collection_mode: str = attrs.field(default="synthetic", converter=_collection_mode)
    source_run_id: str | None = attrs.field(default=None, converter=v.optional_text)
    source_checkpoint: str | None = attrs.field(default=None, converter=v.optional_text)
    policy_name: str | None = attrs.field(default=None, converter=v.optional_text)
    requested_manifest: str | None = attrs.field(default=None, converter=v.optional_text)
    manifest_id: str | None = attrs.field(default=None, converter=v.optional_text)
    source_project_id: str | None = attrs.field(default=None, converter=v.optional_text)
    action: str = attrs.field(default="actuators", converter=_action)
    id_seed: int | None = attrs.field(default=None, converter=_id_seed)
    time_origin_ns: int | None = attrs.field(default=None, converter=_origin)

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
