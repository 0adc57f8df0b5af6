"""Secrets in a command line and in an environment's arguments: by the words of their names, and by their looks."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lucky_recorder.recorder.secrets import in_command, in_text, in_values, is_name


@pytest.mark.parametrize(
    "name",
    [
        *("token", "--hub-token", "HF_TOKEN", "accessToken", "access_tokens", "--api_key", "APIKey", "wandb.apiKey"),
        *("X-Api-Key", "--wandb-key", "private-key", "password", "db_password", "PGPASSWORD", "pw", "--pass", "pat"),
        *("client_secret", "credentials", "Authorization", "--auth", "bearer"),
        *("--passwords", "--api-keys", "api_tokens", "cookies", "PGPASSWORDS", "apikeys", "--db-pass", "api_key_2"),
        *("cookie_value", "pw_file", "session_cookie", "password_position"),
        *("--hftoken", "accesskey", "secretkey", "--accesstoken", "accesstokens", "clientsecret", "basicauth"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("--author", "authority", "tokenizer", "--max-tokens", "max_token", "num_tokens", "pad_token", "tokens"),
        *("key", "image_key", "keyboard", "secretary", "compass", "num_pass", "path", "pattern", "", "--", "auth_type"),
        *("padtoken", "--maxtokens", "numtokens", "monkey", "hotkeys", "image_keys", "bypass", "tokenizers", "7"),
        *("token_ids", "cookie_position", "cookies.size", "pw_gain"),
    ],
)
def test_names_that_only_look_like_it(name: str) -> None:
    assert not is_name(name)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--password", "x", "y"], ["--password", "***", "y"]),
        (["--hub-token=x"], ["--hub-token=***"]),
        (["--token", "-abc", "z"], ["--token", "***", "z"]),
        (["--use-auth-token", "--lr", "3"], ["--use-auth-token", "--lr", "3"]),
        (["wandb.api_key=x", "seed=3"], ["wandb.api_key=***", "seed=3"]),
        (["--env", "HF_TOKEN", "x"], ["--env", "HF_TOKEN", "***"]),
        (["secret", "token.txt"], ["secret", "token.txt"]),
        (["--author", "Ada", "--tokenizer=gpt2", "--max-tokens", "5"],) * 2,
        (["-H", "Authorization: Bearer a.b"], ["-H", "Authorization: ***"]),
        (["--header=X-Api-Key: abc"], ["--header=X-Api-Key: ***"]),
        (["--kwargs", '{"api_key": "x", "n": 3}'], ["--kwargs", '{"api_key": "***", "n": 3}']),
        (["https://me:p@w@host/a", "a@b"], ["https://***@host/a", "a@b"]),
        (["me:pw@host:5432/a", "me@host:a", "C:\\Users\\a@b"], ["***@host:5432/a", "me@host:a", "C:\\Users\\a@b"]),
        (["https://host/a?token=x&n=1"], ["https://host/a?token=***&n=1"]),
        (["eyJa.b.c", "run-eyJa-eyJb.c!", "x.eyJa.b", "eyJa", "eyJ.b"], ["***", "run-***!", "x.***", "eyJa", "eyJ.b"]),
        (["hf_abcdefghij", "run-hf_abcdefghij", "sk-abcdefghijkl"], ["***", "run-***", "***"]),
        (['{"password": "a\\"REST", "n": 1}'], ['{"password": "***", "n": 1}']),
        (
            ['{"token": ["A", "B"]}', 'cfg={"a": [{"password": {"b": "C"}}]}'],
            ['{"token": "***"}', 'cfg={"a": [{"password": "***"}]}'],
        ),
        (['{"n": "é", "token": null, "use_token": true}'],) * 2,
        (['{"token": "A", "token": null}'], ['{"token": "***", "token": ***}']),
        (['{"e": "{\\"password\\": \\"a b\\"}"}'], ['{"e": "{\\"password\\": \\"***\\"}"}']),
        (
            ["{'n': ['a'], 'token': ['A', 'B']}", "{'password': 'A', 'n': 3}"],
            ["{'n': ['a'], 'token': ***", "{'password': '***', 'n': 3}"],
        ),
        (
            ["x password='a\\'b c", '{"Authorization": ["Basic A"]', "a=token:A"],
            ["x password='***'", '{"Authorization": ***', "a=token:***"],
        ),
        (
            ["--passwords", "A", "B", "--api-keys", "C", "--lr", "3"],
            ["--passwords", "***", "***", "--api-keys", "***", "--lr", "3"],
        ),
        (["--password", "--A", "--lr", "3"], ["--password", "***", "--lr", "3"]),
        (["--password", "--token", "A", "b"], ["--password", "***", "***", "b"]),
        (["--ask-password", "--auth", "--lr", "3"],) * 2,
        (["LuckyRecorder/PickCube-v0", "front:64x48", "--lr=3"],) * 2,
    ],
)
def test_a_command_line(given: list[str], told: list[str]) -> None:
    assert in_command(given) == told


def test_a_text() -> None:
    given = "curl -H 'Authorization: Basic dXNlcjpwdw==' -H 'X-Token: a' http://a:b@host/?n=1 says Bearer abc"
    told = "curl -H 'Authorization: ***' -H 'X-Token: ***' http://***@host/?n=1 says Bearer ***"
    assert in_text(given) == told


def test_an_environment_s_arguments() -> None:
    kwargs: dict[str, Any] = {"api_key": "x", "max_tokens": 5, "auth": {"user": "a"}, "use_token": True, "token": None}
    more = {"url": "redis://:pw@h/0", "wrappers": [{"name": "A", "kwargs": {"password": 7}}], "scale": 0.5}
    assert in_values({**kwargs, **more}) == {
        **kwargs,
        **more,
        "api_key": "***",
        "auth": "***",
        "url": "redis://***@h/0",
        "wrappers": [{"name": "A", "kwargs": {"password": "***"}}],
    }


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"argv": ["--token", "A", 5, "--lr", 3.0]}, {"argv": ["--token", "***", 5, "--lr", 3.0]}),
        ({"argv": ["--password", 5, None]}, {"argv": ["--password", "***", None]}),
        ({"headers": [["Authorization", "Basic A"], ["n", 1]]}, {"headers": [["Authorization", "***"], ["n", 1]]}),
        ({"env": [{"name": "HF_TOKEN", "value": "A"}]}, {"env": [{"name": "HF_TOKEN", "value": "***"}]}),
        ({"extra": '{"password": "a\\"REST"}'}, {"extra": '{"password": "***"}'}),
        ({"openai": {"key": "A"}, "db": {"pass": "B"}}, {"openai": {"key": "***"}, "db": {"pass": "***"}}),
        ({"color": {"key": "red"}, "state": {"token": "A"}}, {"color": {"key": "red"}, "state": {"token": "***"}}),
        ({"passwords": ["A"], "hftoken": "B"}, {"passwords": "***", "hftoken": "***"}),
        ({"cameras": ["front", "wrist"], "range": [0.7, 1.0], "pair": ["author", "Ada"], "n": [["tokenizer", "a"]]},)
        * 2,
    ],
)
def test_lists_and_pairs_of_arguments(given: dict[str, Any], told: dict[str, Any]) -> None:
    assert in_values(given) == told


@pytest.mark.parametrize(
    "text", ["a" * 200_000, "a.-" * 70_000, "-" * 200_000, "password" * 20_000, "[" * 200_000, "eyJ-" * 50_000]
)
def test_a_long_text_is_gone_through_once(text: str) -> None:
    # Each letter against all others would take minutes.
    began = time.process_time()
    assert in_text(text) == text
    assert time.process_time() - began < 5
