"""What the chart makes of its values: scope, images, monitoring, the bundled Prometheus; the same with either Helm."""

import resource
from fractions import Fraction
from importlib.metadata import version
from typing import Any

import pytest
import yaml

from e2e.helm import CHART, Helm, documents
from e2e.kube import Object
from e2e.manifests import ALL_MONITORING
from steelyard.api import parse_quantity
from steelyard.settings import Settings
from tests.integration.chart.rendered import (
    CLUSTER_SCOPED,
    EVERYTHING,
    MONITORS,
    NARROW,
    by_name,
    containers,
    name,
    only,
    pods,
    settings,
)

BUNDLED: Object = {"prometheus": {"bundled": {"enabled": True}}}


def kinds(objects: list[Object]) -> set[str]:
    return {obj["kind"] for obj in objects}


@pytest.mark.parametrize("values", [{}, EVERYTHING, NARROW], ids=["defaults", "everything", "two namespaces"])
def test_both_helms_make_the_same(programs: dict[int, Helm], values: Object) -> None:
    three, four = (by_name(helm.objects(values)) for helm in programs.values())

    assert three == four


def test_the_chart_is_of_this_version_of_the_operator() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == version("steelyard")


def test_the_defaults_are_the_operators_own(newest: Helm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one of two pages about them lies."""
    given = settings(newest.objects())
    own = Settings()
    for variable, value in given.items():
        if value is not None:
            monkeypatch.setenv(variable, value)

    changed = {field: value for field, value in Settings().model_dump().items() if value != getattr(own, field)}

    assert changed == {}


def test_every_setting_of_an_installed_operator_is_one_that_it_knows(newest: Helm) -> None:
    known = {f"STEELYARD_{field.upper()}" for field in Settings.model_fields} | {"POD_NAME", "POD_NAMESPACE"}

    assert settings(newest.objects(NARROW)).keys() - known == set()


@pytest.mark.parametrize(("values", "namespaces"), [({}, ""), (NARROW, "team-a,team-b")], ids=["all", "two namespaces"])
def test_the_operator_serves_the_namespaces_it_has_rights_in(newest: Helm, values: Object, namespaces: str) -> None:
    objects = newest.objects(values)

    bound = {obj["metadata"]["namespace"] for obj in objects if obj["kind"] == "RoleBinding"} - {"steelyard-system"}
    wide = {name(obj) for obj in objects if obj["kind"] in ("ClusterRole", "ClusterRoleBinding")}

    assert (settings(objects).get("STEELYARD_NAMESPACES") or "") == namespaces == ",".join(sorted(bound))
    assert ("ClusterRoleBinding/steelyard-operator" in wide) is (not namespaces)


def test_a_namespaced_release_can_be_had_without_anything_cluster_wide(newest: Helm) -> None:
    values = {**NARROW, "crds": {"install": False}, "rbac": {"userRoles": False}, "priorityClasses": {"create": False}}

    assert kinds(newest.objects(values)) & CLUSTER_SCOPED == set()


def test_resources_stay_when_the_release_goes(newest: Helm) -> None:
    """volcano-sh/volcano#5727, opster/opensearch-k8s-operator#1539: an uninstall took the users' jobs with it."""
    crds = [obj for obj in newest.objects() if obj["kind"] == "CustomResourceDefinition"]

    assert len(crds) == 3
    assert {crd["metadata"]["annotations"]["helm.sh/resource-policy"] for crd in crds} == {"keep"}


@pytest.mark.parametrize("kind", sorted(MONITORS))
def test_what_the_cluster_has_no_resource_for_is_left_out(newest: Helm, kind: str) -> None:
    others = [f"monitoring.coreos.com/v1/{other}" for other in MONITORS - {kind}]

    made = documents(newest.template(EVERYTHING, kinds=others))

    assert MONITORS - kinds(made) == {kind}
    assert settings(made).get("STEELYARD_POD_MONITORS") == (None if kind == "PodMonitor" else "false")


def test_nothing_of_the_prometheus_operator_or_grafana_is_made_unasked(newest: Helm) -> None:
    assert kinds(newest.objects()) & {*MONITORS, "ConfigMap"} == set()


def test_a_job_is_scraped_by_one_monitor_only(newest: Helm) -> None:
    """Twice scraped is twice counted: with a PodMonitor for all, the operator makes none for each."""
    assert settings(newest.objects(EVERYTHING))["STEELYARD_POD_MONITORS"] == "false"
    assert "STEELYARD_POD_MONITORS" not in settings(newest.objects())


def test_a_mirror_serves_every_image(newest: Helm) -> None:
    values = {
        "image": {"registry": "mirror.example/x", "tag": "1.2.3"},
        "images": {"nats": "mirror.example/y/nats@sha256:0"},
    }
    objects = newest.objects(values)

    images = {container["image"] for _, container in containers(objects)}
    images |= {value for key, value in settings(objects).items() if "_IMAGE_" in key}

    roles = ("operator", "sampler", "worker", "trainer")
    assert images == {*(f"mirror.example/x/{role}:1.2.3" for role in roles), "mirror.example/y/nats@sha256:0"}


def test_the_bundled_prometheus_is_the_one_that_the_operator_asks(newest: Helm) -> None:
    objects = newest.objects(EVERYTHING)
    service = only(objects, "Service", "-prometheus")

    assert settings(objects)["STEELYARD_PROMETHEUS_URL"] == (
        f"http://{service['metadata']['name']}.{service['metadata']['namespace']}:{service['spec']['ports'][0]['port']}"
    )


@pytest.mark.parametrize(("values", "namespaces"), [(EVERYTHING, None), (NARROW, ["team-a", "team-b"])])
def test_the_bundled_prometheus_looks_only_where_it_may(newest: Helm, values: Object, namespaces: list[str]) -> None:
    config = yaml.safe_load(only(newest.objects(values), "ConfigMap", "-prometheus")["data"]["prometheus.yml"])
    (jobs, operator) = config["scrape_configs"]

    assert jobs["kubernetes_sd_configs"][0].get("namespaces", {}).get("names") == namespaces
    assert {rule["target_label"] for rule in jobs["relabel_configs"] if "target_label" in rule} == {
        "steelyard_job", "stage", "profile", "namespace", "pod",
    }  # fmt: skip
    assert operator["static_configs"][0]["targets"] == ["steelyard-operator.steelyard-system:8080"]


def test_the_pod_monitor_gives_series_the_same_labels_as_the_bundled_prometheus(newest: Helm) -> None:
    objects = newest.objects(EVERYTHING)
    config = yaml.safe_load(only(objects, "ConfigMap", "-prometheus")["data"]["prometheus.yml"])
    (endpoint,) = only(objects, "PodMonitor")["spec"]["podMetricsEndpoints"]

    by_monitor = {(rule["sourceLabels"][0], rule["targetLabel"]) for rule in endpoint["relabelings"]}
    by_config = {
        (rule["source_labels"][0], rule["target_label"])
        for rule in config["scrape_configs"][0]["relabel_configs"]
        if rule.get("target_label") not in (None, "namespace", "pod")  # which the Prometheus Operator sets by itself
    }

    assert by_monitor == by_config


@pytest.mark.parametrize(
    ("url", "ports"),
    [
        ("http://prometheus.monitoring:9090", [9090]),
        ("https://prometheus.example", [443, 9090]),
        ("http://prometheus-server.monitoring", [80, 9090]),
        ("https://prometheus.example:8443/x", [8443, 9090]),
    ],
)
def test_the_network_policy_opens_the_port_of_prometheus(newest: Helm, url: str, ports: list[int]) -> None:
    """Policies see the port of the pod, not that of its Service; Prometheus itself listens at 9090."""
    policy = only(newest.objects({"networkPolicy": {"enabled": True}, "prometheus": {"url": url}}), "NetworkPolicy")

    assert policy["spec"]["egress"][-1] == {"ports": [{"protocol": "TCP", "port": port} for port in ports]}


PLACED: Object = {
    "image": {"pullSecrets": [{"name": "mirror"}]},
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"key": "system", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {}},
}


def test_every_pod_of_the_release_is_pulled_and_placed_alike(newest: Helm) -> None:
    """On a cluster whose every node has a taint, an operator that runs is not all that is wanted."""
    found = dict(pods(newest.objects({**EVERYTHING, **PLACED})))
    assert len(found) == 3

    for spec in found.values():
        assert spec["imagePullSecrets"] == PLACED["image"]["pullSecrets"]
        assert {key: spec[key] for key in PLACED if key != "image"} == {k: v for k, v in PLACED.items() if k != "image"}


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({}, None),
        ({"priorityClassName": "mine"}, "mine"),
        ({"priorityClasses": {"create": True}}, "steelyard-operator"),
    ],
    ids=["none", "another", "the chart's"],
)
def test_the_operator_and_its_prometheus_are_evicted_last(newest: Helm, values: Object, wanted: str | None) -> None:
    """Without samples nothing is decided, so the one is worth nothing without the other."""
    made = [obj for obj in newest.objects({**BUNDLED, **values}) if obj["kind"] == "Deployment"]

    assert [obj["spec"]["template"]["spec"].get("priorityClassName") for obj in made] == [wanted, wanted]


def test_a_secret_of_prometheus_reaches_whoever_asks_it_and_nobody_else(newest: Helm) -> None:
    objects = newest.objects({"prometheus": {"url": "https://thanos.example/", "secret": "thanos"}})
    folder = "/etc/steelyard/prometheus"

    for where, pod in pods(objects):
        (container,) = pod["containers"]
        (volume,) = (volume for volume in pod["volumes"] if "secret" in volume)
        (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == volume["name"])
        told = {variable["name"]: variable.get("value") for variable in container["env"]}
        assert volume["secret"] == {"secretName": "thanos"}, where
        assert (mount["mountPath"], mount["readOnly"]) == (folder, True)
        assert {f"{before}PROMETHEUS_SECRET": folder for before in ("", "STEELYARD_")}.items() & told.items(), where
        assert "https://thanos.example" in told.values(), "and no slash is written twice"

    bundled = newest.objects({"prometheus": {**BUNDLED["prometheus"], "secret": "thanos"}})
    assert [where for where, pod in pods(bundled) for volume in pod.get("volumes", ()) if "secret" in volume] == []
    assert "STEELYARD_PROMETHEUS_SECRET" not in settings(bundled)


def test_a_platform_that_chooses_users_is_left_to_choose_them(newest: Helm) -> None:
    """OpenShift refuses a pod that names a user outside of its namespace's range."""
    chosen = dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"))
    found = [pod["securityContext"] for _, pod in pods(newest.objects({**EVERYTHING, "podSecurityContext": chosen}))]

    assert found == 3 * [{"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}]


class OnceLoader(yaml.CSafeLoader):
    """Refuses a key that is there already, as Helm does when it installs, and Flux."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"{node.start_mark}: a key is written twice: {keys}"
        return super().construct_mapping(node, deep)


def test_one_label_may_be_given_in_several_places(newest: Helm) -> None:
    """The nearer one counts."""
    team = {"team": "monitoring"}
    monitoring = {kind: {**of, "labels": team} if kind == "dashboards" else of for kind, of in ALL_MONITORING.items()}
    values = {
        **EVERYTHING,
        "crds": {"install": False},
        "commonLabels": {"team": "platform"},
        "podLabels": team,
        "monitoring": {**monitoring, "labels": team},
    }

    objects = [obj for obj in yaml.load_all(newest.template(values), OnceLoader) if obj]

    nearer = {obj["kind"] for obj in objects if obj["metadata"]["labels"]["team"] == "monitoring"}
    assert nearer == {*MONITORS, "ConfigMap"}


def test_common_labels_are_on_every_object(newest: Helm) -> None:
    objects = newest.objects({**EVERYTHING, "commonLabels": {"team": "platform"}})

    assert [name(obj) for obj in objects if obj["metadata"]["labels"].get("team") != "platform"] == []


def test_further_objects_are_filled_in(newest: Helm) -> None:
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-x"}}

    assert only(newest.objects({"extraObjects": [wanted]}), "ConfigMap")["metadata"] == {"name": "steelyard-x"}


@pytest.mark.parametrize("folder", ["Learning", None])
def test_the_folder_of_the_dashboards_is_a_value(newest: Helm, folder: str | None) -> None:
    values = {"monitoring": {"dashboards": {"enabled": True, "annotations": {"grafana_folder": folder}}}}

    made = [obj["metadata"] for obj in newest.objects(values) if obj["kind"] == "ConfigMap"]

    assert len(made) == 4
    assert {one.get("annotations", {}).get("grafana_folder") for one in made} == {folder}


def test_rendering_everything_takes_less_than_a_second(either: Helm) -> None:
    """Of processor time, which other work on the machine does not lengthen."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    either.template(EVERYTHING)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)

    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


@pytest.mark.parametrize("storage", ["", "500Mi", "10Gi", "1Ti"])
def test_the_bundled_prometheus_forgets_before_its_disk_is_full(newest: Helm, storage: str) -> None:
    """A full claim ends it for good, and a full node's disk has its pod evicted with all it held."""
    objects = newest.objects({"prometheus": {"bundled": {"enabled": True, "storage": storage}}})
    pod = only(objects, "Deployment", "-prometheus")["spec"]["template"]["spec"]
    (size,) = (word.partition("size=")[2] for word in pod["containers"][0]["args"] if "retention.size" in word)
    (disk,) = (volume for volume in pod["volumes"] if volume["name"] == "data")

    room = parse_quantity(storage or disk["emptyDir"]["sizeLimit"])

    assert Fraction(3, 4) < parse_quantity(size.replace("MB", "Mi")) / room <= Fraction(4, 5)


@pytest.mark.parametrize(
    ("release", "prefix"), [("steelyard", "steelyard"), ("rl", "rl-steelyard"), ("a" * 53, f"{'a' * 40}")]
)
def test_names_follow_the_release_and_stay_short_enough(newest: Helm, release: str, prefix: str) -> None:
    objects = newest.objects(EVERYTHING, release=release)
    names = {obj["metadata"]["name"] for obj in objects if obj["kind"] != "CustomResourceDefinition"}

    assert {one for one in names if not one.startswith(prefix)} == set()
    assert max(map(len, names)) <= 63


def test_every_selector_finds_the_pods_it_is_meant_for(newest: Helm) -> None:
    objects = newest.objects(EVERYTHING)
    labels = [obj["spec"]["template"]["metadata"]["labels"] for obj in objects if obj["kind"] == "Deployment"]

    def found(selector: Object) -> int:
        return sum(selector.items() <= each.items() for each in labels)

    for obj in objects:
        spec = obj.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if obj["kind"] in ("Service", "Deployment", "NetworkPolicy", "PodDisruptionBudget"):
            assert found(selector.get("matchLabels", selector)) == 1, name(obj)
