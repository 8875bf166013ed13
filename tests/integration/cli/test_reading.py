"""Reading commands on a real API server, through a real kubectl, with a viewer's rights and with none."""

from __future__ import annotations

import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from e2e.cluster.cluster import Cluster, kubectl
from steelyard.api import Stage
from steelyard.cluster.following import Following, Watched
from steelyard.cluster.kinds import JOB
from steelyard.cluster.kubectl import Kubectl
from tests.integration.cli.people import Person, item, measured, stranger, viewer
from tests.integration.cli.proxied import service
from tests.integration.operator.operating import Operated
from tests.integration.processes import Prometheus

__all__ = ["measured", "stranger", "viewer"]  # fixtures

pytestmark = pytest.mark.timeout(240, func_only=True)


def test_a_viewer_sees_and_understands_a_job(measured: Operated, viewer: Person, prometheus: Prometheus) -> None:
    """One job for all of them: a cluster, an operator and a job are the dear part of each look."""
    status = viewer.steelyard("status", "-o", "json")
    assert (status.code, status.err) == (0, "")
    assert (item(status)["name"], item(status)["phase"]) == ("calculator", "Running")
    assert item(status)["stages"]["sampler"]["ready"] == item(status)["stages"]["sampler"]["desired"]

    tree = viewer.steelyard("tree", "calculator", "-o", "json")
    assert (tree.code, tree.err) == (0, "")
    stages = {node["name"]: node for node in item(tree)["children"]}
    assert set(stages) == {"bus", *(stage.field for stage in Stage)}
    (workload,) = [node for node in stages["sampler"]["children"] if node["ready"] != "0/0"]
    assert workload["revision"] == "calculator-1"
    assert {pod["state"] for pod in workload["children"]} == {"Ready"}

    history = viewer.steelyard("history", "calculator", "-o", "json")
    told = {(one["kind"], one["actor"]) for one in json.loads(history.out)["items"]}
    assert ("Revision", "operator") in told
    assert any(kind == "Change" and actor != "operator" for kind, actor in told), "who created the job is not told"

    explained = viewer.steelyard("explain", "calculator", "--prometheus", prometheus.url, "-o", "json")
    assert (explained.code, explained.err) == (0, "")
    tokens = next(one for one in item(explained)["inputs"] if one["meaning"] == "tokens generated")
    samplers = item(status)["stages"]["sampler"]["ready"]
    assert tokens["value"] == pytest.approx(80 * samplers, rel=0.3)
    assert (tokens["pods"], tokens["ofPods"]) == (samplers, samplers)
    assert tokens["sampleAgeSeconds"] < 10
    assert item(explained)["decision"]["kind"]
    assert item(explained)["rules"]

    refused = viewer.steelyard(
        "why-not", "calculator", "--stage", "sampler", "--to", "99", "--prometheus", prometheus.url, "-o", "json"
    )
    assert refused.code == 3
    assert "Replicas" in [rule["kind"] for rule in item(refused)["rules"] if not rule["passed"]]

    checked = json.loads(viewer.steelyard("check", "-o", "json").out)["items"]
    rights = [one for one in checked if one["category"] == "rights"]
    assert [(one["level"], one["code"]) for one in rights] == [("ok", None), ("warning", "SY2007")]
    lacking = "create agenticrljobs, patch agenticrljobs, create allocationrevisions, delete allocationrevisions"
    assert f"may not {lacking}, create pods/portforward" in rights[1]["message"]

    top = viewer.steelyard("top", "calculator", "--prometheus", prometheus.url, "-o", "json")
    assert item(top)["timeShares"]["environment"]["tool"] == pytest.approx(0.7, abs=0.1)


def test_a_viewer_without_prometheus_is_told_and_served(measured: Operated, viewer: Person) -> None:
    explained = viewer.steelyard("explain", "calculator")
    assert explained.code == 0
    assert "SY1010" in explained.err
    assert "by the operator" in explained.out


def test_a_stranger_is_denied_by_name(operated: Operated, stranger: Person) -> None:
    operated.create()
    for command in (["status"], ["tree", "calculator"], ["explain", "calculator"], ["history", "calculator"]):
        answer = stranger.steelyard(*command)
        assert (answer.code, answer.out) == (6, ""), command
        assert answer.err.startswith("SY1004 agenticrljobs.steelyard.dev")


def test_what_is_not_there_is_not_found(viewer: Person) -> None:
    answer = viewer.steelyard("status", "nobody")
    assert answer.code == 6
    assert answer.err.startswith("SY1006 ")
    assert "/nobody: there is no such job" in answer.err


def test_ci_waits_for_a_condition_and_learns_when_it_will_not_come(operated: Operated, viewer: Person) -> None:
    operated.create()
    ready = viewer.steelyard("status", "calculator", "--until", "Ready", "--timeout", "60s")
    assert ready.code == 0, ready.err
    rows = [line.split() for line in ready.out.splitlines() if line.startswith("calculator ")]
    assert rows[-1][1] == "Running"
    late = viewer.steelyard("status", "calculator", "--until", "Complete", "--timeout", "2s", "-o", "json")
    assert late.code == 5
    assert item(late)["phase"] == "Running"


def test_following_hears_what_happens_and_leaves_no_process(cluster: Cluster, operated: Operated) -> None:
    operated.start()
    user = Kubectl(kubeconfig=str(cluster.kubeconfig), program=kubectl())
    with Following(user, [Watched(JOB, operated.namespace)]) as following:
        (job,) = following.objects(JOB)
        operated.change({"suspend": True})
        while not job["spec"].get("suspend"):
            following.wait(20)
            (job,) = following.objects(JOB)
    watches = f"namespaces/{operated.namespace}/.*watch=true"
    left = subprocess.run(["pgrep", "--full", watches], capture_output=True, check=False)
    assert left.stdout == b""


class Answering(BaseHTTPRequestHandler):
    """A Prometheus that knows the time and nothing else."""

    def do_GET(self) -> None:
        result = [1.0, "1.0"] if "time" in self.path else []
        kind = "scalar" if "time" in self.path else "matrix"
        body = json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


def test_prometheus_is_reached_as_a_service_with_the_users_rights(
    cluster: Cluster, operated: Operated, viewer: Person
) -> None:
    operated.start()
    admin = Person(cluster.kubeconfig)
    with service(cluster, operated.namespace, Answering) as place:
        mine = ("explain", "calculator", "-n", operated.namespace, "--prometheus", place, "-o", "json")
        served = admin.steelyard(*mine)
        assert served.code == 0, served.err
        assert item(served)["prometheus"] == place
        denied = viewer.steelyard(*mine)
        assert denied.code == 0
        assert 'cannot get resource "services/proxy"' in denied.err
        assert item(denied)["unreadable"]


def test_kubectl_finds_the_plugin(viewer: Person, measured: Operated, tmp_path: Path) -> None:
    """`kubectl steelyard` runs whatever is called kubectl-steelyard on PATH."""
    plugin = tmp_path / "kubectl-steelyard"
    plugin.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from steelyard.cli import main; main()" "$@"\n')
    plugin.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{Path(kubectl()).parent}:/usr/bin:/bin",
        "KUBECONFIG": str(viewer.kubeconfig),
        "PYTHONPATH": ":".join(sys.path),
    }
    done = subprocess.run(
        [kubectl(), "steelyard", "status", "calculator", "-o", "name"],
        capture_output=True, text=True, timeout=60, check=False,
        env=environment,
    )  # fmt: skip
    assert done.stdout == "agenticrljob.steelyard.dev/calculator\n", done.stderr
