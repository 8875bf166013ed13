"""The rules of kube-linter and kube-score as one table, on everything the chart can make."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from e2e.helm import Helm
from e2e.kube import Object
from steelyard.api import parse_quantity
from tests.integration.chart.rendered import EVERYTHING, NARROW, containers, name, pods

Check = Callable[[Object], Any]

OF_A_CONTAINER: dict[str, Check] = {
    "runs as nobody in particular (run-as-non-root)": lambda c: c["securityContext"].get("runAsUser") != 0,
    "gains no rights (privilege-escalation-container)": lambda c: not c["securityContext"]["allowPrivilegeEscalation"],
    "is not privileged (privileged-container)": lambda c: not c["securityContext"].get("privileged"),
    "has no capabilities (drop-net-raw)": lambda c: c["securityContext"]["capabilities"] == {"drop": ["ALL"]},
    "writes only where it says (no-read-only-root-fs)": lambda c: c["securityContext"]["readOnlyRootFilesystem"],
    "asks for CPU (unset-cpu-requirements)": lambda c: parse_quantity(c["resources"]["requests"]["cpu"]) > 0,
    "is bound in memory (unset-memory-requirements)": lambda c: _within(c, "memory"),
    "is not throttled, for a late round is a wrong round (not container-cpu-limit)": lambda c: (
        "cpu" not in c["resources"]["limits"]
    ),
    "has an image that stays (latest-tag)": lambda c: ":" in c["image"] and not c["image"].endswith(":latest"),
    "is not pulled again for each pod, for its tag stays (not container-image-pull-policy)": lambda c: (
        c["imagePullPolicy"] == "IfNotPresent"
    ),
    "has no secret in its environment (env-var-secret)": lambda c: "secret" not in str(c.get("env")).lower(),
    "names each variable once (duplicate-env-var)": lambda c: _once(v["name"] for v in c.get("env", ())),
    "opens no port of the node's (privileged-ports, host-port)": lambda c: all(
        port["containerPort"] > 1023 and "hostPort" not in port for port in c.get("ports", ())
    ),
}
OF_A_SERVER: dict[str, Check] = {
    "says when it is alive (no-liveness-probe)": lambda c: c["livenessProbe"],
    "says when it is ready (no-readiness-probe)": lambda c: c["readinessProbe"],
    "means different things by the two (pod-probes-identical)": lambda c: c["livenessProbe"] != c["readinessProbe"],
    "asks its own ports (liveness-port, readiness-port)": lambda c: (
        {c[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe", "startupProbe")}
        <= {port["name"] for port in c["ports"]}
    ),
}
OF_A_POD: dict[str, Check] = {
    "is not root (run-as-non-root)": lambda p: p["securityContext"]["runAsNonRoot"],
    "has numbers of its own (container-security-context-user-group-id)": lambda p: (
        min(p["securityContext"]["runAsUser"], p["securityContext"]["runAsGroup"]) > 10_000
    ),
    "is filtered in its system calls (unsafe-sysctls, seccomp)": lambda p: (
        p["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    ),
    "shares nothing with the node (host-network, host-pid, host-ipc)": lambda p: (
        not any(k.startswith("host") for k in p)
    ),
    "mounts nothing of the node's (docker-sock, sensitive-host-mounts)": lambda p: (
        not [v for v in p.get("volumes", ()) if "hostPath" in v]
    ),
    "fills no disk, also where none is counted (container-ephemeral-storage-request-and-limit)": lambda p: all(
        "sizeLimit" in v["emptyDir"] for v in p.get("volumes", ()) if "emptyDir" in v
    ),
    "has an account of its own, or no token (default-service-account)": lambda p: (
        p.get("serviceAccountName", "default") != "default" or p["automountServiceAccountToken"] is False
    ),
    "says whether it wants the token (automount)": lambda p: "automountServiceAccountToken" in p,
    "is not told of its neighbours (service links)": lambda p: p["enableServiceLinks"] is False,
}


def _within(container: Object, resource: str) -> bool:
    asked, bound = (parse_quantity(container["resources"][part][resource]) for part in ("requests", "limits"))
    return bool(0 < asked <= bound)


def _once(names: Iterable[str]) -> bool:
    listed = list(names)
    return len(listed) == len(set(listed))


def broken(found: Iterator[tuple[str, Object]], check: Check) -> list[str]:
    where = list(found)
    assert where, "nothing to look at"
    return [name for name, thing in where if not check(thing)]


@pytest.fixture(scope="module", params=[EVERYTHING, NARROW], ids=["all namespaces", "two namespaces"])
def objects(newest: Helm, request: pytest.FixtureRequest) -> list[Object]:
    return newest.objects(request.param)


@pytest.mark.parametrize("rule", OF_A_CONTAINER)
def test_every_container(objects: list[Object], rule: str) -> None:
    assert broken(containers(objects), OF_A_CONTAINER[rule]) == []


@pytest.mark.parametrize("rule", OF_A_SERVER)
def test_every_server(objects: list[Object], rule: str) -> None:
    deployments = [obj for obj in objects if obj["kind"] == "Deployment"]
    assert broken(containers(deployments), OF_A_SERVER[rule]) == []


@pytest.mark.parametrize("rule", OF_A_POD)
def test_every_pod(objects: list[Object], rule: str) -> None:
    assert broken(pods(objects), OF_A_POD[rule]) == []


def test_every_server_has_a_network_policy_for_both_directions(objects: list[Object]) -> None:
    """pod-networkpolicy, networkpolicy-targets-pod."""
    servers = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "Deployment"}
    policies = [obj for obj in objects if obj["kind"] == "NetworkPolicy"]

    assert {policy["metadata"]["name"] for policy in policies} == servers
    assert all(policy["spec"]["policyTypes"] == ["Ingress", "Egress"] for policy in policies)


def test_what_one_pod_does_is_not_promised_by_two(objects: list[Object]) -> None:
    """minimum-three-replicas: exactly one operator acts, and it is gone before its successor comes."""
    deployments = [obj["spec"] for obj in objects if obj["kind"] == "Deployment"]

    assert {(spec["replicas"], spec["strategy"]["type"]) for spec in deployments} == {(1, "Recreate")}


def test_a_disruption_budget_lets_nodes_be_drained(objects: list[Object]) -> None:
    """pdb-max-unavailable, pdb-min-available: a budget that one pod can never meet blocks every drain."""
    (budget,) = (obj["spec"] for obj in objects if obj["kind"] == "PodDisruptionBudget")

    assert budget["maxUnavailable"] == 1
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_nothing_lands_in_a_namespace_by_accident(objects: list[Object]) -> None:
    """use-namespace: an object without one goes wherever the reader's context points."""
    cluster_wide = ("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "PriorityClass")

    assert [
        name(obj) for obj in objects if obj["kind"] not in cluster_wide and not obj["metadata"].get("namespace")
    ] == []
