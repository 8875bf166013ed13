"""`python -m monitoring.generate`: write the metrics reference, dashboards and alerts, or check them with --check."""

from __future__ import annotations

import json
import sys

from monitoring.alerts import DECISIONS, JOBS, OPERATOR, WAITS
from monitoring.dashboards import dashboards
from monitoring.reference import reference
from monitoring.rules import groups, index
from steelyard.api.generate import as_yaml, generate

_HEADER = "# Generated from monitoring/alerts.py by `make generate`; do not edit.\n"
FILES = "charts/steelyard/files"


def generated() -> dict[str, str]:
    """Path below the repository's root -> content."""
    return {
        "docs/reference/metrics.md": reference(),
        "docs/runbooks/README.md": index((*JOBS, *WAITS, *DECISIONS, *OPERATOR)),
        **{f"{FILES}/dashboards/{name}.json": _json(board) for name, board in dashboards().items()},
        **{f"{FILES}/alerts/{name}.yaml": _HEADER + as_yaml(rules) for name, rules in alert_files().items()},
    }


def alert_files() -> dict[str, object]:
    """File name without its ending -> groups of rules."""
    of_jobs = (("steelyard-jobs", JOBS), ("steelyard-waits", WAITS), ("steelyard-decisions", DECISIONS))
    return {"steelyard-jobs": groups(of_jobs), "steelyard-operator": groups((("steelyard-operator", OPERATOR),))}


def _json(board: object) -> str:
    return json.dumps(board, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(generate("python -m monitoring.generate", __doc__ or "", lambda _: generated()))
