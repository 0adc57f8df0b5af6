from __future__ import annotations

import pytest

from lucky_recorder.koyu import layout


@pytest.mark.parametrize(
    ("description", "slug"),
    [
        ("Pick up the cube", "pick-up-the-cube"),
        ("  Open: drawer_2, slowly!  ", "open-drawer-2-slowly"),
        ("立方体を取る", "立方体を取る"),
        ("\uff21\uff22", "ab"),
        ("!?", "task"),
    ],
)
def test_a_task_has_a_short_name(description: str, slug: str) -> None:
    assert layout.slug(description) == slug


def test_long_tasks_stay_apart() -> None:
    first, second = (layout.slug("put the very same long beginning before " * 3 + end) for end in ("one", "two"))
    assert first != second
    assert first[:40] == second[:40]
    assert max(len(first), len(second)) <= 48
    assert layout.slug("put the very same long beginning before " * 3 + "one") == first


def test_a_bundle_is_told_by_its_name() -> None:
    assert layout.bundle_name("0" * 32) == "ep_" + "0" * 32
    assert layout.is_bundle_name("ep_" + "0f" * 16)
    assert not any(map(layout.is_bundle_name, ["ep_" + "0" * 31, ".tmp-1-" + "0" * 32, "ep_" + "g" * 32, "notes"]))
    assert layout.video_name("observation.images.front") == "observation.images.front.mp4"
