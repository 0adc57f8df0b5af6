from __future__ import annotations

import pytest

from lucky_recorder.session.check import Fault
from tests.session.breaking import INFO, Edit

WRONG_FIELDS = {
    "codebase_version": ["3.0", "v2.1", None, 3],
    "recorder_version": ["", None, 1],
    "neural_denoise": [None, 0, "false"],
    "bit_reproducible": [None, 1],
    "robots": [[], ["left"], ["left", "left"], "left", None, [1, 2], ["a", "b", "c"]],
    "robot_type": ["so100", None],
    "total_tasks": [0, 3, "2", 2.0, None],
    "total_episodes": [6, 8, -1, 7.0, True, None],
    "total_frames": [67, 0, "68", None],
    "fps": [25, 50.0, "50", None, 0],
    "hz": [100, 50.0, -50, 1e300, None],
    "chunks_size": [0, 3, 1001, 2.0, True, None],
    "episodes_per_file": [0, 1, 2, 1001, "3", None],
    "data_files_size_in_mb": [0, -1, "100", True, None],
    "video_files_size_in_mb": [0, None],
    "data_path": ["data/{episode}.parquet", "../{chunk_index}", None],
    "video_path": ["videos/{video_key}.mp4", None],
    "splits": [{"train": "0:6"}, {"train": "0:7", "test": "7:7"}, {}, [], None],
    "features": [{}, [], None, "features"],
}


@pytest.mark.parametrize("field", WRONG_FIELDS)
def test_every_wrong_field_of_info_is_a_fault(edit: Edit, field: str) -> None:
    for value in WRONG_FIELDS[field]:
        faults = edit(INFO, lambda info, value=value: info.update({field: value}))
        named = field if field not in ("robots", "chunks_size", "episodes_per_file", "hz", "features") else ""
        assert any(f.file == INFO and named in f.message for f in faults) or (not named and faults), (field, value)


@pytest.mark.parametrize("field", sorted(WRONG_FIELDS.keys() - {"recorder_version"}))
def test_every_missing_field_of_info_is_a_fault(edit: Edit, field: str) -> None:
    faults = edit(INFO, lambda info: info.pop(field))
    assert any(f.file == INFO and field in f.message for f in faults)


def test_without_our_version_nothing_of_ours_is_asked_for(edit: Edit) -> None:
    def change(info: dict) -> None:
        for field in ("recorder_version", "robots", "episodes_per_file"):
            del info[field]
        info["codebase_version"] = "2026.3"

    assert edit(INFO, change) == []


def test_a_denoised_session_is_not_reproducible(edit: Edit) -> None:
    faults = edit(INFO, lambda info: info.update(neural_denoise=True))
    assert faults == [Fault(INFO, None, "bit_reproducible is True, expected False")]


def test_two_entity_types(edit: Edit) -> None:
    assert "expected one of" in edit(INFO, lambda info: info.update(sim_type="mujoco_scene"))[0].message


def test_the_entity_type_goes_with_the_column(edit: Edit) -> None:
    def change(info: dict) -> None:
        info["sim_type"] = "mujoco_scene"
        del info["robot_type"]

    assert edit(INFO, change) == [Fault(INFO, None, "sim_type does not go with the column robot_id")]
