"""What the demo's screen shows, read once a second from Prometheus: rates, waits, buffers, reward."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx

WINDOW = "15s"
QUERIES = {
    "throughput": f'sum by (stage) (rate(steelyard_stage_units_total{{outcome="ok"}}[{WINDOW}]))',
    "states": f"sum by (stage, state) (rate(steelyard_stage_seconds_total[{WINDOW}]))",
    "depth": "max by (buffer) (steelyard_buffer_depth)",
    "capacity": "max by (buffer) (steelyard_buffer_capacity)",
}


@dataclass(frozen=True)
class Signals:
    """One look at the pipeline. A stage or buffer that is absent has no live series: unknown, not zero."""

    throughput: Mapping[str, float] = field(default_factory=dict)
    """Finished units per second by stage."""
    states: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Share of slot time by stage and state; sums to 1."""
    depth: Mapping[str, float] = field(default_factory=dict)
    capacity: Mapping[str, float] = field(default_factory=dict)


def read(prometheus: str) -> Signals:
    """Ask Prometheus; an unreachable server gives empty signals, and the screen says "no data"."""
    try:
        with httpx.Client(base_url=prometheus, timeout=2, trust_env=False) as http:
            answers = {name: _query(http, query) for name, query in QUERIES.items()}
    except httpx.HTTPError:
        return Signals()
    by_stage: dict[str, dict[str, float]] = {}
    for labels, value in answers["states"]:
        by_stage.setdefault(labels["stage"], {})[labels["state"]] = value
    return Signals(
        throughput={labels["stage"]: value for labels, value in answers["throughput"]},
        states={stage: _shares(states) for stage, states in by_stage.items()},
        depth={labels["buffer"]: value for labels, value in answers["depth"]},
        capacity={labels["buffer"]: value for labels, value in answers["capacity"]},
    )


def _query(http: httpx.Client, query: str) -> list[tuple[dict[str, str], float]]:
    response = http.get("/api/v1/query", params={"query": query}).raise_for_status()
    return [(row["metric"], float(row["value"][1])) for row in response.json()["data"]["result"]]


def _shares(states: Mapping[str, float]) -> dict[str, float]:
    total = sum(states.values())
    return {state: value / total for state, value in states.items()} if total > 0 else {}
