"""Programs that a test starts, kills and starts again, and Prometheus as one of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml

from e2e.cluster import build
from e2e.cluster.cluster import MANIFESTS, Cluster
from e2e.cluster.progress import Progress
from e2e.cluster.shell import tail
from e2e.kube import wait_for
from e2e.local import free_port

START_SECONDS = 30.0
STOP_SECONDS = 15.0


class Process:
    """One program, at most once at a time; its output is kept in a file."""

    def __init__(self, name: str, argv: list[str], log: Path, ready: str, environment: Mapping[str, str] | None = None):
        self.name, self.log = name, log
        self._argv, self._ready = argv, ready
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it and wait until it says that it is ready."""
        assert self._process is None, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._argv, stdout=log, stderr=log, env=self._environment)
        wait_for(f"{self.name} is ready", self._is_ready, START_SECONDS, every=0.05)
        return self

    def kill(self) -> None:
        """SIGKILL: it gets no chance to tidy up."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and the time to end in order; nothing when it does not run."""
        if self._process is not None:
            self._end(signal.SIGTERM)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None, f"{self.name} does not run"
        self._process.send_signal(how)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"{self.name} did not end on {how.name}:\n{tail(self.log.read_text())}") from None
        finally:
            self._process = None

    def _is_ready(self) -> bool:
        assert self._process is not None
        if (code := self._process.poll()) is not None:
            raise AssertionError(f"{self.name} ended with {code}:\n{tail(self.log.read_text(), lines=40)}")
        try:
            return httpx.get(self._ready, timeout=1, trust_env=False).is_success
        except httpx.TransportError:
            return False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Prometheus(Process):
    """The real Prometheus with the demo's configuration; every target is a page of `Workers`."""

    def __init__(self, cluster: Cluster, workers: str, folder: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        program = build.ensure(build.PROMETHEUS, Progress()) / "prometheus"
        self._operators = folder / "operators.json"
        config = folder / "prometheus.yml"
        config.write_text(yaml.safe_dump(_configuration(cluster, workers, self._operators)))
        argv = [
            str(program),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        super().__init__("Prometheus", argv, folder / "prometheus.log", f"{self.url}/-/ready")

    def scrape_operator(self, url: str) -> None:
        """From now on scrape this operator, which runs outside the cluster, as the demo's Prometheus does its pod."""
        target = {
            "targets": [url.removeprefix("http://")],
            "labels": {"namespace": "steelyard-system", "pod": "operator"},
        }
        self._operators.write_text(json.dumps([target]))


def _configuration(cluster: Cluster, workers: str, operators: Path) -> dict[str, Any]:
    manifests = yaml.safe_load_all((MANIFESTS / "prometheus.yaml").read_text())
    config_map = next(manifest for manifest in manifests if manifest["kind"] == "ConfigMap")
    configuration: dict[str, Any] = yaml.safe_load(config_map["data"]["prometheus.yml"])
    scrape = next(one for one in configuration["scrape_configs"] if one["job_name"] == "steelyard")
    operator = {"job_name": "steelyard-operator", "file_sd_configs": [{"files": [str(operators)]}]}
    configuration["scrape_configs"] = [scrape, operator]
    (discovery,) = scrape["kubernetes_sd_configs"]
    discovery["kubeconfig_file"] = str(cluster.kubeconfig)
    labels = ["namespace", "pod_label_steelyard_dev_job", "pod_label_steelyard_dev_stage", "pod_name"]
    scrape["relabel_configs"] += [
        {"target_label": "__address__", "replacement": workers},
        {
            "source_labels": [f"__meta_kubernetes_{label}" for label in labels],
            "separator": "/",
            "regex": "(.+)",
            "replacement": "/$1",
            "target_label": "__metrics_path__",
        },
    ]
    return configuration
