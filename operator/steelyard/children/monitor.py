"""Tells a Prometheus operator, where there is one, to scrape every pod of the job."""

from __future__ import annotations

from steelyard.api import AgenticRLJob
from steelyard.api.names import LABEL_JOB
from steelyard.children.common import Manifest, child


def pod_monitor(job: AgenticRLJob) -> Manifest:
    """Twice in the age from which a sample counts as missing: Prometheus' own interval may be longer."""
    seconds = max(job.spec.scaling.max_metric_age_seconds // 2, 1)
    spec: Manifest = {
        "selector": {"matchLabels": {LABEL_JOB: job.metadata.name}},
        "podMetricsEndpoints": [{"port": "http", "path": "/metrics", "interval": f"{seconds}s"}],
    }
    return child(
        job,
        "monitoring.coreos.com/v1",
        "PodMonitor",
        job.metadata.name,
        {"spec": spec},
        inputs=[job.metadata.uid, "pods", seconds],
    )
