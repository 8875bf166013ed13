"""A kubectl without a process: objects by path, behind the same seam, refusing in kubectl's words."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TextIO
from urllib.parse import parse_qsl, urlsplit

from steelyard.cli.checking.capacity import NODE, STORAGE_CLASS
from steelyard.cli.checking.templates import SECRET
from steelyard.cluster.kinds import AUTOSCALER, BY_NAME, EVENT, JOB, LEASE, POD, POOL, QUOTA, REVISION, Kind, Object
from steelyard.cluster.kubectl import Kubectl
from steelyard.cluster.kubectl_errors import meaning

OTHERS = (NODE, STORAGE_CLASS, QUOTA, SECRET, JOB, REVISION, POOL, POD, EVENT, LEASE, AUTOSCALER)
KINDS = {**BY_NAME, **{kind.name: kind for kind in OTHERS}}

DRY_RUN = "dry-run of "
"""Before the path of what somebody may look at and not apply."""


@dataclass
class State:
    """What the API server has."""

    objects: dict[str, Object] = field(default_factory=dict)
    """By URL path."""
    denied: dict[str, str] = field(default_factory=dict)
    """Start of a path -> what kubectl says when it is asked for."""
    events: dict[str, list[list[tuple[str, Object]]]] = field(default_factory=dict)
    """Path of a collection -> what its next watches will tell, watch by watch; then one stays silent."""
    calls: list[list[str]] = field(default_factory=list)
    deletions: list[Object] = field(default_factory=list)
    """What was sent along with each."""
    logs: dict[str, list[str]] = field(default_factory=dict)
    """POD/CONTAINER, and POD/CONTAINER/previous -> its lines."""
    namespace: str = "default"
    user: str = "alice"


class FakeKubectl(Kubectl):
    """Reads and writes `state`."""

    state: State

    def __init__(self, state: State) -> None:
        super().__init__()
        object.__setattr__(self, "state", state)

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        self.state.calls.append(list(arguments))
        verb, options = arguments[0], _options(arguments)
        if verb == "config":
            return json.dumps({"contexts": [{"context": {"namespace": self.state.namespace}}]})
        if verb == "version":
            return json.dumps({"clientVersion": {"gitVersion": "v1.37.1"}, "serverVersion": {"gitVersion": "v1.37.0"}})
        if verb == "patch":
            return json.dumps(self._patch(arguments, options))
        if verb == "apply":
            return json.dumps(self._dry_run(options, json.loads(stdin or "")))
        path = urlsplit(options["raw"])
        self._may(path.path)
        if verb == "get":
            return json.dumps(self._get(path.path, dict(parse_qsl(path.query))))
        assert stdin is not None
        return json.dumps(self._write(verb, path.path, json.loads(stdin)))

    @contextmanager
    def process(self, *arguments: str) -> Iterator[Any]:
        self.state.calls.append(list(arguments))
        if arguments[0] == "logs":
            yield self._logs(arguments, _options(arguments))
            return
        watches = self.state.events.get(urlsplit(_options(arguments)["raw"]).path)
        events = watches.pop(0) if watches else None
        said, tells = os.pipe()
        with os.fdopen(said, encoding="utf-8") as stdout, os.fdopen(tells, "w", encoding="utf-8") as stdin:
            for kind, obj in events or ():
                version = {"resourceVersion": f"1{obj['metadata'].get('resourceVersion', '')}"}
                changed = {**obj, "metadata": {**obj["metadata"], **version}}
                stdin.write(json.dumps({"type": kind, "object": changed}) + "\n")
            stdin.flush()
            if events is not None:
                stdin.close()
            yield _Process(stdout)

    def _logs(self, arguments: tuple[str, ...], options: Mapping[str, str]) -> _Process:
        pod = next(argument for argument in arguments[1:] if not argument.startswith("--"))
        self._may(f"{POD.path(options['namespace'], pod)}/log")
        key = f"{pod}/{options.get('container', '')}" + ("/previous" if options.get("previous") == "true" else "")
        return _Process(io.StringIO("".join(f"{line}\n" for line in self.state.logs.get(key, []))))

    def _may(self, path: str) -> None:
        for start, words in self.state.denied.items():
            if path.startswith(start):
                raise meaning(words)

    def _get(self, path: str, params: Mapping[str, str]) -> Object:
        if path in self.state.objects:
            return deepcopy(self.state.objects[path])
        kind, namespace, name = located(path)
        if name:
            raise meaning(f'Error from server (NotFound): {kind.plural} "{name}" not found')
        found = [obj for where, obj in self.state.objects.items() if _belongs(where, kind, namespace)]
        chosen = [deepcopy(obj) for obj in found if _selects(obj, params)]
        return {"items": chosen, "metadata": {"resourceVersion": "100"}}

    def _write(self, verb: str, path: str, body: Object) -> Object:
        if verb == "delete":
            self.state.deletions.append(body)
            return self.state.objects.pop(path)
        if path.endswith("selfsubjectreviews"):
            return {"status": {"userInfo": {"username": self.state.user}}}
        if path.endswith("selfsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            kind = next((kind for kind in KINDS.values() if kind.plural == asked["resource"]), None)
            where = kind.path(asked["namespace"] or None) if kind else "/unknown"
            where += f"/*/{asked['subresource']}" if asked["subresource"] else ""
            return {"status": {"allowed": not any(where.startswith(start) for start in self.state.denied)}}
        path = f"{path}/{body['metadata']['name']}"
        if path in self.state.objects:
            raise meaning(f'Error from server (AlreadyExists): "{body["metadata"]["name"]}" already exists')
        body["metadata"].setdefault("uid", f"uid-{body['metadata']['name']}")
        self.state.objects[path] = body
        return body

    def _dry_run(self, options: Mapping[str, str], body: Object) -> Object:
        """The object as it would be; what the manifest leaves out is gone from the spec."""
        assert options["dry-run"] == "server"
        path = KINDS[body["kind"]].path(options["namespace"], body["metadata"]["name"])
        self._may(f"{DRY_RUN}{path}")
        live: Object = self.state.objects.get(path, {"metadata": {"uid": "new", "generation": 0}})
        generation = live["metadata"].get("generation", 0) + (live.get("spec") != body["spec"])
        return {**live, **body, "metadata": {**body["metadata"], **live["metadata"], "generation": generation}}

    def _patch(self, arguments: tuple[str, ...], options: Mapping[str, str]) -> Object:
        resource, name = [argument for argument in arguments[1:] if not argument.startswith("--")]
        kind = next(kind for kind in KINDS.values() if kind.plural == resource.split(".")[0])
        path = kind.path(options.get("namespace"), name)
        self._may(path)
        merged: Object = _merge(self.state.objects[path], json.loads(options["patch"]))
        if options["dry-run"] == "none":
            self.state.objects[path] = merged
        return merged


class _Process:
    """Ends well when it has said what it has to say."""

    def __init__(self, stdout: TextIO) -> None:
        self.stdout, self.stderr = stdout, io.StringIO()

    def wait(self) -> int:
        return 0


def put(state: State, *objects: Object) -> State:
    for obj in objects:
        metadata = obj["metadata"]
        metadata.setdefault("uid", f"uid-{metadata['name']}")
        metadata.setdefault("resourceVersion", "1")
        state.objects[KINDS[obj["kind"]].path(metadata.get("namespace"), metadata["name"])] = obj
    return state


def located(path: str) -> tuple[Kind, str | None, str | None]:
    """Kind, namespace and name of a URL path."""
    for kind in KINDS.values():
        root = f"/{'apis' if '/' in kind.api_version else 'api'}/{kind.api_version}/"
        if not path.startswith(root):
            continue
        steps = path.removeprefix(root).split("/")
        namespace = steps[1] if steps[0] == "namespaces" else None
        rest = steps[2:] if namespace else steps
        if rest and rest[0] == kind.plural:
            return kind, namespace, rest[1] if len(rest) > 1 else None
    raise meaning("Error from server (NotFound): the server could not find the requested resource")


def _belongs(path: str, kind: Kind, namespace: str | None) -> bool:
    try:
        of, within, _ = located(path)
    except Exception:
        return False
    return of == kind and namespace in (None, within)


def _selects(obj: Object, params: Mapping[str, str]) -> bool:
    labels = obj["metadata"].get("labels") or {}
    for term in filter(None, params.get("labelSelector", "").split(",")):
        name, _, value = term.partition("=")
        if name not in labels or (value and labels[name] != value):
            return False
    for term in filter(None, params.get("fieldSelector", "").split(",")):
        name, _, value = term.partition("=")
        found: Any = obj
        for step in name.split("."):
            found = (found or {}).get(step)
        if found != value:
            return False
    return True


def _options(arguments: tuple[str, ...]) -> dict[str, str]:
    pairs = (argument[2:].partition("=") for argument in arguments if argument.startswith("--"))
    return {name: value for name, _, value in pairs}


def _merge(into: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(into) if isinstance(into, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged
