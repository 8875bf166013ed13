"""Loads the user's own code, named `package.module:callable` in the job."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from steelyard_workers.termination import UserError


def load(entrypoint: str, field: str) -> Callable[..., Any]:
    """The callable that `entrypoint` names; `field` is where the job says it, for the message.

    Raises UserError for a name of another form, a module that does not import (with the exception that its import
    raised, whatever it was) and a name that is missing or not callable.
    """
    module_name, separator, name = entrypoint.partition(":")
    if not (module_name and separator and name):
        raise UserError(f"{field} {entrypoint!r}: want the form package.module:callable")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # user code may raise anything while it is imported
        raise UserError(f"{field} {entrypoint!r} does not import: {type(error).__name__}: {error}") from error
    target: Any = module
    for part in name.split("."):
        target = getattr(target, part, None)
    if not callable(target):
        raise UserError(f"{field} {entrypoint!r}: module {module_name} has no callable {name!r}")
    result: Callable[..., Any] = target
    return result


def construct(entrypoint: str, field: str, args: Mapping[str, str]) -> Any:
    """What the entry point returns when it is called with the job's arguments; UserError when it raises."""
    factory = load(entrypoint, field)
    try:
        return factory(**args)
    except Exception as error:  # user code may raise anything
        raise UserError(f"{field} {entrypoint!r} with {dict(args)}: {type(error).__name__}: {error}") from error
