"""Secrets: what a command line and an environment's arguments are not to give away when a session is passed on.

A secret is known by the words of its name, so that an author and a tokenizer are none, or by its own looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

MASK = "***"

# Of which words a name is one of a secret: any of these, some in any place, some alone or at the end only.
_ANYWHERE = {
    *("password", "passwd", "passphrase", "passcode", "pwd", "pw", "secret", "secrets", "credential"),
    *("credentials", "authorization", "bearer", "apikey", "apitoken", "authtoken", "token", "jwt", "cookie"),
}
# Where words are written as one, as in PGPASSWORD.
_ENDINGS = ("password", "passwd", "passphrase", "apikey")
_AT_THE_END = {"auth", "oauth"}
_ALONE = {"pass", "pat"}
# Tokens that are counted, or are signs of a language model: then the word is no secret's.
_OF_TEXT = {
    *("max", "min", "num", "n", "count", "limit", "per", "length", "len", "budget", "size", "type", "dim"),
    *("embed", "bos", "eos", "pad", "unk", "sep", "cls", "mask", "special", "image", "action", "state"),
    "task",
}
# Tokens and keys that are secrets by what they are for: there are keys of streams and of dictionaries too.
_PLAIN = {
    "tokens": {"access", "api", "auth", "refresh", "hub", "session", "id"},
    "key": {
        *("api", "private", "access", "secret", "auth", "account", "encryption", "signing", "ssh", "service"),
        *("client", "master", "shared", "deploy", "license", "session", "wandb", "hf", "huggingface"),
        *("openai", "aws", "azure", "gcp"),
    },
}

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAME = re.compile(r"[-+]*[A-Za-z_][\w.\-/]*")
_OPTION = re.compile(r"--[A-Za-z].*", re.DOTALL)
# What is a secret by its looks: keys of well-known services, tokens of three parts, a password within an address.
_KEY = re.compile(
    r"\b(?:hf_|gh[oprsu]_|github_pat_|glpat-|npm_|pypi-|sk-|sk_live_|rk_live_|xox[abeprs]-|AKIA|ASIA|AIza)"
    r"[A-Za-z0-9_-]{8,}|\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?"
)
_ADDRESS = re.compile(r"(?<=://)[^/\s?#\"']+@|(?<![\w/@\\])[\w.+-]{2,}:[^\s/@:\"'\\]+@(?=[\w.-])")
_BEARER = re.compile(r"\b(bearer\s+)[\w.~+/=-]+", re.IGNORECASE)
_HEADER = re.compile(r"(\s*(?P<name>[A-Za-z][\w-]*)\s*:\s*)\S.*", re.DOTALL)
_AUTHORIZATION = re.compile(r"(authorization[\"']?\s*[:=]\s*[\"']?)(?:[a-z]+\s+)?[^\s\"',;}]+", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"(?P<name>[A-Za-z_][\w.\-]*)(?P<sign>[\"']?\s*[:=]\s*)"
    r"(?P<value>\"[^\"]*\"|'[^']*'|(?!//)[^\s,;&}\])\"']+)"
)


def is_name(name: str) -> bool:
    """Tell whether a name is one of a secret, by its words: ``hub_token``, ``--wandb.apiKey``, ``X-Api-Key``."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return False
    said = {word for word in words if word in _ANYWHERE or word.endswith(_ENDINGS)}
    if said - {"token"} or words[-1] in _AT_THE_END or (len(words) == 1 and words[0] in _ALONE):
        return True
    beside = set(words[:-1])
    is_token = bool(said) and not set(words) & _OF_TEXT
    return is_token or not beside.isdisjoint(_PLAIN.get(words[-1], ()))


def in_text(text: str) -> str:
    """Return a text without the secrets in it: keys, passwords in addresses, headers, values of names."""
    header = _HEADER.fullmatch(text)
    if header is not None and "://" not in text and is_name(header["name"]):
        return f"{header[1]}{MASK}"
    text = _BEARER.sub(rf"\g<1>{MASK}", _ADDRESS.sub(f"{MASK}@", _KEY.sub(MASK, text)))
    return _ASSIGNED.sub(_assigned, _AUTHORIZATION.sub(rf"\g<1>{MASK}", text))


def _assigned(match: re.Match[str]) -> str:
    if not is_name(match["name"]):
        return match[0]
    quote = match["value"][0] if match["value"][0] in "\"'" else ""
    return f"{match['name']}{match['sign']}{quote}{MASK}{quote}"


def in_command(command: Iterable[str]) -> list[str]:
    """Return a command line without its secrets, be it ``--token VALUE``, ``--token=VALUE``, a header or a key."""
    told: list[str] = []
    hides_next, is_after_option = False, False
    for argument in map(str, command):
        # What follows the name of a secret may begin as an option does: rather too much is hidden than too little.
        if hides_next and not _OPTION.fullmatch(argument):
            told.append(MASK)
            hides_next = is_after_option = False
            continue
        name, equals, value = argument.partition("=")
        is_option = name.startswith("-")
        is_secret = bool(_NAME.fullmatch(name)) and is_name(name)
        hides_next = is_secret and not equals and (is_option or is_after_option)
        if equals and (is_secret or is_option):
            told.append(f"{name}={MASK if is_secret else in_text(value)}")
        else:
            told.append(argument if hides_next else in_text(argument))
        is_after_option = is_option and not equals
    return told


def in_values(value: Any, name: str = "") -> Any:
    """Return plain JSON values without the secrets in them.

    Args:
        value: The value.
        name: What it is called: all of what has a secret's name is hidden, but whether it is there.
    """
    if is_name(name) and value is not None and not isinstance(value, bool):
        return MASK
    if isinstance(value, dict):
        return {key: in_values(one, str(key)) for key, one in value.items()}
    if isinstance(value, list):
        return [in_values(one) for one in value]
    return in_text(value) if isinstance(value, str) else value
