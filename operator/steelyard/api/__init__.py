"""The API of Steelyard: frozen types of `steelyard.dev/v1alpha1`, the single source of CRDs and validation.

The types come with their first use: whoever needs only `names` does not wait for the validators to be built.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard.api.types import *  # noqa: F403 - all of them, as `types` exports them
else:

    def __getattr__(name: str) -> object:
        return getattr(import_module("steelyard.api.types"), name)
