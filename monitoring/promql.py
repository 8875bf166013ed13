"""Queries in the words of the dashboards. Whoever scrapes, series of a pod carry `namespace` and `pod`, and no more is
relied on: a PodMonitor gives them, and so does every common configuration of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from steelyard.api import Stage
from steelyard.api.names import BUS

WINDOW = "$__rate_interval"
SCRAPED = 'cluster=~"$cluster", job=~"$job"'
"""Which Prometheus and which scrape configuration; every value of both unless somebody chooses."""
PARTS = "|".join(sorted((BUS, *Stage)))
OF_OTHERS = "$rl_job-.+-(bus-0|environment-.+-.+|(reward-server|sampler|trainer)-.+-.+-.+)"
"""Pods of a job whose name begins with this one's: those of `a-sampler` are not those of the samplers of `a`."""

JOB = ("rl_namespace", "rl_job")
"""The labels of one job, to sum by."""


def of_pods(metric: str, part: str = f"({PARTS})", **labels: str) -> str:
    """Series of the pods of one job, or of one of its stages. Pods are named `<job>-<stage>-...`."""
    return _select(metric, f"{SCRAPED}, {_pods(part)}", labels)


def _pods(part: str, prefix: str = "") -> str:
    own, others = f'{prefix}pod=~"$rl_job-{part}-.+"', f'{prefix}pod!~"{OF_OTHERS}"'
    return f'{prefix}namespace="$namespace", {own}, {others}'


def of_claims(metric: str) -> str:
    """Series of a job's claims, from the kubelet."""
    claims = 'persistentvolumeclaim=~"$rl_job-(bus|checkpoints|weights)"'
    return _select(metric, f'{SCRAPED}, namespace="$namespace", {claims}')


def of_devices(metric: str) -> str:
    """Series of the devices that pods of one job use; exporters name the pod by either of two labels."""
    ways = (_pods(f"({PARTS})", prefix) for prefix in ("", "exported_"))
    return f"({' or '.join(_select(metric, f'{SCRAPED}, {way}') for way in ways)})"


def of_jobs(metric: str, **labels: str) -> str:
    """Series that the operator tells of the chosen jobs; `metric` without its prefix."""
    return _select(f"steelyard_job_{metric}", f'{SCRAPED}, rl_namespace=~"$namespace", rl_job=~"$rl_job"', labels)


def of_fleet(metric: str, **labels: str) -> str:
    """Series that the operator tells of every job of the chosen namespaces; `metric` without its prefix."""
    return _select(f"steelyard_job_{metric}", f'{SCRAPED}, rl_namespace=~"$namespace"', labels)


def of_operator(metric: str, **labels: str) -> str:
    """Series of the operator itself; `metric` without its prefix."""
    return _select(f"steelyard_operator_{metric}", SCRAPED, labels)


def _select(metric: str, where: str, labels: Mapping[str, str] = MappingProxyType({})) -> str:
    """A value that begins with `~` is a pattern, one that begins with `!` is excluded."""
    return f"{metric}{{{', '.join((where, *(_matcher(name, value) for name, value in labels.items())))}}}"


def _matcher(name: str, value: str) -> str:
    sign = {"~": "=~", "!": "!="}.get(value[:1])
    return f'{name}{sign}"{value[1:]}"' if sign else f'{name}="{value}"'


def rate(counters: str) -> str:
    """Per second."""
    return f"rate({counters}[{WINDOW}])"


def increase(counters: str) -> str:
    """Since the point before."""
    return f"increase({counters}[{WINDOW}])"


def delta(sums: str) -> str:
    """Since the point before, of sums that may fall: a rate would take negative rewards for a restart."""
    return f"delta({sums}[{WINDOW}])"


def total(expression: str, *by: str) -> str:
    return _aggregated("sum", expression, by)


def most(expression: str, *by: str) -> str:
    return _aggregated("max", expression, by)


def told(metric: str, *by: str, **labels: str) -> str:
    """What the operator tells of the chosen jobs, whichever pod of the operator told it."""
    return most(of_jobs(metric, **labels), *by)


def _aggregated(how: str, expression: str, by: Sequence[str]) -> str:
    return f"{how} by ({', '.join(by)}) ({expression})" if by else f"{how}({expression})"


def share(some: str, every: str) -> str:
    """Zero where there is none of `some`; unknown only where `every` is."""
    return f"({some} or 0 * {every}) / {every}"


def per(figure: str, gpus: str) -> str:
    """For each GPU, where there is one."""
    return f"{figure} / ({gpus} > 0)"


def by_pod(metric: str, reading: Callable[[str], str] = lambda series: series) -> str:
    """Of the kubelet's series: the sum of a pod's containers or, where nobody names these, the whole pod's."""
    containers, pods = (total(reading(of_pods(metric, container=named)), "pod") for named in ("!", ""))
    return f"{containers} or {pods}"


def quantile(rank: float, buckets: str, *by: str) -> str:
    """Of a histogram: `buckets` selects its `_bucket` series."""
    return f"histogram_quantile({rank}, {total(rate(buckets), 'le', *by)})"


def gpu_hours(gpus: str) -> str:
    """GPUs over the shown time, in hours: sampled as densely as the panel has room for, however long the time is."""
    return f"sum_over_time(({gpus})[$__range:$__interval]) * $__interval_ms / 3600000"


def idle(select: Callable[[str], str]) -> str:
    """GPUs a stage holds while its slots wait: both figures are of one round, with the same labels."""
    return f"{select('stage_gpus')} * (1 - {select('stage_utilization_ratio')})"


def age_of_metrics() -> str:
    """Of each stage, at the last round."""
    read = told("metrics_timestamp_seconds", *JOB, "stage")
    return f"{told('last_tick_timestamp_seconds', *JOB)} - on ({', '.join(JOB)}) group_right () {read}"
