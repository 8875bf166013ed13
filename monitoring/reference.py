"""The page of all metrics (docs/reference/metrics.md)."""

from __future__ import annotations

from collections.abc import Iterable

from monitoring.catalog import FOREIGN, Described, of_jobs, of_operator, of_workers
from steelyard.balance import signals
from steelyard_workers.clock import State

STATES = {
    State.BUSY: "works",
    State.STARVED: "has no input",
    State.BLOCKED: "has nowhere to put its output",
    State.PACED: "may not begin more: admission is closed",
    State.TOOL: "waits for a tool",
    State.TOKENS: "waits for a sampler",
    State.SYNC: "takes over new weights",
    State.DRAIN: "finishes before it stops",
}
EXPLAINS = {
    signals.IO_WAITING: "the wait for storage",
    signals.IO_STALLED: "the wait for storage",
    signals.CPU_WAITING: "tools without CPU",
    signals.MEMORY_WAITING: "nodes without memory",
    signals.CLAIM_USED: "claims that fill up",
    signals.CLAIM_CAPACITY: "claims that fill up",
    signals.DEVICE_USED: "memory of devices",
    signals.DEVICE_FREE: "memory of devices",
}


def reference() -> str:
    """Markdown."""
    parts = (_HEAD, _table(of_workers()), _states(), _JOBS, _table(of_jobs()), _OPERATOR, _table(of_operator()))
    return "\n".join((*parts, _OTHERS, _others()))


def _table(metrics: Iterable[Described]) -> str:
    rows = (f"| `{one.name}{_labels(one)}` | {one.kind} | {one.what} |" for one in metrics)
    return "\n".join(("| metric | type | meaning |", "|---|---|---|", *rows, ""))


def _labels(of: Described) -> str:
    own = [label for label in of.labels if not label.startswith("rl_")]
    return f"{{{','.join(own)}}}" if own else ""


def _states() -> str:
    rows = (f"| `{state}` | {STATES[state]} |" for state in State)
    return "\n".join(("| state | the slot |", "|---|---|", *rows, "", _BUCKETS))


def _others() -> str:
    rows = (
        f"| `{name}` | {source} | {what} | {_use(name)} |"
        for source, metrics in FOREIGN.items()
        for name, what in metrics.items()
    )
    return "\n".join(("| metric | from | what it tells | the operator |", "|---|---|---|---|", *rows, ""))


def _use(name: str) -> str:
    if any(read == name or read == f"{name}_sum" for read in signals.REQUIRED):
        return "decides by it"
    return f"explains {EXPLAINS[name]}" if name in signals.OPTIONAL else ""


_HEAD = """# Metrics

Generated from the code by `make generate`; do not edit. A series that is missing means that nothing is known, never
zero. [Dashboards and alerts](../monitoring.md) are made of these.

## Of the workers

Every worker serves `/metrics` on its port `http`. Each of its slots is in exactly one state at a time, so the seconds
of all states sum to the slots' life.
"""
_BUCKETS = """Samplers also serve vLLM's own metrics. Buckets of histograms of seconds run from 1 ms to 1800 s.
"""
_JOBS = """## Of each job, from the operator

Told once a round, on the operator's port `http`, with the labels `rl_namespace` and `rl_job`; `namespace` and `job` are
Prometheus' own and name the operator. They are gone when the job is. Counters begin anew when the operator does.
"""
_OPERATOR = """## Of the operator and of pools

On the same port `/healthz` fails when a watch is dead or the Lease is lost, and `/readyz` until the operator acts; the
reason is their text.
"""
_OTHERS = """## What the operator reads

Decisions of the operator rest on metrics of the workers and of vLLM. A ready pod without fresh series holds the
allocation. Series must carry the labels `namespace` and `pod`, as a PodMonitor gives them.

All the rest is optional. It explains in `status.findings`, it never decides, and where it is absent it is unknown; the
operator reads it once a minute, together with `steelyard_trajectory_tokens_bucket{kind="generated"}`, the tail of the
lengths. Pressure needs cgroup v2 and a kernel with PSI. Series of the kubelet must carry the namespace they are about
(`honor_labels: true`, as kube-prometheus has it); device exporters may name the pod that uses a device by `pod` or by
`exported_pod`. What the operator does not read is shown on dashboards.
"""
