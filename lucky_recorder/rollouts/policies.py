"""Policies: found by name, made for an environment, and reset with the seed of each attempt."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lucky_recorder.errors import SettingsError
from lucky_recorder.settings.validators import load_callable

if TYPE_CHECKING:
    from lucky_recorder.recorder.wrapper import RecordSession

Policy = Callable[[Any], Any]

# Keys the actions of chance apart from what the environment draws of the same seed.
_ACTIONS = 0x616374


@dataclass(frozen=True)
class MakePolicy:
    """Stands for a policy where one is asked for: it is made with the environment, in each process anew.

    Attributes:
        make: Makes the policy.
    """

    make: Callable[[RecordSession], Policy]


@dataclass(frozen=True)
class _Given:
    """A policy that is there already."""

    policy: Policy

    def __call__(self, env: RecordSession) -> Policy:
        return self.policy


@dataclass(frozen=True)
class _Resolved:
    """A policy that is found when there is an environment."""

    name: str | None

    def __call__(self, env: RecordSession) -> Policy:
        return resolve_policy(env, self.name)


def maker_of(policy: Policy | MakePolicy | str | None) -> Callable[[RecordSession], Policy]:
    """Return what makes a policy for an environment.

    Args:
        policy: The policy itself, ``"module:name"``, a class that is made with the environment, or None for the
            environment's expert, else random actions.

    Raises:
        SettingsError: If it is none of them.
    """
    if isinstance(policy, MakePolicy):
        return policy.make
    if policy is None or isinstance(policy, str):
        return _Resolved(policy)
    if not callable(policy):
        raise SettingsError.of("policy", policy, "give what can be called with an observation, or 'module:name'")
    if inspect.isclass(policy):
        made_with_it: Any = policy
        return made_with_it  # type: ignore[no-any-return]
    return _Given(policy)


def reset_policy(policy: Policy, seed: int) -> None:
    """Reset a policy, if it can be. One whose ``reset`` takes a ``seed`` is given the attempt's.

    So what it does in an attempt need not depend on those before it, nor on which process makes it.
    """
    begin = getattr(policy, "reset", None)
    if not callable(begin):
        return
    if _takes_seed(begin):
        begin(seed=seed)
    else:
        begin()


def _takes_seed(begin: Callable[..., Any]) -> bool:
    try:
        return "seed" in inspect.signature(begin).parameters
    except (TypeError, ValueError):  # one in C does not always say
        return False


def resolve_policy(env: RecordSession, name: str | None = None, *, fail: float = 0.0) -> Policy:
    """Find the policy that a name stands for.

    Args:
        env: The environment it is for.
        name: ``"module:name"`` of a function of the observation, or of a class, which is made with ``env`` and then
            called with each observation. None: the environment's own ``unwrapped.expert()`` if it has one, else random
            actions, seeded by the settings' ``seed``, and by that of each attempt.
        fail: Probability, per episode, that the environment's expert is to fail.

    Raises:
        SettingsError: If there is no such policy, or none that can be made to fail.
    """
    expert = getattr(env.unwrapped, "expert", None)
    if name is None and callable(expert):
        return _expert(expert, fail, env.settings.seed)
    if fail:
        raise SettingsError.of("fail", fail, "only an environment's own expert can be made to fail; leave it out")
    return _Random(env) if name is None else _named(env, name)


def _named(env: RecordSession, name: str) -> Policy:
    named: Any = load_callable("policy", name)
    is_class = inspect.isclass(named)
    policy: Policy = named(env) if is_class else named
    if not callable(policy):
        raise SettingsError.of("policy", name, "makes objects that cannot be called with an observation")
    return policy


def _expert(expert: Callable[..., Policy], fail: float, seed: int) -> Policy:
    if not fail:
        return expert()
    if "fail" not in inspect.signature(expert).parameters:
        raise SettingsError.of("fail", fail, "this environment's expert cannot be made to fail; leave it out")
    return expert(fail=fail, seed=seed)


class _Random:
    """Actions of chance, seeded anew for each attempt."""

    def __init__(self, env: RecordSession) -> None:
        self._space = env.action_space
        self._space.seed(env.settings.seed)

    def reset(self, seed: int) -> None:
        self._space.seed(int(np.random.SeedSequence([_ACTIONS, seed]).generate_state(1)[0]))

    def __call__(self, observation: Any) -> Any:
        return self._space.sample()
