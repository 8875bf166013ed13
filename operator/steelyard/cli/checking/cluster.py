"""The cluster: its version, our resources in it, the operator, and what the user may do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from steelyard.api.names import API_VERSION, JOB_PLURAL, POOL_PLURAL, REVISION_PLURAL
from steelyard.cli import codes
from steelyard.cli.ages import age, now
from steelyard.cli.checking.findings import Finding, Scene, failure, ok, unknown, warning
from steelyard.cluster import kinds
from steelyard.cluster.errors import Forbidden, NotFound
from steelyard.cluster.kinds import Kind
from steelyard.cluster.prometheus_access import OPERATOR, operators, setting

OLDEST_MINOR = 30
"""CRDs with the validation that ours uses are refused by older API servers."""
CRD = Kind("CustomResourceDefinition", "apiextensions.k8s.io/v1", "customresourcedefinitions")
CLUSTER_ROLE = Kind("ClusterRole", "rbac.authorization.k8s.io/v1", "clusterroles")
DEPLOYMENT = kinds.BY_NAME["Deployment"]
LEASE_NAME = "steelyard-operator"
"""Of an operator that says no other."""
TO_READ = (
    (kinds.JOB, "list", ""), (kinds.REVISION, "list", ""), (kinds.POD, "list", ""), (kinds.EVENT, "list", ""),
    (DEPLOYMENT, "list", ""), (kinds.POD, "get", "log"),
)  # fmt: skip
TO_ACT = (
    (kinds.JOB, "create", ""), (kinds.JOB, "patch", ""), (kinds.REVISION, "create", ""), (kinds.REVISION, "delete", ""),
    (kinds.POD, "create", "portforward"),
)  # fmt: skip


def version(scene: Scene) -> Iterator[Finding]:
    told = json.loads(scene.session.kubectl.run("version", "--output=json"))
    server = told["serverVersion"]["gitVersion"]
    minor = int("".join(filter(str.isdigit, server.split(".")[1])))
    if minor < OLDEST_MINOR:
        yield failure(codes.OLD_CLUSTER, "API server", f"{server} is older than v1.{OLDEST_MINOR}")
    else:
        yield ok("API server", f"{server}, kubectl {told['clientVersion']['gitVersion']}")


def resources(scene: Scene) -> Iterator[Finding]:
    try:
        served = {one["name"] for one in scene.session.kubectl.get(f"/apis/{API_VERSION}")["resources"]}
    except NotFound:
        served = set()
    missing = [name for name in (JOB_PLURAL, REVISION_PLURAL, POOL_PLURAL) if name not in served]
    if missing:
        yield failure(codes.NOT_INSTALLED, API_VERSION, f"the API server does not serve {', '.join(missing)}")
    else:
        yield ok(API_VERSION, "the API server serves all our resources")


def operator(scene: Scene) -> Iterator[Finding]:
    found = operators(scene.session.kubectl)
    if not found:
        yield failure(codes.NO_OPERATOR, "operator", f"no Deployment has the labels {OPERATOR}")
    for deployment in found:
        metadata, status = deployment["metadata"], deployment.get("status") or {}
        about = f"Deployment {metadata['namespace']}/{metadata['name']}"
        ready = int(status.get("readyReplicas") or 0)
        if ready == 1:
            yield ok(about, f"ready, {deployment['spec']['template']['spec']['containers'][0]['image']}")
        else:
            yield failure(codes.NO_OPERATOR, about, f"{ready} replicas are ready, one must be")
        yield from _lease(scene, metadata["namespace"], setting(deployment, "STEELYARD_LEASE_NAME") or LEASE_NAME)


def _lease(scene: Scene, namespace: str, name: str) -> Iterator[Finding]:
    about = f"Lease {namespace}/{name}"
    try:
        spec = scene.session.kubectl.get(kinds.LEASE.path(namespace, name)).get("spec") or {}
    except NotFound:
        spec = {}
    except Forbidden as error:
        yield unknown(about, f"not looked at: {error}")
        return
    if "renewTime" not in spec:
        yield failure(codes.STALE_LEASE, about, "nobody has ever held it: no operator has acted here")
        return
    renewed, holder = datetime.fromisoformat(spec["renewTime"]), spec.get("holderIdentity") or "nobody"
    late = (now() - renewed).total_seconds() > 2 * int(spec.get("leaseDurationSeconds") or 15)
    said = f"held by {holder}, renewed {age(renewed, now())} ago"
    yield failure(codes.STALE_LEASE, about, said) if late else ok(about, said)


def rights(scene: Scene) -> Iterator[Finding]:
    kubectl, namespace = scene.session.kubectl, scene.session.namespace
    about = f"you in namespace {namespace}"
    lacking = [_named(*one) for one in TO_READ if not kubectl.may(one[1], one[0], namespace, subresource=one[2])]
    if lacking:
        yield failure(codes.CANNOT_READ, about, f"may not {', '.join(lacking)}: reading commands will lack them")
    else:
        yield ok(about, "may read all that reading commands need")
    lacking = [_named(*one) for one in TO_ACT if not kubectl.may(one[1], one[0], namespace, subresource=one[2])]
    if lacking:
        yield warning(codes.CANNOT_ACT, about, f"may not {', '.join(lacking)}: a viewer, who can look and not act")
    else:
        yield ok(about, "may act on jobs")


def _named(kind: Kind, verb: str, subresource: str) -> str:
    return f"{verb} {kind.plural}{f'/{subresource}' if subresource else ''}"


def may_install(scene: Scene) -> Iterator[Finding]:
    """Before anything is there."""
    kubectl = scene.session.kubectl
    wanted = ((CRD, "create", None), (CLUSTER_ROLE, "create", None), (DEPLOYMENT, "create", scene.session.namespace))
    lacking = [f"{verb} {kind.plural}" for kind, verb, where in wanted if not kubectl.may(verb, kind, where)]
    if lacking:
        yield failure(codes.CANNOT_INSTALL, "you", f"may not {', '.join(lacking)}")
    else:
        yield ok("you", "may install CRDs, roles and the operator")
