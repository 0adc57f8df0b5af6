"""The functions on the page about trajectories, on the software that they are for; what is not installed is skipped."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

import mujoco
import mujoco.rollout
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.testing import check_session
from tests.recorder.trajectories import HZ, simulate

# What these libraries warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")
PAGE = Path(__file__).parents[2] / "docs" / "trajectories.md"
ARM = """<mujoco model="arm"><option timestep="0.01" iterations="4" solver="Newton"/><worldbody>
<body name="arm"><joint name="a" axis="0 1 0" damping="1"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
<body name="hand" pos=".3 0 0"><joint name="b" axis="0 1 0" damping="1"/>
<geom type="capsule" fromto="0 0 0 .2 0 0" size=".02" contype="0"/><site name="gripper0_right_grip_site" pos=".2 0 0"/>
</body></body><body name="cube" pos=".9 0 0"><freejoint name="free"/><geom type="box" size=".02 .02 .02"/></body>
</worldbody><actuator><motor name="ma" joint="a"/><motor name="mb" joint="b"/></actuator></mujoco>"""


def of_the_page(name: str, **known: Any) -> Any:
    """Return a function that the page shows, as it is printed."""
    pieces = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (piece,) = [piece for piece in pieces if piece.startswith(f"def {name}(")]
    names = {"np": np, "lr": lr, "mujoco": mujoco, **known}
    exec(compile(piece, str(PAGE), "exec"), names)
    return names[name]


def test_every_function_of_the_page_is_tried() -> None:
    shown = re.findall(r"^```py\ndef (\w+)\(", PAGE.read_text(), re.MULTILINE)
    assert sorted(shown) == sorted(name.removeprefix("test_") for name in globals() if name.startswith("test_from_"))


def test_from_mjx(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("mujoco.mjx")
    model = mujoco.MjModel.from_xml_string(ARM)
    session = check_session(of_the_page("from_mjx")(model, 20, tmp_path))
    assert session.hz == 100
    (episode,) = session
    given = jax.numpy.asarray(episode.rows()["action"].to_pylist(), jax.numpy.float32)[None]
    shared = lr.record_trajectories(
        model,
        qpos=jax.numpy.ones((1, 20, model.nq)),
        qvel=jax.numpy.ones((1, 20, model.nv)),
        ctrl=given,
        success=True,
        control_hz=100,
        output_dir=tmp_path,
    )
    assert lr.Session(shared).episode(0).rows()["action"].equals(episode.rows()["action"])
    states = np.array(episode.rows()["observation.state"].to_pylist())
    assert states.shape == (20, 2)
    assert (np.diff(states, axis=0) != 0).all()
    # MuJoCo on a processor goes the same way, as nearly as single precision does.
    data = mujoco.MjData(model)
    for row, ctrl in zip(states, episode.rows()["action"].to_pylist(), strict=True):
        assert np.allclose(data.qpos[:2], row, atol=1e-3)
        data.ctrl[:] = ctrl
        mujoco.mj_step(model, data)


def test_from_robomimic(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    one = simulate((12, 7), xml=ARM.replace('timestep="0.01"', 'timestep="0.0125"'))
    width = 1 + one.model.nq + one.model.nv
    with h5py.File(tmp_path / "demo.hdf5", "w") as file:
        for number, states in enumerate(one.states):
            demo = file.create_group(f"data/demo_{number}")
            demo.attrs["model_file"] = ARM
            # robosuite's states are of the ticks: time, positions, velocities, and none after the last.
            demo["states"], demo["actions"] = states[:-1, :width], np.zeros((len(states) - 1, 7))
            demo["rewards"] = np.full(len(states) - 1, float(number))
    session = check_session(of_the_page("from_robomimic")(tmp_path / "demo.hdf5", tmp_path / "out"))
    assert session.hz == 20
    assert [(episode.length, episode.success) for episode in session] == [(12, False), (7, True)]
    data = mujoco.MjData(one.model)
    for episode, states in zip(session, one.states, strict=True):
        for place, state in zip(episode.rows()["eef"].to_pylist(), states, strict=False):
            data.qpos[:] = state[1 : 1 + one.model.nq]
            mujoco.mj_kinematics(one.model, data)
            assert np.allclose(data.site("gripper0_right_grip_site").xpos, place)


def test_from_minari(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    import gymnasium as gym

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))

    class WithInfos(minari.StepDataCallback):  # type: ignore[misc, name-defined]
        def __call__(self, env: Any, **fields: Any) -> Any:
            step = super().__call__(env, **fields)
            step["info"] = {"qpos": env.unwrapped.data.qpos.copy(), "qvel": env.unwrapped.data.qvel.copy()}
            return step

    env: Any = gym.make("InvertedPendulum-v5", max_episode_steps=8)
    collector = minari.DataCollector(env, step_data_callback=WithInfos, record_infos=True)
    for seed in range(2):
        collector.reset(seed=seed)
        for _ in range(8):
            *_, terminated, truncated, _ = collector.step(np.full(1, 0.1, np.float32))
            if terminated or truncated:
                break
    collector.create_dataset("pendulum/test-v0")
    model = env.unwrapped.model
    collector.close()
    # It leaves its folder to the collection of garbage, and complains of that.
    del collector
    gc.collect()
    from_minari = of_the_page("from_minari")
    session = check_session(from_minari("pendulum/test-v0", model, tmp_path / "out"))
    assert [episode.length for episode in session] == [8, 8]
    again: Any = gym.make("InvertedPendulum-v5")
    for seed, episode in enumerate(session):
        again.reset(seed=seed)
        rows = episode.rows()
        for state in rows["observation.state"].to_pylist():
            assert np.allclose(again.unwrapped.data.qpos[: len(state)], state)
            again.step(np.full(1, 0.1, np.float32))


def test_from_maniskill(tmp_path: Path) -> None:
    one = simulate((12, 7), xml=ARM)
    nq = one.model.nq
    episodes = []
    for states in one.states:
        qpos, qvel = states[:, 1 : 1 + nq], states[:, 1 + nq : 1 + nq + one.model.nv]
        arm = np.concatenate([np.zeros((len(states), 13)), qpos[:, 1::-1], qvel[:, 1::-1]], 1)
        episodes.append(
            {"actors": {"block": np.concatenate([qpos[:, 2:], qvel[:, 2:]], 1)}, "articulations": {"panda": arm}}
        )
    columns = [lr.Column("cube", "qpos:free", shape=(7,)), lr.Column("b", "qpos:b"), lr.Column("speed", "qvel:a")]
    from_maniskill = of_the_page("from_maniskill", COLUMNS=columns)
    path = from_maniskill(one.model, episodes, {"block": "free"}, {"panda": ["b", "a"]}, HZ, tmp_path)
    for episode, states in zip(check_session(path), one.states, strict=True):
        rows = episode.rows()
        assert np.array_equal(np.array(rows["cube"].to_pylist()), states[:, 3:10])
        assert np.array_equal(rows["b"].to_numpy(), states[:, 2])
        assert np.array_equal(rows["speed"].to_numpy(), states[:, 1 + nq])


def test_threads_of_mujoco(tmp_path: Path) -> None:
    model = mujoco.MjModel.from_xml_string(ARM)
    data = [mujoco.MjData(model) for _ in range(2)]
    physics = mujoco.mjtState.mjSTATE_FULLPHYSICS
    first = np.zeros((5, mujoco.mj_stateSize(model, physics)))
    first[:, 1] = np.linspace(-0.2, 0.2, 5)
    ctrl = np.random.default_rng(0).uniform(-1, 1, (5, 30, 2))
    after, _ = mujoco.rollout.rollout(model, data, first, ctrl)
    path = lr.record_trajectories(
        model,
        states=np.concatenate([first[:, None], after], 1),
        ctrl=ctrl,
        success=True,
        keep_states=True,
        output_dir=tmp_path,
    )
    session = check_session(path)
    assert session.hz == 100
    assert [np.array(e.rows()["observation.state"].to_pylist())[0, 0] for e in session] == first[:, 1].tolist()
