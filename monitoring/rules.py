"""What wakes somebody: groups of Prometheus rules, made from the alerts of `alerts.py`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

RUNBOOKS = "https://github.com/steelyard/steelyard/blob/main/docs/runbooks"
"""Where `docs/runbooks` can be read; the chart puts `monitoring.prometheusRule.runbookBaseUrl` in its place."""


@dataclass(frozen=True)
class Alert:
    """One alert. Its page in docs/runbooks has its name."""

    name: str
    severity: Literal["critical", "warning", "info"]
    """Critical: training has stopped, or nobody looks after it. Warning: GPUs are wasted. Info: to know by day."""
    lasting: str
    """How long it must hold before it fires."""
    expression: str
    summary: str
    """What is wrong, the same for every job."""
    description: str
    """With labels and value filled in."""

    def rule(self) -> dict[str, Any]:
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.lasting,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{RUNBOOKS}/{self.name}.md",
            },
        }


def groups(of: Iterable[tuple[str, Iterable[Alert]]]) -> dict[str, Any]:
    """The content of a rules file."""
    return {"groups": [{"name": name, "rules": [alert.rule() for alert in alerts]} for name, alerts in of]}


def index(alerts: Iterable[Alert]) -> str:
    """The page of all alerts (docs/runbooks/README.md)."""
    rows = (f"| [{one.name}]({one.name}.md) | {one.severity} | {one.summary} | {one.lasting} |" for one in alerts)
    return "\n".join((_HEAD, "| alert | severity | what is wrong | fires after |", "|---|---|---|---|", *rows, ""))


_HEAD = """# Alerts

Generated from `monitoring/alerts.py` by `make generate`; do not edit. How to get them into Prometheus:
[dashboards and alerts](../monitoring.md#get-them-in).

In the commands of these pages `steelyard-system` is the namespace of the operator, and `steelyard-operator` its
Deployment, as a release called `steelyard` names it. NAMESPACE, JOB, POOL and the like are in the alert's labels. `arj`
is short for AgenticRLJob, `arev` for AllocationRevision.
"""
