"""The commands of kubectl and steelyard on every page, run as somebody would who reads the pages from their top.

`tests.documented.runs` has those that are run elsewhere. Each block has a folder of its own, and finds a job that runs
and is neither held nor pinned.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest

from e2e.cluster.cluster import Cluster
from e2e.kube import Object
from tests.builders import pool_manifest
from tests.documented.pages import ROOT, Line
from tests.documented.runs import ON_A_SERVER, lines_run_by
from tests.integration.cli.people import WORK
from tests.integration.cli.proxied import service
from tests.integration.operator.operating import Operated
from tests.integration.processes import Prometheus
from tests.integration.server import Server
from tests.integration.workers import Workers

WATCHED_SECONDS = 2
ENDED_BY_TIMEOUT = 124
SHOWN = 1000
ENDLESS = re.compile(r" -w\b| --watch\b| --wait\b|\bkubectl wait\b|\bsteelyard dashboard\b")
WRITES = re.compile(r"\b(patch|create|apply|hold|pause|resume|undo)\b")
ANSWERS = {
    "check": {0, 3, 4},  # the operator runs outside of this cluster
    "status": {0, 3},
    "why-not": {0, 3},
    "diff": {0, 4},
    "bundle": {0, 4},  # no kubelet hands out logs
}
"""Command of steelyard -> exit codes with which it has answered; of all others only 0."""
GIVEN = {
    "job.yaml": (ROOT / "manifests" / "examples" / "minimal.yaml").read_text(),
    "lengths.jsonl": '{"input_len": 512, "output_len": 9000}\n[512, 4000]\n',
}
"""Files that a reader has."""
ALLOCATIONS = (  # replicas of sampler and environment
    (1, 1),
    (2, 2),
    (3, 1),
    (2, 1),
)
"""What a ledger of five entries went through."""
pytestmark = pytest.mark.timeout(1800, func_only=True)  # a hundred commands


class Reader:
    """Somebody with a shell, whose context names the test's namespace."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.namespace, self._folder = namespace, folder
        (folder / "kubeconfig").write_bytes(cluster.kubeconfig.read_bytes())
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(folder / "kubeconfig"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        self.names = {"NAMESPACE": namespace, "NAME": "calculator", "JOB": "calculator", "POOL": "shared"}
        assert not self.shell(f"kubectl config set-context --current --namespace={namespace}", folder).returncode

    def checkout(self, number: int, block: list[Line]) -> Path:
        """A folder with what a checkout has, and the files that the block expects and does not write."""
        folder = self._folder / str(number)
        folder.mkdir()
        for entry in ROOT.iterdir():
            if not entry.name.startswith("."):
                (folder / entry.name).symlink_to(entry)
        text = "\n".join(line.text for line in block)
        for name, content in GIVEN.items():
            if name in text and not re.search(rf"(-o|>) {name}", text):
                (folder / name).write_text(content)
        return folder

    def problem(self, line: Line, folder: Path) -> str:
        """What is wrong with the answer to a command, nothing when all is well. What has no end is ended."""
        text = re.sub(r"\b(NAMESPACE|NAME|JOB|POOL)\b", lambda found: self.names[found[1]], spared(line.text))
        endless = bool(ENDLESS.search(text))
        done = self.shell(f"timeout {WATCHED_SECONDS} {text}" if endless else text, folder)
        verb = next((words for words in line.text.split() if words in ANSWERS), "")
        fine = ANSWERS.get(verb, {0}) | ({ENDED_BY_TIMEOUT} if endless else set())
        said = f"{done.stdout[-SHOWN:]}{done.stderr[-SHOWN:]}"
        return "" if done.returncode in fine else f"exit code {done.returncode}: {said}"

    def shell(self, text: str, folder: Path) -> subprocess.CompletedProcess[str]:
        shell = ["bash", "-c", text]
        return subprocess.run(
            shell, cwd=folder, env=self._environment, capture_output=True, text=True, check=False, timeout=60
        )


def spared(text: str) -> str:
    """A command that deletes nothing, does not simulate for minutes, and asks for no time before the job.

    No kubelet hands out logs here: the objects whose logs are asked for must be there.
    """
    if logs := re.match(r"kubectl logs (-n \S+) (-l )?(\S+)", text):
        return f"kubectl get {logs[1]} {'pods -l ' if logs[2] else ''}{logs[3]} -o name | grep ."
    text = text.replace("kubectl delete ", "kubectl delete --dry-run=server ")
    text = (
        re.sub(r"(steelyard twin)(.*?)( --steps \d+)?$", r"\1 --steps 2\2", text) if "steelyard twin" in text else text
    )
    return text.replace("--at 2h", "--at 1s")


@pytest.fixture
def reader(cluster: Cluster, namespace: str, tmp_path: Path) -> Reader:
    return Reader(cluster, namespace, tmp_path)


@pytest.fixture
def _metrics(cluster: Cluster, workers: Workers, prometheus: Prometheus, namespace: str) -> Iterator[None]:
    """What the stages measure, at the place where the operator's Deployment says that Prometheus is."""

    class Forwarding(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = httpx.get(f"{prometheus.url}{self.path}", timeout=20, trust_env=False)
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    for stage, work in WORK.items():
        workers.show(namespace, "calculator", stage.value, work)
    cluster.kubectl("create", "namespace", "monitoring")
    with service(cluster, "monitoring", Forwarding):
        yield
    cluster.kubectl("delete", "namespace", "monitoring", "--wait=false")


@pytest.fixture
def job(operated: Operated, server: Server, cluster: Cluster, _metrics: None) -> Iterator[Operated]:
    """What the pages take for granted: a job with a few revisions, a pool, Argo CD's ConfigMap."""
    operated.start({"budget.gpus": 8})
    for number, (samplers, environments) in enumerate(ALLOCATIONS, start=2):
        fixed = {"sampler": {"whole": samplers}, "environment": {"default": environments}}
        operated.change({"scaling": {"fixed": fixed}})
        operated.until("the next entry is applied", partial(applied, operated, number))
    server.apply([pool_manifest()])
    cluster.kubectl("create", "namespace", "argocd")
    server.apply([config_map("argocd-cm")], "argocd")
    server.apply([config_map("calculator-tasks")], operated.namespace)
    yield operated
    server.delete("RLPool", None, "shared")
    cluster.kubectl("delete", "namespace", "argocd", "--wait=false")


def config_map(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def applied(operated: Operated, number: int) -> Any:
    found = operated.server.get("AllocationRevision", operated.namespace, f"calculator-{number}")
    return found and (found.get("status") or {}).get("appliedTime")


def as_before(operated: Operated, reader: Reader, folder: Path) -> None:
    """The job runs as its spec says: not pinned, not held, not suspended."""
    operated.change({"suspend": False, "scaling": {"pin": None}})
    assert not reader.shell("steelyard resume calculator", folder).returncode
    operated.until("the job is ready", lambda: operated.has("Ready"))


def test_the_pages_commands_work_on_an_api_server(job: Operated, reader: Reader) -> None:
    shown = lines_run_by(ON_A_SERVER)
    assert len(shown) > 80

    failed: dict[str, str] = {}
    for number, (_, group) in enumerate(groupby(shown, key=lambda line: (line.page, line.block))):
        block = [*group]
        folder = reader.checkout(number, block)
        failed |= {str(line): said for line in block if (said := reader.problem(line, folder))}
        if any(WRITES.search(line.text) for line in block):
            as_before(job, reader, folder)

    assert failed == {}
