"""Exactly the folders of the format's table are there, whichever streams are asked for."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import lucky_recorder as lr
from lucky_recorder.testing import CountEnv, check_session
from tests.scenarios.everything import SIZE

MODES = ("off", "rgbd", "separate", "depth_only")
# name -> what is not as usual of the binding
BINDINGS: dict[str, dict[str, Any]] = {
    **{mode: {"depth_mode": mode, "masks": ["wall", "counter"]} for mode in MODES},
    "disabled": {"depth_mode": "rgbd", "masks": ["wall"], "enabled": False},
    "unmasked": {"depth_mode": "separate", "masks": ["wall"], "record_masks": False},
    "nameless": {"depth_mode": "off"},
}


def expected_folders(cameras: bool, color: bool, masks: bool) -> set[str]:
    """The table of the format, word by word."""
    folders = set()
    for name, binding in BINDINGS.items():
        mode = binding["depth_mode"]
        if not cameras or not binding.get("enabled", True):
            continue
        if color and mode in ("off", "rgbd", "separate"):
            folders.add(f"observation.images.{name}")
        if color and mode in ("rgbd", "separate", "depth_only"):
            folders.add(f"observation.images.{name}_depth")
        if color and mode == "rgbd":
            folders.add(f"observation.images.{name}_rgbd")
        if masks and binding.get("record_masks", True) and "masks" in binding:
            folders.add(f"observation.masks.{name}")
    return folders


@pytest.mark.parametrize(("cameras", "color", "masks"), list(itertools.product([True, False], repeat=3)))
def test_exactly_the_folders_of_the_table_are_there(tmp_path: Path, cameras: bool, color: bool, masks: bool) -> None:
    bindings = [{"name": name, "source": "wall", **SIZE, **fields} for name, fields in BINDINGS.items()]
    env = lr.RecordSession(
        CountEnv(2, mujoco=True), output_dir=tmp_path, cameras=bindings,
        record_cameras=cameras, record_color_video=color, record_masks=masks,
    )  # fmt: skip
    env.reset(seed=0)
    for _ in range(2):
        env.step([0.0])
    env.close()
    path = env.session_path
    assert path is not None
    session = check_session(path)
    expected = expected_folders(cameras, color, masks)
    assert {p.name for p in path.glob("videos/*")} == expected
    assert (path / "videos").exists() is bool(expected)
    for folder in expected:
        ending = ".mkv" if folder.endswith(("_depth", "_rgbd")) else ".mp4"
        names = {p.name for p in (path / "videos" / folder / "chunk-000").iterdir()}
        assert names == {f"file-000{ending}"} | ({"file-000.json"} if "masks" in folder else set())
    described = {f for f in expected if f.startswith("observation.images.") and not f.endswith("_rgbd")}
    assert {key for key, f in session.features.items() if f["dtype"] == "video"} == described
    assert {c.split("/")[1] for c in session.episodes.column_names if c.startswith("videos/")} == described
    assert ("video_path" in session.info) is bool(expected)
