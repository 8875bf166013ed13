"""What an operator sees of the simulated cluster: pods by stage, and scrapes, late and with gaps."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np

from steelyard.api import Stage
from steelyard.balance.types import Instant, PodView, Rates, Series, StageCounts
from steelyard.twin.cluster import Cluster
from steelyard.twin.events import Events
from steelyard.twin.pods import Pod
from steelyard.twin.profiles import Cluster as Setup

WAVES = 5
"""Prometheus spreads its targets over the interval; here in so many groups."""


class Prometheus:
    """Scrapes every pod that answers, once in each interval."""

    def __init__(
        self, events: Events, setup: Setup, epoch: Instant, targets: Callable[[], Sequence[Pod]],
        chance: np.random.Generator,
    ) -> None:  # fmt: skip
        self._events, self._setup, self._epoch, self._targets, self._chance = events, setup, epoch, targets, chance
        self.scrapes = 0
        for wave in range(WAVES):
            events.at(setup.scrape_seconds * (wave + 1) / WAVES, self._scrape, wave)

    def _scrape(self, wave: int) -> None:
        now, setup = self._events.now, self._setup
        self._events.at(now + setup.scrape_seconds, self._scrape, wave)
        pods = [pod for pod in self._targets() if pod.ordinal % WAVES == wave and pod.ready_since is not None]
        chances: list[list[float]] = self._chance.random((len(pods), 2)).tolist()
        for pod, (dropped, late) in zip(pods, chances, strict=True):
            if dropped >= setup.dropped_scrapes:
                at = self._epoch + now + setup.scrape_jitter_seconds * late
                pod.scrapes.append((at, *pod.figures(now)))
        self.scrapes += len(pods)

    def rates(self, window_seconds: float) -> Rates:
        """The samples of the pods that are there now."""
        since = self._epoch + self._events.now - window_seconds
        samples: dict[str, dict[str, tuple[Series, ...]]] = {}
        for pod in self._targets():
            kept = list(pod.scrapes)
            rows = kept[bisect_left(kept, (since,)) :]
            if not rows:
                continue
            instants, *columns = zip(*rows, strict=True)
            for (metric, labels), values in zip(pod.columns, columns, strict=True):
                series = Series(labels, tuple(zip(instants, values, strict=True)))
                pods = samples.setdefault(metric, {})
                pods[pod.name] = (*pods.get(pod.name, ()), series)
        return Rates(window_seconds, samples)


def counts(cluster: Cluster, epoch: Instant) -> dict[Stage, dict[str, StageCounts]]:
    """Stage -> profile -> pods, as the informer holds them."""
    found: dict[Stage, dict[str, StageCounts]] = {}
    for (stage, profile), desired in cluster.desired.items():
        views = tuple(_view(pod, epoch) for pod in cluster.pods if (pod.stage, pod.profile) == (stage, profile))
        if views or desired:
            found.setdefault(stage, {})[profile] = StageCounts(
                desired=desired,
                ready=sum(view.ready for view in views),
                pending=sum(not view.ready and not view.terminating for view in views),
                draining=sum(view.terminating for view in views),
                pods=views,
            )
    return found


def _view(pod: Pod, epoch: Instant) -> PodView:
    return PodView(pod.name, pod.name, pod.stage, pod.profile, pod.serves, pod.terminating, epoch + pod.created)
