"""Argo CD's interpreter: Lua 5.1 without the libraries that Argo CD does not open for a script of argocd-cm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from lupa.lua51 import LuaRuntime, lua_type

from gitops.customizations import CUSTOMIZATIONS

KINDS = CUSTOMIZATIONS / "steelyard.dev"
CLOSED = ("string", "math", "io", "debug", "coroutine", "os", "python")


def run(script: str, obj: Any) -> Any:
    """What the script returns for the object, as Argo CD's codec reads it: an empty table is a list."""
    lua = LuaRuntime(unpack_returned_tuples=True, register_eval=False, register_builtins=False)
    lua.execute(f"for _, name in ipairs({{{', '.join(repr(name) for name in CLOSED)}}}) do _G[name] = nil end")
    lua.globals().obj = lua.table_from(obj, recursive=True)
    return _read(lua.execute(script))


def health(kind: str, obj: Any) -> dict[str, str]:
    """Status and message of an object of this kind."""
    found: dict[str, str] = run((KINDS / kind / "health.lua").read_text(), obj)
    return found


def objects(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def _read(value: Any) -> Any:
    if lua_type(value) != "table":
        return int(value) if isinstance(value, float) and value.is_integer() else value
    keys = list(value)
    if keys == list(range(1, len(keys) + 1)):
        return [_read(value[key]) for key in keys]
    return {key: _read(value[key]) for key in keys}
