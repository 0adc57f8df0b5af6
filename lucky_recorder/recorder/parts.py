"""Steps that are recorded in parts: where a camera or the rows run faster than the environment steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from lucky_recorder.capture.door import simulator
from lucky_recorder.errors import CaptureError
from lucky_recorder.recorder.policies import Ran
from lucky_recorder.recorder.take import OPEN

if TYPE_CHECKING:
    from lucky_recorder.recorder.take import Take

Result = TypeVar("Result")


class PartedSteps:
    """Records ticks inside the steps of an environment whose physics can be stepped in parts.

    Args:
        env: The environment; its physics step is replaced until `remove`.
        parts: In how many parts each step is taken: the ticks of a step.
        follow: Called before each step's physics: looks whether the simulation is still the one that is recorded.
    """

    def __init__(self, env: Any, parts: int, follow: Callable[[Take], None] = lambda take: None) -> None:
        self._follow = follow
        self._substeps = simulator.Substeps(env, parts, self._before_part)
        self._take: Take
        self._steps_before = 0
        self._new_policy_step: Ran = False

    def run(self, take: Take, step: Callable[[], Result], new_policy_step: Ran) -> Result:
        """Take a step with ticks inside of it; what only the whole step knows belongs to its last tick.

        Args:
            take: The open take.
            step: Steps the environment, and tells the take's moment what came of it.
            new_policy_step: Whose policy has run for this step; only the first row of the step says so.

        Raises:
            CaptureError: If the environment does not step its physics exactly once; the take is ended as failed.
        """
        self._take, self._new_policy_step = take, new_policy_step
        take.moment.clear_step()
        self._steps_before, self._substeps.is_recording = self._substeps.steps, True
        try:
            result = step()
        finally:
            self._substeps.is_recording = False
        if take.state is OPEN:
            self._require_one(self._substeps.steps - self._steps_before)
            self._settle()
        return result

    def _require_one(self, steps: int) -> None:
        if steps != 1:
            error = CaptureError(
                f"the environment stepped its physics {steps} times in a step, not once, so ticks inside of it cannot "
                "be told; keep data_hz and every frame_rate at or below the control rate"
            )
            self._take.fail(error)
            raise error

    def _before_part(self, part: int) -> None:
        """Look before a part of a step; the part before it is over."""
        take = self._take
        begun = self._substeps.steps - self._steps_before + 1
        if part == 0 and begun > 1 and take.state is OPEN:
            self._require_one(begun)
        if part and take.state is OPEN:
            # The last part is compared with the whole step: only then it is known whether that ends the episode.
            take.led_on()
            self._settle()
        if part == 0 and take.state is OPEN:
            self._follow(take)
        if take.state is OPEN:
            take.look()

    def _settle(self) -> None:
        """Settle a tick inside a step; only the first row of an action says that a policy has run."""
        buffer = self._take.lane.buffer
        rows = buffer.data_ticks
        self._take.settle(self._new_policy_step)
        if buffer.data_ticks > rows:
            self._new_policy_step = False

    def remove(self) -> None:
        """Give the environment its own physics step back."""
        self._substeps.remove()
