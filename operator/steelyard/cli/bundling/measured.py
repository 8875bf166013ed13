"""The samples that the operator would decide from now, as one file of a bundle."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from steelyard.balance.types import Series
from steelyard.cli.bundling.collect import Bundle
from steelyard.cli.looking import Measured, look, measure, scene
from steelyard.cli.session import Session
from steelyard.cluster.errors import ClusterError
from steelyard.cluster.places import Place


def measured(bundle: Bundle, session: Session, name: str, prometheus: Place | None) -> None:
    """Add what Prometheus tells of a job, or why it tells nothing."""
    file = f"metrics/{name}.json"
    try:
        looked = look(session, name)
    except ClusterError as error:
        bundle.missing[file] = str(error)
        return
    if looked.job is None:
        bundle.missing[file] = f"the job's spec breaks a rule: {looked.view.job.broken}"
        return
    found = measure(session, prometheus, scene(looked, looked.job))
    if isinstance(found, str):
        bundle.missing[file] = found
        return
    bundle.files[file] = bundle.redactor.text(file, json.dumps(_document(found), indent=1))


def _document(found: Measured) -> dict[str, Any]:
    """Metric -> pod -> its series, each with its labels and its raw samples as (unix seconds, value)."""
    samples = {
        metric: {pod: [_series(one) for one in series] for pod, series in sorted(pods.items())}
        for metric, pods in sorted(found.rates.samples.items())
    }
    return {"from": found.place, "time": found.now, "windowSeconds": found.rates.window_seconds, "samples": samples}


def _series(series: Series) -> dict[str, Any]:
    """JSON has no NaN and no infinity: such a value is null."""
    samples = [[at, value if isfinite(value) else None] for at, value in series.samples]
    return {"labels": dict(series.labels), "samples": samples}
