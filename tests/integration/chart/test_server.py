"""What the API server says of the chart: each pod is restricted, everybody has the right rights."""

import dataclasses
import json

import pytest

from e2e.cluster.cluster import Cluster
from e2e.cluster.shell import Failed
from e2e.helm import RELEASE, Helm
from e2e.kube import Object, wait_for
from tests.integration.chart.rendered import EVERYTHING, INSTALL, MONITORS, listed, pods


def test_every_pod_keeps_the_restricted_standard(rooms: Cluster, newest: Helm) -> None:
    found = dict(pods(newest.objects(EVERYTHING)))
    assert len(found) == 3

    for number, spec in enumerate(found.values()):
        created = rooms.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(_pod(number, spec)))
        assert "created" in created


def test_a_pod_that_does_not_keep_it_is_refused_here(rooms: Cluster, newest: Helm) -> None:
    """Otherwise the test above shows nothing."""
    spec = next(spec for _, spec in pods(newest.objects(EVERYTHING)))
    spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True

    with pytest.raises(Failed, match="violates PodSecurity"):
        rooms.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(_pod(0, spec)))


def test_the_notes_say_the_next_command_and_what_was_left_out(rooms: Cluster, newest: Helm) -> None:
    here = dataclasses.replace(newest, kubeconfig=rooms.kubeconfig)
    values = {**EVERYTHING, "crds": {"install": False}}

    said = here(*INSTALL, values=values)

    manifests, _, notes = said.partition("NOTES:")
    assert not any(f"kind: {kind}" in manifests for kind in MONITORS)
    assert f"helm test {RELEASE} --namespace team-a" in notes
    assert "kubectl steelyard explain calculator" in notes
    assert all(f"no {kind} was made" in notes for kind in MONITORS)


ALLOWED = [
    ("view", "get", "agenticrljobs", True),
    ("view", "watch", "allocationrevisions", True),
    ("view", "create", "agenticrljobs", False),
    ("view", "patch", "allocationrevisions", False),
    ("edit", "create", "agenticrljobs", True),
    ("edit", "create", "allocationrevisions", True),
    ("edit", "deletecollection", "agenticrljobs", True),
    ("edit", "patch", "agenticrljobs/status", False),
    ("admin", "delete", "allocationrevisions", True),
    ("admin", "create", "rlpools", False),
]


@pytest.fixture(scope="module")
def people(rooms: Cluster, newest: Helm) -> Cluster:
    """Whoever may view, edit or administer team-a, with the chart's roles for users."""
    roles = [obj for obj in newest.objects() if obj["kind"] == "ClusterRole" and "aggregate-to-" in str(obj)]
    rooms.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=listed(roles))
    for role in ("view", "edit", "admin"):
        rooms.kubectl("create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}", "--namespace=team-a")
    wait_for("the roles to be gathered", lambda: may(rooms, "admin", "delete", "allocationrevisions"), 30)
    return rooms


@pytest.mark.parametrize(("role", "verb", "resource", "allowed"), ALLOWED)
def test_rights_on_a_namespace_are_rights_on_its_jobs(
    people: Cluster, role: str, verb: str, resource: str, allowed: bool
) -> None:
    assert may(people, role, verb, resource) is allowed


@pytest.mark.parametrize(("role", "enough"), [("cluster-admin", True), ("admin", False)])
def test_who_may_install_an_operator_for_one_namespace(rooms: Cluster, newest: Helm, role: str, enough: bool) -> None:
    """Nobody may grant what they do not hold: docs/install.md says whose rights in a namespace are enough."""
    alone: Object = {"watchNamespaces": ["team-a"], "crds": {"install": False}, "rbac": {"userRoles": False}}
    objects = newest.objects(alone, namespace="team-a")
    rooms.kubectl(
        "create", "rolebinding", user := f"only-{role}", f"--clusterrole={role}", f"--user={user}", "--namespace=team-a"
    )
    install = ("apply", "--server-side", "--dry-run=server", f"--as={user}", "--filename=-")

    if enough:
        assert len(rooms.kubectl(*install, stdin=listed(objects)).splitlines()) == len(objects)
    else:
        with pytest.raises(Failed, match="attempting to grant RBAC permissions not currently held"):
            rooms.kubectl(*install, stdin=listed(objects))


def may(cluster: Cluster, user: str, verb: str, resource: str) -> bool:
    """What the API server would answer such a request in team-a; pools are in no namespace."""
    what, _, subresource = resource.partition("/")
    namespace = "" if what == "rlpools" else "team-a"
    asked = {"namespace": namespace, "verb": verb, "group": "steelyard.dev", "resource": what}
    asked |= {"subresource": subresource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": asked},
    }
    answer = json.loads(cluster.kubectl("create", "--filename=-", "--output=json", stdin=json.dumps(review)))
    return bool(answer["status"].get("allowed"))


def _pod(number: int, spec: Object) -> Object:
    metadata = {"name": f"pod-{number}", "namespace": "team-a"}
    here = {**spec, "serviceAccountName": "default", "priorityClassName": ""}  # what is not there is not the question
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": here}
