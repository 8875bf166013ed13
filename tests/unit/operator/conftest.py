"""A job under control in a cluster in memory."""

from __future__ import annotations

import pytest

from tests.unit.operator.operating import FIXED, Operated


@pytest.fixture
async def operated() -> Operated:
    """A job that runs."""
    operated = Operated(FIXED)
    await operated.settle()
    return operated
