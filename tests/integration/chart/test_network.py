"""NetworkPolicies let through what the code needs, and nothing else. The ports are the code's own."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import yaml

from e2e.helm import NAMESPACE, ROOT, Helm
from e2e.kube import Object
from steelyard.api import Stage
from steelyard.api.names import BUS
from steelyard.children import children
from steelyard.children.bus import CLIENT_PORT, MONITOR_PORT
from steelyard.children.common import HTTP_PORT
from steelyard.settings import Settings
from tests.builders import a_job
from tests.integration.chart.network import End, allowed
from tests.integration.chart.rendered import EVERYTHING, only

OPERATOR_PORT, PROMETHEUS_PORT = Settings.model_fields["http_port"].default, 9090
TEAM = "team-a"

WORLD = End()
"""A tool, a judge, or the API server of a managed cluster."""
DNS = End("kube-system", {"k8s-app": "kube-dns"})
GRAFANA = End("monitoring", {"app.kubernetes.io/name": "grafana"})
SCRAPER = End("monitoring", {"app.kubernetes.io/name": "prometheus"}, {"web": PROMETHEUS_PORT})
"""A Prometheus that is not the chart's; it is often behind a Service of port 80."""
STRANGER = End(TEAM, {"app": "notebook"})


@pytest.fixture(scope="module")
def policies(newest: Helm) -> list[Object]:
    """The chart's, and those of the example in a namespace of jobs."""
    here = [obj for obj in newest.objects(EVERYTHING) if obj["kind"] == "NetworkPolicy"]
    example = yaml.safe_load_all((ROOT / "manifests/examples/isolation.yaml").read_text())
    return [*here, *({**one, "metadata": {**one["metadata"], "namespace": TEAM}} for one in example)]


@pytest.fixture(scope="module")
def ends(newest: Helm) -> dict[str, End]:
    """Everybody by name: the chart's pods, and those of a job as the operator makes them."""
    objects = newest.objects(EVERYTHING)
    found = {part: _end(only(objects, "Deployment", f"-{part}"), NAMESPACE) for part in ("operator", "prometheus")}
    job = a_job()
    slots = {(stage, profile): 1 for stage in Stage for profile in job.spec.stage(stage).profiles}
    made = children(job, slots, 1, Settings().images, monitored=False)
    workloads = [one for one in made if "template" in one.get("spec", {})]
    pods = {one["metadata"]["labels"]["steelyard.dev/stage"]: _end(one, TEAM) for one in workloads}
    others = {"world": WORLD, "dns": DNS, "grafana": GRAFANA, "scraper": SCRAPER, "stranger": STRANGER}
    return {**found, **pods, **others}


def _end(workload: Object, namespace: str) -> End:
    template = workload["spec"]["template"]
    ports = [port for container in template["spec"]["containers"] for port in container.get("ports", ())]
    named: Mapping[str, int] = {port["name"]: port["containerPort"] for port in ports}
    return End(namespace, template["metadata"]["labels"], named)


NEEDED: dict[str, tuple[str, str, int]] = {
    "the operator calls an API server in the cluster's network": ("operator", "world", 6443),
    "the operator calls an API server behind a load balancer": ("operator", "world", 443),
    "the operator asks the chart's Prometheus": ("operator", "prometheus", PROMETHEUS_PORT),
    "the operator asks another Prometheus, whatever port its Service has": ("operator", "scraper", PROMETHEUS_PORT),
    "Prometheus finds pods through the API server": ("prometheus", "world", 6443),
    "Prometheus reads the operator": ("prometheus", "operator", OPERATOR_PORT),
    "another Prometheus reads the operator": ("scraper", "operator", OPERATOR_PORT),
    "Grafana asks Prometheus": ("grafana", "prometheus", PROMETHEUS_PORT),
    **{f"Prometheus reads the {part}": ("prometheus", part, HTTP_PORT) for part in (BUS, *Stage)},
    **{f"another Prometheus reads the {part}": ("scraper", part, HTTP_PORT) for part in (BUS, *Stage)},
    **{f"the {stage} uses the bus": (stage, BUS, CLIENT_PORT) for stage in Stage},
    "the environment asks a sampler": (Stage.ENVIRONMENT, Stage.SAMPLER, HTTP_PORT),
    "a tool is called": (Stage.ENVIRONMENT, "world", 443),
    "a judge is called": (Stage.REWARD_SERVER, "world", 443),
}
"""What happens -> who calls whom, on which port."""

FORBIDDEN: dict[str, tuple[str, str, int]] = {
    "the operator calls no pod of a job": ("operator", Stage.SAMPLER, HTTP_PORT),
    "the operator does not reach a bus": ("operator", BUS, CLIENT_PORT),
    "the operator has no business in the world": ("operator", "world", 22),
    "Prometheus does not reach a bus": ("prometheus", BUS, CLIENT_PORT),
    "Prometheus reads no stranger's port of the same number": ("prometheus", "stranger", HTTP_PORT),
    "Prometheus reads no stranger at the operator's port": ("prometheus", "stranger", OPERATOR_PORT),
    "another Prometheus does not reach a bus": ("scraper", BUS, CLIENT_PORT),
    **{f"a neighbour does not reach the {part}": ("stranger", part, HTTP_PORT) for part in (BUS, *Stage)},
    "a neighbour does not reach the bus itself": ("stranger", BUS, CLIENT_PORT),
    "a neighbour does not look into the bus": ("stranger", BUS, MONITOR_PORT),
    "Grafana reads no worker by itself": ("grafana", BUS, MONITOR_PORT),
    "weights do not leave through a sampler": (Stage.SAMPLER, "world", 443),
    "weights do not leave through the trainer": (Stage.TRAINER, "world", 443),
    "nothing leaves through the bus": (BUS, "world", 443),
}


@pytest.mark.parametrize("flow", NEEDED)
def test_what_is_needed_is_let_through(policies: list[Object], ends: dict[str, End], flow: str) -> None:
    source, target, port = NEEDED[flow]

    assert allowed(policies, ends[source], ends[target], port)


@pytest.mark.parametrize("flow", FORBIDDEN)
def test_what_is_not_needed_is_kept_out(policies: list[Object], ends: dict[str, End], flow: str) -> None:
    source, target, port = FORBIDDEN[flow]

    assert not allowed(policies, ends[source], ends[target], port)


@pytest.mark.parametrize("port", [53, 5353], ids=["port 53", "OpenShift's 5353"])
@pytest.mark.parametrize("protocol", ["UDP", "TCP"])
@pytest.mark.parametrize("who", ["operator", "prometheus", BUS, *Stage])
def test_names_are_looked_up(policies: list[Object], ends: dict[str, End], who: str, protocol: str, port: int) -> None:
    assert allowed(policies, ends[who], DNS, port, protocol)


def test_without_policies_everything_is_let_through(ends: dict[str, End]) -> None:
    """Else the tests above would show nothing of what the policies do."""
    assert all(allowed([], ends[source], ends[target], port) for source, target, port in FORBIDDEN.values())
