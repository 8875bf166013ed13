"""The jobs themselves: their specs, what they refer to, their images, their state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from steelyard.api import AgenticRLJob, InvalidResource, Stage, explain
from steelyard.cli import codes
from steelyard.cli.checking import templates
from steelyard.cli.checking.findings import Finding, Scene, failure, ok, unknown, warning
from steelyard.cluster import kinds, records
from steelyard.cluster.errors import Forbidden, NotFound
from steelyard.cluster.kinds import Kind

PULL_PROBLEMS = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"})
BAD = ("Failed", "Stalled", "Degraded", "Conflict")


def specs(scene: Scene) -> Iterator[Finding]:
    """Jobs whose stored spec breaks a rule; the file was read by the same types before."""
    if scene.file is not None:
        yield ok(f"file {scene.file.metadata.name}", "every rule of the API holds")
        return
    for job in scene.jobs:
        about = f"job {'/'.join(job.key)}"
        yield (
            ok(about, "every rule of the API holds") if job.resource else failure(codes.BROKEN_SPEC, about, job.broken)
        )


def states(scene: Scene) -> Iterator[Finding]:
    for job in scene.jobs:
        bad = [found for found in job.status.conditions if found.type in BAD and found.status == "True"]
        about = f"job {'/'.join(job.key)}"
        for found in bad:
            yield failure(codes.UNWELL, about, f"{found.type}: {found.reason}: {found.message}")
        if not bad:
            yield ok(about, job.status.phase or "Pending")


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that a job's pods cannot start without."""

    kind: Kind
    name: str
    where: str
    """Its place in the spec."""


def references(scene: Scene) -> Iterator[Finding]:
    """Claims, ConfigMaps and Secrets that specs name: the key of a tracker, say, before GPUs are asked for."""
    kubectl, namespace = scene.session.kubectl, scene.session.namespace
    for about, job in scene.specs:
        missing = False
        try:
            named = referred(job)
        except InvalidResource as error:
            yield failure(codes.BROKEN_SPEC, about, str(error))
            continue
        for one in named:
            try:
                kubectl.get(one.kind.path(namespace, one.name))
            except NotFound:
                missing = True
                yield failure(codes.NO_SUCH_REFERENCE, about, f"{one.where}: there is no {one.kind.name} {one.name}")
            except Forbidden:
                yield unknown(about, f"{one.where}: {one.kind.name} {one.name} may not be read")
        if not missing:
            yield ok(about, "nothing that it names is missing")


def referred(job: AgenticRLJob) -> list[Reference]:
    """Whatever is not marked as optional. InvalidResource where a stage's template is no pod template."""
    found = []
    spec = job.spec.to_dict()
    for field in ("model", "tasks", "code"):
        source = spec.get(field) or {}
        for key, kind in (("claim", templates.CLAIM), ("configMap", templates.CONFIG_MAP)):
            if key in source:
                found.append(Reference(kind, source[key]["name"], f"spec.{field}.{key}"))
    for stage in Stage:
        where = f"spec.stages.{stage.field}.template"
        try:
            mentioned = templates.named(job.spec.stage(stage).template)
        except ValidationError as error:
            raise InvalidResource(f"{where}: {explain(error)}") from error
        found += [Reference(kind, name, f"{where}.spec.{place}") for kind, name, place in mentioned]
    return list(dict.fromkeys(found))


def images(scene: Scene) -> Iterator[Finding]:
    """Images that nodes cannot pull, as their kubelets say."""
    pods = scene.objects(kinds.POD, scene.session.namespace)
    mine = [records.pod(pod) for pod in pods if "steelyard.dev/job" in (pod["metadata"].get("labels") or {})]
    stuck = [pod for pod in mine if pod.problem and pod.problem.reason in PULL_PROBLEMS]
    for pod in stuck:
        assert pod.problem is not None
        yield failure(codes.NO_IMAGE, f"pod {pod.name}", f"{pod.problem.reason}: {pod.problem.message}")
    if not stuck:
        yield ok("images", f"no pod of {len(mine)} waits for an image")


def pools(scene: Scene) -> Iterator[Finding]:
    """Pools that jobs name."""
    for about, job in scene.specs:
        if job.spec.pool is None:
            continue
        name = job.spec.pool.name
        try:
            scene.session.kubectl.get(kinds.POOL.path(name=name))
            yield ok(about, f"RLPool {name} is there")
        except NotFound:
            yield warning(codes.NO_SUCH_REFERENCE, about, f"spec.pool.name: there is no RLPool {name}")
