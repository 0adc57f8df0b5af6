"""The control rate: how many steps of an environment make a second. A simulation shows it; else something must say it.

What the environment states (``dt``, ``control_freq`` and the like) is often that of the physics, or of the environment
before a wrapper repeated its actions. So where there is a simulation it is only compared.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from lucky_recorder.capture import find
from lucky_recorder.capture.schedule import UNSETTLED, Clocks, asked_rates, clocks
from lucky_recorder.episode import clock
from lucky_recorder.errors import SettingsError
from lucky_recorder.notices import tell
from lucky_recorder.settings.recorder import RecorderSettings


def opening(settings: RecorderSettings, env: Any, has_simulation: bool) -> Clocks:
    """Return the rates of a recording when it is opened.

    Where a simulation is found the first step will show them, so they are not settled yet; unless something must be
    looked at inside of the steps, so inside of the first one too.

    Args:
        settings: What is recorded.
        env: The environment as it is stepped.
        has_simulation: Whether a MuJoCo simulation was found in it.

    Raises:
        SettingsError: If nothing says how long a step is, or a rate does not divide.
    """
    if not has_simulation:
        return clocks(settings, stated(settings, env))
    control = find.physics_rate(env)
    if control is None:
        if find.is_taken_in_parts(env):
            _refuse_more_parts(settings, env)
        return UNSETTLED
    try:
        settled = clocks(settings, control, find.most_parts(env))
    except SettingsError:  # then the first step shows what the rate really is, and the refusal can say it
        return UNSETTLED
    if settled.ticks_per_step == 1:
        return UNSETTLED
    _compare(settings, env, control)
    return settled


def _refuse_more_parts(settings: RecorderSettings, env: Any) -> None:
    """Refuse rates above the control rate where another recorder takes the steps in parts already."""
    control = find.step_rate(env)
    for field, rate in asked_rates(settings, settings.data_hz or control):
        if rate > control:
            remedy = (
                f"it is above the control rate, {clock.show(control)} Hz, so steps must be taken in parts, and another "
                "recorder of this environment does that already; have only one record faster than it steps"
            )
            raise SettingsError.of(field, clock.show(rate), remedy)


def stated(settings: RecorderSettings, env: Any) -> Fraction | None:
    """Return the control rate as it is stated, by the settings or else by the environment; None if nobody does."""
    return settings.control_hz or find.control_rate(env) or find.frame_rate(env)


def measured(settings: RecorderSettings, env: Any, seconds: float, noise: float = 0.0) -> Clocks:
    """Settle the rates by how long the first step has lasted.

    Args:
        settings: What is recorded.
        env: The environment as it is stepped.
        seconds: Simulated time that the step has taken; 0 where the simulation's time stands still.
        noise: By which part of it that may be off, because the times themselves are rounded.

    Raises:
        SettingsError: If a rate does not divide the measured one, or the time stands still and nothing else says it.
    """
    if seconds <= 0:
        return _unmeasured(settings, env)
    control = clock.rate_of_step(seconds, noise)
    if settings.control_hz is not None and settings.uneven_steps == "allow":
        # Then the first step may be unlike the others, and somebody knows better.
        return clocks(settings, settings.control_hz)
    _compare(settings, env, control)
    return clocks(settings, control, what=f"the control rate as measured (a step lasts {seconds:g} s)")


def _unmeasured(settings: RecorderSettings, env: Any) -> Clocks:
    settled = clocks(settings, stated(settings, env))
    if settings.control_hz is None:
        tell(
            "the simulation's time stood still in the first step, so nothing shows how long steps last: "
            f"{clock.show(settled.control)} Hz is what is stated. If the environment moves another MjData than the "
            "one in its attributes, rows show one that stands still; if it moves none, set control_hz"
        )
    return settled


def is_vouched_for(settings: RecorderSettings, env: Any, seconds: float) -> bool:
    """Tell whether something states what a step has shown, or nothing states anything; see `Source.is_vouched_for`."""
    if seconds <= 0:
        return False
    said = find.statements(env)
    if settings.control_hz is not None:
        said = (*said, find.Statement("control_hz", settings.control_hz))
    control = clock.rate_of_step(seconds)
    return not said or any(one.holds(control) for one in said)


def _compare(settings: RecorderSettings, env: Any, control: Fraction) -> None:
    """Compare what is stated with what is measured; the environment is told of once, the settings are refused."""
    said = None if settings.control_hz is None else find.Statement("control_hz", settings.control_hz)
    if said is not None and not said.holds(control):
        remedy = (
            f"but a step lasts {float(1 / control):g} s of simulated time, which is {clock.show(control)} Hz; leave it "
            "out, or set uneven_steps='allow' if the first step is unlike the others"
        )
        raise SettingsError.of("control_hz", clock.show(said.hz), remedy)
    wrong = [one.text for one in find.statements(env) if not one.holds(control)]
    if wrong:
        tell(
            f"the environment states {', '.join(wrong)}, but a step lasts {float(1 / control):g} s of simulated time, "
            f"which is {clock.show(control)} Hz; it is recorded as measured"
        )
