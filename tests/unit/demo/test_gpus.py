"""The budget's witness saw every second, or says that it did not."""

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from e2e.demo import gpus
from e2e.demo.gpus import GpuLog
from e2e.kube import Kube

JOB = {
    "metadata": {"name": "calculator"},
    "spec": {"stages": {"sampler": {"gpuProfiles": [{"name": "whole", "gpus": 1}]}}},
}


class Cluster:
    """Asked for pods, it answers with as many samplers as `look` says, which is told how often it was asked before."""

    def __init__(self, look: Callable[[int], int]) -> None:
        self._look, self._looks = look, 0
        self.looked_often = threading.Event()

    def list(self, *_: str, **__: str) -> list[Any]:
        self._looks += 1
        if self._looks > 10:
            self.looked_often.set()
        labels = {"steelyard.dev/stage": "sampler", "steelyard.dev/profile": "whole"}
        pod = {"metadata": {"labels": labels}, "spec": {"nodeName": "node-1"}}
        return [pod] * self._look(self._looks)

    def log(self) -> GpuLog:
        return GpuLog(cast(Kube, self), [JOB], "default")


def gone(_: int) -> int:
    raise ConnectionError("the API server is gone")


def test_the_most_that_was_held_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "EVERY_SECONDS", 0.0)
    cluster = Cluster(lambda look: 3 if look == 5 else 2)
    with cluster.log() as log:
        assert cluster.looked_often.wait(10)
    assert (log.now, log.most) == (2, 3)


def test_a_log_that_broke_off_is_not_taken_for_a_whole_one() -> None:
    with pytest.raises(ConnectionError), Cluster(gone).log() as log:
        pass
    with pytest.raises(ConnectionError):
        assert log.most <= 4


def test_what_went_wrong_meanwhile_is_told_first() -> None:
    with pytest.raises(ValueError, match="the job failed"), Cluster(gone).log():
        raise ValueError("the job failed")
