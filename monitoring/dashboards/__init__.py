"""The four dashboards; each module has one function that gives its JSON model."""

from __future__ import annotations

from typing import Any

from monitoring.dashboards.decisions import decisions
from monitoring.dashboards.fleet import fleet
from monitoring.dashboards.job import job
from monitoring.dashboards.operator import operator

__all__ = ["dashboards"]


def dashboards() -> dict[str, dict[str, Any]]:
    """File name without its ending -> JSON model."""
    return {"fleet": fleet(), "job": job(), "decisions": decisions(), "operator": operator()}
