"""The kubectl commands of every page, run on a real API server as somebody would who reads the pages from their top."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from e2e.cluster.cluster import Cluster, kubectl
from tests.builders import pool_manifest
from tests.documented.elsewhere import ELSEWHERE, NEED_CONTAINERS
from tests.documented.pages import ROOT, Line, lines
from tests.integration.operator.operating import Operated, by_hand
from tests.integration.server import Server

WATCHED_SECONDS = 2
ENDED_BY_TIMEOUT = 124
ARGOCD_CM = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"}}
pytestmark = pytest.mark.timeout(240, func_only=True)


@pytest.fixture
def reader(cluster: Cluster, namespace: str, tmp_path: Path) -> dict[str, str]:
    """The environment of somebody whose context names the test's namespace."""
    config = tmp_path / "kubeconfig"
    config.write_bytes(cluster.kubeconfig.read_bytes())
    mine = {"KUBECONFIG": str(config), "PATH": f"{Path(kubectl()).parent}:{os.environ['PATH']}"}
    environment = {**os.environ, **mine}
    use = ["kubectl", "config", "set-context", "--current", f"--namespace={namespace}"]
    subprocess.run(use, check=True, env=environment, capture_output=True)
    return environment


@pytest.fixture
def _there(operated: Operated, server: Server, cluster: Cluster) -> Iterator[None]:
    """What the pages take for granted: a job with a few revisions, a pool, Argo CD's ConfigMap."""
    operated.start()
    (first,) = operated.server.list("AllocationRevision", operated.namespace)
    after = first["spec"]["allocation"]["after"]
    server.apply([by_hand(number, after, after) for number in (2, 3)], operated.namespace)
    server.apply([pool_manifest()])
    cluster.kubectl("create", "namespace", "argocd")
    server.apply([ARGOCD_CM], "argocd")
    yield
    server.delete("RLPool", None, "shared")
    cluster.kubectl("delete", "namespace", "argocd", "--wait=false")


@pytest.mark.usefixtures("_there")
def test_the_pages_show_commands_that_an_api_server_takes(operated: Operated, reader: dict[str, str]) -> None:
    shown = [line for line in lines() if is_run_here(line)]
    assert len(shown) > 20

    names = {"NAMESPACE": operated.namespace, "NAME": "calculator", "JOB": "calculator", "POOL": "shared"}
    failed = {str(line): said for line in shown if (said := problem(line, names, reader))}

    assert failed == {}


def is_run_here(line: Line) -> bool:
    """Whether it is in a block, kubectl's alone (its output may be filtered), and not run elsewhere."""
    first, *more = line.commands()
    plain = (
        first[0] == "kubectl" and first[1] not in {"steelyard", *NEED_CONTAINERS} and " ".join(first) not in ELSEWHERE
    )
    return plain and not line.in_prose and all(words[0] in ("kubectl", "grep") for words in more)


def problem(line: Line, names: Mapping[str, str], reader: Mapping[str, str]) -> str:
    """What a shell says that runs it, nothing when all is well. A watch ends after a while, and nothing is deleted."""
    watches = any({"-w", "--watch"} & {*words} for words in line.commands())
    spared = line.text.replace("kubectl delete ", "kubectl delete --dry-run=server ")
    filled_in = re.sub(r"\b(NAMESPACE|NAME|JOB|POOL)\b", lambda found: names[found[1]], spared)
    script = f"{f'timeout {WATCHED_SECONDS} ' if watches else ''}{filled_in}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=reader, capture_output=True, text=True, check=False, timeout=30
    )
    fine = done.returncode == 0 or (watches and done.returncode == ENDED_BY_TIMEOUT)
    return "" if fine else f"exit code {done.returncode}: {done.stderr}"
