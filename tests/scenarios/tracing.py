"""All that can be seen of a run from outside, so that two runs can be compared bit by bit."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import mujoco
import numpy as np

EVERYTHING = int(mujoco.mjtState.mjSTATE_INTEGRATION)


class Trace(NamedTuple):
    """All that can be seen of a run."""

    states: list[bytes]
    returned: list[bytes]
    warnings: list[bytes]
    chances: list[bytes]
    pictures: list[bytes]


def bits(value: Any) -> bytes:
    """Write what an environment returns so that two are the same only if every bit is."""
    if isinstance(value, dict):
        return b"".join(str(key).encode() + bits(one) for key, one in value.items())
    if isinstance(value, tuple):
        return b"".join(bits(one) for one in value)
    return str(getattr(value, "dtype", type(value))).encode() + np.asarray(value).tobytes()


def watch(env: Any, episodes: int = 2, steps: int = 12, picture_every: int = 8, actions: Any = None) -> Trace:
    """Run an environment and note everything; it is left open.

    Args:
        env: The environment.
        episodes: How often it is reset; only the second reset has no seed.
        steps: Steps until it is reset; where it ends before, it is reset at once, without a seed.
        picture_every: Steps from one picture of its own ``render()`` to the next; 0 for none.
        actions: Gives the action of a step; else they are drawn from the action space.
    """
    trace, inner = Trace([], [], [], [], []), env.unwrapped
    state = np.empty(mujoco.mj_stateSize(inner.model, EVERYTHING))

    def note(returned: Any) -> None:
        trace.returned.append(bits(returned))
        mujoco.mj_getState(inner.model, inner.data, state, EVERYTHING)
        seen = inner.data.time, state.tobytes(), inner.data.xpos.tobytes(), inner.data.sensordata.tobytes()
        trace.states.append(bits(seen))
        trace.warnings.append(inner.data.warning.number.tobytes() + inner.data.warning.lastinfo.tobytes())
        everyones = repr(inner.np_random.bit_generator.state), bits(np.random.get_state()), repr(random.getstate())
        trace.chances.append(repr(hash(everyones)).encode())

    for episode in range(episodes):
        note(env.reset(seed=episode if episode != 1 else None))
        if picture_every:
            # At once: gymnasium's viewers place their camera by what there is when they first draw.
            trace.pictures.append(env.render().tobytes())
        env.action_space.seed(episode)
        for t in range(steps):
            returned = env.step(env.action_space.sample() if actions is None else actions(t))
            note(returned)
            if picture_every and t % picture_every == 0:
                trace.pictures.append(env.render().tobytes())
            if returned[2] or returned[3]:
                note(env.reset())
    return trace


def compare(ours: Trace, theirs: Trace) -> None:
    """Compare two runs."""
    for name, mine, other in zip(Trace._fields, ours, theirs, strict=True):
        differing = [k for k, (a, b) in enumerate(zip(mine, other, strict=True)) if a != b]
        assert differing == [], f"{name} differ"
