"""Batched lanes: the environments of a vector environment that only returns batches, each recorded from its part.

Where the environments themselves cannot be reached (they are in other processes, or on a GPU) each has a stand-in,
which hands out what the vector environment has returned for it. A `RecordLane` is around the stand-in. So episodes
begin and end as they do with any other environment; what comes when is decided here, by the mode in which the vector
environment resets what is done.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from lucky_recorder.capture import find
from lucky_recorder.errors import CaptureError, LuckyRecorderError, SettingsError, shown
from lucky_recorder.notices import tell
from lucky_recorder.recorder.arrival import FINAL_INFO, FINAL_OBSERVATIONS, copied
from lucky_recorder.recorder.wrapper import KEEP_EPISODE, RecordLane

NEXT_STEP, SAME_STEP, DISABLED = gym.vector.AutoresetMode
# How simulators reset what is done that do not say so in their metadata, by the packages that their classes are of.
_KNOWN = {"isaaclab": SAME_STEP, "mani_skill": SAME_STEP, "envpool": NEXT_STEP}
_HOW = (
    "If that is wrong, let it say so: env.metadata['autoreset_mode'] = gymnasium.vector.AutoresetMode.NEXT_STEP, "
    "SAME_STEP or DISABLED"
)
_FINAL = (*FINAL_OBSERVATIONS, FINAL_INFO)


class Batch(NamedTuple):
    """What a step of a vector environment has returned, part by part; each has as many as there are lanes.

    Attributes:
        observations: Observations.
        rewards: Rewards.
        terminated: Whether they have ended.
        truncated: Whether they were broken off.
        infos: What else is said.
    """

    observations: Sequence[Any]
    rewards: Sequence[Any]
    terminated: Sequence[bool]
    truncated: Sequence[bool]
    infos: Sequence[dict[str, Any]]


class StandIn(gym.Env[Any, Any]):
    """Stands for one environment of a vector environment: it returns what it was given, or raises it.

    Attributes:
        given: What the next call returns.

    Args:
        of: The vector environment.
        spaces: The space of one observation, and that of one action.
        picture: Returns what the environment looks like now.
    """

    def __init__(self, of: Any, spaces: tuple[Any, Any], picture: Callable[[], Any]) -> None:
        metadata = getattr(of, "metadata", None) or {}
        # How the vector environment resets this one is its own business.
        self.metadata = {key: value for key, value in metadata.items() if key != "autoreset_mode"}
        self.render_mode = "rgb_array" if getattr(of, "render_mode", None) == "rgb_array" else None
        self.observation_space, self.action_space = spaces
        inner = getattr(of, "unwrapped", of)
        lasts = getattr(inner, "step_dt", None)
        rate = find.control_rate(inner)
        if isinstance(lasts, float) or rate is not None:
            self.dt = float(1 / rate) if rate is not None else lasts
        self.given: Any = None
        self._picture = picture

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Return what was given."""
        return self._hand_out()

    def step(self, action: Any) -> Any:
        """Return what was given."""
        return self._hand_out()

    def _hand_out(self) -> Any:
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given

    def render(self) -> Any:
        """Return the picture."""
        return self._picture()


class AsVector(gym.vector.VectorEnv[Any, Any, Any]):
    """Gives an environment that is many behind the face of one the face of a vector environment.

    Args:
        env: The environment, with ``num_envs`` environments in it.

    Raises:
        SettingsError: If it does not say what one of them observes, and is given.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        inner = env.unwrapped
        self.num_envs = getattr(env, "num_envs", None) or inner.num_envs
        self.metadata, self.render_mode = env.metadata or {}, env.render_mode
        self.observation_space, self.action_space = env.observation_space, env.action_space
        for name in ("single_observation_space", "single_action_space"):
            space = getattr(inner, name, None)
            if space is None:
                remedy = f"it has {self.num_envs} environments in it, and does not say the space of one of them; set it"
                raise SettingsError.of(f"env.unwrapped.{name}", space, remedy)
            setattr(self, name, space)

    @property
    def unwrapped(self) -> Any:
        """The environment itself, without wrappers."""
        return self.env.unwrapped

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Reset it."""
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> Any:
        """Step it."""
        return self.env.step(actions)

    def render(self) -> Any:
        """Return its pictures."""
        return self.env.render()

    def close_extras(self, **kwargs: Any) -> None:
        """Close it."""
        self.env.close()


class BatchedLanes:
    """The lanes of a vector environment that only returns batches.

    Attributes:
        lanes: Their recorders.

    Args:
        env: The vector environment.
        count: How many there are.
        mode: How it resets what is done; None where it does not say.
        made: Puts a recorder around a stand-in.
    """

    def __init__(self, env: Any, count: int, mode: Any, made: Callable[[StandIn], RecordLane]) -> None:
        # The pictures of a Stable-Baselines3 environment, one for each; its `render` puts them into one.
        self._render: Callable[[], Any] = getattr(env, "get_images", env.render)
        self._mode = mode
        single = [getattr(env, f"single_{what}_space", None) for what in ("observation", "action")]
        spaces = single[0] or env.observation_space, single[1] or env.action_space
        # A proxy: whoever forgets a recorder must have it closed at once, not when garbage is next collected.
        me: Any = weakref.proxy(self)
        self._stand_ins = [StandIn(env, spaces, functools.partial(_picture_of, me, i)) for i in range(count)]
        self.lanes = tuple(made(one) for one in self._stand_ins)
        self._done = [False] * count
        self._pictures: Any = None

    # Pictures.

    def look(self) -> None:
        """Have the pictures of before a step drawn, where they are recorded."""
        if any(camera.source == "render" for camera in self.lanes[0].settings.recorded_cameras):
            self.picture(0)

    def picture(self, lane: int) -> Any:
        """Return what a lane looks like, as the vector environment stands, or stood before the step under way."""
        if self._pictures is None:
            self._pictures = self._render()
        pictures = self._pictures
        if not isinstance(pictures, list | tuple | np.ndarray) or len(pictures) != len(self.lanes):
            gives = f"gives {type(pictures).__name__} {getattr(pictures, 'shape', '')}".rstrip()
            raise SettingsError(
                f"{gives}, and not one picture for each of the {len(self.lanes)} environments, as a list or a tuple; "
                "leave cameras with source='render' out, or let it give them"
            )
        return pictures[lane]

    # What comes.

    def reset(
        self,
        observations: Sequence[Any],
        infos: Sequence[dict[str, Any]],
        which: Sequence[bool],
        seeds: Sequence[int | None],
        keeps: bool,
        options: Sequence[Mapping[str, Any] | None],
    ) -> None:
        """Take in a reset.

        Args:
            observations: What was returned for each lane.
            infos: As above.
            which: Which lanes were reset.
            seeds: The seed of each.
            keeps: Whether their episodes go on.
            options: The options of the reset of each.
        """
        self._pictures = None
        for i in (i for i, is_reset in enumerate(which) if is_reset):
            said = dict(options[i] or {}) | ({KEEP_EPISODE: True} if keeps else {})
            self._reset(i, observations[i], infos[i], seeds[i], said or None)

    def _reset(self, i: int, observation: Any, info: dict[str, Any], seed: Any = None, options: Any = None) -> None:
        self._stand_ins[i].given = observation, info
        self._done[i] = False
        self.lanes[i].reset(seed=seed, options=options)

    def step(self, actions: Sequence[Any], batch: Batch) -> None:
        """Take in a step."""
        # First, for all: whatever is raised below, it is known who begins anew at the next step.
        before, self._done = self._done, [a or b for a, b in zip(batch.terminated, batch.truncated, strict=True)]
        mode = self._mode_of(batch)
        began = []
        for i in range(len(self.lanes)):
            if mode is NEXT_STEP and before[i]:
                self._done[i] = False
                began.append(i)
                continue
            info, observation = batch.infos[i], batch.observations[i]
            if mode is SAME_STEP and self._done[i]:
                began.append(i)
                observation, info = _last(info)
            self._stand_ins[i].given = observation, batch.rewards[i], batch.terminated[i], batch.truncated[i], info
            self.lanes[i].step(actions[i])
        # Before a lane begins anew its pictures are those of after the step.
        self._pictures = None
        for i in began:
            rest = {key: value for key, value in batch.infos[i].items() if key not in _FINAL}
            self._reset(i, batch.observations[i], rest)

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Have a step or a reset taken in by all lanes, or by none: what raises within ends the open episode of each.

        All environments have stepped by then: a lane that went on without this step would have a gap.
        """
        try:
            yield
        except BaseException as error:
            self._pictures = None
            for lane in self.lanes:
                with contextlib.suppress(LuckyRecorderError):
                    lane.lose(error)
            raise

    def _mode_of(self, batch: Batch) -> Any:
        """Return the mode; one that is not declared is told by what comes with the first episode that ends."""
        ends = zip(batch.terminated, batch.truncated, batch.infos, strict=True)
        last = [info for terminated, truncated, info in ends if terminated or truncated]
        if self._mode is not None or not last:
            return self._mode
        says = any(info.get(key) is not None for info in last for key in _FINAL)
        self._mode = SAME_STEP if says else NEXT_STEP
        why = "comes with its last observation" if says else "comes without another observation"
        tell(
            f"the vector environment does not say how it resets environments that are done; the first one that is done "
            f"{why}, so it is recorded as {self._mode.value}. {_HOW}"
        )
        return self._mode


def _picture_of(lanes: BatchedLanes, lane: int) -> Any:
    return lanes.picture(lane)


def mode_of(env: Any) -> Any:
    """Return how a vector environment says that it resets what is done; None where it does not.

    Raises:
        SettingsError: If it says something else than gymnasium's modes.
    """
    metadata = getattr(env, "metadata", None) or {}
    said = metadata.get("autoreset_mode")
    if said is None:
        return _known_mode(getattr(env, "unwrapped", env))
    word = str(getattr(said, "value", said)).upper().replace("_", "")
    for mode in gym.vector.AutoresetMode:
        if mode.value.upper() == word:
            return mode
    raise SettingsError.of("env.metadata['autoreset_mode']", said, "give one of gymnasium.vector.AutoresetMode")


def _known_mode(env: Any) -> Any:
    for package in (kind.__module__.partition(".")[0] for kind in type(env).__mro__):
        if package in _KNOWN:
            mode = _KNOWN[package]
            tell(
                f"the vector environment does not say how it resets environments that are done; as one of {package} it "
                f"is recorded as {mode.value}. {_HOW}"
            )
            return mode
    return None


def _last(info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the last observation of an episode, None where it is not given, and the info of its last step."""
    observation = next((info[key] for key in FINAL_OBSERVATIONS if info.get(key) is not None), None)
    final = info.get(FINAL_INFO)
    if isinstance(final, Mapping):
        return observation, dict(final)
    return observation, {key: value for key, value in info.items() if key not in _FINAL}


# Taking batches apart.


def plain(value: Any) -> Any:
    """Return a copy of a batch as arrays, whatever library's tensors it is of; what is no array stays as it is."""
    if hasattr(value, "detach"):
        return np.array(value.detach().cpu().numpy())
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(one) for one in value)
    return copied(value)


def parts(value: Any, space: Any, count: int, is_batched: bool = True) -> list[Any]:
    """Return a batch's part of each lane.

    Args:
        value: The batch.
        space: The space that it is of, or that a part is of.
        count: How many lanes there are.
        is_batched: Whether the space is the batch's.

    Raises:
        CaptureError: If it does not have so many parts.
    """
    value = plain(value)
    try:
        found = list(gym.vector.utils.iterate(space, value)) if is_batched else _split(value, space)
    except Exception:  # spaces of one's own, and batches that are not of the space that is stated
        found = _split(value, None)
    if len(found) != count:
        raise CaptureError(f"a batch of the vector environment has {len(found)} parts, and there are {count} lanes")
    return found


def _split(value: Any, space: Any) -> list[Any]:
    if isinstance(value, Mapping):
        split = {key: _split(one, None) for key, one in value.items()}
        return [dict(zip(split, each, strict=True)) for each in zip(*split.values(), strict=True)]
    if isinstance(value, tuple) and isinstance(space, gym.spaces.Tuple):
        return list(zip(*(_split(one, None) for one in value), strict=True))
    return list(value)


def flags(value: Any) -> list[bool]:
    """Return a truth value for each lane."""
    return np.asarray(plain(value)).reshape(-1).astype(bool).tolist()


def infos_of(infos: Any, count: int) -> list[dict[str, Any]]:
    """Return each lane's info: of a list of dicts, of gymnasium's dict with masks, or of a dict of arrays.

    Raises:
        CaptureError: If it is none of these.
    """
    if isinstance(infos, list | tuple) and len(infos) == count and all(isinstance(one, Mapping) for one in infos):
        return [copied(dict(one)) for one in infos]
    if not isinstance(infos, Mapping):
        raise CaptureError(f"the vector environment gave infos={shown(infos)}: a dict, or a list of {count} dicts")
    return [dict(_entries(infos, i, count)) for i in range(count)]


def _entries(infos: Mapping[str, Any], lane: int, count: int) -> Iterator[tuple[str, Any]]:
    for key, value in infos.items():
        if str(key).startswith("_") and key[1:] in infos and _mask(value, count) is not None:
            continue
        mask = _mask(infos.get(f"_{key}"), count)
        if mask is not None and not mask[lane]:
            continue
        if isinstance(value, Mapping):
            yield key, dict(_entries(value, lane, count))
        elif hasattr(value, "__len__") and not isinstance(value, str | bytes) and len(value) == count:
            yield key, plain(value[lane])
        else:
            yield key, plain(value)


def _mask(value: Any, count: int) -> NDArray[np.bool_] | None:
    """Return what says which lanes an entry is of, if that is what a value is."""
    if value is None or isinstance(value, str | Mapping):
        return None
    mask = np.asarray(plain(value))
    return mask if mask.dtype == bool and mask.shape == (count,) else None
