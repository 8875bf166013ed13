"""Certificates of the API server and the kubelet client, and one kubeconfig for each user of the API."""

import base64
import csv
import json
import secrets
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from e2e.cluster.network import Subnets
from e2e.cluster.shell import run

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "365")
NODE = "node-1"


@dataclass(frozen=True)
class User:
    """Someone with a token; ``name`` is also that of the kubeconfig file."""

    name: str
    user: str
    group: str


USERS = (
    User("admin", "admin", "system:masters"),
    User("kube-controller-manager", "system:kube-controller-manager", "system:masters"),
    User("kube-scheduler", "system:kube-scheduler", ""),
    User("kube-proxy", "system:kube-proxy", ""),
    User("kubelet", f"system:node:{NODE}", "system:nodes"),
    User("dns", "system:coredns", ""),
    User("provisioner", "system:provisioner", "system:masters"),
)


def create(directory: Path, subnets: Subnets) -> None:
    """Everything the daemons need to know each other, in ``directory``; kubeconfigs are ``<user>.kubeconfig``."""
    directory.mkdir(mode=0o700)
    authority = ("-CA", directory / "ca.crt", "-CAkey", directory / "ca.key")
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"]
    addresses = [subnets.node, subnets.api_service, IPv4Address("127.0.0.1")]
    alternatives = [*(f"DNS:{name}" for name in names), *(f"IP:{address}" for address in addresses)]
    leaf = ("-addext", "basicConstraints=critical,CA:FALSE")
    _certificate(directory / "ca", "/CN=steelyard-e2e", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    _certificate(
        directory / "apiserver",
        "/CN=kube-apiserver",
        *authority,
        *leaf,
        "-addext",
        f"subjectAltName={','.join(alternatives)}",
    )
    _certificate(directory / "kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client", *authority, *leaf)
    run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", directory / "service-accounts.key")
    _users(directory, subnets)


def _certificate(path: Path, subject: str, *more: str | Path) -> None:
    run("openssl", "req", "-x509", *CURVE, "-subj", subject, "-keyout", f"{path}.key", "-out", f"{path}.crt", *more)


def _users(directory: Path, subnets: Subnets) -> None:
    authority = base64.b64encode((directory / "ca.crt").read_bytes()).decode()
    with (directory / "tokens.csv").open("w", newline="") as file:
        tokens = csv.writer(file)
        for user in USERS:
            token = secrets.token_hex(16)
            tokens.writerow([token, user.user, user.name, user.group])
            config = _kubeconfig(f"https://{subnets.node}:6443", authority, user.name, token)
            (directory / f"{user.name}.kubeconfig").write_text(json.dumps(config, indent=2))


def _kubeconfig(server: str, authority: str, user: str, token: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "steelyard",
        "contexts": [{"name": "steelyard", "context": {"cluster": "steelyard", "user": user}}],
        "clusters": [{"name": "steelyard", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": user, "user": {"token": token}}],
    }
