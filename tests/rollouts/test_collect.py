from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import lucky_recorder as lr
from lucky_recorder.rollouts.collect import Policy, Summary, collect, resolve_policy
from lucky_recorder.testing import CountEnv, check_session


def still(observation: Any) -> Any:
    return np.zeros(1, np.float32)


def closed(env: lr.RecordSession) -> lr.Session:
    """Close an environment and return its session, which has no fault."""
    env.close()
    assert env.session_path is not None
    check_session(env.session_path)
    return lr.Session(env.session_path)


class Seeds(gym.Wrapper[Any, Any, Any, Any]):
    """Remembers the seeds of resets."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.seeds: list[int | None] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.seeds.append(seed)
        return super().reset(seed=seed, options=options)


# How many.


def test_collects_as_many_episodes_as_asked(record):
    env = record(CountEnv(length=[3, 4]))
    summary = collect(env, still, episodes=4)
    assert (summary.kept, summary.discarded, summary.steps, summary.bytes) == (4, 0, 14, 0)
    assert closed(env).episodes["length"].to_pylist() == [3, 4, 3, 4]


def test_what_counts_as_kept_is_written(record):
    env = record()
    collect(env, still, episodes=2)
    assert env.observer.counts.rows == 6


def test_failed_episodes_are_kept_without_discard(record):
    env = record(CountEnv(length=3, succeeds=False))
    assert collect(env, still, episodes=2).kept == 2
    assert closed(env).episodes["success"].to_pylist() == [False, False]


def test_tries_again_until_enough_succeed(record):
    env = record(CountEnv(length=3, succeeds=lambda episode: episode % 3 == 2), discard_and_retry_failed=True)
    summary = collect(env, still, episodes=3)
    assert (summary.kept, summary.discarded, summary.steps) == (3, 6, 27)
    assert closed(env).episodes["success"].to_pylist() == [True] * 3


def test_collects_again_into_the_same_session(record):
    env = record()
    collect(env, still, episodes=2)
    assert collect(env, still, episodes=3).kept == 3
    assert len(closed(env)) == 5


def test_an_episode_that_was_open_before_is_none_of_its_own(record):
    env = record()
    env.reset(seed=0)
    env.step(still(None))
    summary = collect(env, still, episodes=2)
    assert (summary.kept, summary.steps) == (2, 6)
    assert closed(env).episodes["length"].to_pylist() == [1, 3, 3]


def test_stops_with_the_session(record):
    env = record(total_episodes=2)
    assert collect(env, still, episodes=5).kept == 2
    assert not env.is_recording
    assert len(closed(env)) == 2


def test_a_session_that_has_ended_is_refused(record):
    env = record(total_episodes=1)
    collect(env, still, episodes=1)
    with pytest.raises(lr.StateError, match="has ended; make another RecordSession"):
        collect(env, still, episodes=1)


def test_goes_on_through_episodes_that_are_not_recorded(record):
    env = record(CountEnv(length=3), episode_trigger=lambda number: number % 2 == 1)
    summary = collect(env, still, episodes=2)
    assert (summary.kept, summary.steps) == (2, 12)
    assert len(closed(env)) == 2


def test_an_attempt_ends_at_the_longest_length(record):
    env = record(CountEnv(length=None), max_episode_length_s=0.1)
    summary = collect(env, still, episodes=2)
    assert summary.kept == 2
    session = closed(env)
    assert session.episodes["length"].to_pylist() == [5, 5]
    assert session.episodes["success"].to_pylist() == [False, False]


# What never succeeds.


@pytest.mark.parametrize(("episodes", "attempts"), [(1, 100), (6, 120)])
def test_gives_up_where_nothing_is_ever_kept(record, episodes, attempts):
    env = record(CountEnv(length=1, succeeds=False), discard_and_retry_failed=True)
    message = rf"^success='auto': 0 of {episodes} episodes were kept, none in the last {attempts} attempts"
    with pytest.raises(lr.SettingsError, match=message):
        collect(env, still, episodes=episodes)
    assert env.observer.counts.discarded == attempts
    assert len(closed(env)) == 0


def test_gives_up_where_no_more_is_recorded(record):
    env = record(CountEnv(length=1), episode_trigger=lambda number: number < 2)
    with pytest.raises(lr.SettingsError, match="2 of 3 episodes were kept, none in the last 100 attempts"):
        collect(env, still, episodes=3)
    assert len(closed(env)) == 2


def test_patience_begins_anew_with_every_success(record):
    env = record(CountEnv(length=1, succeeds=lambda episode: episode % 80 == 79), discard_and_retry_failed=True)
    summary = collect(env, still, episodes=2)
    assert (summary.kept, summary.discarded) == (2, 158)


# Seeds and policies.


def test_every_reset_has_a_seed(record):
    seeds = Seeds(CountEnv(length=1))
    env = record(seeds)
    collect(env, still, episodes=3, seed=7)
    assert seeds.seeds == [7, 8, 9]
    assert closed(env).info["bit_reproducible"] is True


def test_the_first_seed_is_the_settings_own(record):
    seeds = Seeds(CountEnv(length=1))
    collect(record(seeds, seed=40), still, episodes=2)
    assert seeds.seeds == [40, 41]


def test_the_policy_sees_each_observation(record):
    seen = []

    def policy(observation: Any) -> Any:
        seen.append(float(observation[0]))
        return still(observation)

    collect(record(), policy, episodes=2)
    assert seen == [0, 1, 2, 100, 101, 102]


def test_a_policy_is_reset_with_the_environment(record):
    class Resettable:
        resets = 0

        def reset(self) -> None:
            self.resets += 1

        def __call__(self, observation: Any) -> Any:
            assert self.resets == observation[0] // 100 + 1
            return still(observation)

    policy = Resettable()
    collect(record(), policy, episodes=3)
    assert policy.resets == 3


def test_an_error_of_the_policy_reaches_the_caller(record):
    env = record(CountEnv(length=4))

    def policy(observation: Any) -> Any:
        if observation[0] == 102:
            raise ZeroDivisionError("of the policy")
        return still(observation)

    with pytest.raises(ZeroDivisionError, match="of the policy"):
        collect(env, policy, episodes=3)
    session = closed(env)
    assert session.episodes["length"].to_pylist() == [4, 2]
    assert session.episodes["success"].to_pylist() == [True, False]


# Notices.


def test_tells_of_every_step_and_every_attempt(record):
    steps: list[Summary] = []
    attempts: list[Summary] = []
    env = record()
    summary = collect(env, still, episodes=2, on_step=steps.append, on_episode=attempts.append)
    assert [s.steps for s in steps] == [1, 2, 3, 4, 5, 6]
    assert [s.steps for s in attempts] == [3, 6]
    assert summary._replace(seconds=0, path=None) == Summary(kept=2, discarded=0, steps=6, seconds=0, bytes=0)
    assert summary.path == env.session_path
    assert summary.seconds >= attempts[-1].seconds >= steps[-1].seconds > 0


def test_tells_how_many_are_still_wanted_and_whose_seeds_were_discarded(record):
    told: list[tuple[int, int, int]] = []

    def note(summary: Summary) -> None:
        env.observer.flush()
        told.append((summary.kept, summary.discarded, summary.wanted))

    env = record(CountEnv(length=3, succeeds=lambda n: n % 2 == 1), discard_and_retry_failed=True)
    summary = collect(env, still, episodes=2, seed=20, on_episode=note)
    assert (summary.kept, summary.discarded, summary.wanted) == (2, 2, 0)
    # The worker counts: so what is told may be of the attempt before.
    assert all(kept + wanted == 2 for kept, _, wanted in told)
    (entry,) = closed(env).provenance
    assert entry["discarded_seeds"] == ["20", "22"]
    assert [episode.seed for episode in lr.Session(env.session_path)] == ["21", "23"]


def test_counts_bytes_of_video(record, seen):
    env = record(cameras=[seen])
    summary = collect(env, still, episodes=2)
    assert summary.bytes == sum(file.stat().st_size for file in closed(env).video_files("seen")) > 0


def test_steps_per_second():
    assert Summary(steps=50, seconds=2.0).steps_per_second == 25
    assert Summary().steps_per_second == 0


# Finding a policy.


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of policies that can be imported."""
    (tmp_path / "their_policies.py").write_text(
        "class Planner:\n"
        "    def __init__(self, env):\n"
        "        self.env = env\n"
        "    def __call__(self, observation):\n"
        "        return self.env.action_space.low\n"
        "class NoPolicy:\n"
        "    def __init__(self, env):\n"
        "        pass\n"
        "def act(observation):\n"
        "    return -observation\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "their_policies"
    sys.modules.pop("their_policies", None)


def test_a_named_function_is_the_policy(record, module):
    policy = resolve_policy(record(), f"{module}:act")
    assert policy(np.ones(1)) == [-1]


def test_a_named_class_is_made_with_the_environment(record, module):
    env = record()
    policy: Any = resolve_policy(env, f"{module}:Planner")
    assert policy.env is env
    assert policy(None) == [-np.inf]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("their_policies:NoPolicy", "policy='their_policies:NoPolicy': makes objects that cannot be called"),
        ("their_policies:missing", "policy='their_policies:missing': cannot be imported"),
        ("no_such_module:act", "policy='no_such_module:act': cannot be imported"),
        ("act", "policy='act': cannot be imported"),
    ],
)
def test_what_is_no_policy_is_refused(record, module, name, message):
    with pytest.raises(lr.SettingsError, match=message):
        resolve_policy(record(), name)


def test_without_a_name_the_environment_s_expert_acts(record):
    env = record(gym.make("LuckyRecorder/PickCube-v0"), mode="robot_arm")
    assert collect(env, resolve_policy(env), episodes=1).kept == 1
    assert closed(env).episodes["success"].to_pylist() == [True]


def test_the_expert_can_be_made_to_fail(record):
    env = record(gym.make("LuckyRecorder/PickCube-v0"), mode="robot_arm")
    collect(env, resolve_policy(env, fail=1.0), episodes=1)
    assert closed(env).episodes["success"].to_pylist() == [False]


def test_without_an_expert_actions_are_random_and_seeded(record):
    def actions(policy: Policy) -> list[float]:
        return [float(policy(None)[0]) for _ in range(4)]

    first, again, other = (actions(resolve_policy(record(seed=seed))) for seed in (1, 1, 2))
    assert first == again != other
    assert len(set(first)) == 4


class Stubborn(CountEnv):
    """Has an expert that cannot be made to fail."""

    def expert(self) -> Policy:
        return still


@pytest.mark.parametrize(
    ("env", "name", "message"),
    [
        (CountEnv, None, r"fail=0.5: only an environment's own expert"),
        (CountEnv, "their_policies:act", r"fail=0.5: only an environment's own expert"),
        (Stubborn, "their_policies:act", r"fail=0.5: only an environment's own expert"),
        (Stubborn, None, r"fail=0.5: this environment's expert cannot be made to fail"),
    ],
)
def test_what_cannot_be_made_to_fail_says_so(record, module, env, name, message):
    with pytest.raises(lr.SettingsError, match=message):
        resolve_policy(record(env()), name, fail=0.5)


def test_an_expert_needs_no_arguments(record):
    assert resolve_policy(record(Stubborn())) is still


def resumed(env: Any, path: Path, **fields: Any) -> lr.RecordSession:
    return lr.RecordSession(env, resume=path, mode="custom", columns=[lr.Column("obs", "gym:obs")], **fields)


def test_a_session_that_is_gone_on_with_has_had_its_seeds(record: Any) -> None:
    """Attempts of the same seeds would be the same episodes again. Those count that are there."""
    discarding = {"discard_and_retry_failed": True}
    first = record(CountEnv(succeeds=lambda episode: episode != 2), **discarding)
    collect(first, still, episodes=2)
    first.reset(seed=7)
    first.end_episode(success=False)
    collect(first, still, episodes=1, seed=12)
    path = closed(first).path
    env = Seeds(CountEnv())
    second = resumed(env, path, **discarding)
    assert collect(second, still, episodes=3).kept == 0
    assert not second.is_recording
    assert collect(second, still, episodes=5).kept == 2
    assert (len(closed(second)), env.seeds) == (5, [13, 14])


def test_one_that_does_not_say_which_seeds_it_has_had_needs_a_seed(record: Any) -> None:
    first = record(provenance=False)
    collect(first, still, episodes=2)
    path = closed(first).path
    env = Seeds(CountEnv())
    second = resumed(env, path, provenance=False)
    with pytest.raises(lr.SettingsError, match=r"^seed=None: where a session is gone on with that does not say"):
        collect(second, still, episodes=3)
    assert collect(second, still, episodes=4, seed=2).kept == 2
    assert (len(closed(second)), env.seeds) == (4, [2, 3])


@pytest.mark.parametrize("verb", [lr.collect, lr.evaluate])
def test_a_vector_environment_is_stepped_in_a_loop_of_ones_own(tmp_path: Path, verb: Any) -> None:
    env = lr.RecordSession(gym.make_vec("LuckyRecorder/PickCube-v0", num_envs=2), output_dir=tmp_path)
    more = {"action": "gym"} if verb is lr.evaluate else {}
    with pytest.raises(lr.SettingsError, match="a vector environment's recorder is stepped in a loop of your own"):
        verb(env, lambda observation: 0, episodes=1, **more)
    env.close()
