"""A dataset has no two features that some file system takes for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucky_recorder.errors import SettingsError
from lucky_recorder.koyu.manifest import Description
from lucky_recorder.koyu.writer import DatasetWriter
from tests.koyu.making import read_manifest
from tests.koyu.test_manifest import FEATURES, X, make


def described(*names: str) -> Description:
    return Description("cubes", "teleop", 50.0, FEATURES | dict.fromkeys(names, X))


def append(dataset: Path, number: int, *names: str) -> None:
    writer = DatasetWriter(dataset, described(*names))
    writer.prepare(make(number, description=described(*names))).commit()
    writer.close()


@pytest.mark.parametrize(
    ("first", "second"), [("f1", "F1"), ("Step.x", "step.X"), ("\u00e9", "e\u0301"), ("\u00df", "ss")]
)
@pytest.mark.parametrize("is_optional", [False, True])
def test_a_feature_that_is_called_like_one_that_is_there(
    tmp_path: Path, first: str, second: str, is_optional: bool
) -> None:
    append(tmp_path, 0, first)
    if is_optional:
        append(tmp_path, 1)
    before = (tmp_path / "manifest.json").read_bytes()
    with pytest.raises(
        SettingsError, match=r"is the same name on some systems as .*, which this dataset has"
    ) as caught:
        DatasetWriter(tmp_path, described(second))
    assert repr(first) in str(caught.value)
    assert ascii(second) in str(caught.value)
    assert (tmp_path / "manifest.json").read_bytes() == before
    append(tmp_path, 2, first)
    assert read_manifest(tmp_path)["episode_count"] == 2 + is_optional


def test_one_that_came_up_meanwhile(tmp_path: Path) -> None:
    append(tmp_path, 0)
    writers = [DatasetWriter(tmp_path, described(name)) for name in ("f1", "F1")]
    for number, (writer, name) in enumerate(zip(writers, ("f1", "F1"), strict=True), 1):
        writer.prepare(make(number, description=described(name))).commit()
    writers[0].close()
    with pytest.raises(SettingsError, match="'F1' is the same name on some systems as 'f1'"):
        writers[1].close()
