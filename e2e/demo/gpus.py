"""A 1 s log of the GPUs that bound pods hold: the budget's independent witness."""

import threading
import time
from collections.abc import Mapping
from fractions import Fraction
from types import TracebackType

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


class GpuLog:
    """Samples the cluster once a second in a thread of its own; `now` and `most` are in GPUs."""

    def __init__(self, kube: Kube, job: Object, namespace: str) -> None:
        self._kube, self._namespace, self._name = kube, namespace, job["metadata"]["name"]
        self._prices = profile_prices(job)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.now = self.most = 0.0

    def __enter__(self) -> "GpuLog":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            started = time.monotonic()
            pods = self._kube.list("Pod", self._namespace, selector=f"steelyard.dev/job={self._name}")
            self.now = float(gpus_held(pods, self._prices))
            self.most = max(self.most, self.now)
            self._stop.wait(max(0.0, 1 - (time.monotonic() - started)))
