"""Names that another file system cannot hold, or not beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lucky_recorder.settings import validators as v
from lucky_recorder.settings.camera import Camera
from lucky_recorder.settings.column import Column
from lucky_recorder.settings.koyu import KoyuSettings
from lucky_recorder.settings.lidar import Lidar
from lucky_recorder.settings.recorder import RecorderSettings
from tests.settings.refusals import refused

NFC, NFD = "arm-\u00e9", "arm-e\u0301"

Build = Callable[[Sequence[str]], Any]


def settings(**fields: Any) -> RecorderSettings:
    return RecorderSettings(**{"mode": "custom", "columns": [Column("x", abs)], **fields})


def columns(names: Sequence[str]) -> RecorderSettings:
    return settings(columns=[Column(name, abs) for name in names])


BUILDS: dict[str, Build] = {
    "cameras": lambda names: settings(cameras=[Camera(name) for name in names]),
    "lidars": lambda names: settings(lidars=[Lidar(name) for name in names]),
    "columns": columns,
    "robots": lambda names: settings(robots=names),
}
SINGLE: dict[str, Build] = {**BUILDS, "koyu": lambda names: [KoyuSettings(name=name) for name in names]}

DEVICES = ["CON", "nul", "Aux", "prn", "COM1", "lpt9", "com0"]


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("name", DEVICES)
def test_the_name_of_a_device_is_refused(kind: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"={name!r}: Windows keeps this name for a device; choose another$"):
        SINGLE[kind]([name])


@pytest.mark.parametrize("name", ["con.x", "NUL .x", "com\u00b9", "CONIN$", "aux.a.b", "con "])
@pytest.mark.parametrize("kind", ["columns", "robots"])
def test_the_name_of_a_device_is_refused_with_an_ending_too(kind: str, name: str) -> None:
    with pytest.raises(ValueError, match=r"Windows keeps this name for a device"):
        BUILDS[kind]([name])


@pytest.mark.parametrize("name", ["x.", "x ", "a.b.."])
@pytest.mark.parametrize("kind", ["columns", "robots"])
def test_a_dot_or_a_space_at_the_end_is_refused(kind: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"={name!r}: Windows drops a dot or a space at the end; leave it out$"):
        BUILDS[kind]([name])


def test_a_dataset_does_not_end_in_a_dot() -> None:
    refused(lambda: KoyuSettings(name="cubes."), "koyu.name='cubes.': Windows drops a dot")


@pytest.mark.parametrize("kind", BUILDS)
def test_names_that_differ_in_case_only_are_refused_together(kind: str) -> None:
    refused(
        lambda: BUILDS[kind](["Front", "side", "front"]),
        f"{kind}='front': is the same name as 'Front' on some systems ('front' and 'Front'); choose another",
    )


@pytest.mark.parametrize("kind", ["columns", "robots"])
@pytest.mark.parametrize("pair", [(NFC, NFD), (NFD, NFC), (NFC.upper(), NFD), ("stra\u00dfe", "STRASSE")])
def test_names_that_are_spelt_another_way_only_are_refused_together(kind: str, pair: tuple[str, str]) -> None:
    first, second = pair
    refused(
        lambda: BUILDS[kind](pair),
        f"{kind}={second!r}: is the same name as {first!r} on some systems ({second!a} and {first!a}); choose another",
    )


@pytest.mark.parametrize("kind", BUILDS)
def test_names_that_every_system_can_hold_are_kept(kind: str) -> None:
    BUILDS[kind](["Front", "front2", "console", "com", "com10", "nul-1"])


@pytest.mark.parametrize("name", ["Action", "OBSERVATION.state"])
def test_a_column_is_not_called_like_one_of_the_mode_in_another_case(name: str) -> None:
    refused(lambda: RecorderSettings(columns=[Column(name, abs)]), f"columns={name!r}: is the same name as")
    assert columns([name]).columns[0].name == name, "in custom mode there is no other"


def test_a_column_is_not_called_like_one_of_the_gym_in_another_case() -> None:
    build = lambda: RecorderSettings(gym_columns=True, columns=[Column("Next.Reward", abs)])  # noqa: E731
    refused(build, "columns='Next.Reward': is the same name as 'next.reward'")


def test_a_depth_stream_has_its_ending_in_any_case() -> None:
    refused(lambda: Camera("Front_Depth"), "camera 'Front_Depth': name='Front_Depth': _depth and _rgbd end the names")


def test_tasks_and_masks_are_no_file_names() -> None:
    assert settings(tasks=["Pick", "pick", "con"]).tasks == ("Pick", "pick", "con")
    assert Camera("front", masks=["Cube", "cube"]).masks == ("Cube", "cube")


def test_none_is_no_list_of_names() -> None:
    assert v.optional_names(None) is None
