"""NetworkPolicies as their specification reads: who may open a connection to whom. For tests, which need no cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from e2e.kube import Object


@dataclass(frozen=True)
class End:
    """A pod, or with no labels an address outside the cluster's pods."""

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    """By name."""

    @property
    def namespace_labels(self) -> Mapping[str, str]:
        return {"kubernetes.io/metadata.name": self.namespace}


def allowed(policies: Iterable[Object], source: End, target: End, port: int, protocol: str = "TCP") -> bool:
    """Whether a connection may be opened: the policies of both ends must let it through, one of each is enough."""
    listed = list(policies)
    return _passes(listed, "Egress", source, target, target, port, protocol) and _passes(
        listed, "Ingress", target, source, target, port, protocol
    )


def _passes(
    policies: Iterable[Object], direction: str, own: End, other: End, target: End, port: int, protocol: str
) -> bool:
    mine = [one["spec"] for one in policies if _binds(one, direction, own)]
    peers = {"Egress": "to", "Ingress": "from"}[direction]
    rules = [rule for spec in mine for rule in spec.get(direction.lower()) or ()]
    return not mine or any(
        _any_peer(rule.get(peers), own, other) and _any_port(rule.get("ports"), target, port, protocol)
        for rule in rules
    )


def _binds(policy: Object, direction: str, pod: End) -> bool:
    here = bool(pod.labels) and policy["metadata"].get("namespace") == pod.namespace
    return here and direction in policy["spec"]["policyTypes"] and _selects(policy["spec"]["podSelector"], pod.labels)


def _any_peer(peers: list[Object] | None, own: End, other: End) -> bool:
    if not peers:
        return True
    for peer in peers:
        assert peer.keys() <= {"podSelector", "namespaceSelector"}, f"no test reads this: {peer}"
        chosen = peer.get("namespaceSelector")
        near = other.namespace == own.namespace if chosen is None else _selects(chosen, other.namespace_labels)
        if other.labels and near and _selects(peer.get("podSelector", {}), other.labels):
            return True
    return False


def _any_port(ports: list[Object] | None, target: End, port: int, protocol: str) -> bool:
    """A name stands for the number that the target itself has under it."""
    return not ports or any(
        one.get("protocol", "TCP") == protocol and port == target.ports.get(one["port"], one["port"]) for one in ports
    )


def _selects(selector: Object, labels: Mapping[str, str]) -> bool:
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        _holds(one, labels) for one in selector.get("matchExpressions", ())
    )


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values", ())
    return {
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
    }[expression["operator"]]
