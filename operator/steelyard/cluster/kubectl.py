"""The command line's seam to Kubernetes: everything goes through the user's own kubectl, as a subprocess.

So kubeconfig, context, login plugins, proxies and `--as` are exactly the user's, and a command starts fast: no client
library is imported. Errors are those of `cluster.errors`, by meaning, with kubectl's own words.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from steelyard.cluster.errors import ClusterError, NoKubectl, Unauthorized
from steelyard.cluster.kinds import Kind, Object
from steelyard.cluster.kubectl_errors import meaning

T = TypeVar("T")

FIELD_MANAGER = "steelyard-cli"
"""What `managedFields` calls those who change objects with the command line."""
READS_AT_ONCE = 8
REQUEST_SECONDS = 20
WATCH_SECONDS = 300
PAGE = 500
FORWARDED = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")
SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Where kubectl finds its namespace in a pod."""


class PatchType(StrEnum):
    MERGE = "merge"
    JSON = "json"
    STRATEGIC = "strategic"


@dataclass(frozen=True)
class Kubectl:
    """One identity on one cluster; every call is a kubectl with the same global options."""

    context: str | None = None
    kubeconfig: str | None = None
    impersonate: str | None = None
    """`--as`: a user, or `system:serviceaccount:NAMESPACE:NAME`."""
    program: str = "kubectl"

    def argv(self, *arguments: str) -> list[str]:
        """The command line of `kubectl ARGUMENTS` with this identity."""
        options = {"--context": self.context, "--kubeconfig": self.kubeconfig, "--as": self.impersonate}
        return [self.program, *(f"{name}={value}" for name, value in options.items() if value), *arguments]

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Standard output; ClusterError when kubectl ends with another status than 0, or nobody answers it in time."""
        argv = self.argv(*arguments, f"--request-timeout={REQUEST_SECONDS}s")
        how: dict[str, Any] = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        try:
            done = subprocess.run(argv, capture_output=True, text=True, encoding="utf-8", check=False, **how)
        except OSError as error:
            raise NoKubectl(f"{self.program}: {error.strerror}") from error
        if done.returncode:
            raise meaning(done.stderr)
        return str(done.stdout)

    @contextmanager
    def process(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A kubectl that goes on until the block ends: a watch, a proxy, a log, a forwarded port."""
        try:
            process = subprocess.Popen(
                self.argv(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise NoKubectl(f"{self.program}: {error.strerror}") from error
        with process:
            try:
                yield process
            finally:
                process.terminate()

    # Who and where

    @cached_property
    def namespace(self) -> str:
        """The namespace that kubectl would use when none is named."""
        try:
            config = json.loads(self.run("config", "view", "--minify", "--output=json"))
            return config["contexts"][0]["context"].get("namespace") or "default"
        except (ClusterError, LookupError, TypeError, ValueError):  # in a pod there is no kubeconfig
            return SERVICE_ACCOUNT_NAMESPACE.read_text() if SERVICE_ACCOUNT_NAMESPACE.exists() else "default"

    @cached_property
    def user(self) -> str:
        """Who the API server takes the user for. Raises ClusterError."""
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = self._raw("create", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
        return str(answer["status"]["userInfo"]["username"])

    def may(
        self, verb: str, kind: Kind, namespace: str | None = None, *, subresource: str = "", name: str = ""
    ) -> bool:
        """Whether the user has this right; all namespaces when none is named."""
        group = kind.api_version.rpartition("/")[0]
        asked = {"verb": verb, "group": group, "resource": kind.plural, "subresource": subresource, "name": name}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**asked, "namespace": namespace or ""}},
        }
        answer = self._raw("create", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    # Reading

    def get(self, path: str, **params: str) -> Object:
        """What the API server answers to a GET of `path`."""
        query = f"?{urlencode(params)}" if params else ""
        return _object(self.run("get", f"--raw={path}{query}"))

    def objects(
        self, kind: Kind, namespace: str | None = None, *, selector: str = "", fields: str = ""
    ) -> list[Object]:
        """Every object of a kind, page by page; of all namespaces when none is named."""
        return self.collection(kind, namespace, selector=selector, fields=fields)[0]

    def collection(
        self, kind: Kind, namespace: str | None = None, *, selector: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        """The same, and the resourceVersion to watch from."""
        items: list[Object] = []
        params = {"limit": str(PAGE), **_selected(selector, fields)}
        while True:
            page = self.get(kind.path(namespace), **params)
            items += page.get("items") or []
            if not (token := page["metadata"].get("continue")):
                return items, page["metadata"]["resourceVersion"]
            params["continue"] = token

    @contextmanager
    def watching(
        self, kind: Kind, namespace: str | None, *, since: str, selector: str = "", fields: str = ""
    ) -> Iterator[subprocess.Popen[str]]:
        """A kubectl that tells changes from a resourceVersion on, each a line for `event_of`."""
        params = {"watch": "true", "resourceVersion": since, "allowWatchBookmarks": "true"}
        query = urlencode({**params, "timeoutSeconds": str(WATCH_SECONDS), **_selected(selector, fields)})
        with self.process("get", f"--raw={kind.path(namespace)}?{query}") as process:
            yield process

    def logs(
        self, namespace: str, pod: str, *, container: str | None = None, follow: bool = False, **options: str
    ) -> Iterator[str]:
        """Lines of a pod's log without their ends; `options` are kubectl's: tail, since, timestamps, previous."""
        with self.log(namespace, pod, container=container, follow=follow, **options) as lines:
            yield from lines

    @contextmanager
    def log(
        self, namespace: str, pod: str, *, container: str | None = None, follow: bool = False, **options: str
    ) -> Iterator[Iterator[str]]:
        """The same as one that is followed until the block ends, which another thread may read meanwhile."""
        named = [f"--container={container}"] if container else ["--all-containers=true"]
        rest = [f"--{name}={value}" for name, value in options.items()]
        arguments = ["logs", f"--namespace={namespace}", pod, *named, f"--follow={str(follow).lower()}", *rest]
        with self.process(*arguments) as process:
            yield _read(process)

    @contextmanager
    def forwarded(self, namespace: str, pod: str, port: int) -> Iterator[int]:
        """A port of this machine's loopback that leads to `port` of a pod while the block runs."""
        options = [f"--namespace={namespace}", "--address=127.0.0.1"]
        with self.process("port-forward", *options, f"pod/{pod}", f":{port}") as process:
            assert process.stdout is not None
            assert process.stderr is not None
            found = FORWARDED.match(process.stdout.readline())
            if found is None:
                raise meaning(process.stderr.read())
            yield int(found[1])

    def at_once(self, reads: Sequence[Callable[[], T]]) -> list[T | ClusterError]:
        """Several reads at once, in their order: what each found, or why it could not."""

        def one(read: Callable[[], T]) -> T | ClusterError:
            try:
                return read()
            except ClusterError as error:
                return error

        with ThreadPoolExecutor(READS_AT_ONCE) as pool:
            return list(pool.map(one, reads))

    # Writing

    def create(self, kind: Kind, body: Object, *, dry_run: bool = False) -> Object:
        """The object as it was created, or as it would be."""
        params = {"fieldManager": FIELD_MANAGER, **({"dryRun": "All"} if dry_run else {})}
        return self._raw("create", f"{kind.path(body['metadata'].get('namespace'))}?{urlencode(params)}", body)

    def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        body: Object | Sequence[Object],
        how: PatchType = PatchType.MERGE,
        *,
        dry_run: bool = False,
    ) -> Object:
        """The object as it is afterwards, or as it would be."""
        options = [
            *([f"--namespace={namespace}"] if namespace else []),
            f"--type={how}",
            f"--patch={json.dumps(body)}",
            f"--field-manager={FIELD_MANAGER}",
            f"--dry-run={'server' if dry_run else 'none'}",
            "--output=json",
        ]
        return _object(self.run("patch", _resource(kind), name, *options))

    def delete(self, kind: Kind, namespace: str | None, name: str, *, uid: str) -> None:
        """Delete the object that has this uid, not one that took its name since."""
        self._raw("delete", kind.path(namespace, name), {"preconditions": {"uid": uid}})

    def _raw(self, verb: str, path: str, body: Mapping[str, Any]) -> Object:
        return _object(self.run(verb, f"--raw={path}", "--filename=-", stdin=json.dumps(body)))


def _object(text: str) -> Object:
    """What the API server said; a proxy in front of it may answer with a page to log in, and status 200."""
    try:
        answer: Object = json.loads(text)
    except ValueError as error:
        raise Unauthorized(f"what answers is no API server: {' '.join(text.split())[:100]}") from error
    return answer


def _read(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        yield line.rstrip("\n")
    said = process.stderr.read()
    if process.wait():
        raise meaning(said)


def from_environment(context: str | None, kubeconfig: str | None, impersonate: str | None) -> Kubectl:
    """The user's kubectl: `$KUBECTL`, else the one on PATH. kubectl itself reads `$KUBECONFIG`."""
    return Kubectl(context, kubeconfig, impersonate, os.environ.get("KUBECTL", "kubectl"))


def event_of(line: str) -> tuple[str, Object]:
    """(type, object) of one line of a watch; raises what an ERROR event means."""
    event = json.loads(line)
    if event["type"] == "ERROR":
        raise meaning(f"Error from server ({event['object'].get('reason')}): {event['object'].get('message')}")
    return event["type"], event["object"]


def _selected(selector: str, fields: str) -> dict[str, str]:
    found = {"labelSelector": selector, "fieldSelector": fields}
    return {name: value for name, value in found.items() if value}


def _resource(kind: Kind) -> str:
    """As `kubectl patch` takes it, version included: `agenticrljobs.v1alpha1.steelyard.dev`."""
    group, _, version = kind.api_version.rpartition("/")
    return f"{kind.plural}.{version}.{group}" if group else kind.plural
