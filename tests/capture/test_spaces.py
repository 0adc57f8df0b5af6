"""Gymnasium's spaces as columns: every kind of them is recorded as it is, or refused by name at the first reset."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import lucky_recorder as lr
from lucky_recorder.errors import CaptureError, SettingsError
from lucky_recorder.testing import check_session

STEPS = 3
BOX = spaces.Box(-5, 5, (2,), np.float32)
NESTED = spaces.Dict(
    {
        "arm": spaces.Dict({"q": BOX, "grip.force": spaces.Discrete(9)}),
        "pair": spaces.Tuple([spaces.MultiBinary(3), spaces.Discrete(4, start=-2)]),
        "said": spaces.Text(20),
    }
)


class Says(gym.Env[Any, Any]):
    """An environment of any spaces, which says in turn what it is given to say."""

    dt = 0.1

    def __init__(self, seen: Any = BOX, sent: Any = BOX, says: Any = None) -> None:
        self.observation_space, self.action_space, self.says = seen, sent, says

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self._says(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return self._says(), 0.5, False, self.t == STEPS, {"is_success": True}

    def _says(self) -> Any:
        return self.observation_space.sample() if self.says is None else self.says[min(self.t, len(self.says) - 1)]


def recorded(path: Path, env: gym.Env[Any, Any], actions: Any = (), **settings: Any) -> lr.Session:
    fields = {"mode": "custom", "output_dir": path, **settings}
    with lr.RecordSession(env, **fields) as recorder:
        recorder.reset(seed=0)
        for t in range(STEPS):
            recorder.step(actions[t] if len(actions) else np.zeros(2, np.float32))
    return check_session(recorder.session_path)


def values(session: lr.Session, name: str) -> Any:
    return session.episode(0).rows()[name].to_pylist()


def refused(path: Path, env: gym.Env[Any, Any], *parts: str, **settings: Any) -> None:
    """The first reset must refuse, saying all of this, and leave nothing behind."""
    recorder = lr.RecordSession(env, **{"mode": "custom", "output_dir": path, **settings})
    with pytest.raises(SettingsError) as caught:
        recorder.reset()
    assert not [part for part in parts if part not in str(caught.value)], caught.value
    assert list(path.iterdir()) == []
    assert not recorder.is_recording


NO_COLUMNS = {
    "Graph": spaces.Graph(BOX, None),
    "Sequence": spaces.Sequence(BOX),
    "OneOf": spaces.OneOf([BOX, spaces.Discrete(2)]),
    "Space": gym.Space(),
    "(0,)": spaces.Box(0, 1, (0,)),
    "(2, 0)": spaces.Box(0, 1, (2, 0)),
    "complex64": gym.Space((2,), np.complex64),
}


@pytest.mark.parametrize("kind", NO_COLUMNS)
def test_a_space_that_no_column_holds_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    space = NO_COLUMNS[kind]
    nothing = {"says": [None]}
    column = [lr.Column("mine", "gym:obs")]
    env = Says(space, **nothing)
    refused(tmp_path, env, "column 'mine': source='gym:obs'", "observation space", kind, columns=column)
    column = [lr.Column("mine", "gym:obs.a.0")]
    env = Says(spaces.Dict({"a": spaces.Tuple([space])}), **nothing)
    refused(tmp_path, env, "source='gym:obs.a.0'", "part 'a.0' of the observation space", kind, columns=column)
    column = [lr.Column("mine", "gym:action")]
    # An environment that takes no action is refused for itself, whatever is recorded of it.
    acts = 0 not in (space.shape or ())
    asked, by_all = ("source='gym:action'", "gym_columns=True") if acts else ("action_space=", "takes no action")
    refused(tmp_path, Says(BOX, space), asked, kind, columns=column)
    refused(tmp_path, Says(BOX, space), by_all, kind, gym_columns=True)
    parted = spaces.Dict({"a": BOX, "b": space})
    refused(tmp_path, Says(BOX, parted), "gym_columns=True", "part 'b' of the action space", kind, gym_columns=True)


@pytest.mark.parametrize("space", [spaces.Dict(), spaces.Tuple([])])
def test_an_action_space_of_no_parts_holds_nothing(tmp_path: Path, space: Any) -> None:
    refused(tmp_path, Says(BOX, space), "gym_columns=True", "holds no value", gym_columns=True)


def test_a_space_of_no_values_that_no_column_records_is_let_be(tmp_path: Path) -> None:
    env = Says(spaces.Dict({"a": BOX, "b": spaces.Box(0, 1, (0,))}))
    session = recorded(tmp_path, env, columns=[lr.Column("a", "gym:obs.a", shape=(2,))])
    assert session.episode(0).length == STEPS


PLAIN: list[tuple[Any, list[Any], str, tuple[int, ...]]] = [
    (spaces.Box(-1, 1, (2,), np.float16), [np.float16([0.1, 0.2])] * 3, "float32", (2,)),
    (spaces.Box(-1, 1, (), np.float16), [np.float16(0.1), 0.5, -1.0], "float32", ()),
    (spaces.Discrete(3, start=5), [5, np.int64(7), np.array([6])], "int64", ()),
    (spaces.MultiBinary([2, 2]), [np.array([[0, 1], [1, 1]], np.int8)] * 3, "int8", (2, 2)),
    (spaces.MultiDiscrete([[2, 3], [4, 5]]), [np.array([[1, 2], [3, 4]])] * 3, "int64", (2, 2)),
    (spaces.MultiDiscrete([3, 3], start=[-1, 5]), [np.array([-1, 7])] * 3, "int64", (2,)),
    (spaces.Text(9), ["up", "", "Würfel 立方体"], "string", ()),
]


@pytest.mark.parametrize(("space", "given", "dtype", "shape"), PLAIN, ids=[str(p[0])[:24] for p in PLAIN])
def test_a_space_is_recorded_as_it_is(tmp_path: Path, space: Any, given: Any, dtype: str, shape: Any) -> None:
    declared = "str" if dtype == "string" else dtype
    columns = [lr.Column(k, f"gym:{k}", dtype=declared, shape=shape) for k in ("obs", "action")]
    session = recorded(tmp_path, Says(space, space, given), given, columns=columns, gym_columns=True)
    stored = np.dtype(dtype).type if dtype != "string" else str
    expected = [str(g) if dtype == "string" else np.asarray(g, stored).reshape(shape).tolist() for g in given]
    for name in ("obs", "action", "gym.action"):
        assert values(session, name) == expected
        assert session.features[name]["dtype"] == dtype
        assert session.features[name]["shape"] == list(shape or (1,))
        assert (name in session.stats) is (dtype != "string")


def test_parts_of_spaces_are_found_by_their_keys_and_places(tmp_path: Path) -> None:
    given = [
        {
            "arm": {"q": np.float32([t, -t]), "grip.force": np.int64(t)},
            "pair": (np.int8([t % 2, 1, 0]), np.int64(t - 2)),
            "said": f"step {t}",
        }
        for t in range(STEPS + 1)
    ]
    asked = {
        "arm.q": ("float32", (2,)),
        "arm.grip.force": ("int64", ()),
        "pair.0": ("bool", (3,)),
        "pair.1": ("int8", ()),
        "said": ("str", ()),
    }
    columns = [
        lr.Column(f"{slot}/{name}".replace("/", " "), f"gym:{slot}.{name}", dtype=dtype, shape=shape)
        for slot in ("obs", "action")
        for name, (dtype, shape) in asked.items()
    ]
    session = recorded(tmp_path, Says(NESTED, NESTED, given), given, columns=columns, gym_columns=True)
    for place in ("obs ", "action ", "gym.action."):
        assert values(session, f"{place}arm.q") == [[t, -t] for t in range(STEPS)]
        assert values(session, f"{place}arm.grip.force") == list(range(STEPS))
        assert values(session, f"{place}pair.0") == [[t % 2, 1, 0] for t in range(STEPS)]
        assert values(session, f"{place}pair.1") == [t - 2 for t in range(STEPS)]
        assert values(session, f"{place}said") == [f"step {t}" for t in range(STEPS)]
    ours = [name for name in session.features if name.startswith("gym.action")]
    assert ours == [f"gym.action.{name}" for name in ("arm.grip.force", "arm.q", "pair.0", "pair.1", "said")]


def test_a_policy_that_looks_is_shown_no_part_of_the_action_to_come(tmp_path: Path) -> None:
    space = spaces.Dict({"a": BOX})
    columns = [
        lr.Column("sent", "gym:action.a", shape=(2,)),
        lr.Column("seen", "gym:obs.a", shape=(2,)),
        lr.Column("late", lambda moment: moment.reward, when="after"),
    ]
    env = lr.RecordSession(
        Says(space, space), mode="custom", output_dir=tmp_path, columns=columns, gym_columns=True, success="terminated"
    )
    env.reset()
    assert list(env.observe()) == ["seen"]
    env.close()


@pytest.mark.parametrize(
    "source", ["gym:obs", "gym:obs.arm", "gym:obs.arm.x", "gym:obs.pair.2", "gym:obs.arm.grip", "gym:action.x", "gym:x"]
)
def test_what_is_no_part_of_a_space_lists_those_there_are(tmp_path: Path, source: str) -> None:
    known = (
        "known: gym:action, gym:reward, gym:obs.arm.grip.force, gym:obs.arm.q, gym:obs.pair.0, gym:obs.pair.1, "
        "gym:obs.said"
    )
    refused(tmp_path, Says(NESTED), f"source='{source}'", known, columns=[lr.Column("mine", source)])


def test_a_long_list_of_parts_is_cut_short(tmp_path: Path) -> None:
    many = spaces.Dict({f"k{i:03d}": BOX for i in range(300)})
    refused(tmp_path, Says(many), "gym:obs.k019, and 280 more", columns=[lr.Column("mine", "gym:obs.x")])


def test_a_name_that_may_mean_two_parts_is_refused(tmp_path: Path) -> None:
    both = spaces.Dict({"a": spaces.Dict({"b": BOX}), "a.b": BOX, "c": BOX})
    column = [lr.Column("mine", "gym:obs.a.b")]
    refused(tmp_path, Says(both), "source='gym:obs.a.b': is ambiguous", "('a', 'b')", "('a.b',)", columns=column)
    parts = [{"a": {"b": np.float32([1, 2])}, "a.b": np.float32([3, 4]), "c": np.float32([5, 6])}]
    session = recorded(tmp_path, Says(both, says=parts), columns=[lr.Column("mine", "gym:obs.c", shape=(2,))])
    assert values(session, "mine") == [[5, 6]] * STEPS


@pytest.mark.parametrize("key", ["a/b", "a\nb", "x."])
def test_a_part_of_an_action_that_names_no_column_is_refused(tmp_path: Path, key: str) -> None:
    space = spaces.Dict({key: BOX})
    refused(tmp_path, Says(BOX, space), "gym_columns=True", f"part {key!r} of the action space", gym_columns=True)


@pytest.mark.parametrize(
    ("space", "alike"),
    [
        (spaces.Dict({"Arm": BOX, "arm": BOX}), "column='gym.action.arm': is the same name as 'gym.action.Arm'"),
        (spaces.Dict({"a": spaces.Dict({"b": BOX}), "a.b": BOX}), "column='gym.action.a.b': stands twice"),
        (spaces.Dict({"a.1": BOX, "a": spaces.Tuple([BOX, BOX])}), "column='gym.action.a.1': stands twice"),
        (spaces.Dict({"\u00e9": BOX, "e\u0301": BOX}), "is the same name as"),
        (spaces.Dict({"A.b": BOX, "a": spaces.Dict({"B": BOX})}), "column='gym.action.a.B': is the same name as"),
    ],
)
def test_parts_that_would_be_one_column_are_refused_with_what_helps(tmp_path: Path, space: Any, alike: str) -> None:
    remedy = "leave it off, and record each with a Column of your own, such as a callable of moment.action, or rename"
    said = "gym_columns=True: two parts of the action space would be one column; "
    refused(tmp_path, Says(BOX, space), said, remedy, alike, gym_columns=True)


def test_a_column_of_ones_own_that_is_called_like_a_part_is_refused(tmp_path: Path) -> None:
    own = [lr.Column("gym.action.Arm", "gym:reward")]
    said = "columns='gym.action.Arm': is the same name as 'gym.action.arm'"
    refused(tmp_path, Says(BOX, spaces.Dict({"arm": BOX})), said, columns=own, gym_columns=True)


@pytest.mark.parametrize(
    ("space", "declared", "message"),
    [
        (BOX, {}, "shape=(): gym:obs gives shape (2,); set shape=(2,)"),
        (BOX, {"shape": (3,)}, "shape=(3,): gym:obs gives shape (2,); set shape=(2,)"),
        (BOX, {"shape": (2, 1)}, "shape=(2, 1): gym:obs gives shape (2,); set shape=(2,)"),
        (spaces.Discrete(2), {"shape": (2,)}, "shape=(2,): gym:obs gives shape (); set shape=()"),
        (BOX, {"shape": (2,), "dtype": "int64"}, "dtype='int64': gym:obs gives float32; set dtype='float32'"),
        (BOX, {"shape": (2,), "dtype": "bool"}, "dtype='bool': gym:obs gives float32; set dtype='float32'"),
        (BOX, {"dtype": "str"}, "dtype='string': gym:obs gives float32; set dtype='float32'"),
        (spaces.Text(3), {}, "dtype='float64': gym:obs gives str; set dtype='str'"),
        (spaces.Box(0, 1, (2,), np.float16), {"dtype": "int8"}, "dtype='int8': gym:obs gives float32"),
    ],
)
def test_what_is_declared_is_compared_with_the_space(
    tmp_path: Path, space: Any, declared: dict[str, Any], message: str
) -> None:
    columns = [lr.Column("mine", "gym:obs", **declared)]
    refused(tmp_path, Says(space), f"column 'mine': {message}", columns=columns)
    columns = [lr.Column("mine", "gym:action", **declared)]
    refused(tmp_path, Says(BOX, space), message.replace("gym:obs", "gym:action"), columns=columns)


@pytest.mark.parametrize("declared", [{"dtype": "str"}, {"shape": (2,)}])
def test_a_reward_is_one_number(tmp_path: Path, declared: dict[str, Any]) -> None:
    refused(
        tmp_path, Says(), "column 'mine': ", "gym:reward gives", columns=[lr.Column("mine", "gym:reward", **declared)]
    )


@pytest.mark.parametrize("space", [spaces.Box(0, 9, ()), spaces.Box(0, 9, (1,)), spaces.Box(0, 9, (1, 1))])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_single_number_is_a_scalar_column_however_deep_it_lies(tmp_path: Path, space: Any, shape: Any) -> None:
    says = [np.full(space.shape, t, np.float32) for t in range(STEPS)]
    session = recorded(tmp_path, Says(space, says=says), columns=[lr.Column("mine", "gym:obs", shape=shape)])
    assert values(session, "mine") == [0, 1, 2]


@pytest.mark.parametrize("says", [[{"a": {}}], [{"a": 5}], [{}], [None], [[1]]])
def test_an_observation_without_a_part_of_its_space_names_it(tmp_path: Path, says: Any) -> None:
    env = Says(spaces.Dict({"a": spaces.Dict({"b": BOX})}), says=says)
    recorder = lr.RecordSession(
        env, mode="custom", output_dir=tmp_path, columns=[lr.Column("mine", "gym:obs.a.b", shape=(2,))]
    )
    recorder.reset()
    with pytest.raises(CaptureError, match=r"column 'mine': the observation has no part 'a\.b', though its space has"):
        recorder.step(np.zeros(2))
    recorder.close()


def sent(path: Path, env: gym.Env[Any, Any], action: Any, **settings: Any) -> str:
    """Step once with an action that cannot be recorded, and return what is said of it."""
    recorder = lr.RecordSession(env, mode="custom", output_dir=path, **settings)
    recorder.reset()
    with pytest.raises(CaptureError) as caught:
        recorder.step(action)
    recorder.close()
    return str(caught.value)


@pytest.mark.parametrize(
    ("space", "action", "why", "declared"),
    [
        (BOX, [np.nan, 0], "is not finite", "'gym:action', dtype='float64', shape=(2,), allow_nan=True"),
        (spaces.Discrete(3), 0.5, "does not fit int64", "'gym:action', dtype='float64', allow_nan=True"),
        (spaces.Dict({"a": BOX}), {"a": [0, np.inf]}, "is not finite", "'gym:action.a', dtype='float64', shape=(2,)"),
    ],
)
def test_an_action_that_gym_columns_cannot_hold_says_what_helps(
    tmp_path: Path, space: Any, action: Any, why: str, declared: str
) -> None:
    said = sent(tmp_path, Says(BOX, space), action, gym_columns=True)
    assert re.search(rf"column 'gym\.action.*': .* {why}; correct what is sent, or leave gym_columns out and", said)
    assert f"record Column('...', {declared}" in said


def test_a_reward_that_is_nan_says_what_helps_and_that_helps(tmp_path: Path) -> None:
    class Nan(Says):
        def step(self, action: Any) -> Any:
            observation, _, *rest = super().step(action)
            return (observation, np.nan, *rest)

    said = sent(tmp_path, Nan(), np.zeros(2), gym_columns=True)
    assert said == (
        "column 'next.reward': nan is not finite; correct what the environment gives, or leave gym_columns out and "
        "record Column('...', 'gym:reward', dtype='float64', allow_nan=True)"
    )
    column = lr.Column("reward", "gym:reward", dtype="float64", allow_nan=True)
    assert np.isnan(values(recorded(tmp_path / "nan", Nan(), columns=[column]), "reward")).all()
