"""A simulation being looked at: the user's model and data, and a private copy of the state to look through.

After `mj_step`, the positions of bodies, the sensors and the pictures are a physics step behind the joint positions.
The private `MjData` copies the state and computes them again from it. The user's own data is only ever read.
"""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture.mujoco import callbacks
from lucky_recorder.capture.sync import Need, Sync
from lucky_recorder.errors import CaptureError, SettingsError, shown

Stage = Callable[[mujoco.MjModel, mujoco.MjData], None]


class Simulation:
    """A model with its data, and the private data to look through.

    Attributes:
        model: The user's model.
        data: The user's data.
        private: The private data; valid after `sync`.
        needs: The settings that need more than kinematics of it, for the error where that cannot be computed.

    Raises:
        SettingsError: If the data is that of another model: copying a state would write past the end of arrays.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        _check_belongs(model, data)
        self.model = model
        self.data = data
        self.private = mujoco.MjData(model)
        self.needs: tuple[Need, ...] = ()
        self._copy = _state_copier()
        places = kinematics(model)
        # By level, in their order: a dict would hash the level at every tick, which takes Python longer than a copy.
        self._stages: tuple[tuple[Stage, ...], ...] = (
            places,
            places,
            (*places, *_drawn_sensors(model)),
            (callbacks.forward,),
        )

    @property
    def instabilities(self) -> NDArray[np.int32] | None:
        """How often MuJoCo has found a bad position, velocity or acceleration and reset itself, always up to date.

        None where the model switches that off.
        """
        if int(self.model.opt.disableflags) & int(mujoco.mjtDisableBit.mjDSBL_AUTORESET):
            return None
        first, last = int(mujoco.mjtWarning.mjWARN_BADQPOS), int(mujoco.mjtWarning.mjWARN_BADQACC)
        counts: NDArray[np.int32] = self.data.warning.number[first : last + 1]
        return counts

    @property
    def refusals(self) -> NDArray[np.int32]:
        """How often MuJoCo has taken commands for bad and applied zeros instead, shape ``(1,)``, always up to date."""
        bad = int(mujoco.mjtWarning.mjWARN_BADCTRL)
        count: NDArray[np.int32] = self.data.warning.number[bad : bad + 1]
        return count

    def fingerprint(self) -> bytes:
        """Return everything that decides what a camera sees, as it is now, in the user's data."""
        # Not the commands: a policy that has looked sets them before the step, and pictures do not show them.
        what = mujoco.mjtState
        signature = int(what.mjSTATE_FULLPHYSICS) | int(what.mjSTATE_MOCAP_POS) | int(what.mjSTATE_MOCAP_QUAT)
        state = np.empty(mujoco.mj_stateSize(self.model, signature))
        mujoco.mj_getState(self.model, self.data, state, signature)
        return state.tobytes()

    def sync(self, level: Sync) -> None:
        """Bring the private data to the user's present state.

        Nothing is computed in the user's own data. The environment would read other values there than those it left,
        and its run with the recorder would differ from its run without it.

        Args:
            level: How much is computed from the state; `Sync.NOTHING` is treated as `Sync.KINEMATICS`.

        Raises:
            CaptureError: If that would call a callback of the user's a second time; see `refusal`. Names the settings
                that need it.
        """
        self.bringing(level)()

    def bringing(self, level: Sync) -> Callable[[], None]:
        """Return a function that does what `sync` does. It has all it needs at hand: it runs at every tick."""
        model, data, private, copy, stages = self.model, self.data, self.private, self._copy, self._stages[level]

        def bring() -> None:
            copy(model, data, private)
            try:
                for stage in stages:
                    stage(model, private)
            except CaptureError as error:
                raise self._explained(level, error) from None

        return bring

    def _explained(self, level: Sync, error: CaptureError) -> CaptureError:
        """Return an error with the settings in it that need that much, as they are named when they are set up."""
        needs = [f"{need.field}={shown(need.value)}: {need.instead}" for need in self.needs if need.level is level]
        return CaptureError(": ".join((str(error), "; ".join(needs)))) if needs else error

    def refusal(self, level: Sync) -> str:
        """Return why that much cannot be computed, as things are now; empty where it can."""
        stages = self._stages[level]
        if callbacks.forward in stages:
            called = callbacks.installed()
        else:
            sensors = callbacks.sensors_of_positions in stages
            called = tuple(name for name in callbacks.installed() if sensors and name == "mjcb_sensor")
        return callbacks.called_twice(called) if called else ""


# What makes the arrays of a model's data as long as they are.
_SIZES = (
    "nq",
    "nv",
    "nu",
    "na",
    "nbody",
    "njnt",
    "ngeom",
    "nsite",
    "ncam",
    "nmocap",
    "nsensordata",
    "neq",
    "nuserdata",
)


def _check_belongs(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    other = data.model
    if other is model:
        return
    wrong = [name for name in _SIZES if getattr(other, name) != getattr(model, name)]
    if wrong:
        sizes = ", ".join(f"{name} {getattr(other, name)} and not {getattr(model, name)}" for name in wrong)
        raise SettingsError(f"the MjData is that of another model ({sizes}); make it anew with mujoco.MjData(model)")


def _state_copier() -> Callable[[mujoco.MjModel, mujoco.MjData, mujoco.MjData], None]:
    # All that the next step depends on, also the solver's warm start: so what is computed from the copy is the same, to
    # the bit, as if it were computed in the user's own data.
    everything = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    if hasattr(mujoco, "mj_copyState"):
        copy = mujoco.mj_copyState
        return lambda model, source, target: copy(model, source, target, everything)

    def through_a_vector(model: mujoco.MjModel, source: mujoco.MjData, target: mujoco.MjData) -> None:
        state = np.empty(mujoco.mj_stateSize(model, everything))
        mujoco.mj_getState(model, source, state, everything)
        mujoco.mj_setState(model, target, state, everything)

    return through_a_vector


def kinematics(model: mujoco.MjModel) -> tuple[Stage, ...]:
    """Return the cheap stages that place everything; none of them calls a callback of the user's."""
    return (mujoco.mj_fwdKinematics,) if hasattr(mujoco, "mj_fwdKinematics") else tuple(_single_kinematics(model))


def _drawn_sensors(model: mujoco.MjModel) -> list[Stage]:
    """Return the stage that reads what a picture shows: a rangefinder's ray is a line, as long as the sensor reads."""
    if not (model.sensor_type == int(mujoco.mjtSensor.mjSENS_RANGEFINDER)).any():
        return []
    return [callbacks.sensors_of_positions if callbacks.calls_user_sensors(model) else mujoco.mj_sensorPos]


def _single_kinematics(model: mujoco.MjModel) -> list[Stage]:
    """Return the same for a MuJoCo that has no name for all of it."""
    steps = [mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_camlight]
    if model.nflex:
        steps.append(mujoco.mj_flex)
    if model.ntendon:
        steps.append(mujoco.mj_tendon)
    return steps
