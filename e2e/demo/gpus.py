"""A 1 s log of the GPUs that bound pods hold: the budget's independent witness."""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from types import TracebackType
from typing import Self

from e2e.kube import Kube, Object


def gpu_value(quantity: str | int) -> Fraction:
    """`1`, `"2"` or `"500m"` in GPUs."""
    text = str(quantity)
    return Fraction(text[:-1]) / 1000 if text.endswith("m") else Fraction(text)


def profile_prices(job: Object) -> dict[tuple[str, str], Fraction]:
    """GPUs of one replica by (stage label, profile)."""
    labels = {"sampler": "sampler", "rewardServer": "reward-server", "trainer": "trainer", "environment": "environment"}
    return {
        (labels[stage], profile["name"]): gpu_value(profile["gpus"])
        for stage, spec in job["spec"]["stages"].items()
        for profile in spec.get("gpuProfiles") or ()
    }


def gpus_held(pods: list[Object], prices: Mapping[tuple[str, str], Fraction]) -> Fraction:
    """GPUs of every bound pod that has not ended, terminating ones included."""
    held = Fraction(0)
    for pod in pods:
        ended = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
        if pod["spec"].get("nodeName") and not ended:
            labels = pod["metadata"].get("labels") or {}
            held += prices.get((labels.get("steelyard.dev/stage", ""), labels.get("steelyard.dev/profile", "")), 0)
    return held


EVERY_SECONDS = 1.0


class GpuLog:
    """Samples the pods of some jobs once a second in a thread of its own.

    A witness that looked away proves nothing: what ended the log early is raised to whoever asks it, and at its end.
    """

    def __init__(self, kube: Kube, jobs: Sequence[Object], namespace: str) -> None:
        self._kube, self._namespace = kube, namespace
        self._selector = f"steelyard.dev/job in ({','.join(job['metadata']['name'] for job in jobs)})"
        self._prices = {key: price for job in jobs for key, price in profile_prices(job).items()}
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._now = self._most = 0.0

    def __enter__(self) -> Self:
        self._log = self._pool.submit(self._run)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._pool.shutdown()
        if error is None:
            self._log.result()

    @property
    def now(self) -> float:
        """GPUs at the last look."""
        return self._seen(self._now)

    @property
    def most(self) -> float:
        """Most GPUs at any look."""
        return self._seen(self._most)

    def _seen(self, gpus: float) -> float:
        if self._log.done():
            self._log.result()
        return gpus

    def _run(self) -> None:
        while True:
            started = time.monotonic()
            pods = self._kube.list("Pod", self._namespace, self._selector)
            self._now = float(gpus_held(pods, self._prices))
            self._most = max(self._most, self._now)
            if self._stop.wait(max(0.0, EVERY_SECONDS - (time.monotonic() - started))):
                return
