"""What koyu bundles are to say of themselves: what is refused, and what follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np

from lucky_recorder.settings.koyu import KoyuSettings
from tests.settings.refusals import each_of, refused

NAME = "use letters, digits, '.', '_' and '-' only, at most 100, a letter or digit first"
TEXTS = (
    "source_run_id",
    "source_checkpoint",
    "policy_name",
    "requested_manifest",
    "manifest_id",
    "source_project_id",
)

REFUSED: list[tuple[str, Any, str]] = [
    *(("name", value, NAME) for value in ["", "a/b", ".hidden", "x" * 101, None, 5]),
    ("path", "", "give a folder"),
    ("collection_mode", "manual", "choose one of teleop, eval, intervention, synthetic"),
    *((field, " ", "give a text that is not empty") for field in TEXTS),
    ("action", "Gym", "choose one of actuators, gym"),
    ("id_seed", -1, "give a whole number from 0 to 9223372036854775807"),
    ("time_origin_ns", -1000, "give a whole number from 0 to 4611686018427387904"),
    ("time_origin_ns", 1001, "give whole microseconds: recorded_at holds no more"),
]


@each_of(REFUSED)
def test_koyu_settings_refuse(field: str, value: Any, message: str) -> None:
    refused(lambda: KoyuSettings(**{"name": "pick-cube", field: value}), f"koyu.{field}={value!r}: {message}")


def test_every_field_is_in_the_table() -> None:
    assert {field for field, _, _ in REFUSED} == {f.name for f in attrs.fields(KoyuSettings)}


def test_plausible_values_settle() -> None:
    settings = KoyuSettings("pick.cube-2", path="~/bundles", id_seed=np.int64(7), time_origin_ns=2_000)
    assert settings.path == Path.home() / "bundles"
    assert (type(settings.id_seed), settings.time_origin_ns) == (int, 2_000)
    assert KoyuSettings("x", policy_name="act").provenance == dict.fromkeys(TEXTS) | {"policy_name": "act"}


def test_bundles_go_beside_the_sessions_unless_a_folder_is_given() -> None:
    assert KoyuSettings("pick-cube").folder(Path("/data")) == Path("/data/pick-cube")
    assert KoyuSettings("pick-cube", path="/elsewhere").folder(Path("/data")) == Path("/elsewhere")
