"""Secrets: what a command line and an environment's arguments are not to give away when a session is passed on.

A secret is known by the words of its name, so that an author and a tokenizer are none, or by its own looks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

MASK = "***"

# Of which words a name is one of a secret: any of these, some in any place, some alone or at the end only.
_SINGLE = {
    *("password", "passwd", "passphrase", "passcode", "pwd", "pw", "secret", "credential", "authorization", "bearer"),
    *("apikey", "apitoken", "authtoken", "jwt", "cookie"),
}
_ANYWHERE = {*_SINGLE, *(f"{word}s" for word in _SINGLE), "token"}
# Where words are written as one, as in PGPASSWORD: what such a word says by itself, and where one is to be parted.
_ENDINGS = tuple(f"{word}{s}" for word in ("password", "passwd", "passphrase", "apikey") for s in ("", "s"))
_JOINED = re.compile(r"(\w+?)(tokens?|keys?|secrets?|auth|pass)")
_AT_THE_END = {"auth", "oauth"}
_ALONE = {"pass", "pat"}
# Tokens that are counted, or are signs of a language model: then the word is no secret's.
_OF_TEXT = {
    *("max", "min", "num", "n", "count", "limit", "per", "length", "len", "budget", "size", "type", "dim"),
    *("embed", "bos", "eos", "pad", "unk", "sep", "cls", "mask", "special", "image", "action", "state"),
    *("task", "ids", "indices"),
}
# There are cookies, and pulse widths, that are simulated: what is measured of them is no secret.
_OF_THINGS = {"cookie", "cookies", "pw"}
_MEASURES = {
    *("position", "positions", "pos", "pose", "quat", "orientation", "velocity", "size", "radius", "height", "width"),
    *("mass", "friction", "color", "gain", "gains", "scale", "count", "range"),
}
# Tokens, keys and passes that are secrets by what they are for: there are keys of streams and of dictionaries too.
_OF_SERVICES = {"wandb", "hf", "huggingface", "openai", "aws", "azure", "gcp", "github", "gitlab", "hub"}
_KEYS = {"api", "private", "access", "secret", "auth", "encryption", "signing", "ssh", *_OF_SERVICES}
_PLAIN = {
    "tokens": {"access", "api", "auth", "refresh", "session", "id", "secret", *_OF_SERVICES},
    "keys": _KEYS,
    "key": {*_KEYS, "account", "service", "client", "master", "shared", "deploy", "license", "session"},
    "pass": {"db", "user", "smtp", "ftp", "ssh", "mysql", "postgres", "redis", "admin", "root", "login", "mail"},
}
# An option that begins so is a switch: an option that follows it is no value of it.
_SWITCHES = {*("use", "no", "with", "without", "has", "is", "ask", "prompt", "show", "hide", "enable", "disable")}

# Options of several values, up to the next option.
_SEVERAL = {word for word in (*_ANYWHERE, *_ENDINGS, *_PLAIN) if word.endswith("s")} - {"pass", "credentials"}
# What an object says that it is the value of.
_LABELS = ("name", "key", "header")

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAME = re.compile(r"[-+]*[A-Za-z_][\w.\-/]*")
_OPTION = re.compile(r"--[A-Za-z].*", re.DOTALL)
# What is a secret by its looks: keys of well-known services, tokens of three parts, a password within an address.
_KEY = re.compile(
    r"\b(?:hf_|gh[oprsu]_|github_pat_|glpat-|npm_|pypi-|sk-|sk_live_|rk_live_|xox[abeprs]-|AKIA|ASIA|AIza)"
    r"[A-Za-z0-9_-]{8,}"
)
# From a run's beginning only, and only where a point follows it: a long text is gone through once.
_OF_PARTS = re.compile(r"(?<![\w-])(?=[\w-]+\.[\w-])(?P<before>[\w-]*?)\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?")
_ADDRESS = re.compile(r"(?<=://)[^/\s?#\"']+@|(?<![\w.+\-/@\\])[\w.+-]{2,}:[^\s/@:\"'\\]+@(?=[\w.-])")
_BEARER = re.compile(r"\b(bearer\s+)[\w.~+/=-]+", re.IGNORECASE)
_HEADER = re.compile(r"(\s*(?P<name>[A-Za-z][\w-]*)\s*:\s*)\S.*", re.DOTALL)
_AUTHORIZATION = re.compile(r"(authorization[\"']?\s*[:=]\s*)(?:[a-z]+\s+)?(?![\[{(\\])[^\s\"',;}]+", re.IGNORECASE)
# From a name's beginning only: a long text is gone through once.
_ASSIGNED = re.compile(r"(?<![\w.\-])(?P<name>[\w.\-]+)(?:\\*[\"'])?\s*[:=]\s*")
# A value in quotes; a list, an object or a quote within a quote, which is hidden up to the text's end; a word.
_VALUE = re.compile(
    r"(?P<quote>[\"'])(?:\\.|(?!(?P=quote))[^\\])*\\?(?P=quote)?|(?:[\[{(]|\\+[\"']).*|(?!//)[^\s,;&}\])\"']+",
    re.DOTALL,
)
_JSON = re.compile(r"\s*[\[{\"].*", re.DOTALL)


def is_name(name: str) -> bool:
    """Tell whether a name is one of a secret, by its words: ``hub_token``, ``--wandb.apiKey``, ``X-Api-Key``."""
    words = _words(name)
    if not words:
        return False
    said = {word for word in words if word in _ANYWHERE or word.endswith(_ENDINGS)}
    if words[-1] in _MEASURES:
        said -= _OF_THINGS
    if said - {"token"} or words[-1] in _AT_THE_END or (len(words) == 1 and words[0] in _ALONE):
        return True
    beside = set(words[:-1])
    is_token = bool(said) and not set(words) & _OF_TEXT
    return is_token or not beside.isdisjoint(_PLAIN.get(words[-1], ()))


def _is_name_in(above: str, name: str) -> bool:
    """Tell whether a name that is a secret's by what it is for is one in an object of that name."""
    words = _words(name)
    return bool(above and words) and words[-1] in _PLAIN and is_name(f"{above}.{name}")


def _words(name: str) -> list[str]:
    """Return the words of a name, in small letters and without numbers; two that are written as one are two."""
    words: list[str] = []
    for word in (found.lower() for found in _WORD.findall(name)):
        joined = None if word in _ANYWHERE or word.endswith(_ENDINGS) else _JOINED.fullmatch(word)
        words += joined.groups() if joined else [] if word.isdigit() else [word]
    return words


def _is_sure(name: str) -> bool:
    """Tell whether what follows an option of a secret's name is its value, whatever it looks like: it is no switch."""
    words = _words(name)
    return words[0] not in _SWITCHES and words[-1] not in _AT_THE_END


def in_text(text: str) -> str:
    """Return a text without the secrets in it: keys, passwords in addresses, headers, values of names, JSON."""
    held = _held(text)
    if held is not None:
        told = in_values(held)
        return text if told == held else json.dumps(told, ensure_ascii=False)
    header = _HEADER.fullmatch(text)
    if header is not None and "://" not in text and is_name(header["name"]):
        return f"{header[1]}{MASK}"
    text = _BEARER.sub(rf"\g<1>{MASK}", _ADDRESS.sub(f"{MASK}@", _KEY.sub(MASK, text)))
    text = _OF_PARTS.sub(rf"\g<before>{MASK}", text)
    return "".join(_unassigned(_AUTHORIZATION.sub(rf"\g<1>{MASK}", text)))


def _held(text: str) -> Any:
    """Return the values that a text of JSON holds; None where it is none."""
    if not _JSON.fullmatch(text):
        return None
    try:
        return json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Of one name only the last is a value, and the text has all of them.
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name is given twice")
    return dict(pairs)


def _unassigned(text: str) -> Iterator[str]:
    """Yield a text's parts, without the values of secrets: what is assigned to another name may hold one itself."""
    at, place = 0, _ASSIGNED.search(text)
    while place is not None:
        end = place.end()
        value = _VALUE.match(text, end) if is_name(place["name"]) else None
        if value is not None:
            # Of two quotes the second may be missing.
            quote = value["quote"] or ""
            yield f"{text[at:end]}{quote}{MASK}{quote}"
            at = end = value.end()
        place = _ASSIGNED.search(text, end)
    yield text[at:]


def in_command(command: Iterable[str]) -> list[str]:
    """Return a command line without its secrets, be it ``--token VALUE``, ``--token=VALUE``, a header or a key."""
    return _in_list(map(str, command))


def _in_list(values: Iterable[Any]) -> list[Any]:
    """Return a list without its secrets, as if it were a command line."""
    told: list[Any] = []
    hidden_by, is_first, is_after_option = "", False, False
    for value in values:
        argument = value if isinstance(value, str) else ""
        name, equals, rest = argument.partition("=")
        is_option, is_named = name.startswith("-"), bool(_NAME.fullmatch(name))
        is_secret = is_named and is_name(name)
        # What follows the name of a secret may begin as an option does: rather too much is hidden than too little.
        is_next = bool(_OPTION.fullmatch(argument))
        is_hidden = bool(hidden_by) and (not is_next or (is_first and _is_sure(hidden_by)))
        if is_hidden:
            told.append(MASK)
        elif equals and (is_option or is_named):
            told.append(f"{name}={MASK if is_secret else in_text(rest)}")
        else:
            told.append(in_values(value))
        is_first = not is_hidden or is_next
        if not is_first:
            # Of several it may have several.
            hidden_by, is_after_option = hidden_by if _words(hidden_by)[-1] in _SEVERAL else "", False
            continue
        hidden_by = name if is_secret and not equals and (is_option or is_after_option) else ""
        is_after_option = is_option and not equals
    return told


def in_values(value: Any, name: str = "", above: str = "") -> Any:
    """Return plain JSON values without the secrets in them.

    Lists are looked through as command lines are, and two values as a name and its value.

    Args:
        value: The value.
        name: What it is called: all of what has a secret's name is hidden, but whether it is there.
        above: What the object is called that it is in: a key of ``openai`` is a secret.
    """
    if (is_name(name) or _is_name_in(above, name)) and value is not None and not isinstance(value, bool):
        return MASK
    if isinstance(value, dict):
        label = next((value[key] for key in _LABELS if isinstance(value.get(key), str)), "")
        return {key: in_values(one, label if key == "value" else str(key), name) for key, one in value.items()}
    if isinstance(value, list):
        if len(value) == 2 and isinstance(value[0], str) and _NAME.fullmatch(value[0]) and is_name(value[0]):
            return [value[0], in_values(value[1], value[0])]
        return _in_list(value)
    return in_text(value) if isinstance(value, str) else value
