from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

from lucky_recorder.episode.schema import Field
from lucky_recorder.session.features import arrow_schema, arrow_type, episodes_schema, features
from tests.session.building import arm_schema, camera, custom_schema


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        (Field("a", "float64", (3,)), pa.list_(pa.float64())),
        (Field("a", "float64", (1,)), pa.list_(pa.float64())),
        (Field("a", "float32", (2, 4)), pa.list_(pa.list_(pa.float32()))),
        (Field("a", "int16"), pa.int16()),
        (Field("a", "uint8"), pa.uint8()),
        (Field("a", "bool"), pa.bool_()),
    ],
)
def test_parquet_types(field: Field, kind: pa.DataType) -> None:
    assert arrow_type(field) == kind


def test_every_row_starts_with_the_same_columns() -> None:
    assert arrow_schema(arm_schema()) == pa.schema(
        [
            ("index", pa.int64()),
            ("robot_id", pa.int64()),
            ("timestamp", pa.float64()),
            ("episode_index", pa.int64()),
            ("frame_index", pa.int64()),
            ("task_index", pa.int64()),
            ("frame_flags", pa.uint8()),
            ("action", pa.list_(pa.float64())),
            ("observation.state", pa.list_(pa.float64())),
        ]
    )


def test_features_of_columns() -> None:
    entries = features(arm_schema(robots=("left", "right"), extra=[Field("force", "float32", (2,), unit="N")]))
    assert list(entries) == arrow_schema(arm_schema(extra=[Field("force", "float32", (2,))])).names
    assert entries["index"] == {"dtype": "int64", "shape": [1], "names": None}
    assert entries["frame_flags"]["names"] == ["new_policy_step", "post_reset"]
    names = ["left.pan", "left.lift", "left.grip", "right.pan", "right.lift", "right.grip"]
    assert entries["action"] == {"dtype": "float64", "shape": [3], "names": names}
    assert entries["observation.state"] == {"dtype": "float64", "shape": [3], "names": names, "lucky_names": names}
    assert entries["force"] == {"dtype": "float32", "shape": [2], "names": None, "unit": "N"}


def test_custom_sessions_have_their_own_columns_only() -> None:
    assert list(features(custom_schema(Field("next.reward", "float64"))))[-2:] == ["frame_flags", "next.reward"]


def test_features_of_a_stream() -> None:
    assert features(arm_schema([camera("Front", Fraction(200, 3))]))["observation.images.Front"] == {
        "dtype": "video",
        "shape": [48, 64, 3],
        "names": ["height", "width", "channels"],
        "info": {
            "video.fps": 200 / 3,
            "video.height": 48,
            "video.width": 64,
            "video.channels": 3,
            "video.codec": "h264",
            "video.pix_fmt": "yuv420p",
            "video.is_depth_map": False,
            "has_audio": False,
        },
    }


def test_each_stream_adds_four_columns_to_the_episodes() -> None:
    schema = episodes_schema(["observation.images.Front", "observation.images.Wrist"])
    added = [f for f in schema if f.name.startswith("videos/observation.images.Wrist/")]
    assert [(f.name.rsplit("/", 1)[1], f.type) for f in added] == [
        ("chunk_index", pa.int64()),
        ("file_index", pa.int64()),
        ("from_timestamp", pa.float64()),
        ("to_timestamp", pa.float64()),
    ]
    assert len(schema) == 12 + 7 + 2 * 4
