from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lucky_recorder.lerobot.rules import check_lerobot
from tests.interop.conftest import LeRobot, Truth
from tests.interop.recording import number_on

HandedOut = Callable[[LeRobot, str, Truth], Path]

# Decoders convert YUV to RGB each in their own way; a neighbouring frame differs by far more.
LARGEST_PIXEL_ERROR = 3
CHOSEN = [30, 2, 7]
DELETED = [0, 3, 26]


@pytest.fixture(params=["cubes", "pendulum"])
def truth(request: pytest.FixtureRequest) -> Truth:
    return request.getfixturevalue(request.param)


def load(file: Path) -> dict[str, np.ndarray]:
    with np.load(file) as arrays:
        return {name.replace("|", "/"): arrays[name] for name in arrays.files}


def compare(found: dict[str, np.ndarray], truth: Truth, rows: np.ndarray, renumbered: tuple[str, ...] = ()) -> None:
    """Compare everything LeRobot has handed out with the files: ``found[k]`` is row ``rows[k]``."""
    assert set(found) == {*truth.rows, *truth.frames, "task"}
    for name, values in truth.rows.items():
        if name not in renumbered:
            # torch makes float32 of any number with a point, and keeps whole numbers whole.
            expected = values[rows].astype(np.float32 if values.dtype.kind == "f" else values.dtype)
            np.testing.assert_array_equal(found[name], expected, err_msg=name)
    np.testing.assert_array_equal(found["task"], truth.tasks[rows])
    for key, frames in truth.frames.items():
        compare_pictures(found[key], frames[rows])


def compare_pictures(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    assert np.abs(found.astype(int) - expected).max() <= LARGEST_PIXEL_ERROR


def all_rows(truth: Truth) -> np.ndarray:
    return np.arange(truth.table.num_rows)


def test_the_rules_say_that_it_opens(truth: Truth) -> None:
    assert check_lerobot(truth.path) == []
    # With the first episode, with the twenty-fifth, and at the end.
    assert len(list(truth.path.glob("meta/episodes/*/*.parquet"))) == 3
    success = truth.session.episodes["success"].to_pylist()
    assert 0 < sum(success) < len(success)


def test_a_picture_can_be_told_from_its_neighbours(truth: Truth) -> None:
    for frames in truth.frames.values():
        changes = np.abs(np.diff(frames.astype(int), axis=0)).max(axis=(1, 2, 3))
        # An arm begins to move slowly: a few pictures are like the one before.
        assert (changes > 2 * LARGEST_PIXEL_ERROR).mean() > 0.9


def test_every_item_is_its_row_and_its_frame(lerobot: LeRobot, handed_out: HandedOut, truth: Truth) -> None:
    items = load(handed_out(lerobot, "read", truth) / "items.npz")
    compare(items, truth, all_rows(truth))


def test_a_session_that_was_recovered_is_the_one_that_was_lost(
    lerobot: LeRobot, handed_out: HandedOut, recovered: Truth, cubes: Truth
) -> None:
    items = load(handed_out(lerobot, "read", recovered) / "items.npz")
    compare(items, recovered, all_rows(recovered))
    compare(items, cubes, all_rows(cubes))


def test_a_session_that_was_made_of_others_is_what_they_were(
    lerobot: LeRobot, handed_out: HandedOut, shaped: Truth, pendulum: Truth
) -> None:
    """Cut, merged, renamed and split: every item is its row, and the frame of that row in the first session."""
    items = load(handed_out(lerobot, "read", shaped) / "items.npz")
    compare(items, shaped, all_rows(shaped))
    assert set(items["task"]) == {"Do as you are told"}
    numbers = [int(said.split()[1]) for said in shaped.rows["said"]]
    assert [number_on(picture) for picture in items["observation.images.number"]] == numbers
    recorded = {said: state for said, state in zip(pendulum.rows["said"], pendulum.rows["speed"], strict=True)}
    np.testing.assert_array_equal([recorded[said] for said in shaped.rows["said"]], shaped.rows["speed"])


def test_its_other_decoder_gives_the_same(lerobot: LeRobot, handed_out: HandedOut, truth: Truth) -> None:
    if lerobot.version == "0.4.4":
        pytest.skip("its other decoder needs a torchvision that is no longer released")
    compare(load(handed_out(lerobot, "read", truth) / "pyav.npz"), truth, all_rows(truth))


def test_every_frame_names_itself(lerobot: LeRobot, handed_out: HandedOut, pendulum: Truth) -> None:
    items = load(handed_out(lerobot, "read", pendulum) / "items.npz")
    numbers = [number_on(picture) for picture in items["observation.images.number"]]
    assert numbers == list(range(pendulum.table.num_rows))
    assert pendulum.session.info["fps"] == 200 / 3


def test_windows_of_time_stay_inside_their_episode(lerobot: LeRobot, handed_out: HandedOut, truth: Truth) -> None:
    windows = load(handed_out(lerobot, "read", truth) / "windows.npz")
    steps = {"observation.state": [-1, 0], "action": [0, 1, 2]} | {key: [-1, 0] for key in truth.frames}
    episodes = truth.rows["episode_index"]
    first, last = np.searchsorted(episodes, episodes), np.searchsorted(episodes, episodes, "right") - 1
    for key, offsets in steps.items():
        wanted = all_rows(truth)[:, None] + offsets
        inside = np.clip(wanted, first[:, None], last[:, None])
        np.testing.assert_array_equal(windows[f"{key}_is_pad"], wanted != inside)
        if key in truth.frames:
            compare_pictures(windows[key], truth.frames[key][inside])
        else:
            np.testing.assert_array_equal(windows[key], truth.rows[key][inside].astype(np.float32))


def test_some_episodes_can_be_opened_alone(lerobot: LeRobot, handed_out: HandedOut, truth: Truth) -> None:
    items = load(handed_out(lerobot, "read", truth) / "chosen.npz")
    compare(items, truth, truth.rows_of(sorted(CHOSEN)))


def test_failed_episodes_can_be_left_out(lerobot: LeRobot, handed_out: HandedOut, truth: Truth) -> None:
    folder = handed_out(lerobot, "read", truth)
    succeeded = truth.rows_of([e.index for e in truth.session if e.success])
    assert 0 < len(succeeded) < truth.table.num_rows
    compare(load(folder / "succeeded.npz"), truth, succeeded)
    if lerobot.version != "0.4.4":
        compare(load(folder / "filtered.npz"), truth, succeeded)


def test_a_loader_with_workers_gives_the_same(lerobot: LeRobot, handed_out: HandedOut, truth: Truth) -> None:
    batches = load(handed_out(lerobot, "read", truth) / "batches.npz")
    compare(batches, truth, all_rows(truth))


@pytest.mark.parametrize(
    ("name", "episodes"),
    [
        ("train", range(24)),
        ("val", range(24, 32)),
        ("left", [e for e in range(32) if e not in DELETED]),
        ("merged", [*range(24, 32), *range(24)]),
        ("twice", [*range(32), *range(32)]),
    ],
)
def test_it_can_be_split_cut_and_merged(
    lerobot: LeRobot, handed_out: HandedOut, cubes: Truth, name: str, episodes: range | list[int]
) -> None:
    items = load(handed_out(lerobot, "tools", cubes) / f"{name}.npz")
    rows = cubes.rows_of(episodes)
    compare(items, cubes, rows, renumbered=("index", "episode_index", "task_index"))
    np.testing.assert_array_equal(items["index"], np.arange(len(rows)))
    lengths = [np.sum(cubes.rows["episode_index"] == e) for e in episodes]
    np.testing.assert_array_equal(items["episode_index"], np.repeat(np.arange(len(lengths)), lengths))


SMALL_ACT = {
    "type": "act",
    "device": "cpu",
    "push_to_hub": "false",
    "dim_model": 32,
    "n_heads": 2,
    "dim_feedforward": 32,
    "n_encoder_layers": 1,
    "n_vae_encoder_layers": 1,
    "latent_dim": 8,
    "chunk_size": 4,
    "n_action_steps": 4,
    "pretrained_backbone_weights": "null",
}


def test_a_policy_is_trained(lerobot: LeRobot, cubes: Truth, tmp_path: Path) -> None:
    out, before = tmp_path / "out", cubes.digest()
    said = lerobot.run(
        *("-m", "lerobot.scripts.lerobot_train", f"--output_dir={out}"),
        *("--dataset.repo_id=local/session", f"--dataset.root={cubes.path}", "--wandb.enable=false"),
        *("--steps=3", "--batch_size=4", "--num_workers=0", "--log_freq=1", "--save_freq=3"),
        *(f"--policy.{name}={value}" for name, value in SMALL_ACT.items()),
    )
    losses = [float(loss) for loss in re.findall(r"step:\d+ .*? loss:(\S+)", said)]
    assert len(losses) == 3
    assert np.isfinite(losses).all()
    assert (out / "checkpoints/000003/pretrained_model/model.safetensors").stat().st_size > 0
    assert cubes.digest() == before
