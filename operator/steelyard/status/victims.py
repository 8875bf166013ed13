"""Who goes first when replicas are taken away: the pod that has least to lose."""

from __future__ import annotations

from steelyard.balance import signals
from steelyard.balance.types import Rates
from steelyard.cluster.view import View


def deletion_costs(view: View, rates: Rates) -> dict[str, int]:
    """Pod name -> trajectories bound to it. Unknown counts as none: among equals Kubernetes takes the youngest."""
    return {pod.name: _inflight(rates, pod.name) for pod in view.pods if not (pod.ended or pod.terminating)}


def _inflight(rates: Rates, pod: str) -> int:
    newest = [series.samples[-1] for series in rates.series(signals.STAGE_INFLIGHT, pod) if series.samples]
    return round(max(newest)[1]) if newest else 0
