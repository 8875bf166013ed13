"""What an audit asks Prometheus, in PromQL: everything is summed by stage at the server, so a day costs seconds.

Pods are found by the names that `children` gives them, so no relabelling of ours has to be configured.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from re import fullmatch

from steelyard.api import Stage
from steelyard.api.names import BUS, DEFAULT_PROFILE
from steelyard.audit.record import Grid
from steelyard.balance import signals
from steelyard.balance.surroundings import RECENT_SECONDS
from steelyard.children.common import bus_name, checkpoints_name, weights_name

FINEST_SECONDS, MOST_POINTS = 15.0, 5760
"""A day at 15 s; Prometheus itself refuses more than 11,000 points a line."""
FEWEST_POINTS = 240
COUNTED_SECONDS = 300
SCRAPES = 4
"""A rate looks at so many scrapes at least, so that one that failed makes no gap."""
STEPS = 3
"""What happens once a training step is averaged over so many of them."""

HISTOGRAMS = {
    "tools": (signals.TOOL_SECONDS, ("tool", "outcome")),
    "service": (signals.SERVICE_SECONDS, ("stage",)),
    "buffer_wait": (signals.BUFFER_WAIT_SECONDS, ("buffer",)),
    "train_step": (signals.STEP_SECONDS, ()),
    "step_interval": (signals.STEP_INTERVAL_SECONDS, ()),
    "staleness": (signals.STALENESS, ()),
}
"""Figure -> its metric and the labels to tell apart; totals are kept as `<figure>_bucket`, `_sum` and `_count`."""


@dataclass(frozen=True)
class Selector:
    """Which series are the job's."""

    namespace: str
    job: str
    profiles: tuple[str, ...] = ()
    """GPU profiles that it has or had; any, when they are not known."""

    def pods(self, *stages: Stage) -> str:
        """Matchers of the job's worker pods, of some stages or of all. Another job's name may begin with ours, so the
        whole name is matched."""
        return f'namespace="{self.namespace}",pod=~"{self._names(*stages)}"'

    def profiled(self, expression: str) -> str:
        """`expression` with a label `profile`, which is a part of the pod's name."""
        stages = "|".join(Stage)
        return (
            f'label_replace({expression}, "profile", "$1", "pod", "{self.job}-(?:{stages})-(.+)-[a-z0-9]+-[a-z0-9]+")'
        )

    def staged(self, expression: str) -> str:
        """`expression` with a label `stage`, for series that the workers do not write; the bus is one here."""
        stages = "|".join((*Stage, BUS))
        return f'label_replace({expression}, "stage", "$1", "pod", "{self.job}-({stages})-.*")'

    @property
    def everything(self) -> str:
        """Matchers of the workers and the bus."""
        return f'namespace="{self.namespace}",pod=~"{self._names()}|{bus_name(self.job)}-0"'

    @property
    def bus(self) -> str:
        return f'namespace="{self.namespace}",pod="{bus_name(self.job)}-0"'

    @property
    def claims(self) -> str:
        names = "|".join((weights_name(self.job), bus_name(self.job), checkpoints_name(self.job)))
        return f'namespace="{self.namespace}",persistentvolumeclaim=~"{names}.*"'

    def pod(self, name: str) -> tuple[Stage, str] | None:
        """Stage and profile of a worker pod by its name; None for strangers."""
        found = fullmatch(self._names(), name)
        return None if found is None else (Stage(found[1]), found[3] or DEFAULT_PROFILE)

    def _names(self, *stages: Stage) -> str:
        kinds = "|".join(stages or Stage)
        profile = "|".join(self.profiles) or "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
        return f"{self.job}-({kinds})-(({profile})-)?[a-z0-9]+-[a-z0-9]{{5}}"


def grid(start: float, end: float) -> Grid:
    """At 15 s or finer for up to a day, coarser beyond; a short span gets `FEWEST_POINTS`."""
    step = max(min(FINEST_SECONDS, (end - start) / FEWEST_POINTS), (end - start) / MOST_POINTS, 1.0)
    step = float(ceil(step)) if step > FINEST_SECONDS else float(round(step))
    count = int((end - start) // step)
    return Grid(end - (count - 1) * step, step, count)


def scrapes(of: Selector) -> str:
    """Samples of one pod in `COUNTED_SECONDS`, the most of any; they over it are the scrape interval."""
    return f"max(count_over_time({signals.STAGE_SLOTS}{{{of.pods()}}}[{COUNTED_SECONDS}s]))"


def lines(of: Selector, on: Grid, scrape_seconds: float, step_seconds: float | None) -> dict[str, str]:
    """Figure -> range query. `step_seconds`: the mean time between training steps, None before two."""
    near = f"{ceil(max(on.step, SCRAPES * scrape_seconds))}s"
    far = f"{ceil(max(on.step, SCRAPES * scrape_seconds, STEPS * (step_seconds or 0.0)))}s"
    workers, samplers, trainers = of.pods(), of.pods(Stage.SAMPLER), of.pods(Stage.TRAINER)

    def rate(metric: str, matchers: str, window: str) -> str:
        return f"rate({metric}{{{matchers}}}[{window}])"

    def mean(metric: str, matchers: str) -> str:
        total, count = (f"sum({rate(f'{metric}_{part}', matchers, far)})" for part in ("sum", "count"))
        return f"{total} / ({count} > 0)"

    return {
        "states": f"sum by (stage, profile, state) ({of.profiled(rate(signals.STAGE_SECONDS, workers, near))})",
        "replicas": f"count by (stage, profile) ({of.profiled(f'{signals.STAGE_SLOTS}{{{workers}}}')})",
        "units": f"sum by (stage, outcome) ({rate(signals.STAGE_UNITS, workers, far)})",
        "generated": f"sum({rate(signals.TOKENS_GENERATED, samplers, near)})",
        "running": f"sum({signals.REQUESTS_RUNNING}{{{samplers}}})",
        "waiting": f"sum({signals.REQUESTS_WAITING}{{{samplers}}})",
        "kv_usage": f"avg({signals.KV_USAGE}{{{samplers}}})",
        "buffers": f"max by (buffer) ({signals.BUFFER_DEPTH}{{{of.bus}}})",
        "staleness": mean(signals.STALENESS, trainers),
        "reward": mean(signals.REWARD_SUM.removesuffix("_sum"), of.pods(Stage.REWARD_SERVER)),
        "version": f"max({signals.POLICY_VERSION}{{{trainers}}})",
        **_pressure(of, f"{ceil(max(on.step, RECENT_SECONDS))}s"),
        "claims": (
            f"max by (persistentvolumeclaim) ({signals.CLAIM_USED}{{{of.claims}}})"
            f" / max by (persistentvolumeclaim) ({signals.CLAIM_CAPACITY}{{{of.claims}}})"
        ),
        "device_memory": _device_memory(of),
    }


def totals(of: Selector, seconds: float) -> dict[str, str]:
    """Figure -> instant query at the end of the span."""
    span = f"[{ceil(seconds)}s]"
    workers, samplers = of.pods(), of.pods(Stage.SAMPLER)

    def grown(metric: str, *labels: str, matchers: str = workers) -> str:
        by = f"by ({', '.join(labels)}) " if labels else ""
        return f"sum {by}(increase({metric}{{{matchers}}}{span}))"

    found = {
        "units": grown(signals.STAGE_UNITS, "stage", "outcome"),
        "seconds": grown(signals.STAGE_SECONDS, "stage", "state"),
        "generated": grown(signals.TOKENS_GENERATED, matchers=samplers),
        "capacity": f"max by (buffer) (max_over_time({signals.BUFFER_CAPACITY}{{{of.bus}}}{span}))",
        "reward_sum": grown(signals.REWARD_SUM),
        "reward_count": grown(signals.REWARD_COUNT),
    }
    for figure, (metric, labels) in HISTOGRAMS.items():
        found[f"{figure}_bucket"] = grown(f"{metric}_bucket", "le", *labels)
        found[f"{figure}_sum"] = grown(f"{metric}_sum", *labels)
        found[f"{figure}_count"] = grown(f"{metric}_count", *labels)
    return found


def raw(of: Selector, seconds: float) -> dict[str, str]:
    """Metric -> range vector of what the balance reads of the job's pods and its bus, the last `seconds` of it."""
    near, far = f"[{ceil(seconds)}s]", f"[{ceil(seconds)}s:{max(ceil(seconds / 4), 1)}s]"
    workers, inside = of.pods(), 'container!="",container!="POD"'
    return {
        **{metric: f"{metric}{{{workers}}}{near}" for metric in signals.REQUIRED},
        signals.BUFFER_DEPTH: f"{signals.BUFFER_DEPTH}{{{of.bus}}}{near}",
        **{metric: f"{metric}{{{workers},{inside}}}{near}" for metric in signals.PRESSURE},
        **{metric: f"{metric}{{{of.claims}}}{near}" for metric in signals.CLAIMS},
        **{metric: f"{metric}{{{workers}}}{near}" for metric in signals.DEVICES},
        signals.TRAJECTORY_TOKENS: f'{signals.TRAJECTORY_TOKENS}{{{workers},kind="generated"}}{far}',
    }


def _pressure(of: Selector, window: str) -> dict[str, str]:
    """The pod of each stage, and of the bus, that waits most for its node."""
    inside = 'container!="",container!="POD"'
    names = {
        "io_waiting": signals.IO_WAITING,
        "io_stalled": signals.IO_STALLED,
        "cpu_waiting": signals.CPU_WAITING,
        "memory_waiting": signals.MEMORY_WAITING,
    }
    return {
        figure: f"max by (stage) ({of.staged(f'rate({metric}{{{of.everything},{inside}}}[{window}])')})"
        for figure, metric in names.items()
    }


def _device_memory(of: Selector) -> str:
    """Share of the devices' memory in use. Exporters name the pod that uses a device by either of two labels."""

    def held(metric: str) -> str:
        exported = of.everything.replace("namespace=", "exported_namespace=").replace("pod=", "exported_pod=")
        honoured = of.staged(f"{metric}{{{of.everything}}}")
        told = of.staged(f"{metric}{{{exported}}}").replace('"pod"', '"exported_pod"')
        return f"sum by (stage) ({honoured} or {told})"

    used, free = held(signals.DEVICE_USED), held(signals.DEVICE_FREE)
    return f"{used} / ({used} + {free})"
