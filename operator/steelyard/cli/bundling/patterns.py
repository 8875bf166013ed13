"""What a secret looks like: by the name of its key, by its own form, by where it stands in a text. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Colours and control characters, which could stand inside a key or a value."""

_SECRET = re.compile(
    r"\w*(password|passwd|passphrase|passcode|secret|apikey|accesskey|privatekey|authkey|token)"
    r"|pw|pwd|auth|passwords|secrets|apikeys|credentials?|creds?|bearer|authorization|cookies?|netrc"
)
"""Words that make a key secret; those with a prefix also when nothing separates it (`dbpassword`)."""
_PAIRS = frozenset(
    (first, second)
    for first in ("api", "access", "private", "secret", "auth", "account", "encryption", "signing", "shared", "master")
    for second in ("key", "keys")
)
_OWNERS_OF_TOKENS = frozenset(
    re.findall(r"\w+", "access auth refresh id bearer api session csrf hf hub github gitlab wandb bot")
)
_ABOUT = frozenset(
    re.findall(
        r"\w+", "name names ref refs selector path file mount mounts count length len limit max min type id ids seconds"
    )
)
"""Last words of keys that say where a secret is or count it: `secretName`, `token_ids`."""


def words(key: str) -> list[str]:
    """`hfToken`, `HF_TOKEN` and `hf-token-2` all as [hf, token]."""
    spaced = re.sub(r"([a-z0-9])([A-Z])|([A-Z]+)([A-Z][a-z])", r"\1\3 \2\4", key)
    return [word for word in re.split(r"[^a-z]+", spaced.lower()) if word]


def is_secret_key(key: str) -> bool:
    """Whether the value of such a key is withheld. `maxTokens`, `tokenizer` and `secretName` are no such keys."""
    found = words(key)
    pairs = pairwise(found)
    if any(pair in _PAIRS for pair in pairs):
        return found[-1] not in _ABOUT or found[-1] == "id"  # AWS_ACCESS_KEY_ID
    if not found or found[-1] in _ABOUT:
        return False
    if any(_SECRET.fullmatch(word) for word in found if word != "token") or found[-1] == "token":
        return True
    return found[-1] == "tokens" and len(found) > 1 and found[-2] in _OWNERS_OF_TOKENS


def mark(what: str) -> str:
    """What stands in the place of a value."""
    return f"<withheld: {what}>"


Found = tuple[int, int, str]
"""Where a secret begins and ends in a text, and what is written instead."""
Search = Callable[[str], Iterator[Found]]


def _form(pattern: str, what: str, flags: int = 0) -> Search:
    """Whatever group `secret` matches, else the whole match."""
    compiled = re.compile(pattern, flags)
    group = "secret" if "secret" in compiled.groupindex else 0

    def search(text: str) -> Iterator[Found]:
        for match in compiled.finditer(text):
            yield match.start(group), match.end(group), mark(what)

    return search


_KEY = re.compile(r"(?<![\w.])([A-Za-z][\w.-]{1,200}+)\\*[\"']?[ \t]{0,20}+(?:=>|:=|[:=])[ \t]{0,20}+")
_VALUE = re.compile(
    r"(?P<quote>\\*[\"'])(?P<quoted>(?:(?!(?P=quote))(?:\\.|.)){0,8192})(?P=quote)|[^\s\"',;&}\])]{1,8192}", re.DOTALL
)
_PLAIN = frozenset(("", "true", "false", "none", "null", "{", "[", "(", "|", ">"))
"""A switch, nothing, or the beginning of something that is judged by itself."""
_PASSWORD = re.compile(r"pass(word|wd|phrase)", re.IGNORECASE)
_TO_THE_END = re.compile(r"[^\n\"'{<]+")
_OPTION = re.compile(r"(?<![\w-])--([A-Za-z][\w.-]*)[ \t]+")
_ARGUMENT = re.compile(r"(?P<quote>[\"'])[^\n]*?(?P=quote)|[^\s-]\S*")
_HEAD = re.compile(r"^(?P<indent>[ \t]*)(?:- )?(?P<key>[\w.-]+):[ \t]*(?P<block>[|>][-+0-9]*)?[ \t]*\n", re.MULTILINE)


def _assigned(text: str) -> Iterator[Found]:
    """`key=value`, `"key": "value"`, however deep the quotes are escaped; also inside the value of another key."""
    end = 0
    for key in _KEY.finditer(text):
        if key.start() < end or not is_secret_key(key[1]) or (value := _VALUE.match(text, key.end())) is None:
            continue
        written = value.group() if value["quote"] is None else value["quoted"]
        if written.lower() in _PLAIN or written.startswith(("<withheld", "${")):
            continue
        begin, end = value.span("quoted") if value["quote"] is not None else value.span()
        if value["quote"] is None and _PASSWORD.search(key[1]) and (rest := _TO_THE_END.match(text, begin)):
            end = max(end, rest.end())  # what people type may have spaces
        yield begin, end, mark(key[1])


def _arguments(text: str) -> Iterator[Found]:
    """`--api-key value`."""
    for option in _OPTION.finditer(text):
        value = _ARGUMENT.match(text, option.end())
        if value and is_secret_key(option[1]) and not value.group().startswith("<withheld"):
            yield *value.span(), mark(option[1])


def _below(text: str) -> Iterator[Found]:
    """The value of a YAML key on the lines below it."""
    for head in _HEAD.finditer(text):
        if not is_secret_key(head["key"]):
            continue
        body = re.compile(rf"(?:{head['indent']}[ \t]+[^\n]*(?:\n|\Z))+").match(text, head.end())
        if body and (head["block"] or ":" not in body.group()):  # else a mapping, whose own keys are judged
            yield *body.span(), f"{head['indent']}  {mark(head['key'])}\n"


SEARCHES: tuple[tuple[str, Search], ...] = (
    (
        "a private key",
        _form(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
            "private key",
            re.DOTALL,
        ),
    ),
    (
        "credentials in a URL",
        _form(r"\b[a-z][a-z0-9+.-]{0,20}://(?P<secret>[^\s/@\"'<>]{1,2000})@", "credentials", re.IGNORECASE),
    ),
    (
        "a signed part of a URL",
        _form(
            r"[?&](?:[\w.-]{0,80}(?:token|key|secret|signature|password|credential)[\w.-]{0,80}|sig|auth|code)="
            r"(?P<secret>[^\s&\"'<>]+)",
            "parameter",
            re.IGNORECASE,
        ),
    ),
    (
        "an authorization header",
        _form(
            r"\b(?:bearer|basic|digest|negotiate)\s+(?P<secret>[A-Za-z0-9+/_.=~:-]{8,})",
            "authorization",
            re.IGNORECASE,
        ),
    ),
    ("a JSON web token", _form(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", "token")),
    (
        "a token by its form",
        _form(
            r"\b(?:hf_|api_org_|gh[pousr]_|github_pat_|glpat-|sk-|[sr]k_live_|xox[abeprs]-|nvapi-|pypi-|npm_|dckr_pat_)"
            r"[\w-]{12,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}|\b(?:wandb_v1_|local-)[\w-]{32,}",
            "token",
        ),
    ),
    ("the value of a secret key", _below),
    ("the value of a secret key", _assigned),
    ("an argument", _arguments),
)
"""(what it is, how to find it), in the order in which they are applied."""
