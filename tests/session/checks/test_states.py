"""Faults of ``states/``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lucky_recorder as lr
from lucky_recorder.session.check import check_session
from tests.recorder.physics import XML, Cart, push
from tests.session.breaking import rewrite, with_value

FILE = "states/chunk-000/file-000.parquet"
META = "meta/episodes/chunk-000/file-000.parquet"
KEY = b"lucky_recorder.states"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two episodes of seven ticks, in four rows each."""
    wrapped = lr.RecordSession(
        Cart(), output_dir=tmp_path_factory.mktemp("whole"), keep_states=True, data_hz=25, metadata_every=9
    )
    for seed in range(2):
        wrapped.reset(seed=seed)
        push(wrapped, 7)
        wrapped.end_episode(success=True)
    wrapped.close()
    assert wrapped.session_path is not None
    assert check_session(wrapped.session_path, deep=True) == []
    return wrapped.session_path


@pytest.fixture
def session(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / whole.name)


def found(session: Path) -> dict[str, str]:
    """Return the one fault of each file."""
    faults = check_session(session, decode=False)
    assert len({fault.file for fault in faults}) == len(faults), faults
    return {fault.file: fault.message for fault in faults}


def vector(session: Path, column: str, tick: int, place: int, value: float) -> Any:
    values = pq.read_table(session / FILE, partitioning=None)[column][tick].as_py()
    return [*values[:place], value, *values[place + 1 :]]


@pytest.mark.parametrize(
    ("column", "tick", "place", "value", "message"),
    [
        ("state", 3, 1, np.nan, "tick 3: state holds NaN or infinity"),
        ("state", 7, 2, np.inf, "tick 7: state holds NaN or infinity"),
        ("ctrl", 6, 0, -np.inf, "tick 6: ctrl holds NaN or infinity"),
        ("state", 3, 0, 0.061, "tick 2: lasts 0.021 s of the states' time"),
        ("state", 7, 0, 0.0, "tick 6: lasts -0.12 s of the states' time"),
    ],
)
def test_a_value_that_no_simulation_was_in(
    session: Path, column: str, tick: int, place: int, value: float, message: str
) -> None:
    rewrite(session / FILE, with_value(column, tick, vector(session, column, tick, place, value)))
    assert found(session) == {FILE: message}


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("part", ["mocap_pos", "mocap_quat", "ctrl", "xfrc_applied"])
def test_what_is_given_to_a_step_may_be_no_number(session: Path, part: str, value: float) -> None:
    sizes = lr.Session(session).episode(0).states().about["parts"]
    place = sum([*sizes.values()][: [*sizes].index(part)])
    rewrite(session / FILE, with_value("state", 3, vector(session, "state", 3, place, value)))
    assert found(session) == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"sizes": {"nq": 99}},
        {"sizes": {"nbody": 5}},
        {"parts": {"userdata": 1}},
        {"parts": {"qpos": 3, "qvel": 1}},
        {"parts": {"time": 0, "qpos": 3}},
    ],
)
def test_sizes_and_parts_that_do_not_go_together(session: Path, fields: dict[str, dict[str, int]]) -> None:
    about = lr.Session(session).episode(0).states().about
    note(session, {name: {**about[name], **values} for name, values in fields.items()})
    assert "its parts are" in found(session)[FILE]


@pytest.mark.parametrize(("ctrl", "is_right"), [(None, True), ([0.5], True), ([np.inf], False)])
def test_commands_of_a_tick_whose_end_nobody_knows(session: Path, ctrl: Any, is_right: bool) -> None:
    rewrite(session / FILE, with_value("state", 7, None))
    rewrite(session / FILE, with_value("ctrl", 6, ctrl))
    note(session, {"ended": False})
    assert found(session) == ({} if is_right else {FILE: "tick 6: ctrl holds NaN or infinity"})
    kept = lr.Session(session).episode(0).states()
    assert np.array_equal(kept.commands[6], [np.nan if ctrl is None else ctrl[0]], equal_nan=True)
    assert np.array_equal(np.concatenate([part.commands for part in kept.parts()])[:-1], kept.commands, equal_nan=True)


class Since1970(Cart):
    """Its time is what a clock says: a step is off by a quarter of a microsecond, and by another one each."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        result = super().reset(seed=seed)
        self.data.time = 1.7e9
        return result

    def step(self, action: Any) -> Any:
        mujoco.mj_step(self.model, self.data, nstep=96)
        return super().step(action)


@pytest.mark.filterwarnings("ignore:the environment states")
@pytest.mark.parametrize(("kind", "timestep"), [(Since1970, 0.0005), (Cart, 0.001234567)])
def test_clocks_and_rates_that_are_rounded(kind: type[Cart], timestep: float, tmp_path: Path) -> None:
    env = kind(xml=XML.replace('timestep="0.005"', f'timestep="{timestep!r}"'))
    env.dt = timestep * (100 if kind is Since1970 else 4)
    env.metadata = {"render_modes": []}  # type: ignore[misc]
    wrapped = lr.RecordSession(env, output_dir=tmp_path, keep_states=True)
    wrapped.reset(seed=1)
    push(wrapped, 12)
    wrapped.end_episode(success=True)
    wrapped.close()
    assert wrapped.session_path is not None
    assert check_session(wrapped.session_path) == []
    lr.trim(wrapped.session_path, tmp_path / "cut", start=2, end=1)
    assert check_session(tmp_path / "cut") == []
    assert len(lr.Session(tmp_path / "cut").episode(0).states()) == 9


@pytest.mark.parametrize(
    ("column", "tick", "value", "message"),
    [
        ("state", 2, [1.0], "a list has not 41 values, or one is missing"),
        ("state", 2, None, "a list has not 41 values, or one is missing"),
        ("state", 7, None, "a list has not 41 values, or one is missing"),
        ("ctrl", 2, [1.0, 2.0], "a list has not 1 values, or one is missing"),
        ("ctrl", 2, None, "a list has not 1 values, or one is missing"),
        ("ctrl", 7, [1.0], "a list has not 1 values, or one is missing"),
        ("tick", 2, 3, "its ticks do not run from 0 on without a gap"),
    ],
)
def test_a_list_of_another_length(session: Path, column: str, tick: int, value: Any, message: str) -> None:
    rewrite(session / FILE, with_value(column, tick, value))
    assert found(session) == {FILE: message}
    with pytest.raises(lr.FormatError, match=message):
        _ = lr.Session(session).episode(0).states().states


def cut(table: pa.Table) -> pa.Table:
    short = table.slice(0, 6)
    return short.set_column(2, "ctrl", pa.array([*short["ctrl"].to_pylist()[:-1], None], pa.list_(pa.float64())))


def test_fewer_states_than_ticks(session: Path) -> None:
    rewrite(session / FILE, cut)
    assert found(session) == {FILE: "6 states of 5 ticks, for 4 rows of a robot"}


def test_other_columns(session: Path) -> None:
    rewrite(session / FILE, lambda table: table.drop_columns(["ctrl"]))
    assert "expected ['tick', 'state', 'ctrl']" in found(session)[FILE]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "../../x"),
        ("sizes", {"state": 27, "nu": -1}),
        ("sizes", {"state": 1 << 40, "nu": 1}),
        ("sizes", [1]),
        ("timestep", "0.1"),
        ("ended", 1),
        ("resets", [1.5]),
        ("resets", None),
        ("tried", [-1]),
        ("plugins", [3]),
        ("parts", {"qpos": -1}),
        ("parts", [2]),
        ("physics_steps", -4),
        ("not_brought_back", [3]),
        ("mujoco", None),
        ("hz", "-50"),
        # As a fraction it would have a billion digits.
        ("hz", "1e999999999"),
    ],
)
def test_a_footer_that_cannot_be(session: Path, field: str, value: Any) -> None:
    note(session, {field: value})
    assert found(session)[FILE].startswith(f"its footer says {field}=")
    with pytest.raises(lr.FormatError, match=f"its footer says {field}="):
        lr.Session(session).episode(0).states()


def note(session: Path, fields: dict[str, Any] | None) -> None:
    table = pq.read_table(session / FILE, partitioning=None)
    said = None if fields is None else {**json.loads(table.schema.metadata[KEY]), **fields}
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(said).encode()}), session / FILE)


def test_a_footer_that_says_nothing(session: Path) -> None:
    note(session, None)
    assert found(session) == {FILE: "its footer does not say what states it holds"}


@pytest.mark.parametrize("hz", ["0", "1/0"])
def test_a_rate_that_is_none(session: Path, hz: str) -> None:
    note(session, {"hz": hz})
    assert found(session) == {FILE: f"hz is {hz!r}, expected ticks per second"}


def test_a_last_state_that_is_said_to_be_unknown(session: Path) -> None:
    note(session, {"ended": False})
    assert found(session) == {FILE: "a list has not 41 values, or one is missing"}


def model_of(session: Path) -> Path:
    [model] = (session / "states/models").iterdir()
    return model


def named(session: Path, file: Path) -> str:
    return file.relative_to(session).as_posix()


def test_a_model_that_is_another(session: Path) -> None:
    model = model_of(session)
    model.write_bytes(model.read_bytes()[:-1] + b"\xff")
    assert found(session) == {named(session, model): "holds another model than its name says (its sha256 differs)"}
    with pytest.raises(lr.FormatError, match="holds another model"):
        lr.Session(session).episode(0).model()


BREAKS: dict[str, Callable[[Path], Any]] = {
    "states": lambda session: (session / FILE).unlink(),
    "torn": lambda session: (session / FILE).write_bytes((session / FILE).read_bytes()[:-9]),
    "a link": lambda session: ((session / FILE).unlink(), (session / FILE).symlink_to("/etc/hostname")),
    "place": lambda session: rewrite(session / META, with_value("states/file_index", 0, 1)),
    "half a place": lambda session: rewrite(session / META, with_value("states/file_index", 0, None)),
    "columns": lambda session: rewrite(session / META, lambda t: t.drop_columns(["states/file_index"])),
    "a stray": lambda session: shutil.copy(session / FILE, session / "states/chunk-000/file-002.parquet"),
    "left over": lambda session: shutil.copy(session / FILE, session / "states/chunk-000/file-002.parquet.tmp"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_is_not_where_it_should_be_is_a_fault(session: Path, name: str) -> None:
    BREAKS[name](session)
    assert check_session(session, decode=False)


def test_a_model_that_is_missing_is_told_for_each_episode(session: Path) -> None:
    model = model_of(session)
    model.unlink()
    faults = check_session(session, decode=False)
    assert {(fault.file, fault.episode) for fault in faults} == {(named(session, model), 0), (named(session, model), 1)}


def test_a_template_that_leads_elsewhere(session: Path) -> None:
    info = json.loads((session / "meta/info.json").read_text())
    info["states_path"] = "../{chunk_index}/{file_index}"
    (session / "meta/info.json").write_text(json.dumps(info))
    assert "states_path is" in found(session)["meta/info.json"]
    with pytest.raises(lr.FormatError, match="outside"):
        _ = lr.Session(session).episode(0).states()


def test_a_column_of_states_in_a_session_without_is_none_of_the_format(session: Path) -> None:
    info = json.loads((session / "meta/info.json").read_text())
    del info["states_path"]
    (session / "meta/info.json").write_text(json.dumps(info))
    assert not lr.Session(session).has_states
    assert any("states/chunk_index is not of the format" in f.message for f in check_session(session, decode=False))
