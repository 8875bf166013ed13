"""The one redactor every file of a bundle passes: what looks like a secret is withheld, and told without its value.

It errs on the side of withholding. Objects are judged by their structure first: keys, variables, arguments. What was
withheld there is then withheld wherever else it turns up, and every text is judged by patterns. Pure.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

import yaml

from steelyard.cli.bundling.patterns import ANSI, SEARCHES, Search, is_secret_key, mark

KEPT_VARIABLES = re.compile(
    r"HOME|PORT|NATS_URL|SAMPLER_HOST|PYTHONPATH|POD_(NAME|NAMESPACE|UID)|(STEELYARD|OMP|VLLM|NCCL|CUDA|NVIDIA)_\w+"
)
"""Variables whose values help to understand a run and are no secrets; of all others only the name is kept."""
DROPPED = frozenset({"managedFields"})
WITHHELD_WHOLE = frozenset({"kubectl.kubernetes.io/last-applied-configuration", "binaryData"})
_REFERENCE = frozenset({"name", "secretName", "optional", "defaultMode", "items"})
_SHORTEST = 6
"""Shorter values are words; to withhold them everywhere would make the bundle unreadable."""
_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)


@dataclass
class Redactor:
    """Remembers what it withheld. Feed it the objects before the logs, so that it knows their secrets."""

    withheld: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(file, what) -> how often; never a value."""
    _values: set[str] = field(default_factory=set)

    def document(self, file: str, value: Any) -> str:
        """An object, or a list of them, as YAML without secrets."""
        written = yaml.safe_dump(self._walk(file, value), sort_keys=False, allow_unicode=True, width=10**9)
        return self.text(file, written)

    def text(self, file: str, text: str) -> str:
        """The text without what looks like a secret, without colours, and without values known from documents."""
        text = ANSI.sub("", text)
        for value in sorted(self._values, key=len, reverse=True):
            if found := text.count(value):
                self.withheld[file, "a value withheld elsewhere"] += found
                text = text.replace(value, mark("known value"))
        for what, search in SEARCHES:
            text = self._without(file, what, text, search)
        return text

    def _without(self, file: str, what: str, text: str, search: Search) -> str:
        pieces, end = [], 0
        for begin, after, instead in search(text):
            pieces += [text[end:begin], instead]
            end = after
            self.withheld[file, what] += 1
        return "".join([*pieces, text[end:]])

    def _walk(self, file: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return self._variable(file, value) if value.keys() == {"name", "value"} else self._mapping(file, value)
        if isinstance(value, list):
            return [self._walk(file, one) for one in value]
        return self._rendered(file, value) if isinstance(value, str) else value

    def _mapping(self, file: str, value: Mapping[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, one in value.items():
            if key in DROPPED:
                continue
            if key in WITHHELD_WHOLE:
                kept[key] = self._withhold(file, key, None)
            elif is_secret_key(key) and _may_be_secret(one):
                kept[key] = self._withhold(file, key, one)
            elif key in ("args", "command") and isinstance(one, list):
                kept[key] = self._arguments(file, one)
            else:
                kept[key] = self._walk(file, one)
        return kept

    def _variable(self, file: str, variable: Mapping[str, Any]) -> dict[str, Any]:
        """A container's environment variable: what users set is theirs, whatever its name."""
        name, value = str(variable["name"]), variable["value"]
        if not is_secret_key(name) and KEPT_VARIABLES.fullmatch(name):
            return {"name": name, "value": self._walk(file, value)}
        return {"name": name, "value": self._withhold(file, name, value if is_secret_key(name) else None)}

    def _arguments(self, file: str, arguments: list[Any]) -> list[Any]:
        """`--api-key x` and `--api-key=x`: what the option's name says is secret."""
        kept: list[Any] = []
        secret: str | None = None
        for argument in arguments:
            option = _OPTION.fullmatch(str(argument))
            if secret and not option:
                kept.append(self._withhold(file, secret, argument))
                secret = None
                continue
            named = option[1] if option and is_secret_key(option[1]) else None
            secret = named if option and option[2] is None else None
            if named and option and option[2] is not None:
                kept.append(f"--{named}={self._withhold(file, named, option[2])}")
            else:
                kept.append(self._walk(file, argument))
        return kept

    def _rendered(self, file: str, text: str) -> str:
        """A string that is a document of its own, as in ConfigMaps, is judged as one."""
        if text.lstrip()[:1] not in ("{", "["):
            return text
        try:
            document = json.loads(text)
        except ValueError:
            return text
        return json.dumps(self._walk(file, document), indent=1)

    def _withhold(self, file: str, what: str, remember: Any) -> str:
        self.withheld[file, what] += 1
        self._values.update(form for leaf in _leaves(remember) for form in _forms(leaf) if len(form) >= _SHORTEST)
        return mark(what)


def _may_be_secret(value: Any) -> bool:
    """Switches are no secrets, nor is what only names a Secret: `automountServiceAccountToken`, `imagePullSecrets`."""
    if isinstance(value, list):
        return any(map(_may_be_secret, value))
    if isinstance(value, Mapping):
        return not value.keys() <= _REFERENCE
    return not isinstance(value, bool | None) and value != ""


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    elif value is not None:
        yield str(value)


def _forms(value: str) -> set[str]:
    """The value as it may be written elsewhere: escaped, in a URL, in base64, or what the base64 says."""
    forms = {value, value.strip(), json.dumps(value)[1:-1], quote(value, safe=""), unquote(value)}
    forms.add(base64.b64encode(value.encode()).decode())
    try:
        decoded = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return forms
    return forms | {decoded} if decoded.isprintable() else forms
